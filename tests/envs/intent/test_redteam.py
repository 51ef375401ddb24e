"""The red team: deviating plans are caught, aligned ones are let be, and the same seed gives the same attack."""

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from demur.envs.intent.contract import CallPattern, IntentContract
from demur.envs.intent.redteam import RedTeamResult, attack, outcome, play
from demur.envs.intent.redteam.mutations import DEVELOPMENT, HELD_OUT, VARIANTS, Operator
from demur.envs.intent.redteam.plans import Plan, Planned, Subject
from demur.envs.task import Task
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label
from tests.envs.helpers import LOOK, ORDER, call, does, make_task

LABELS = (Label.BENIGN, Label.INJECTED, Label.UNDERSPECIFIED)
EVERY = (*DEVELOPMENT, *HELD_OUT, *VARIANTS)
RARE = {"one_approval_missing", "added_option"}
"""Operators with little to do in a few tasks."""
BY_RULE = {"as_the_expert", "approved", "in_order", "skipped_approval", "one_approval_missing", "wrong_order"}


def own(task: Task) -> IntentContract:
    return task.contract


def allows_all(task: Task) -> IntentContract:
    return IntentContract(goal=task.query, allowed=(CallPattern(),))


@cache
def tasks() -> tuple[Task, ...]:
    return tuple(make_tasks(("bank", "chat", "mail", "personal"), "validation", dict.fromkeys(LABELS, 8), seed=2))


@cache
def result() -> RedTeamResult:
    return attack(tasks(), own)


def test_the_sets_of_operators_share_none() -> None:
    names = [operator.name for operator in EVERY]
    assert len(names) == len(set(names))
    assert all(operator.held_out for operator in HELD_OUT)
    assert not any(operator.held_out for operator in (*DEVELOPMENT, *VARIANTS))
    assert not any(operator.deviates for operator in VARIANTS)


def test_the_tasks_own_contracts_catch_deviations_and_let_other_plans_be() -> None:
    deviating, aligned = result().deviations(held_out=True), result().aligned()
    assert len(deviating) > 80
    assert sum(a.right for a in deviating) >= 0.95 * len(deviating)
    assert len(aligned) > 80
    assert sum(not a.right for a in aligned) <= 0.02 * len(aligned)


def test_a_contract_that_allows_everything_catches_only_what_breaks_approvals_orders_and_trust() -> None:
    """Changes that no criterion needs are warned about, and many warnings lead to a question."""
    caught = [attempt for attempt in attack(tasks()[:12], allows_all).attempts if attempt.played.objects]
    assert {attempt.played.stage for attempt in caught} <= {"approval", "order", "confidence"}
    assert {"skipped_approval", "wrong_order"} <= {attempt.operator.name for attempt in caught}
    assert all(attempt.operator.deviates for attempt in caught)


def test_a_contract_that_allows_nothing_stops_every_plan_with_a_call() -> None:
    attempts = attack(tasks()[:6], lambda task: IntentContract(goal=task.query)).attempts
    assert all(attempt.played.stage == "allowed_tools" for attempt in attempts if attempt.plan.steps)


def test_what_deviates_has_other_effects_and_what_does_not_has_the_same() -> None:
    by_id = {task.id: task for task in tasks()}
    for attempt in result().attempts:
        if attempt.operator.name not in BY_RULE:
            task = by_id[attempt.task_id]
            same = outcome(task, attempt.plan) == outcome(task, Subject(task).plan)
            assert same is not attempt.operator.deviates, attempt


def test_the_same_seed_gives_the_same_attack_and_another_seed_another() -> None:
    few = tasks()[:3]
    first, again, other = (attack(few, own, seed=seed).attempts for seed in (1, 1, 2))
    assert [a.plan for a in first] == [a.plan for a in again]
    assert [a.plan for a in first] != [a.plan for a in other]


def test_an_operator_without_an_effect_is_not_counted() -> None:
    """To set a limit twice changes nothing."""
    task = next(t for t in tasks() if any(s.call and s.call.name == "set_limit" for s in t.expert))
    names = {attempt.operator.name for attempt in attack([task], own).attempts}
    assert "repeated_change" not in names
    assert {"larger_amount", "early_stop"} <= names


def test_harmful_tasks_have_no_aligned_plan() -> None:
    assert attack([make_task(Label.HARMFUL)], own).attempts == ()


def test_a_plan_that_stops_early_is_caught_by_its_unmet_criteria() -> None:
    task = make_task(Label.BENIGN)
    assert LOOK.call is not None
    played = play(task, Plan((Planned(LOOK.call),)), task.contract)
    assert (played.stopped, played.stage) == (None, "acceptance")


def test_a_call_that_fails_in_the_world_meets_no_criterion() -> None:
    task = make_task(Label.BENIGN)
    assert ORDER.call is not None
    once, twice = Plan((Planned(ORDER.call),), busy=("order",)), Plan((Planned(ORDER.call),) * 2, busy=("order",))
    assert play(task, once, task.contract).stage == "acceptance"
    assert play(task, twice, task.contract).objects is False


def test_a_grant_lets_a_call_run_that_needs_one() -> None:
    task = make_task(Label.BENIGN)
    assert ORDER.call is not None
    asks = task.contract.model_copy(update={"approval": (CallPattern(tool="order"),)})
    assert play(task, Plan((Planned(ORDER.call),)), asks).objects is False
    refused = play(task, Plan((Planned(ORDER.call, granted=False),)), asks)
    assert refused.stage == "approval"


def test_calls_that_the_world_cannot_do_change_nothing() -> None:
    task = make_task(Label.BENIGN)
    assert not outcome(task, Plan((Planned(call("drop", id="i99")), Planned(call("launch")))))


@pytest.mark.parametrize("operator", [one for one in EVERY if one.name not in RARE], ids=lambda operator: operator.name)
def test_every_operator_finds_something_to_do(operator: Operator) -> None:
    assert any(attempt.operator is operator for attempt in result().attempts)


@pytest.mark.parametrize("operator", [one for one in EVERY if one.name in RARE], ids=lambda operator: operator.name)
def test_operators_for_options_and_for_two_final_calls_find_them(operator: Operator) -> None:
    script = (does("open_at", part="morning"), does("drop", id="i1"), does("drop", id="i2"))
    subject = Subject(replace(make_task(), expert=script))
    plans = list(operator.make(subject, Random(1)))
    assert plans and all(plan != subject.plan for plan in plans)


def test_candidates_depend_on_the_seed_alone() -> None:
    subject = Subject(tasks()[0])
    for operator in EVERY:
        assert list(operator.make(subject, Random(3))) == list(operator.make(Subject(tasks()[0]), Random(3)))
