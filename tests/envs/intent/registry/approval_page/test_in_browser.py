"""The approval page in a real browser, with an agent that keeps asking while it is open."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approval_page.server import ApprovalServer
from demur.envs.intent.registry.approvals import ApprovalStatus
from demur.envs.intent.registry.intent import Intent, IntentStatus
from demur.envs.intent.registry.session import IntentGuard
from demur.envs.trace import Level
from tests.envs.helpers import call
from tests.envs.intent.registry.approving import EVIL, EVIL_AS_JSON, EVIL_SHOWN, TOOLS, check, propose
from tests.envs.intent.registry.helpers import NAILS
from tests.eval.browser import Page, chromium_page
from tests.eval.test_report_in_browser import CONTRAST

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    yield from chromium_page(tmp_path_factory.mktemp("profile"), "the approval page")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry(f"sqlite:///{tmp_path}/intents.db", caller="tests") as registry:
        yield registry


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


@pytest.fixture
def page(chromium: Page, server: ApprovalServer) -> Iterator[Page]:
    """The page, opened by the printed address; the console must stay clean, and nothing come from elsewhere."""
    chromium.problems.clear()
    chromium.requests.clear()
    chromium.look()
    chromium.visit(server.url)
    yield chromium
    chromium.visit("about:blank")
    assert chromium.problems == []
    assert {url for url in chromium.requests if not url.startswith((f"{server.address}/", "data:,", "about:"))} == set()


def wait_until(page: Page, expression: str) -> None:
    deadline = time.monotonic() + 30
    while not page.js(expression):
        assert time.monotonic() < deadline, f"{expression} stays false:\n{page.js('document.body.innerText')}"
        time.sleep(0.1)


def card(approval_id: str, rest: str) -> str:
    return f"document.getElementById('a-{approval_id}'){rest}"


def test_evil_requests_are_text_and_a_decision_is_for_one_call(registry: Registry, page: Page) -> None:
    intent = registry.register(NAILS.model_copy(update={"goal": EVIL}))
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    guard, drop = IntentGuard(registry, intent.intent_id, TOOLS), call("drop", id=EVIL)
    assert page.js("location.pathname + location.search") == "/", "the token is not in the address any more"
    approval = propose(registry, intent, drop, plan=EVIL, second=EVIL)
    wait_until(page, "document.querySelectorAll('#pending article').length === 1")
    assert page.js("document.title") == "(1) Approvals"
    shown = page.js(card(approval.approval_id, ".textContent"))
    assert shown.count(EVIL_SHOWN) == 3 and EVIL_AS_JSON in shown
    assert page.js("document.querySelectorAll('body :is(img, script, b)').length") == 0

    page.js(card(approval.approval_id, ".querySelector('.approve').click()"))
    wait_until(page, card(approval.approval_id, ".classList.contains('over')"))
    assert "approved by ann" in page.js(card(approval.approval_id, ".querySelector('.times').textContent"))
    assert check(guard, drop).level.lets_run
    assert check(guard, drop).level is Level.REQUIRE_APPROVAL, "one approval, one call"

    (again,) = registry.approvals.pending()
    wait_until(page, f"{card(again.approval_id, '')} !== null")
    page.js(f"{card(again.approval_id, '.querySelector(`textarea`)')}.value = {json.dumps(EVIL)}")
    page.js(card(again.approval_id, ".querySelector('.reject').click()"))
    wait_until(page, card(again.approval_id, ".classList.contains('over')"))
    outcomes = "[...document.querySelectorAll('#history .outcome')].map(one => one.textContent)"
    wait_until(page, f"{outcomes}.length === 2")
    assert page.js(outcomes) == [f"rejected by ann: {EVIL_SHOWN}", "approved and used by ann"]
    assert check(guard, drop).level is Level.BLOCK
    assert page.js("document.querySelectorAll('body :is(img, script, b)').length") == 0
    assert page.js("window.pwned === undefined")


def test_what_is_typed_stays_while_others_come_and_go(registry: Registry, page: Page) -> None:
    intents = [registry.register(NAILS) for _ in range(3)]
    for intent in intents:
        registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    first, second = (propose(registry, intents[at], call("drop", number=at)) for at in range(2))
    wait_until(page, "document.querySelectorAll('#pending article').length === 2")
    page.js(f"{card(first.approval_id, '.querySelector(`textarea`)')}.value = 'half a sen'")
    registry.approvals.decide(second.approval_id, "reject", "bob", "mine")
    third = propose(registry, intents[2], call("drop", number=2))
    wait_until(page, f"{card(third.approval_id, '')} !== null")
    wait_until(page, card(second.approval_id, ".classList.contains('over')"))
    assert page.js(card(second.approval_id, ".querySelector('.times').textContent")) == "rejected by bob: mine"
    assert page.js(card(second.approval_id, ".querySelector('.approve').disabled"))
    assert page.js(card(first.approval_id, ".querySelector('textarea').value")) == "half a sen"
    page.js(card(first.approval_id, ".querySelector('.reject').click()"))
    wait_until(page, card(first.approval_id, ".classList.contains('over')"))
    assert registry.approvals.get(first.approval_id).reason == "half a sen"
    page.js("document.getElementById('clear').click()")
    assert page.js("[...document.querySelectorAll('#pending article')].map(one => one.dataset.id)") == [
        third.approval_id
    ]


def test_a_rejection_without_a_reason_is_not_sent(registry: Registry, page: Page) -> None:
    intent = registry.register(NAILS)
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    approval = propose(registry, intent, call("drop", id="i2"))
    wait_until(page, "document.querySelectorAll('#pending article').length === 1")
    before = [url for url in page.requests if url.endswith("/decide")]
    page.js(card(approval.approval_id, ".querySelector('.reject').click()"))
    page.js("new Promise(done => setTimeout(done, 300))")
    assert [url for url in page.requests if url.endswith("/decide")] == before
    assert registry.approvals.get(approval.approval_id).status is ApprovalStatus.PENDING


def test_an_outage_is_a_sentence_and_the_answer_is_kept(registry: Registry, page: Page, tmp_path: Path) -> None:
    intent: Intent = registry.register(NAILS)
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    approval = propose(registry, intent, call("drop", id="i2"))
    wait_until(page, "document.querySelectorAll('#pending article').length === 1")
    page.js(f"{card(approval.approval_id, '.querySelector(`textarea`)')}.value = 'too risky'")
    (tmp_path / "intents.db").rename(tmp_path / "away.db")
    page.js(card(approval.approval_id, ".querySelector('.reject').click()"))
    wait_until(page, "document.getElementById('message').textContent.includes('cannot be used')")
    assert page.js(card(approval.approval_id, ".querySelector('textarea').value")) == "too risky"
    (tmp_path / "away.db").rename(tmp_path / "intents.db")
    page.js(card(approval.approval_id, ".querySelector('.reject').click()"))
    wait_until(page, card(approval.approval_id, ".classList.contains('over')"))
    assert page.js("document.getElementById('message').hidden")
    assert registry.approvals.get(approval.approval_id).reason == "too risky"
    page.problems[:] = [problem for problem in page.problems if "503" not in problem]  # the browser notes the outage


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_text_is_readable_and_nothing_overflows(registry: Registry, page: Page, width: int, dark: bool) -> None:
    intent = registry.register(NAILS)
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    propose(registry, intent, call("drop", id="x" * 500, note="nothing"), plan="y" * 500)
    registry.approvals.decide(registry.approvals.pending()[0].approval_id, "reject", "ann", "no " * 200)
    propose(registry, intent, call("drop", id="z" * 500, note="nothing"), plan="y" * 500)
    page.look(width=width, dark=dark)
    wait_until(page, "document.querySelectorAll('#pending article').length === 1")
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.js(CONTRAST) == [], "text needs a contrast of 4.5 to what lies behind it (WCAG 2.2, 1.4.3)"
