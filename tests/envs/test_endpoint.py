"""The client that all endpoints share: kinds of failure, what a reply says, and the key that no text shows.

What it sends and how it retries is tested with those that use it: the policy, the extractor, the judges' calls.
"""

import asyncio
import json
from collections.abc import Iterator
from threading import Thread

import pytest

from demur.envs.endpoint import Endpoint, EndpointError, Reply
from tests.envs.policies.test_endpoint import KEY, Server, reply


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


def complete(endpoint: Endpoint) -> Reply:
    async def ask() -> Reply:
        try:
            return await endpoint.complete([{"role": "user", "content": "hello"}], max_tokens=5)
        finally:
            await endpoint.close()

    return asyncio.run(ask())


def endpoint(server: Server) -> Endpoint:
    return Endpoint("tiny", base_url=server.url, key_variable="TEST_KEY", retries=0)


def test_a_reply_says_its_text_why_it_stopped_and_what_it_took(server: Server) -> None:
    server.replies = [(200, reply("text", "length"))]
    assert complete(endpoint(server)) == Reply("text", "length", 0, 7)
    message = {"content": None, "refusal": "no"}
    server.replies = [(200, json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())]
    assert complete(endpoint(server)) == Reply("", "refusal", 0, 0)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [(401, b"{}", "status"), (503, b"{}", "status"), (200, b"null", "reply"), (200, reply("x", tokens=-1), "reply")],
)
def test_a_failure_says_its_kind(server: Server, status: int, body: bytes, kind: str) -> None:
    server.replies = [(status, body)]
    with pytest.raises(EndpointError) as caught:
        complete(endpoint(server))
    assert (caught.value.kind, caught.value.status) == (kind, status if kind == "status" else None)


def test_a_place_without_an_endpoint_is_named_without_what_stands_before_it() -> None:
    with pytest.raises(EndpointError, match=r"no connection to 127\.0\.0\.1:9") as caught:
        complete(Endpoint("tiny", base_url="http://name:secret@127.0.0.1:9/v1", retries=0))
    assert caught.value.kind == "connection" and "secret" not in str(caught.value)


@pytest.mark.parametrize("key", ["plain-key", "two\nlines", 'quote"d', "ключ"])
def test_the_key_is_masked_as_it_is_and_as_code_and_json_write_it(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", f" {key}\n")
    masked = Endpoint("tiny", base_url="http://127.0.0.1:9/v1", key_variable="TEST_KEY").mask
    assert masked(f"a {key} b {key!r} c {json.dumps(key)}").count("***") == 3
    assert key not in masked(f"{key}{key}")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"base_url": ""}, "must start with http"),
        ({"timeout": 0.0}, "timeout must be above 0"),
        ({"retries": -1}, "retries must be 0 or more"),
        ({"key_variable": ""}, "name the variable that holds it"),
        ({"key_variable": "sk-0123"}, "^(?!.*sk-0123).*and not the key$"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Endpoint("tiny", **{"base_url": "http://127.0.0.1:9/v1"} | options)  # type: ignore[arg-type]
