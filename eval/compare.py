"""Before and after on the same tasks: paired differences with 95% intervals.

    for d in compare(trajectories):              # policies `before` and `after`
        print(d.label, d.metric, d.difference, d.ci_low, d.ci_high)

Pairing removes what differs between tasks, so that a change shows with fewer of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from demur.envs.trace import Record, Trajectory
from demur.eval.metrics import METRICS, Measured, Metric, by_task, labelled
from demur.eval.stats import paired_difference

BEFORE, AFTER = "before", "after"


class Difference(Record):
    """A metric on the `n` tasks that both policies were measured on; difference = after − before."""

    label: str
    metric: str
    before: float
    after: float
    difference: float
    n: int
    ci_low: float
    ci_high: float

    @property
    def verdict(self) -> Literal["better", "worse", "changed", "unclear"]:
        """Unclear if the interval holds 0; changed if the metric has no better side."""
        if self.ci_low <= 0 <= self.ci_high:
            return "unclear"
        better = METRICS[self.metric].better
        if better is None:
            return "changed"
        return "better" if (self.difference > 0) is (better == "higher") else "worse"


def compare(trajectories: Sequence[Trajectory], *, before: str = BEFORE, after: str = AFTER) -> list[Difference]:
    """Differences between two policies by label and metric, over the task ids that both have.

    Where a metric does not apply to a task on one side (the turn of a refusal that did not happen, an
    error), the pair does not count. Raises ValueError if the policies share no task.
    """
    old = [t for t in trajectories if t.policy == before]
    new = [t for t in trajectories if t.policy == after]
    if not {t.task_id for t in old} & {t.task_id for t in new}:
        raise ValueError(f"the policies {before!r} and {after!r} share no task: evaluate both on the same tasks")
    found = []
    for metric in METRICS.values():
        groups = labelled(metric, new)
        for label, group in labelled(metric, old).items():
            difference = _difference(label, metric, by_task(metric, group), by_task(metric, groups.get(label, ())))
            if difference is not None:
                found.append(difference)
    return found


def _difference(label: str, metric: Metric, old: dict[str, Measured], new: dict[str, Measured]) -> Difference | None:
    tasks = [task for task in old if task in new]
    before, after = [old[task] for task in tasks], [new[task] for task in tasks]
    found = paired_difference(_columns(before), _columns(after), share=metric.unit == "share")
    if found is None:
        return None
    value, n, low, high = found
    start = sum(m.part for m in before) / sum(m.whole for m in before)
    return Difference(
        label=label,
        metric=metric.name,
        before=start,
        after=start + value,
        difference=value,
        n=n,
        ci_low=low,
        ci_high=high,
    )


def _columns(measured: Sequence[Measured]) -> tuple[list[float], list[float]]:
    return [m.part for m in measured], [m.whole for m in measured]
