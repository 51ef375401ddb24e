"""Groups are scored once and whole, wherever their rollouts were made.

TRL may split a group over ranks. All ranks gather the trajectories, each judges its share of the groups,
and the results are gathered again. Nothing between two collectives may raise, or the other ranks hang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from accelerate.state import PartialState
from accelerate.utils import gather_object

from demur.envs.task import Task
from demur.envs.trace import Trajectory
from demur.rewards.rubric import Parts, Rubric

Recorder = Callable[[int, Sequence[Trajectory], Sequence[Parts]], None]
"""Called on the main process with the step, all trajectories and their parts."""


class GroupScorer:
    """Scores the rollouts of all ranks by group; each rank gets back the parts of its own."""

    def __init__(self, rubric: Rubric, group_size: int, record: Recorder | None = None) -> None:
        self.rubric = rubric
        self.group_size = group_size
        self.record = record

    def __call__(self, local: Sequence[Trajectory], tasks: Mapping[str, Task], step: int) -> list[Parts]:
        state = PartialState()
        everyone: list[Trajectory] = gather_object(list(local))
        groups = split_groups(everyone, self.group_size)
        mine = {
            index: self.rubric.score_group(group, tasks[group[0].task_id])
            for index, group in enumerate(groups)
            if index % state.num_processes == state.process_index
        }
        scored: dict[int, list[Parts]] = dict(gather_object(list(mine.items())))
        parts = [row for index in range(len(groups)) for row in scored[index]]
        if self.record and state.is_main_process:
            self.record(step, everyone, parts)
        start = state.process_index * len(local)  # every rank holds equally many
        return parts[start : start + len(local)]


def split_groups(rollouts: Sequence[Trajectory], size: int) -> list[Sequence[Trajectory]]:
    """Consecutive rollouts of one task, `size` each."""
    groups = [rollouts[start : start + size] for start in range(0, len(rollouts), size)]
    assert all(len({t.task_id for t in group}) == 1 for group in groups), "a group mixes tasks"
    return groups
