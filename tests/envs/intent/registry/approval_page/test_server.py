"""The approval page over HTTP: who may see it, what it shows, and what a decision needs."""

import http.client
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

import pytest

from demur.envs.intent.__main__ import main
from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approval_page.server import MOST_BYTES, ApprovalServer
from demur.envs.intent.registry.approvals import Approval, ApprovalStatus
from demur.envs.intent.registry.intent import Intent, IntentStatus
from demur.envs.intent.registry.session import IntentGuard
from demur.envs.trace import Level
from tests.envs.helpers import call
from tests.envs.intent.registry.approving import EVIL, EVIL_AS_JSON, EVIL_SHOWN, TOOLS, check, propose
from tests.envs.intent.registry.helpers import NAILS, Clock

FORM = "application/x-www-form-urlencoded"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Nothing here depends on the kind of database."""
    return f"sqlite:///{tmp_path}/intents.db"


@pytest.fixture
def server(registry: Registry) -> Iterator[ApprovalServer]:
    with ApprovalServer(registry, "ann", port=0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class Answer(NamedTuple):
    status: int
    text: str
    headers: http.client.HTTPMessage


def request(server: ApprovalServer, method: str, path: str, body: str | None = None, **headers: str) -> Answer:
    """Send exactly these headers, `_` standing for `-`, beside the host's name."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return Answer(response.status, response.read().decode(), response.headers)
    finally:
        connection.close()


def cookie(server: ApprovalServer) -> str:
    return f"other=1; {server.cookie}={server.access}"


def page(server: ApprovalServer) -> Answer:
    return request(server, "GET", "/", Cookie=cookie(server))


def send(server: ApprovalServer, approval: Approval, decision: str, reason: str = "", /, **changes: str) -> Answer:
    """Send the form of the page. changes: other fields, or headers in capitals."""
    headers = {"Cookie": cookie(server), "Content_Type": FORM, "Origin": server.address}
    fields = {"form_token": server.form_token, "approval_id": approval.approval_id}
    fields |= {"decision": decision, "reason": reason}
    for name, value in changes.items():
        (headers if name[0].isupper() else fields)[name] = value
    return request(server, "POST", "/decide", urlencode(fields), **headers)


def now(registry: Registry, approval: Approval) -> ApprovalStatus:
    return registry.approvals.get(approval.approval_id).status


class Parsed(HTMLParser):
    """The tags of a page and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


# Who may see it


def test_the_printed_address_gives_a_cookie_and_leaves_no_token_in_the_address(server: ApprovalServer) -> None:
    address = urlsplit(server.url)
    assert (address.hostname, address.port) == ("127.0.0.1", server.server_port)
    first = request(server, "GET", f"{address.path}?{address.query}")
    assert (first.status, first.headers["Location"], first.text) == (303, "/", "")
    value, *attributes = first.headers["Set-Cookie"].split("; ")
    assert attributes == ["HttpOnly", "SameSite=Strict", "Path=/"]
    assert request(server, "GET", "/", Cookie=value).status == 200


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=x", "/?token=%F0%9F%91%8D", "/?other=1"])
@pytest.mark.parametrize("kept", ["", "demur_approvals=x", "{name}=", "{name}=x", "x{name}={value}", "{name}={value}x"])
def test_nobody_else_sees_anything(registry: Registry, server: ApprovalServer, path: str, kept: str) -> None:
    answer = request(server, "GET", path, Cookie=kept.format(name=server.cookie, value=server.access))
    assert answer.status == 403
    assert "Waiting" not in answer.text and server.form_token not in answer.text and server.access not in answer.text


def test_each_server_has_tokens_of_its_own(registry: Registry) -> None:
    with ApprovalServer(registry, "ann", port=0) as one, ApprovalServer(registry, "ann", port=0) as other:
        assert len({one.access, one.form_token, other.access, other.form_token}) == 4
        assert min(map(len, (one.access, one.form_token))) >= 43, "256 bits"
        assert one.cookie != other.cookie


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "LOCALHOST.x:{port}"]
)
def test_another_host_name_gets_nothing(registry: Registry, intent: Intent, server: ApprovalServer, host: str) -> None:
    name = host.format(port=server.server_port)
    assert request(server, "GET", "/", Cookie=cookie(server), Host=name).status == 403
    assert request(server, "GET", f"/?token={server.access}", Host=name).status == 403
    assert request(server, "GET", "/style.css", Host=name).status == 403
    approval = propose(registry, intent, call("drop", id="i2"))
    assert send(server, approval, "approve", Host=name).status == 403
    assert now(registry, approval) is ApprovalStatus.PENDING


def test_it_is_known_as_localhost_too(server: ApprovalServer) -> None:
    assert request(server, "GET", "/", Cookie=cookie(server), Host=f"localhost:{server.server_port}").status == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "", "0"])
def test_it_does_not_listen_on_all_addresses(registry: Registry, host: str) -> None:
    with pytest.raises(ValueError, match="listen on one address"):
        ApprovalServer(registry, "ann", host=host, port=0)


def test_a_port_in_use_is_a_sentence(registry: Registry) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ValueError, match="cannot listen on"):
            ApprovalServer(registry, "ann", port=taken.getsockname()[1])


# What it shows


def test_a_request_is_shown_with_its_evidence(registry: Registry, intent: Intent, server: ApprovalServer) -> None:
    approval = propose(registry, intent, call("drop", id="i2", days=7), plan="i2 is broken", second="nobody needs it")
    text = Parsed(page(server).text).text
    for shown in ("order nails", "contract · approval · drop()", "i2 is broken", "nobody needs it", "delete", "ann"):
        assert shown in text
    for shown in ("drop", '"i2"', "days", "7", "10 min left", approval.approval_id):
        assert shown in text


def test_evil_texts_are_text(registry: Registry, server: ApprovalServer) -> None:
    intent = registry.register(NAILS.model_copy(update={"goal": EVIL, "source_text": EVIL}))
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    approval = propose(registry, intent, call("drop", **{"id": EVIL, "<b>": 1}), plan=EVIL, second=EVIL)
    registry.approvals.decide(approval.approval_id, "reject", "ann", EVIL)
    check(IntentGuard(registry, intent.intent_id, TOOLS), call("drop", id=EVIL, again=True), EVIL)
    answer = page(server)
    parsed = Parsed(answer.text)
    assert parsed.text.count(EVIL_SHOWN) == 4  # goal, words, plan, the reason of the rejection
    assert parsed.text.count(EVIL_AS_JSON) == 2  # waiting and decided
    scripts = [attributes for tag, attributes in parsed.tags if tag == "script"]
    assert scripts == [{"src": "/script.js", "defer": None}]
    assert not {"img", "b", "style"} & {tag for tag, _ in parsed.tags}
    assert not [name for _, attributes in parsed.tags for name in attributes if name.startswith("on")]
    assert "xyxyxy" not in parsed.text, "no template in a text is carried out"
    assert escape("<script>") in answer.text


def test_every_answer_forbids_scripts_frames_and_keeping(registry: Registry, server: ApprovalServer) -> None:
    for answer in (page(server), request(server, "GET", "/"), request(server, "GET", "/script.js")):
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self';") and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy and "form-action 'self'" in policy and "base-uri 'none'" in policy
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_files_are_served_and_nothing_beside_them(server: ApprovalServer) -> None:
    assert request(server, "GET", "/style.css").headers.get_content_type() == "text/css"
    for path in ("/server.py", "/templates/page.html", "/../cases.py", "//[", "/decide"):
        assert request(server, "GET", path, Cookie=cookie(server)).status == 404


# Deciding


def test_approving_lets_exactly_that_call_run_once(registry: Registry, intent: Intent, server: ApprovalServer) -> None:
    guard, drop = IntentGuard(registry, intent.intent_id, TOOLS), call("drop", id="i2")
    approval = propose(registry, intent, drop)
    answer = send(server, approval, "approve")
    assert (answer.status, answer.headers["Location"]) == (303, "/")
    assert registry.approvals.get(approval.approval_id).approver == "ann"
    other = check(guard, call("drop", id="i3"))
    assert other.level is Level.REQUIRE_APPROVAL
    send(server, registry.approvals.pending()[0], "reject", "not that one")
    assert check(guard, drop).level.lets_run
    assert check(guard, drop).level is Level.REQUIRE_APPROVAL
    assert "approved and used by ann" in page(server).text


def test_a_rejection_shows_its_reason(registry: Registry, intent: Intent, server: ApprovalServer) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    assert send(server, approval, "reject", "in use\r\nby bob").status == 303
    assert "rejected by ann: in use\nby bob" in page(server).text
    verdict = check(IntentGuard(registry, intent.intent_id, TOOLS), approval.call)
    assert (verdict.level, verdict.reason) == (Level.BLOCK, "ann rejected it: in use\nby bob")


def test_a_rejection_needs_a_reason(registry: Registry, intent: Intent, server: ApprovalServer) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    answer = send(server, approval, "reject", " ")
    assert answer.status == 409 and "Say why you reject it" in answer.text
    assert now(registry, approval) is ApprovalStatus.PENDING


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"form_token": ""}, 403),
        ({"form_token": "x"}, 403),
        ({"Cookie": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content_Type": "text/plain"}, 415),
        ({"decision": "allow"}, 409),
        ({"decision": ""}, 409),
        ({"approval_id": "x"}, 409),
        ({"reason": "x" * MOST_BYTES}, 413),
        ({"Content_Length": "-1"}, 411),
    ],
)
def test_a_decision_that_lacks_something_decides_nothing(
    registry: Registry, intent: Intent, server: ApprovalServer, changes: dict[str, str], status: int
) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    assert send(server, approval, "approve", **changes).status == status
    assert now(registry, approval) is ApprovalStatus.PENDING


def test_only_a_post_decides(registry: Registry, intent: Intent, server: ApprovalServer) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    fields = {"form_token": server.form_token, "approval_id": approval.approval_id, "decision": "approve"}
    assert request(server, "GET", f"/decide?{urlencode(fields)}", Cookie=cookie(server)).status == 404
    assert request(server, "PUT", "/decide", urlencode(fields), Cookie=cookie(server)).status == 501
    query = request(server, "POST", f"/decide?{urlencode(fields)}", "", Cookie=cookie(server), Content_Type=FORM)
    assert query.status == 404
    assert now(registry, approval) is ApprovalStatus.PENDING


@pytest.mark.parametrize("body", [b"\xff\xfe", b"a=1&" * 20, b"reason=%ff"])
def test_a_form_that_cannot_be_read_is_a_sentence(server: ApprovalServer, body: bytes) -> None:
    answer = request(server, "POST", "/decide", body.decode("latin-1"), Cookie=cookie(server), Content_Type=FORM)
    assert answer.status == 400 and "cannot be read" in answer.text


# What goes wrong keeps what was written


def test_a_decided_an_expired_and_a_void_request_are_sentences(
    registry: Registry, intent: Intent, server: ApprovalServer, clock: Clock
) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    registry.approvals.decide(approval.approval_id, "approve", "bob")
    answer = send(server, approval, "reject", "too risky & wrong")
    assert answer.status == 409 and "is approved by bob; a decision stands." in answer.text
    assert "too risky &amp; wrong" in answer.text
    late = propose(registry, intent, call("drop", id="i3"))
    clock.pass_by(601)
    answer = send(server, late, "approve")
    assert answer.status == 409 and "is expired; a decision stands." in answer.text
    void = propose(registry, intent, call("drop", id="i4"))
    registry.update_status(intent.intent_id, IntentStatus.ABANDONED)
    answer = send(server, void, "approve")
    assert answer.status == 409 and "is abandoned: its approvals are void." in answer.text
    assert now(registry, void) is not ApprovalStatus.APPROVED


def test_an_unreachable_registry_is_a_sentence_and_the_answer_is_kept(
    registry: Registry, intent: Intent, server: ApprovalServer, tmp_path: Path
) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    (tmp_path / "intents.db").rename(tmp_path / "away.db")
    answer = page(server)
    assert answer.status == 503 and "cannot be used" in answer.text and "Nothing waits" in answer.text
    answer = send(server, approval, "reject", "too risky")
    assert answer.status == 503 and "cannot be used" in answer.text
    assert "too risky</textarea>" in answer.text and approval.approval_id in answer.text
    (tmp_path / "away.db").rename(tmp_path / "intents.db")
    assert send(server, approval, "reject", "too risky").status == 303
    assert now(registry, approval) is ApprovalStatus.REJECTED


def test_a_reason_stays_in_the_form_that_was_refused(
    registry: Registry, intent: Intent, server: ApprovalServer
) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    answer = send(server, approval, "perhaps", "</textarea><b>so</b>")
    assert answer.status == 409
    assert "&lt;/textarea&gt;&lt;b&gt;so&lt;/b&gt;</textarea>" in answer.text


def test_a_failure_of_ours_is_a_sentence_and_no_detail(
    registry: Registry, server: ApprovalServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "page", lambda: 1 / 0)
    answer = page(server)
    assert answer.status == 500 and "ZeroDivisionError" not in answer.text and "server&#39;s log" in answer.text
    assert "ZeroDivisionError" in caplog.text and server.access not in caplog.text


# The command


def test_the_command_prints_the_address_and_serves(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/intents.db"
    Registry(url).close()
    words = ["-m", "demur.envs.intent", "serve", "--registry", url, "--as", "ann", "--port", "0"]
    with subprocess.Popen([sys.executable, *words], stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            address = urlsplit(process.stdout.readline().split()[1])
            connection = http.client.HTTPConnection("127.0.0.1", address.port or 0, timeout=20)
            connection.request("GET", f"/?{address.query}")
            assert connection.getresponse().status == 303
            connection.close()
        finally:
            process.terminate()
        assert process.stderr.read() == "", "nothing is logged of a request, which may hold the token"


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--as", " "], "--as NAME"), (["--port", "70000"], "cannot listen"), (["--host", "0.0.0.0"], "listen on one")],
)
def test_a_mistake_is_one_line_and_status_2(
    url: str, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Registry(url).close()
    assert main(["serve", "--registry", url, "--as", "ann", "--port", "0", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
