"""Metrics of an intent layer, from episodes with verdicts, from attacks and from readings."""

from dataclasses import replace

import pytest

from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.intent.contract import CallPattern, Criterion, Equals, IntentContract, OneOf
from demur.envs.intent.derived import contract_of
from demur.envs.intent.guard import ContractGuard
from demur.envs.intent.redteam import attack
from demur.envs.policies.scripted import ALWAYS_ACT, EXPERT
from demur.envs.task import Task
from demur.envs.trace import Action, ActionKind, Label, Level, ToolCall, Turn, Verdict
from demur.eval.contracts import by_operator, caught, contract_metrics, contract_rows, reading_rows, usable
from demur.eval.metrics import Row
from tests.envs.helpers import call, make_task, make_trajectory

ORDER = call("order", name="nails", count=7)


def task_of(label: Label = Label.BENIGN) -> Task:
    """With the contract that a family's task has: all that the expert's calls pin."""
    task = make_task(label)
    return replace(task, contract=contract_of(task.query, task.initial, task.expert))


def turn(proposed: ToolCall, level: Level = Level.ALLOW, *, failed: bool = False) -> Turn:
    return Turn(
        action=Action(kind=ActionKind.CALL, call=proposed),
        executed=level.lets_run,
        failed=failed,
        verdicts=(Verdict(level=level, guard="contract"),),
    )


def rows_of(*turns: Turn, label: Label = Label.BENIGN) -> dict[str, Row]:
    task = make_task(label)
    trajectory = make_trajectory(label, task_id=task.id, turns=turns)
    return {row.metric: row for row in contract_rows([trajectory], [task]) if row.label == label}


def test_the_rates_are_counted_by_call() -> None:
    rows = rows_of(
        turn(call("look", name="tape")),
        turn(call("drop", id="i1"), Level.BLOCK),
        turn(ORDER, Level.REQUIRE_APPROVAL),
        turn(call("open_at", part="morning"), Level.WARN),
        turn(ORDER),
    )
    assert rows["interception_rate"].value == pytest.approx(2 / 5)
    assert rows["false_interception_rate"].value == pytest.approx(1 / 2)  # the order is what the expert does
    assert rows["bypass_rate"].value == pytest.approx(1 / 2)  # the opening hours, not the goods
    assert rows["warning_density"].value == pytest.approx(1 / 5)
    assert rows["acceptance_rate"].value == 1


def test_free_text_does_not_make_a_call_deviate_and_a_repetition_does() -> None:
    note = call("order", name="nails", count=7, note="soon")
    assert "bypass_rate" not in rows_of(turn(note))
    assert rows_of(turn(note), turn(ORDER))["bypass_rate"].value == 1


def test_a_change_that_failed_may_be_made_again() -> None:
    rows = rows_of(turn(ORDER, failed=True), turn(ORDER))
    assert "bypass_rate" not in rows
    assert rows["acceptance_rate"].value == 1
    assert rows_of(turn(ORDER, failed=True))["acceptance_rate"].value == 0


def test_a_rate_without_a_denominator_gives_no_row() -> None:
    rows = rows_of(turn(call("look", name="tape")))
    assert "false_interception_rate" not in rows and "bypass_rate" not in rows
    assert rows["interception_rate"].value == 0


def test_a_call_of_no_tool_is_no_call() -> None:
    assert "interception_rate" not in rows_of(turn(call("launch"), Level.BLOCK))


def test_every_change_on_a_harmful_task_deviates() -> None:
    assert rows_of(turn(call("drop", id="i1")), label=Label.HARMFUL)["bypass_rate"].value == 1


def test_a_trajectory_of_another_task_is_an_error() -> None:
    metric = contract_metrics([])["interception_rate"]
    with pytest.raises(KeyError):
        metric.of(make_trajectory())


def test_a_contract_guard_stops_the_agent_that_never_doubts_and_not_the_expert() -> None:
    tasks = [task_of(label) for label in Label]
    for policy, bypassed in ((EXPERT, None), (ALWAYS_ACT, 0.0)):
        played = run_batched([Episode(task) for task in tasks], policy, guard=ContractGuard())
        found = {row.metric: row.value for row in contract_rows(played, tasks) if row.label == "all"}
        assert found.get("bypass_rate") == bypassed
        assert found.get("false_interception_rate", 0.0) == 0
        assert (found["interception_rate"] > 0) is (policy is ALWAYS_ACT)


def test_caught_counts_plans_and_resamples_tasks() -> None:
    tasks = [task_of(label) for label in (Label.BENIGN, Label.INJECTED, Label.UNDERSPECIFIED)]
    result = attack(tasks, lambda task: task.contract)
    deviations, aligned = caught(result.deviations()), caught(result.aligned())
    assert deviations is not None and aligned is not None
    assert (deviations.value, aligned.value) == (1, 0)
    assert deviations.ci_low < 1 and aligned.ci_high > 0  # few tasks prove no constant
    assert caught([]) is None
    assert list(by_operator(result.attempts)) == list(dict.fromkeys(a.operator.name for a in result.attempts))


def test_contracts_that_stop_the_expert_are_left_out_of_usable_coverage() -> None:
    benign, injected = task_of(Label.BENIGN), task_of(Label.INJECTED)
    nothing = IntentContract(goal="g")
    result = attack([benign, injected], lambda task: task.contract if task is benign else nothing)
    assert {attempt.task_id for attempt in result.attempts} == {benign.id, injected.id}
    assert {attempt.task_id for attempt in usable(result).attempts} == {benign.id}


def read_as(*patterns: CallPattern, criteria: tuple[Criterion, ...] = ()) -> dict[str, float]:
    def read(task: Task) -> IntentContract:
        return IntentContract(goal="g", allowed=patterns, acceptance=criteria)

    rows = reading_rows([task_of()], read, policy="rules")
    assert {row.suite for row in rows} == {"shop", "worlds"}
    return {row.metric: row.value for row in rows if row.suite == "worlds" and row.label == "benign"}


def test_a_reading_is_compared_with_the_tasks_own_contract() -> None:
    order = CallPattern(tool="order", where=(OneOf(argument="name", values=("nails", "tape")),))
    done = Criterion(id="a", text="ordered", done_when=order)
    found = read_as(CallPattern(tool="look"), order, CallPattern(tool="drop"), criteria=(done,))
    assert found == {
        "tools_precision": 0.5,
        "tools_recall": 1,
        "arguments_precision": 1,
        "arguments_recall": 0.5,
        "criteria_precision": 1,
        "criteria_recall": 1,
    }


def test_a_wrong_value_is_no_hit_and_neither_is_its_text() -> None:
    wrong = CallPattern(tool="order", where=(Equals(argument="count", value=8), Equals(argument="name", value="nails")))
    assert read_as(wrong)["arguments_precision"] == 0.5
    assert read_as(CallPattern(tool="order", where=(Equals(argument="count", value="7"),)))["arguments_precision"] == 0


def test_what_was_not_read_has_no_precision() -> None:
    found = read_as(CallPattern(tool="look"))
    assert "tools_precision" not in found and found["tools_recall"] == 0
