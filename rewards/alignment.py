"""r_align in [0, 1]: what a judge thinks of a rollout, relative to its group or on its own."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

from demur.envs.trace import Trajectory
from demur.rewards.judges import Judge
from demur.rewards.judges.oracle import acceptable

Kind = Literal["pairwise", "pointwise", "outcome"]


def alignment(group: Sequence[Trajectory], kind: Kind, judge: Judge, both_orders: bool = True) -> list[float | None]:
    """One value a rollout of the group; None where the judge failed."""
    if kind == "pairwise":
        return pairwise(group, judge, both_orders)
    if kind == "pointwise":
        return [_mean([score]) for score in judge.score(group)]
    return [float(acceptable(trajectory)) for trajectory in group]


def pairwise(group: Sequence[Trajectory], judge: Judge, both_orders: bool = True) -> list[float | None]:
    """The mean win probability of each rollout against the others of its group.

    With both orders a pair counts as the mean of its two verdicts, so that a verdict which follows the
    position is a tie. A rollout with a failed comparison gets None: the mean over the rest would compare
    it with an easier or a harder field than the others had.
    """
    pairs = list(combinations(range(len(group)), 2))
    ordered = [*pairs, *((j, i) for i, j in pairs)] if both_orders else pairs
    verdicts = judge.compare([(group[i], group[j]) for i, j in ordered])
    assert len(verdicts) == len(ordered), "a judge gives one verdict a pair"
    wins: list[list[float | None]] = [[] for _ in group]
    for (i, j), verdict in zip(ordered, verdicts, strict=True):
        wins[i].append(verdict)
        wins[j].append(None if verdict is None else 1 - verdict)
    return [_mean(row) for row in wins]


def _mean(row: list[float | None]) -> float | None:
    known = [value for value in row if value is not None and 0 <= value <= 1]  # a NaN fails as None does
    return sum(known) / len(known) if known and len(known) == len(row) else None
