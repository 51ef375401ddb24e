"""Traces of cases from the command line: what the file holds, that a killed run goes on, what bad input gives."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from demur.envs.suites.agent_safetybench import StateTools, case_task, read_cases
from demur.eval import guard
from demur.eval.generate_traces import Finished, main, run_tasks
from demur.eval.traces import read_traces
from demur.eval.traces.recorded import read_recorded
from tests.envs.suites.agent_safetybench.helpers import HASTY, Hasty, chat_server, data_folder, play_script, released

ROOT = Path(__file__).parents[2]
POLICY = "tests.envs.suites.agent_safetybench.helpers:HASTY"


def options(folder: Path, *more: str, policy: str = POLICY) -> list[str]:
    return ["--data", str(folder / "data"), "--policy", policy, "--out", str(folder / "traces.jsonl"), *more]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    data_folder(tmp_path / "data")
    HASTY.seen.clear()
    return tmp_path


def test_traces_of_all_cases_are_read_by_the_evaluation_of_guards(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options(folder)) == 0
    assert "4 traces, ended by {'answer': 4}" in capsys.readouterr().out
    traces = read_traces(folder / "traces.jsonl", "demur")
    assert [trace.group for trace in traces] == [f"agent_safetybench-{id}" for id in range(1, 5)]
    assert all(trace.label is None and set(trace.labels) == {None} for trace in traces)
    assert traces[0].tools["remove_access"].changes and not traces[0].tools["search_guests"].changes
    flags = ["--traces", str(folder / "traces.jsonl"), "--format", "demur", "--guard", "provenance"]
    assert guard.main([*flags, "--out", str(folder / "out")]) == 0
    steps = [json.loads(line)["steps"] for line in (folder / "out" / "verdicts.jsonl").read_text().splitlines()]
    assert [[step["tool"] for step in one] for one in steps] == [["search_guests", "remove_access"]] * 4


def test_the_same_command_runs_only_what_is_not_there(folder: Path) -> None:
    assert main(options(folder, "--cases", "2")) == 0
    first = (folder / "traces.jsonl").read_bytes()
    assert main(options(folder)) == 0
    assert len(HASTY.seen) == 4 and len(set(HASTY.seen)) == 4
    assert (folder / "traces.jsonl").read_bytes().startswith(first)
    assert main(options(folder)) == 0
    assert len(HASTY.seen) == 4


KILLER = """
import os, signal
from tests.envs.suites.agent_safetybench.helpers import SCRIPT
from demur.envs.episode import Generation

class Killed:
    name = "hasty"
    finished = 0

    async def respond(self, conversation):
        at = sum(message["role"] == "assistant" for message in conversation.messages)
        if at == 0 and self.finished == 2 and "HOLD" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        self.finished += at == 2
        return Generation(text=SCRIPT[at])

POLICY = Killed()
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "killer.py").write_text(KILLER, encoding="utf-8")
    words = options(folder, "--concurrency", "1", policy="killer:POLICY")
    environment = {**os.environ, "HOLD": "1", "PYTHONPATH": f"{ROOT}:{folder}"}
    script = [sys.executable, str(ROOT / "eval" / "generate_traces.py"), *words]
    assert subprocess.run(script, env=environment, capture_output=True).returncode == -signal.SIGKILL
    path = folder / "traces.jsonl"
    whole = path.read_bytes()
    assert len(whole.splitlines()) == 2
    path.write_bytes(whole + whole.splitlines()[0][:200])  # killed while it wrote
    monkeypatch.syspath_prepend(str(folder))
    assert main(words) == 0
    assert path.read_bytes().startswith(whole)
    assert [recorded.trajectory.task_id for recorded in read_recorded(path)] == [
        f"agent_safetybench-{id}" for id in range(1, 5)
    ]


def test_policy_and_tools_behind_endpoints_and_cases_that_fail_are_tried_again(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {"on": True}

    def play(request: dict[str, Any]) -> str | int:
        about = json.loads(request["messages"][1]["content"])
        return 400 if broken["on"] and about["calls_so_far"] else json.dumps({"result": "made up", "failed": False})

    with chat_server(play_script) as policy, chat_server(play) as tools:
        words = options(
            folder, "--policy_url", policy, "--tools", "player", "--tools_url", tools, "--cases", "2", policy="hasty"
        )
        assert main(words) == 1
        said = capsys.readouterr()
        assert "0 traces" in said.out and "2 cases failed" in said.err
        broken["on"] = False
        assert main(words) == 0
    assert "2 traces" in capsys.readouterr().out
    recorded = read_recorded(folder / "traces.jsonl")
    assert recorded[0].trajectory.policy == "hasty"
    assert recorded[0].trajectory.turns[1].observation == "<tool_response>made up</tool_response>"


def test_a_policy_that_gives_no_reply_fails_its_case(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with chat_server(lambda request: 400) as url:
        assert main(options(folder, "--policy_url", url, "--cases", "1", policy="hasty")) == 1
    assert "1 cases failed" in capsys.readouterr().err
    assert (folder / "traces.jsonl").read_bytes() == b""


def test_a_policy_of_batches_gets_as_many_cases_as_told(folder: Path) -> None:
    sizes: list[int] = []

    class Sized(Hasty):
        def generate(self, episodes: Any) -> Any:
            sizes.append(len(episodes))
            return super().generate(episodes)

    done: list[Finished] = []
    tasks = [case_task(case, StateTools()) for case in read_cases(folder / "data")]
    run_tasks(tasks, Sized(), done.append, at_once=3)
    assert sizes == [3, 3, 3, 1, 1, 1] and [one.task for one in done] == tasks


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--tools", "qwen"], "--tools qwen needs --tools_url"),
        (["--tools_url", "http://127.0.0.1:9/v1"], "--tools_url needs --tools"),
        (["--tools", "qwen", "--tools_url", "127.0.0.1"], "must start with http"),
        (["--concurrency", "0"], "--concurrency must be at least 1"),
        (["--cases", "0"], "--cases must be at least 1"),
        (["--failure_modes", "12"], "no failure mode 12"),
        (["--policy", "nowhere:POLICY"], "'nowhere:POLICY' cannot be loaded"),
        (["--policy", "tests.envs.suites.agent_safetybench.helpers:STATE"], "is no policy"),
        (["--policy", "tests.envs.suites.agent_safetybench.helpers:Hasty"], "is no policy"),
        (["--policy", "no/such/folder"], "there is no model"),
        (["--data", "/no/such/folder"], "can not be read"),
    ],
)
def test_bad_input_gives_one_line_and_status_2(
    folder: Path, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options(folder, *more)) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_a_file_made_with_other_settings_or_of_something_else_is_left_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options(folder)) == 0
    kept = (folder / "traces.jsonl").read_bytes()
    assert main(options(folder, "--turn_limit", "3")) == 2
    assert "other settings" in capsys.readouterr().err
    data_folder(folder / "data", [released(9)])
    assert main(options(folder)) == 2
    (folder / "traces.settings.json").unlink()
    assert main(options(folder)) == 2
    assert "not what made it" in capsys.readouterr().err
    assert (folder / "traces.jsonl").read_bytes() == kept


def test_a_broken_line_before_the_last_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(options(folder)) == 0
    path = folder / "traces.jsonl"
    path.write_bytes(b"nonsense\n" + path.read_bytes())
    assert main(options(folder)) == 2
    assert "traces.jsonl:1 is not a trace: delete it to start anew" in capsys.readouterr().err
