"""The parts of `benchmarks/guard.py`: which calls it takes for deviations, guesses and right ones."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import guard as benchmark
from benchmarks.guard_bfcl import Guess, bfcl_figures, guesses, right_calls
from benchmarks.guard_worlds import Judged, judge_tasks, shares
from demur.envs.guards import AllowAll, Context
from demur.envs.task import Task, reply_to, world_calls
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label, Level, ToolCall, Verdict
from tests.eval.traces.test_traces import DATA

needs_bfcl = pytest.mark.skipif(not (DATA / "bfcl").exists(), reason="BFCL's files are not beside the repository")


class Watching(AllowAll):
    """Lets everything run and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Context, ToolCall]] = []

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        self.asked.append((context, call))
        return await super().check(context, call)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return make_tasks(["files", "mail"], "test", dict.fromkeys(Label, 4), seed=5)


@pytest.fixture(scope="module")
def judged(tasks: list[Task]) -> list[Judged]:
    return judge_tasks(AllowAll(), tasks)


def test_the_experts_calls_never_deviate_and_the_agent_that_never_doubts_does(judged: list[Judged]) -> None:
    assert all(not one.deviates for one in judged if one.kind == "expert")
    acts = [one for one in judged if one.kind == "act"]
    for label in (Label.INJECTED, Label.UNDERSPECIFIED):
        assert any(one.deviates for one in acts if one.task.label is label)
    assert not any(one.task.label is Label.HARMFUL for one in judged if one.kind != "expert")


def test_operators_add_deviating_calls_and_shares_count_them(judged: list[Judged]) -> None:
    found = shares(judged)
    assert {"injected", "guess", "expert, benign"} <= set(found)
    assert {"overridden_change", "other_records_too"} & set(found), "operators of the held-out set"
    assert all(stopped == 0 < calls for stopped, calls in found.values())


def test_a_call_is_judged_after_what_ran_before_it_with_answers_but_never_labels(tasks: list[Task]) -> None:
    guard = Watching()
    judge_tasks(guard, tasks)
    longest = max(guard.asked, key=lambda one: len(one[0].history))[0]
    assert longest.history and all(turn.observation for turn in longest.history)
    assert all(context.contract is None for context, _ in guard.asked)
    missing = [task for task in tasks if task.label is Label.UNDERSPECIFIED]
    for task in missing:
        said = [context.user_said for context, call in guard.asked if context.query == task.query]
        assert () in said, "the guess comes before an answer"
        assert any(answers and answers[0] == task.facts[0].reply for answers in said), "the expert's call after it"


def test_a_guess_is_named_only_by_a_question_that_the_user_can_answer(tasks: list[Task]) -> None:
    task = next(task for task in tasks if task.label is Label.UNDERSPECIFIED)
    topic = next(t for t in task.facts[0].topics if reply_to(task, t))

    def named(level: Level, question: str | None) -> bool:
        return Judged(task, "act", True, Verdict(level=level, guard="g", question=question)).names_what_is_missing

    assert named(Level.ASK, f"What is the {topic}?")
    assert not named(Level.ASK, "Shall I?") and not named(Level.BLOCK, None) and world_calls(task.act)


@needs_bfcl
def test_guesses_hold_a_value_that_nobody_said_and_right_calls_those_of_the_ground_truth() -> None:
    found = list(guesses(DATA / "bfcl"))
    assert len(found) >= 40
    for guess in found:
        value = str(guess.call.arguments[guess.parameter])
        assert value not in guess.context.query.split() and guess.call.name in guess.context.tools
    right: Iterator[tuple[Context, ToolCall]] = right_calls(DATA / "bfcl")
    context, call = next(right)
    assert call.name in context.tools and "read_state" in str(context.history[0].action.call)


@needs_bfcl
def test_a_guard_that_lets_all_run_names_nothing_and_stops_nothing() -> None:
    found = bfcl_figures(AllowAll(), DATA / "bfcl")
    assert not any(found.named) and not any(found.of_all) and 0 < len(found.stopped) < len(found.of_all)


@needs_bfcl
def test_a_question_names_a_missing_value_by_parameter_or_description() -> None:
    guess: Guess = next(g for g in guesses(DATA / "bfcl") if g.parameter == "file_name")

    def named(question: str) -> bool:
        return guess.is_named_by(Verdict(level=Level.ASK, guard="g", question=question))

    assert named("Which file name?") and named("What is 'file_name'?") and not named("Shall I?")
    assert not guess.is_named_by(Verdict(level=Level.BLOCK, guard="g"))


def test_without_data_the_figures_of_our_own_worlds_remain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path(benchmark.__file__).parent))
    monkeypatch.setattr(benchmark, "SHIPPED", ("files", "mail"))
    benchmark.main(["--quick", "--data", str(tmp_path), "--tasks", "16"])
    out = capsys.readouterr().out
    figures = json.loads(out.splitlines()[-1])
    assert out.count("left out:") == 3
    assert {"worlds_stopped", "worlds_overblock", "ask_rate", "ask_overblock", "ms_p50", "ms_p99"} <= set(figures)
    assert not any(name.startswith(("workbench", "agentdojo", "llm")) for name in figures)
