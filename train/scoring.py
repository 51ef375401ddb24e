"""Groups are scored once and whole, wherever their rollouts were made.

TRL may split a group over ranks. All ranks gather the trajectories, each judges its share of the groups in one go,
and the judgements are gathered; every rank then has what all groups got, whatever the number of ranks. Nothing
between two collectives may raise, or the other ranks hang.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from accelerate.state import PartialState
from accelerate.utils import gather_object

from demur.envs.task import Task
from demur.envs.trace import Trajectory
from demur.rewards.alignment import judge_stats
from demur.rewards.judges import Failure, Judge, MeteredJudge, Usage
from demur.rewards.judges.aggregation import Judgement
from demur.rewards.rubric import Parts, Rubric

_log = logging.getLogger(__name__)


class Judging(NamedTuple):
    """How a step's judging went. measures: by name, only those that exist for the reward and the judge.

    The names are those of `judge_stats`, failed_calls, and of a judge that counts them calls, cached, tokens, cost and
    seconds (of the slowest rank). failures: of all ranks, a call each.
    """

    measures: dict[str, float]
    failures: list[Failure]


Recorder = Callable[[int, Sequence[Trajectory], Sequence[Parts], Judging], None]
"""Called on the main process with the step, all trajectories, their parts, and how they were judged."""


class GroupScorer:
    """Scores the rollouts of all ranks by group; each rank gets back the parts of its own.

    stop_reason: why a rank's judge makes no more calls. failed_share: of the last step's rollouts, those without a
    reward. Both are the same on every rank.
    """

    def __init__(self, rubric: Rubric, group_size: int, record: Recorder | None = None) -> None:
        self.rubric = rubric
        self.group_size = group_size
        self.record = record
        self.stop_reason: str | None = None
        self.failed_share = 0.0

    def __call__(self, local: Sequence[Trajectory], tasks: Mapping[str, Task], step: int) -> list[Parts]:
        state = PartialState()
        everyone: list[Trajectory] = gather_object(list(local))
        groups = split_groups(everyone, self.group_size)
        mine = range(state.process_index, len(groups), state.num_processes)
        judged = dict(zip(mine, self.rubric.judge_groups([groups[at] for at in mine]), strict=True))
        ranks: list[_Judged] = gather_object([_Judged(judged, *_read_meter(self.rubric.judge))])
        found = {at: judgement for rank in ranks for at, judgement in rank.judgements.items()}
        judgements = [found[at] for at in range(len(groups))]
        align = self.rubric.alignments(groups, judgements)
        scored = {at: self.rubric.parts_of(groups[at], tasks[groups[at][0].task_id], align[at]) for at in mine}
        by_group: dict[int, list[Parts]] = dict(gather_object(list(scored.items())))
        parts = [row for at in range(len(groups)) for row in by_group[at]]
        self.stop_reason = next((rank.stop_reason for rank in ranks if rank.stop_reason), None)
        self.failed_share = sum(row.failed for row in parts) / len(parts) if parts else 0.0
        if self.record and state.is_main_process:
            self.record(step, everyone, parts, _judging(judgements, ranks))
        start = state.process_index * len(local)  # every rank holds equally many
        return parts[start : start + len(local)]


class _Judged(NamedTuple):
    """What one rank judged, by group, and what it took; usage is None for a judge that costs nothing.

    failures: those that the judge tells of; a judgement holds the others.
    """

    judgements: dict[int, Judgement]
    usage: Usage | None
    failures: list[Failure]
    stop_reason: str | None


def _read_meter(judge: Judge) -> tuple[Usage | None, list[Failure], str | None]:
    if not isinstance(judge, MeteredJudge):
        return None, [], None
    try:
        return judge.pop_usage(), judge.pop_failures(), judge.stop_reason
    except Exception as error:  # it may be anybody's code, and the other ranks wait for this one
        _log.warning("the judge %s does not tell what it used: %s: %s", judge.name, type(error).__name__, error)
        return None, [], None


def _judging(judgements: Sequence[Judgement], ranks: Sequence[_Judged]) -> Judging:
    failures = [failure for rank in ranks for failure in rank.failures]
    failures += [failure for judgement in judgements for failure in judgement.failures]
    measures = judge_stats(judgements)
    if measures:  # somebody was asked
        measures["failed_calls"] = float(len(failures))
    usages = [rank.usage for rank in ranks if rank.usage is not None]
    if usages:
        used = replace(sum(usages, Usage()), seconds=max(usage.seconds for usage in usages))
        measures |= {name: getattr(used, name) for name in ("calls", "cached", "tokens", "cost", "seconds")}
    return Judging(measures, failures)


def split_groups(rollouts: Sequence[Trajectory], size: int) -> list[Sequence[Trajectory]]:
    """Consecutive rollouts of one task, `size` each."""
    groups = [rollouts[start : start + size] for start in range(0, len(rollouts), size)]
    assert all(len({t.task_id for t in group}) == 1 for group in groups), "a group mixes tasks"
    return groups
