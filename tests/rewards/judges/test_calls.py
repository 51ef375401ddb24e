"""Calls to a judge's model against a small local server: bounds, budgets, the cache, and every way to fail."""

import gc
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from threading import enumerate as enumerate_threads
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

from demur.rewards.judges.cache import Cache
from demur.rewards.judges.calls import Answer, CallOptions, Calls, Question
from demur.rewards.judges.steps import one_step

KEY = "sk-do-not-show-me"


class Opinion(BaseModel):
    value: int


class Plan(NamedTuple):
    """What the server does with a request. body: None drops the connection."""

    body: bytes | None
    status: int = 200
    headers: dict[str, str] = {}


def reply(text: str | None, *, stop: str = "stop", tokens: tuple[int, int] = (100, 10), **message: Any) -> Plan:
    choice = {"index": 0, "message": {"role": "assistant", "content": text} | message, "finish_reason": stop}
    usage = {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]}
    return Plan(json.dumps({"choices": [choice], "usage": usage}).encode())


def fault(status: int, text: str = "overloaded", **headers: str) -> Plan:
    return Plan(json.dumps({"error": {"message": text}}).encode(), status, headers)


def right(request: dict[str, Any]) -> Plan:
    return reply(json.dumps({"value": int(request["messages"][0]["content"])}))


class Server(ThreadingHTTPServer):
    """Sends `first`, one after the other, and then what `answer` makes of a request, unless it has to hang."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.end = Lock(), Event()
        self.hang: Callable[[dict[str, Any]], bool] = lambda _: False
        self.first: list[Plan] = []
        self.answer: Callable[[dict[str, Any]], Plan] = right
        self.requests: list[dict[str, Any]] = []
        self.times: list[float] = []
        self.keys: set[str] = set()
        self.delay, self.busy, self.busiest = 0.0, 0, 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is no failure of a test."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        server = self.server
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.requests.append(request)
            server.times.append(time.monotonic())
            server.keys.add(self.headers["Authorization"])
            server.busy += 1
            server.busiest = max(server.busiest, server.busy)
            plan = server.first.pop(0) if server.first else server.answer(request)
        time.sleep(server.delay)
        if server.hang(request):
            server.end.wait(60)
        with server.lock:
            server.busy -= 1
        if plan.body is None:
            self.close_connection = True
            return
        self.send_response(plan.status)
        for name, value in {"Content-Type": "application/json", **plan.headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(plan.body)))
        self.end_headers()
        self.wfile.write(plan.body)

    def log_message(self, *arguments: Any) -> None:
        """Keep the tests quiet."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("TEST_KEY", KEY)
    running = Server()
    thread = Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield running
    running.end.set()
    running.shutdown()
    running.server_close()
    thread.join()


def calls(server: Server, cache: Cache | None = None, **options: Any) -> Calls:
    settings = CallOptions(**{"retries": 0, "concurrency": 4} | options)
    return Calls("tiny", base_url=server.url, key_variable="TEST_KEY", options=settings, cache=cache)


def read(text: str) -> int:
    return Opinion.model_validate_json(text).value


def asking(*values: int) -> list[Question]:
    return [Question([{"role": "user", "content": str(value)}], Opinion, read) for value in values]


def error_of(answers: list[Answer]) -> str:
    (answer,) = answers
    assert answer.value is None and answer.error
    return answer.error


def test_answers_come_in_the_order_of_the_questions_and_are_counted(server: Server) -> None:
    mine = calls(server, prices=(2.0, 10.0))
    assert mine.ask_all(asking(*range(9))) == [Answer(value, None) for value in range(9)]
    used = mine.pop_usage()
    assert (used.calls, used.cached, used.failed, used.prompt_tokens, used.completion_tokens) == (9, 0, 0, 900, 90)
    assert used.cost == pytest.approx(9 * (100 * 2 + 10 * 10) / 1e6) and used.seconds > 0
    assert mine.pop_usage().calls == 0 and mine.ask_all([]) == []


def test_the_form_and_the_options_are_sent(server: Server) -> None:
    calls(server, max_new_tokens=33, temperature=0.5).ask_all(asking(1))
    (request,) = server.requests
    assert (request["model"], request["max_tokens"], request["temperature"]) == ("tiny", 33, 0.5)
    assert request["response_format"]["json_schema"]["schema"] == Opinion.model_json_schema()
    assert server.keys == {f"Bearer {KEY}"}


def test_the_bound_on_concurrency_holds_over_all_threads_that_ask(server: Server) -> None:
    server.delay = 0.05
    mine = calls(server, concurrency=3)
    found: list[list[Answer]] = []
    threads = [Thread(target=lambda: found.append(mine.ask_all(asking(*range(6))))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[Answer(value, None) for value in range(6)]] * 3
    assert server.busiest == 3


def test_many_calls_overlap(server: Server) -> None:
    server.delay = 0.5
    mine = calls(server, concurrency=16)
    started = time.monotonic()
    mine.ask_all(asking(*range(32)))
    assert time.monotonic() - started < 32 * server.delay  # 1 s where the machine is free
    assert server.busiest == 16


# Time


def tightened(server: Server, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Calls:
    """Calls that have their connection already, since making the first one can take seconds on a busy machine."""
    mine = calls(server, retries=9, concurrency=2)
    assert mine.ask_all(asking(0)) == [Answer(0, None)]
    monkeypatch.setattr(mine, "_options", replace(mine._options, **options))
    return mine


# The margins are wide because tests share a machine. What holds on a free one is measured by benchmarks/judges.py.


def test_a_server_that_hangs_fails_its_calls_within_the_time_out(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tightened(server, monkeypatch, timeout=0.3)
    server.hang = lambda _: True
    started = time.monotonic()
    assert "timeout 0.3 s" in error_of(mine.ask_all(asking(1)))
    assert time.monotonic() - started < 5


def test_what_is_open_when_the_step_ends_fails_and_the_rest_stands(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tightened(server, monkeypatch, step_timeout=2.0)
    server.hang = lambda request: request["messages"][0]["content"] != "7"
    started = time.monotonic()
    first, *others = mine.ask_all(asking(7, *range(5)))
    assert time.monotonic() - started < 2 + 5
    assert first == Answer(7, None)
    assert all(answer.error and "step_timeout 2 s" in answer.error for answer in others)
    server.hang = lambda _: False
    assert mine.ask_all(asking(8)) == [Answer(8, None)]  # nothing holds a place in the queue
    assert mine.pop_usage().failed == 5


def test_calls_of_one_step_share_its_time_and_none_is_sent_when_it_is_up(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tightened(server, monkeypatch, step_timeout=1.0)
    server.hang = lambda _: True
    started = time.monotonic()
    with one_step():
        answers = [error_of(mine.ask_all(asking(number))) for number in range(20)]
    assert time.monotonic() - started < 1 + 5
    assert all("step_timeout 1 s" in answer for answer in answers)
    assert mine.pop_usage().failed == 20
    server.hang = lambda _: False
    assert mine.ask_all(asking(8)) == [Answer(8, None)]  # outside, each call has the whole time


def test_a_retry_waits_as_long_as_the_server_says(server: Server) -> None:
    server.first = [fault(429, **{"Retry-After": "1"})]
    assert calls(server, retries=1).ask_all(asking(5)) == [Answer(5, None)]
    assert len(server.times) == 2 and server.times[1] - server.times[0] >= 0.99


def test_retries_stop_at_the_time_out(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tightened(server, monkeypatch, timeout=1.0)
    server.answer = lambda _: fault(429, **{"Retry-After": "30"})
    started = time.monotonic()
    assert "timeout 1 s" in error_of(mine.ask_all(asking(5)))
    assert time.monotonic() - started < 1 + 5 and len(server.requests) == 2


# Failures


@pytest.mark.parametrize("bad", [fault(500), Plan(None), fault(503)])
def test_a_passing_fault_is_tried_again(server: Server, bad: Plan) -> None:
    server.first = [bad]
    mine = calls(server, retries=1)
    assert mine.ask_all(asking(5)) == [Answer(5, None)]
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (fault(500), "500"),
        (fault(401, f"wrong key {KEY}"), "the key in TEST_KEY is missing, expired or not allowed"),
        (fault(404, "no such model"), "does not serve the model 'tiny'"),
        (Plan(None), "no connection to 127.0.0.1"),
        (reply(None, refusal="I will not judge"), "no text (it stopped for 'refusal')"),
        (reply("", stop="length"), "no text (it stopped for 'length')"),
    ],
)
def test_one_call_fails_with_a_clear_sentence_and_the_others_go_on(server: Server, bad: Plan, said: str) -> None:
    server.first = [bad]
    mine = calls(server, concurrency=1)
    failed, fine = mine.ask_all(asking(1, 2))
    assert failed.value is None and failed.error is not None and said in failed.error and KEY not in failed.error
    assert fine == Answer(2, None) and mine.stop_reason is None
    assert mine.pop_usage().failed == 1 and len(server.requests) == 2


def test_an_endpoint_that_is_not_there_fails_its_calls() -> None:
    mine = Calls("tiny", base_url="http://127.0.0.1:9/v1", options=CallOptions(retries=0))
    assert "no connection to 127.0.0.1:9" in error_of(mine.ask_all(asking(1)))


@pytest.mark.parametrize("bad", ['{"value": 1', "no json", '{"other": 1}', "[" * 100_000])
def test_an_unusable_reply_is_asked_for_again_once_with_its_fault(server: Server, bad: str) -> None:
    server.first = [reply(bad)]
    mine = calls(server)
    assert mine.ask_all(asking(3)) == [Answer(3, None)]
    question, back, complaint = server.requests[1]["messages"]
    assert (question["content"], back["role"]) == ("3", "assistant") and back["content"] == bad
    assert "can not be used" in complaint["content"] and "Opinion" in complaint["content"]
    assert (mine.pop_usage().calls, len(server.requests)) == (2, 2)


def test_after_two_unusable_replies_a_call_has_failed_and_both_are_paid(server: Server) -> None:
    server.answer = lambda _: reply(f'{{"value": "{KEY}', stop="length")
    mine = calls(server, max_new_tokens=7)
    error = error_of(mine.ask_all(asking(3)))
    assert "cut at max_new_tokens 7" in error and KEY not in error
    used = mine.pop_usage()
    assert (used.calls, used.failed, used.tokens) == (2, 1, 220)


def test_a_reply_that_is_no_reply_is_asked_for_again(server: Server) -> None:
    server.first = [Plan(b'{"choices": [')]
    assert calls(server).ask_all(asking(3)) == [Answer(3, None)]


def test_an_illegal_key_fails_calls_without_being_shown(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "sk-two\nlines")
    error = error_of(calls(server).ask_all(asking(3)))
    assert "two" not in error and "lines" not in error


# Budgets


@pytest.mark.parametrize(
    ("options", "sent", "said"),
    [
        ({"max_calls": 3}, 3, "budget used up: max_calls 3"),
        ({"max_tokens": 220}, 2, "budget used up: max_tokens 220, spent 220"),
        ({"max_cost": 0.0001, "prices": (1.0, 0.0)}, 1, "budget used up: max_cost 0.0001"),
    ],
)
def test_a_budget_is_a_hard_stop(server: Server, options: dict[str, Any], sent: int, said: str) -> None:
    mine = calls(server, concurrency=1, **options)
    answers = mine.ask_all(asking(*range(5)))
    assert [answer.value for answer in answers] == [*range(sent), *[None] * (5 - sent)]
    assert all(answer.error and said in answer.error for answer in answers[sent:])
    assert mine.stop_reason is not None and said in mine.stop_reason
    error_of(mine.ask_all(asking(9)))
    assert len(server.requests) == sent


def test_calls_under_way_do_not_overrun_a_budget_of_calls(server: Server) -> None:
    server.delay = 0.05
    mine = calls(server, max_calls=5, concurrency=4)
    assert sum(answer.error is None for answer in mine.ask_all(asking(*range(12)))) == 5 == len(server.requests)


def test_a_budget_that_is_just_enough_stops_nothing(server: Server) -> None:
    mine = calls(server, max_calls=3)
    assert mine.ask_all(asking(1, 2, 3))[2] == Answer(3, None) and mine.stop_reason is None


def test_a_budget_in_tokens_stops_where_the_endpoint_counts_none(server: Server) -> None:
    server.answer = lambda _: reply('{"value": 1}', tokens=(0, 0))
    mine = calls(server, max_tokens=1000, concurrency=1)
    assert [answer.value for answer in mine.ask_all(asking(1, 1))] == [1, None]
    assert mine.stop_reason is not None and "use max_calls" in mine.stop_reason


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency must be at least 1, not 0"),
        ({"timeout": 0.0}, "timeout must be above 0"),
        ({"timeout": float("nan")}, "timeout must be above 0"),
        ({"step_timeout": -1.0}, "step_timeout must be above 0"),
        ({"retries": -1}, "retries must be at least 0"),
        ({"max_calls": 0}, "max_calls must be above 0"),
        ({"max_tokens": -5}, "max_tokens must be above 0"),
        ({"max_cost": 0.0, "prices": (1.0, 1.0)}, "max_cost must be above 0"),
        ({"max_cost": 1.0}, "max_cost needs prices"),
        ({"prices": (1.0, -1.0)}, "prices must be two numbers"),
    ],
)
def test_an_option_that_cannot_be_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        CallOptions(**options)


def test_an_address_without_a_scheme_is_refused() -> None:
    with pytest.raises(ValueError, match="must start with http"):
        Calls("tiny", base_url="127.0.0.1:8000/v1")


# The cache


def test_a_run_is_repeated_from_the_cache_without_key_or_endpoint(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.first = [reply("no json")]
    first = calls(server, Cache(tmp_path, "p"), concurrency=1).ask_all(asking(1, 2, 3))
    monkeypatch.delenv("TEST_KEY")
    again = Calls(
        "tiny", base_url="http://127.0.0.1:9/v1", options=CallOptions(max_calls=1), cache=Cache(tmp_path, "p")
    )
    assert again.ask_all(asking(1, 2, 3)) == first == [Answer(1, None), Answer(2, None), Answer(3, None)]
    used = again.pop_usage()
    assert (used.calls, used.cached, used.tokens, again.stop_reason) == (0, 3, 0, None)


def test_each_time_that_a_question_is_asked_has_its_own_entry(server: Server, tmp_path: Path) -> None:
    numbers = iter(range(100))
    server.answer = lambda _: reply(json.dumps({"value": next(numbers)}))
    first = calls(server, Cache(tmp_path, "p"), concurrency=1).ask_all(asking(5, 5, 5))
    assert [answer.value for answer in first] == [0, 1, 2]
    assert calls(server, Cache(tmp_path, "p")).ask_all(asking(5, 5, 5)) == first
    assert calls(server, Cache(tmp_path, "p")).ask_all(asking(5)) == first[:1]


def test_failures_are_not_kept(server: Server, tmp_path: Path) -> None:
    server.first = [fault(500), reply(None), reply("bad"), reply("bad")]
    mine = calls(server, Cache(tmp_path, "p"), concurrency=1)
    assert [answer.value for answer in mine.ask_all(asking(1, 2, 3))] == [None] * 3
    assert [answer.value for answer in mine.ask_all(asking(1, 2, 3))] == [1, 2, 3]


def test_an_entry_that_no_longer_reads_is_asked_anew(server: Server, tmp_path: Path) -> None:
    cache = Cache(tmp_path, "p")
    mine = calls(server, cache)
    mine.ask_all(asking(1))
    (entry,) = tmp_path.glob("*/*.json")
    entry.write_text(json.dumps({"key": entry.stem, "reply": "bad"}))
    assert mine.ask_all(asking(1)) == [Answer(1, None)] and len(server.requests) == 2


# Threads and processes


def test_the_thread_ends_with_its_calls(server: Server) -> None:
    mine = calls(server)
    before = set(enumerate_threads())
    mine.ask_all(asking(1))
    (thread,) = [one for one in set(enumerate_threads()) - before if one.name == "demur-judge"]
    del mine
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()


def exit_well(mine: Calls) -> None:
    assert mine.ask_all(asking(4)) == [Answer(4, None)]


def test_a_forked_process_asks_in_a_thread_of_its_own(server: Server) -> None:
    mine = calls(server)
    mine.ask_all(asking(1))
    child = multiprocessing.get_context("fork").Process(target=exit_well, args=(mine,))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert mine.ask_all(asking(2)) == [Answer(2, None)]
