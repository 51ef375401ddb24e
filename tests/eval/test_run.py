"""The evaluation matrix from its command: what it writes, what it plays again, and what it survives."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from demur.envs.trace import Ending, read_jsonl
from demur.eval.matrix.cells import CellKey, locked
from demur.eval.run import main
from demur.eval.summary import Summary, read_summary

ROOT = Path(__file__).parents[2]
SMALL = "--worlds mail --benign 3 --harmful 3 --injected 3 --underspecified 3 --processes 1 --prompt compact".split()
TASKS = 12

OWN = '''
import asyncio, os, time
from demur.envs.canaries import EXPERT
from demur.envs.episode import Generation


class Slow:
    """The expert, with a pause before each message."""
    name = "slow"

    def generate(self, episodes):
        time.sleep(float(os.environ.get("PAUSE", "0")))
        return EXPERT.generate(episodes)


class Hangs(Slow):
    def generate(self, episodes):
        if episodes[0].task.label == "injected":
            time.sleep(60)
        return EXPERT.generate(episodes)


class HangsAsync:
    name = "hangs_async"

    async def respond(self, conversation):
        await asyncio.sleep(60)


class Crashes(Slow):
    def generate(self, episodes):
        raise RuntimeError("boom")


class Garbage(Slow):
    texts = ["", "\\ud800\\x00", "<think>", "<tool_call>{" * 50, '<think>a</think><tool_call>{"name": 1e999}']

    def generate(self, episodes):
        return [Generation(text=self.texts[len(e.turns) % len(self.texts)]) for e in episodes]


slow, hangs, hangs_async, crashes, garbage = Slow(), Hangs(), HangsAsync(), Crashes(), Garbage()
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the module `own_policies`, from where this process and others import."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "own_policies.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "own_policies", raising=False)
    return folder


def run(out: Path, *words: str, guards: Sequence[str] = ("none",)) -> int:
    return main([*SMALL, "--guards", *guards, "--out", str(out), *words])


def values(summary: Summary, policy: str, guard: str = "none") -> dict[tuple[str, str], float]:
    return {(r.label, r.metric): r.value for r in summary.rows if (r.policy, r.guard) == (policy, guard)}


def cell(out: Path, policy: str, guard: str = "none", suite: str = "worlds", seed: int = 1) -> Path:
    return out / "cells" / CellKey(policy, guard, suite, seed).folder


def record(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / "cell.json").read_text(encoding="utf-8"))
    return found


def contents(out: Path) -> dict[str, bytes]:
    """All that an evaluation leaves, but for the process that held the folder and the folder's own name."""
    files = (path for path in out.rglob("*") if path.is_file() and path.name not in ("lock", "config.yaml"))
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


# What it measures


def test_canaries_get_the_figures_that_they_must(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--policy", "expert", "always_act", "refuse_all", guards=("none", "both")) == 0
    summary = read_summary(tmp_path / "summary.json")
    expert, act, refuse = (values(summary, name) for name in ("expert", "always_act", "refuse_all"))
    assert expert["benign", "completion_rate"] == expert["harmful", "refusal_rate"] == 1
    assert expert["injected", "attack_success_rate"] == expert["underspecified", "wrong_guess_rate"] == 0
    assert act["harmful", "harm_rate"] == act["injected", "attack_success_rate"] == 1
    assert refuse["harmful", "refusal_rate"] == refuse["benign", "over_refusal_rate"] == 1
    assert refuse["injected", "utility_under_attack"] == refuse["benign", "completion_rate"] == 0
    guarded = values(summary, "always_act", "both")
    assert guarded["injected", "attack_success_rate"] == 0 and guarded["all", "intervention_rate"] > 0
    assert {row.guard for row in summary.rows} == {"none", "both"} and summary.manifest.data.keys() == {"worlds"}
    printed = capsys.readouterr().out
    assert all(f"{label}:" in printed for label in ("benign", "harmful", "injected", "underspecified"))


def test_comparisons_are_paired_and_corrected(tmp_path: Path) -> None:
    many = ["--worlds", "mail", "files", "bank", "--benign", "12", "--harmful", "24"]
    assert run(tmp_path, *many, "--policy", "always_act", "expert", guards=("none", "contract")) == 0
    rows = json.loads((tmp_path / "comparisons.json").read_text(encoding="utf-8"))["rows"]
    wanted = {"between": "policies", "guard": "none", "metric": "harm_rate"}
    (harm,) = (r for r in rows if wanted.items() <= r.items())
    assert (harm["before"], harm["after"], harm["difference"], harm["n"]) == ("always_act", "expert", -1, 24)
    assert harm["p_mcnemar"] == pytest.approx(2 / 2**24) and 1 < harm["families"] <= 24
    assert harm["p_holm"] >= harm["p"] and harm["power"] > 0.99
    assert {r["between"] for r in rows} == {"policies", "guards"}
    same = [r for r in rows if r["between"] == "guards" and r["policy"] == "expert"]
    assert same and all(r["difference"] == 0 and r["p"] == 1 for r in same)


def test_each_seed_is_another_set_of_tasks_and_all_count(tmp_path: Path) -> None:
    assert run(tmp_path, "--policy", "expert", "--seeds", "1", "2") == 0
    ids = [
        {t.task_id for t in read_jsonl(cell(tmp_path, "expert", seed=seed) / "trajectories.jsonl")} for seed in (1, 2)
    ]
    assert not ids[0] & ids[1]
    row = read_summary(tmp_path / "summary.json").row("expert", "completion_rate", "benign")
    assert row is not None and row.n == 6


# Going on


def test_only_missing_cells_are_played(tmp_path: Path, own: Path) -> None:
    assert run(tmp_path, "--policy", "expert") == 0
    played = cell(tmp_path, "expert") / "trajectories.jsonl"
    before = played.stat().st_mtime_ns
    assert run(tmp_path, "--policy", "expert", "refuse_all", guards=("none", "contract")) == 0
    assert played.stat().st_mtime_ns == before
    assert values(read_summary(tmp_path / "summary.json"), "refuse_all", "contract")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_killed_run_goes_on_and_equals_one_that_was_not(tmp_path: Path, own: Path, processes: str) -> None:
    policy = ["slow=own_policies:slow"] if processes == "1" else ["expert", "always_act"]
    count = ["--benign", "3"] if processes == "1" else ["--benign", "150", "--harmful", "150"]
    words = [*SMALL, *count, "--processes", processes, "--guards", "none", "contract", "--policy", *policy]
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    child = start([*words, "--out", str(killed)], own, pause="0.03")
    first = cell(killed, policy[0].partition("=")[0]) / "trajectories.jsonl"
    wait_until(lambda: first.is_file() and first.read_bytes().count(b"\n") >= 3, child)
    child.kill()
    child.wait()
    stood = first.read_bytes()
    assert not (killed / "summary.json").exists() and (killed / "lock").exists()
    with first.open("ab") as file:
        file.write(stood.splitlines()[0][:50])  # a line under the pen
    assert main([*words, "--out", str(killed)]) == main([*words, "--out", str(whole)]) == 0
    assert contents(killed) == contents(whole)
    finished = first.read_bytes().splitlines()
    assert set(stood.splitlines()[:3]) <= set(finished) and len(finished) == len(set(finished))


def test_a_second_evaluation_into_one_folder_is_refused_while_the_first_lives(
    tmp_path: Path, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = [*SMALL, "--guards", "none", "--policy", "slow=own_policies:slow", "--out", str(out)]
    child = start(words, own, pause="0.2")
    try:
        wait_until(lambda: (out / "lock").is_file() and (out / "lock").read_text().strip().isdigit(), child)
        assert main(words) == 2
        line = capsys.readouterr().err
        assert f"process {child.pid}" in line and "give another --out" in line and line.count("\n") == 1
    finally:
        child.kill()
        child.wait()
    with locked(out):  # the lock of a dead process is taken over
        assert (out / "lock").read_text() == f"{os.getpid()}\n"


def test_other_settings_are_refused_and_nothing_is_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--policy", "expert") == 0
    before = contents(tmp_path)
    assert run(tmp_path, "--policy", "expert", "--prompt", "full") == 2
    assert "other settings (prompt)" in capsys.readouterr().err
    assert contents(tmp_path) == before


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--policy", "expert") == 0
    folder = cell(tmp_path, "expert")
    path = folder / "trajectories.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{}\n", *lines[2:]]))
    changed = record(folder) | {"state": "open"}
    (folder / "cell.json").write_text(json.dumps(changed), encoding="utf-8")
    assert run(tmp_path, "--policy", "expert") == 2
    assert "trajectories.jsonl:2 is not a trajectory" in capsys.readouterr().err


# Policies that go wrong


def test_a_task_that_hangs_is_an_error_and_the_rest_goes_on(tmp_path: Path, own: Path) -> None:
    assert run(tmp_path, "--policy", "own_policies:hangs", "--task_limit", "0.5") == 0
    found = values(read_summary(tmp_path / "summary.json"), "own_policies:hangs")
    assert found["injected", "error_rate"] == 1 and found["benign", "completion_rate"] == 1
    path = cell(tmp_path, "own_policies:hangs") / "trajectories.jsonl"
    errors = [t.error for t in read_jsonl(path) if t.ending is Ending.ERROR]
    assert errors == ["the task took more than 0.5 s"] * 3


def test_an_asynchronous_policy_that_hangs_is_an_error_a_task(tmp_path: Path, own: Path) -> None:
    start = time.monotonic()
    assert run(tmp_path, "--policy", "h=own_policies:hangs_async", "--task_limit", "0.2") == 0
    assert values(read_summary(tmp_path / "summary.json"), "h")["all", "error_rate"] == 1
    assert time.monotonic() - start < 30


def test_a_policy_that_crashes_is_an_error_a_task(tmp_path: Path, own: Path) -> None:
    assert run(tmp_path, "--policy", "c=own_policies:crashes", "expert") == 0
    summary = read_summary(tmp_path / "summary.json")
    assert values(summary, "c")["all", "error_rate"] == 1
    assert values(summary, "expert")["all", "error_rate"] == 0


def test_garbage_is_counted_and_never_a_crash(tmp_path: Path, own: Path) -> None:
    assert run(tmp_path, "--policy", "g=own_policies:garbage", guards=("none", "both")) == 0
    summary = read_summary(tmp_path / "summary.json")
    for guard in ("none", "both"):
        found = values(summary, "g", guard)
        assert found["all", "format_valid_rate"] == 0 and found["all", "error_rate"] == 0


# Processes


def start(words: Sequence[str], modules: Path, pause: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(modules), "PAUSE": pause}
    command = [sys.executable, str(ROOT / "eval" / "run.py"), *words]
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def wait_until(condition: Callable[[], bool], child: "subprocess.Popen[bytes]", seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert child.poll() is None, "the evaluation ended before it could be killed: slow it down"
        assert time.monotonic() < deadline, "the evaluation did not come so far in time"
        time.sleep(0.005)
