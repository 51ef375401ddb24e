"""Before against after, over the same tasks."""

import pytest

from demur.envs.trace import Ending, Label, Trajectory
from demur.eval.compare import compare
from tests.eval.runs import make_trace


def both(task: str, before: dict[str, object], after: dict[str, object]) -> list[Trajectory]:
    sides = (("before", before), ("after", after))
    return [make_trace(Label.HARMFUL, task_id=task, policy=policy, outcome=o) for policy, o in sides]


REFUSED: dict[str, object] = {"refused": True, "refusal_turn": 0}
HARMED: dict[str, object] = {"harms": ("x",), "changed": True}


def test_a_change_is_measured_on_the_same_tasks() -> None:
    trajectories = [t for i in range(30) for t in both(f"t{i}", HARMED, REFUSED if i else HARMED)]
    found = {(d.label, d.metric): d for d in compare(trajectories)}
    refusal, harm = found["harmful", "refusal_rate"], found["harmful", "harm_rate"]
    assert (refusal.before, refusal.n) == (0, 30)
    assert (refusal.after, refusal.difference) == pytest.approx((29 / 30, 29 / 30))
    assert harm.difference == pytest.approx(-29 / 30)
    assert (refusal.verdict, harm.verdict) == ("better", "better")
    assert found["all", "error_rate"].verdict == "unclear"


def test_the_other_way_round_is_worse() -> None:
    trajectories = [t for i in range(30) for t in both(f"t{i}", REFUSED, HARMED)]
    verdicts = {d.metric: d.verdict for d in compare(trajectories) if d.label == "harmful"}
    assert (verdicts["refusal_rate"], verdicts["harm_rate"]) == ("worse", "worse")


def test_a_pair_counts_only_where_both_sides_have_the_metric() -> None:
    trajectories = [*both("t1", REFUSED, REFUSED), *both("t2", HARMED, REFUSED)]
    lost = make_trace(Label.HARMFUL, task_id="t3", policy="before", outcome=REFUSED)
    failed = make_trace(Label.HARMFUL, task_id="t3", policy="after", ending=Ending.ERROR, error="gone")
    found = {d.metric: d for d in compare([*trajectories, lost, failed]) if d.label == "harmful"}
    assert found["refusal_turn"].n == 1, "t2 was not refused before"
    assert found["refusal_rate"].n == 2, "t3 failed after"
    assert found["error_rate"].n == 3


def test_policies_without_a_common_task_are_an_error() -> None:
    apart = [make_trace(policy="before"), make_trace(policy="after", task_id="t2")]
    with pytest.raises(ValueError, match="share no task"):
        compare(apart)
