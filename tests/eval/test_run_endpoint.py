"""The evaluation matrix on an endpoint that dies, one that comes back, and a budget."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import pytest

from demur.envs.trace import read_jsonl
from demur.eval.matrix.cells import CellKey
from demur.eval.run import main
from demur.eval.summary import read_summary

SMALL = "--worlds mail --benign 3 --harmful 3 --injected 3 --underspecified 3 --processes 1 --prompt compact".split()
TASKS = 12
REPLY = "<think>Done.</think>\n<answer>Done.</answer>"


class Server(ThreadingHTTPServer):
    """Answers every request with the same message; after `lives` of them each gets a 500."""

    daemon_threads = True

    def __init__(self, lives: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lives, self.asked, self.lock = lives, 0, Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.lock:
            self.server.asked += 1
            alive = self.server.asked <= self.server.lives
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": REPLY}}
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
        body = json.dumps(reply if alive else {"error": {"message": "the server died"}}).encode()
        self.send_response(200 if alive else 500)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def serving(lives: float = float("inf")) -> Iterator[Server]:
    server = Server(lives)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def run(out: Path, url: str, *words: str) -> int:
    quick = ["--retries", "0", "--timeout", "5", "--concurrency", "1", "--max_failures", "2"]
    return main([*SMALL, *quick, "--guards", "none", "--policy_url", url, "--out", str(out), *words])


def of_endpoint(out: Path) -> Path:
    return out / "cells" / CellKey("m", "none", "worlds", 1).folder


def test_an_endpoint_that_dies_fails_its_cell_alone_and_the_same_command_completes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    with serving(lives=5) as server:
        assert run(out, server.url, "--policy", "m", "expert") == 1
        assert server.asked == 5 + 2, "a cell is given up after two failures in a row"
    record = json.loads((of_endpoint(out) / "cell.json").read_text(encoding="utf-8"))
    assert record["state"] == "failed" and "7 of 12 tasks are missing" in record["error"]
    assert "the server died" in record["error"] and "not finished: m" in capsys.readouterr().out
    stood = {t.task_id for t in read_jsonl(of_endpoint(out) / "trajectories.jsonl")}
    assert len(stood) == 5
    summary = read_summary(out / "summary.json")
    assert {row.policy for row in summary.rows} == {"expert"}, "half a cell is no figure"
    with serving() as server:
        assert run(out, server.url, "--policy", "m", "expert") == 0
        assert server.asked == TASKS - 5
        assert run(whole, server.url, "--policy", "m", "expert") == 0
    for name in ("summary.json", "comparisons.json"):
        assert (out / name).read_bytes() == (whole / name).read_bytes()
    assert (of_endpoint(out) / "trajectories.jsonl").read_bytes() == (
        of_endpoint(whole) / "trajectories.jsonl"
    ).read_bytes()


def test_an_endpoint_that_is_not_there_is_a_failed_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving() as server:
        url = server.url
    assert run(tmp_path, url, "--policy", "m", "expert") == 1
    assert "no connection" in capsys.readouterr().out
    assert read_summary(tmp_path / "summary.json").value("expert", "completion_rate", "benign") == 1


def test_failures_that_are_kept_count_as_errors(tmp_path: Path) -> None:
    with serving(lives=6) as server:
        assert run(tmp_path, server.url, "--policy", "m", "--keep_errors", "true") == 0
    row = read_summary(tmp_path / "summary.json").row("m", "error_rate", "all")
    assert row is not None and (row.value, row.n) == (0.5, TASKS)


@pytest.mark.parametrize("budget", [("--max_calls", "5"), ("--max_tokens", "125")])
def test_a_budget_stops_the_run_and_another_goes_on(
    tmp_path: Path, budget: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with serving() as server:
        asked = []
        for status in (1, 1, 0):
            assert run(tmp_path, server.url, "--policy", "m", *budget) == status
            asked.append(server.asked)
        assert asked == [5, 10, TASKS]
    assert f"the budget of {budget[1]} {budget[0].removeprefix('--max_')} is spent" in capsys.readouterr().out
    assert read_summary(tmp_path / "summary.json").value("m", "tokens_per_task", "all") == 5


def test_many_at_once_give_the_same_file(tmp_path: Path) -> None:
    with serving() as server:
        for name, at_once in (("one", "1"), ("many", "6")):
            assert run(tmp_path / name, server.url, "--policy", "m", "--concurrency", at_once) == 0
    one, many = (of_endpoint(tmp_path / name) / "trajectories.jsonl" for name in ("one", "many"))
    assert one.read_bytes() == many.read_bytes()
