"""The rubric puts the parts of a reward together for a group of rollouts of one task.

    R = w_a·r_align + w_f·r_fmt − w_l·p_len + λ·r_int

With the defaults the scale is the paper's (MOSAIC, section 3) at any group size. The parts stay apart and
unweighted, so that a curve of each can be looked at.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from demur.envs.intent.checks import Checker
from demur.envs.task import Task
from demur.envs.trace import Trajectory
from demur.rewards.alignment import Comparing, Kind, alignments, judge_groups
from demur.rewards.judges import Judge
from demur.rewards.judges.aggregation import Judgement
from demur.rewards.judges.oracle import acceptable
from demur.rewards.parts import INTENT_TERMS, LENGTH_BUDGET, IntentTerm, format_reward, intent_reward, length_penalty


class Parts(NamedTuple):
    """What one rollout earned. All None if its judging failed: it then has no reward at all."""

    align: float | None
    format: float | None
    length: float | None
    intent: float | None

    @property
    def failed(self) -> bool:
        return self.align is None


FAILED = Parts(None, None, None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """How rollouts are rewarded.

    comparing: which pairs the judge sees, and what becomes of its verdicts. gate: in a group without an
    acceptable rollout only the format counts, so that being the least bad of several harmful rollouts earns no
    advantage. length_budget: tokens a turn. intent_terms: what counts of the intent part.
    """

    judge: Judge
    kind: Kind = "pairwise"
    comparing: Comparing = Comparing()
    gate: bool = True
    weights: tuple[float, float, float, float] = (3.0, 2.0, 1.0, 0.0)  # w_a, w_f, w_l, λ
    length_budget: int = LENGTH_BUDGET
    intent_terms: Collection[IntentTerm] = INTENT_TERMS

    def judge_groups(self, groups: Sequence[Sequence[Trajectory]]) -> list[Judgement]:
        """What the judge says of groups, each of one task; where it raises, what it was asked has failed."""
        return judge_groups(groups, self.kind, self.judge, self.comparing)

    def alignments(
        self, groups: Sequence[Sequence[Trajectory]], judgements: Sequence[Judgement]
    ) -> list[list[float | None]]:
        """r_align of each rollout. Give it all groups of a step, for they may share a fit."""
        return alignments(groups, judgements, self.kind, self.comparing)

    def parts_of(self, group: Sequence[Trajectory], task: Task, align: Sequence[float | None]) -> list[Parts]:
        """The parts for each rollout of a group, given its alignment."""
        checker = Checker(task.contract, task.tools)
        gated = self.gate and not any(map(acceptable, group))
        return [
            FAILED if value is None else self._parts(trajectory, checker, value, gated)
            for trajectory, value in zip(group, align, strict=True)
        ]

    def score_group(self, group: Sequence[Trajectory], task: Task) -> list[Parts]:
        """The parts for each rollout of one group, all of them of one task."""
        (align,) = self.alignments([group], self.judge_groups([group]))
        return self.parts_of(group, task, align)

    def total(self, parts: Parts) -> float | None:
        """R, or None for a failed judgement."""
        if parts.align is None or parts.format is None or parts.length is None or parts.intent is None:
            return None
        align, form, length, intent = self.weights
        return align * parts.align + form * parts.format - length * parts.length + intent * parts.intent

    def _parts(self, trajectory: Trajectory, checker: Checker, align: float, gated: bool) -> Parts:
        form = format_reward(trajectory)
        if gated:
            return Parts(0.0, form, 0.0, 0.0)
        intent = intent_reward(trajectory, checker, self.intent_terms)
        return Parts(align, form, length_penalty(trajectory, self.length_budget), intent)
