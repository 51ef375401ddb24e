"""The endpoint policy against a small local server: what it sends, and that no reply stops a run."""

import asyncio
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from demur.envs.engine import run_async
from demur.envs.episode import Episode
from demur.envs.policies.endpoint import EndpointPolicy
from demur.envs.trace import Ending, Trajectory
from tests.envs.helpers import DONE, LOOK, ORDER, make_task, texts_of

KEY = "sk-do-not-show-me"
SCRIPT = texts_of([LOOK, ORDER, DONE])


def reply(text: Any, finish: str = "stop", tokens: Any = 7) -> bytes:
    message = {"role": "assistant", "content": text}
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"completion_tokens": tokens},
    }
    return json.dumps(body).encode()


class Server(ThreadingHTTPServer):
    """Speaks /v1/chat/completions: plays SCRIPT, unless `replies` holds (status, body) to send first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies: list[tuple[int, bytes]] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.delay = 0.0
        self.media_type = "application/json"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is no failure of a test."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open, as real servers do
    server: Server

    def do_POST(self) -> None:
        assert self.path == "/v1/chat/completions"
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self.server.keys.append(self.headers["Authorization"])
        time.sleep(self.server.delay)
        if self.server.replies:
            status, body = self.server.replies.pop(0)
        else:
            said = sum(message["role"] == "assistant" for message in request["messages"])
            status, body = 200, reply(SCRIPT[said])
        self.send_response(status)
        self.send_header("Content-Type", self.server.media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Keep the tests quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("TEST_KEY", KEY)
    running = Server()
    thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def policy(server: Server, **options: Any) -> EndpointPolicy:
    settings: dict[str, Any] = {"key_variable": "TEST_KEY", "retries": 0, "timeout": 5.0}
    return EndpointPolicy("tiny", base_url=server.url, **settings | options)


def run(policy: EndpointPolicy, count: int = 1) -> list[Trajectory]:
    return asyncio.run(run_async([Episode(make_task()) for _ in range(count)], policy, concurrency=1))


def test_an_episode_runs_over_http(server: Server) -> None:
    (done,) = run(policy(server))
    assert done.ending is Ending.ANSWER and done.outcome.goal == 1 and done.policy == "tiny"
    assert [turn.tokens.total for turn in done.turns] == [7, 7, 7]
    roles = [[message["role"] for message in request["messages"]] for request in server.requests]
    assert roles == [["system", "user"], ["system", "user", *"assistant user".split()], roles[2]]
    assert server.requests[2]["messages"][5]["content"] == done.turns[1].observation


def test_the_settings_are_sent(server: Server) -> None:
    run(policy(server, max_new_tokens=33, temperature=0.5))
    request = server.requests[0]
    assert (request["model"], request["max_tokens"], request["temperature"]) == ("tiny", 33, 0.5)


def test_the_same_policy_serves_several_runs(server: Server) -> None:
    one = policy(server)
    assert [run(one)[0].ending for _ in range(3)] == [Ending.ANSWER] * 3


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_an_http_error_ends_its_episode_and_the_run_goes_on(server: Server, status: int) -> None:
    server.replies = [(status, json.dumps({"error": {"message": "overloaded"}}).encode())]
    failed, fine = run(policy(server), 2)
    assert failed.ending is Ending.ERROR and failed.turns == ()
    assert str(status) in (failed.error or "") and "overloaded" in (failed.error or "")
    assert fine.ending is Ending.ANSWER and fine.error is None


JSON, HTML = "application/json", "text/html"


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        (HTML, b"<html>busy</html>"),
        (JSON, b""),
        (JSON, b'{"choices": ['),
        (JSON, b"null"),
        (JSON, b"[1]"),
        (JSON, b"{}"),
        (JSON, b'{"choices": []}'),
        (JSON, b'{"choices": 5}'),
        (JSON, b'{"choices": [{}]}'),
        (JSON, b'{"choices": ["text"]}'),
        (JSON, b'{"choices": [{"message": {"content": "\xff"}}]}'),
        (JSON, reply(["a", "list"])),
        (JSON, reply("text", tokens="many")),
    ],
)
def test_a_reply_that_is_none_ends_its_episode_and_the_run_goes_on(
    server: Server, media_type: str, body: bytes
) -> None:
    server.replies, server.media_type = [(200, body)] * 2, media_type
    failed, also = run(policy(server), 2)
    assert failed.ending is also.ending is Ending.ERROR
    assert failed.error and len(failed.error) <= 500
    assert Trajectory.model_validate_json(failed.model_dump_json()) == failed


@pytest.mark.parametrize("body", [reply(None), reply(""), b'{"choices": [{"message": {"content": null}}]}'])
def test_an_empty_message_is_a_malformed_turn(server: Server, body: bytes) -> None:
    server.replies = [(200, body)]
    (done,) = run(policy(server))
    assert done.turns[0].action.fault and done.ending is Ending.ANSWER


def test_a_message_with_half_a_surrogate_pair_is_kept_readable(server: Server) -> None:
    server.replies = [(200, b'{"choices": [{"message": {"content": "<think>\\ud800</think>"}}]}')]
    (done,) = run(policy(server))
    assert done.turns[0].raw == "<think>?</think>"
    assert done.ending is Ending.ANSWER


def test_a_missing_token_count_counts_as_none(server: Server) -> None:
    server.replies = [(200, reply(SCRIPT[2], tokens=None))]
    (done,) = run(policy(server))
    assert done.ending is Ending.ANSWER and done.turns[0].tokens.total == 0


def test_a_failed_request_is_tried_again(server: Server) -> None:
    server.replies = [(500, b"{}")]
    (done,) = run(policy(server, retries=1))
    assert done.ending is Ending.ANSWER and len(server.requests) == 4


def test_a_slow_endpoint_is_given_up(server: Server) -> None:
    server.delay = 5.0
    started = time.monotonic()
    (done,) = run(policy(server, timeout=0.1))
    assert done.ending is Ending.ERROR and "Timeout" in (done.error or "")
    assert time.monotonic() - started < 5.0


def test_no_endpoint_at_all_is_an_error_too() -> None:
    (done,) = run(EndpointPolicy("tiny", base_url="http://127.0.0.1:9/v1", retries=0, timeout=5.0))
    assert done.ending is Ending.ERROR and "Connection" in (done.error or "")


def test_the_key_comes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    run(policy(server))
    monkeypatch.delenv("TEST_KEY")
    run(policy(server))
    monkeypatch.setenv("OTHER_KEY", "other")
    run(policy(server, key_variable="OTHER_KEY"))
    assert server.keys[::3] == [f"Bearer {KEY}", "Bearer none", "Bearer other"]


@pytest.mark.parametrize("status", [401, 500])
def test_a_key_that_the_server_repeats_is_shown_nowhere(server: Server, status: int) -> None:
    padding = "x" * 440  # the key would stand across the place where long errors are cut
    server.replies = [(status, json.dumps({"error": {"message": f"{padding} wrong key {KEY}"}}).encode())]
    failed, fine = run(policy(server), 2)
    assert server.keys[0] == f"Bearer {KEY}"
    for done in (failed, fine):
        assert KEY not in done.model_dump_json() and KEY[:8] not in done.model_dump_json()
    assert failed.ending is Ending.ERROR
