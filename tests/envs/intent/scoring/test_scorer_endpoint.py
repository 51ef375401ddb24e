"""The endpoint scorer against a small local server that answers from a real model, or badly."""

import asyncio
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any

import pytest
import torch

from demur.envs.intent.scoring.endpoint import TOP, EndpointScorer
from demur.envs.intent.scoring.local import LocalScorer
from demur.envs.intent.scoring.scores import PositionScore, ScoreRequest
from tests.envs.intent.scoring.helpers import requests, small_model, small_tokenizer

KEY = "sk-do-not-show-me"
TOKENIZER = small_tokenizer()


class Server(ThreadingHTTPServer):
    """Speaks /v1/completions with prompts as token ids; `replies` holds (status, body) to send first."""

    daemon_threads = True

    def __init__(self, model: Any) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.model, self.lock = model, Lock()
        self.replies: list[tuple[int, bytes]] = []
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.ways = {"echo", "prompt_logprobs"}
        self.delay, self.busy, self.busiest = 0.0, 0, 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is no failure of a test."""

    @torch.no_grad()
    def choice(self, index: int, ids: list[int], request: dict[str, Any]) -> dict[str, Any]:
        logs = torch.log_softmax(self.model(torch.tensor([ids])).logits[0].double(), -1)
        own = [None, *(float(logs[at - 1, ids[at]]) for at in range(1, len(ids)))]
        best = logs[-1].topk(request["logprobs"])
        # tokens come as text, and several may have the same
        after: dict[str, float] = {}
        for log, token in zip(best.values.tolist(), best.indices.tolist(), strict=True):
            text = TOKENIZER.decode([token])
            after[text] = max(log, after.get(text, log))
        echoed = bool(request.get("echo")) and "echo" in self.ways
        logprobs = {
            "token_logprobs": [*(own if echoed else []), float(best.values[0])],
            "top_logprobs": [*([{}] * len(ids) if echoed else []), after],
        }
        found: dict[str, Any] = {"index": index, "text": "", "finish_reason": "length", "logprobs": logprobs}
        if request.get("prompt_logprobs") and "prompt_logprobs" in self.ways:
            found["prompt_logprobs"] = [
                None,
                *({"0": {"logprob": -9.0}, str(i): {"logprob": x}} for i, x in zip(ids[1:], own[1:], strict=True)),
            ]
        return found


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append(request)
            server.keys.append(self.headers["Authorization"])
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
            planned = server.replies.pop(0) if server.replies else None
        time.sleep(server.delay)
        if planned is None:
            with server.lock:
                choices = [server.choice(at, ids, request) for at, ids in enumerate(request["prompt"])]
            planned = 200, json.dumps({"id": "x", "object": "text_completion", "choices": choices[::-1]}).encode()
        with server.lock:
            server.busy -= 1
        status, body = planned
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: Any) -> None:
        """Keep the tests quiet."""


@pytest.fixture(scope="module")
def model() -> Any:
    return small_model(TOKENIZER)


@pytest.fixture
def server(model: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("TEST_KEY", KEY)
    running = Server(model)
    thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def scorer(server: Server, **options: Any) -> EndpointScorer:
    settings: dict[str, Any] = {"key_variable": "TEST_KEY", "retries": 0, "timeout": 60.0}
    return EndpointScorer("small", TOKENIZER, base_url=server.url, **settings | options)


SHORT = requests(which="action")[:1]
"""Three positions."""


@pytest.mark.parametrize("way", ["echo", "prompt_logprobs"])
def test_an_endpoint_gives_the_scores_that_the_model_itself_gives(
    server: Server, model: Any, way: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the whole vocabulary, so that no token which ends a name is missing
    monkeypatch.setattr("demur.envs.intent.scoring.endpoint.TOP", len(TOKENIZER))
    expected = LocalScorer(model, TOKENIZER).score(SHORT)
    (got,) = scorer(server, way=way).score(SHORT)
    for score, want in zip(got, expected[0], strict=True):
        assert score is not None and score.position == want.position and score.top == want.top
        assert all(abs(share - want.decoys[name]) < 1e-4 for name, share in score.decoys.items())
        assert abs((score.refusal or 0) - (want.refusal or 0)) < 1e-4 and abs(score.mass - want.mass) < 1e-4


def test_one_request_a_position_holds_a_prompt_a_tool(server: Server) -> None:
    scorer(server).score(SHORT)
    assert len(server.requests) == 3
    sent = server.requests[0]
    assert len(sent["prompt"]) == len(SHORT[0].tools) and all(isinstance(i, int) for i in sent["prompt"][0])
    assert (sent["echo"], sent["logprobs"], sent["max_tokens"], sent["model"]) == (True, TOP, 1, "small")


def test_the_likeliest_tokens_alone_are_enough_for_a_score(server: Server) -> None:
    (got,) = scorer(server).score(SHORT)
    assert all(score is not None and 0 <= score.intent <= 1 for score in got)


BAD_BODIES = [
    b"",
    b"null",
    b'{"choices": []}',
    b'{"choices": 5}',
    b'{"choices": [{"index": 0}]}',
    b'{"choices": ["text"]}',
]


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_a_failed_request_gives_no_score_and_the_others_go_on(server: Server, status: int) -> None:
    server.replies = [(status, b'{"error": {"message": "overloaded"}}')]
    (got,) = scorer(server, concurrency=1).score(SHORT)
    assert [score is None for score in got] == [True, False, False]


@pytest.mark.parametrize("body", BAD_BODIES)
def test_a_reply_that_cannot_be_read_gives_no_score(server: Server, body: bytes) -> None:
    server.replies = [(200, body)]
    (got,) = scorer(server, concurrency=1).score(SHORT)
    assert [score is None for score in got] == [True, False, False]


def test_a_reply_of_another_length_than_the_prompt_gives_no_score(server: Server) -> None:
    entry = {"token_logprobs": [None, -1.0, -1.0], "top_logprobs": [{}, {}, {'"': -0.1}]}
    choices = [{"index": at, "text": "", "logprobs": entry} for at in range(len(SHORT[0].tools))]
    server.replies = [(200, json.dumps({"choices": choices}).encode())]
    assert scorer(server, concurrency=1).score(SHORT)[0][0] is None


def test_a_failed_request_is_tried_again(server: Server) -> None:
    server.replies = [(500, b"{}")]
    (got,) = scorer(server, retries=1).score(SHORT)
    assert all(score is not None for score in got) and len(server.requests) == 4


def test_a_slow_endpoint_is_given_up(server: Server) -> None:
    server.delay = 1.5
    assert scorer(server, timeout=0.2).score(SHORT) == [[None, None, None]]


@pytest.mark.parametrize("way", ["echo", "prompt_logprobs"])
def test_an_endpoint_without_prompt_logprobs_is_named(server: Server, way: Any) -> None:
    server.ways.clear()
    with pytest.raises(ValueError, match=rf"gives no prompt log-probabilities for small \(way='{way}'\)"):
        scorer(server, way=way).score(SHORT)


@pytest.mark.parametrize(
    ("status", "said"), [(400, "echo is not supported"), (422, "logprobs: unknown field"), (404, "no such path")]
)
def test_an_endpoint_that_refuses_the_question_is_named(server: Server, status: int, said: str) -> None:
    server.replies = [(status, json.dumps({"error": {"message": f"{said} {KEY}"}}).encode())] * 9
    with pytest.raises(ValueError, match=said) as raised:
        scorer(server).score(SHORT)
    assert KEY not in str(raised.value)


def test_another_bad_request_is_only_a_missing_score(server: Server) -> None:
    server.replies = [(400, b'{"error": {"message": "the prompt is too long"}}')] * 3
    assert scorer(server).score(SHORT) == [[None, None, None]]


def test_no_more_requests_than_allowed_are_under_way(server: Server) -> None:
    server.delay = 0.05
    scorer(server, concurrency=2).score(SHORT * 3)
    assert server.busiest == 2 and len(server.requests) == 9
    with pytest.raises(ValueError, match="concurrency must be at least 1, not 0"):
        scorer(server, concurrency=0)


def test_several_loops_may_use_one_scorer_and_the_key_comes_from_the_environment(server: Server) -> None:
    one = scorer(server)

    async def ask(asked: list[ScoreRequest]) -> list[list[PositionScore | None]]:
        return await one.score_async(asked)

    assert asyncio.run(ask(SHORT)) == one.score(SHORT)
    assert set(server.keys) == {f"Bearer {KEY}"}


def test_an_unknown_format_is_refused(server: Server) -> None:
    with pytest.raises(ValueError, match="no call format 'gemma'"):
        scorer(server, form="gemma")
