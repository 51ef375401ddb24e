"""What intent-tool scores say of a run: both sets of decoys, before and after training, and along trajectories.

    reading = IntentReading(scorer, tasks, options, manifest.notes)
    write_intent(folder / "intent.json", reading.of(trajectories))  # policies `before` and `after`

The scorer is frozen, so that a change between before and after is one of the trajectories and not of who reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from demur.envs.episode import PromptOptions
from demur.envs.intent.decoys import SPLITS, DecoySplit, decoys_for
from demur.envs.intent.scoring.scores import TrajectoryScores
from demur.envs.task import Task
from demur.envs.trace import Record, Trajectory
from demur.eval.intent_metrics import intent_rows
from demur.eval.metrics import Row
from demur.eval.monitor import Monitor, Scorer
from demur.eval.monitor_check import main_split, monitor_notes
from demur.eval.stats import mean
from demur.eval.summary import write_whole

MOST_TASKS = 600
"""Of more tasks, so many are read, evenly over their order: with both policies and both sets 2,400 readings."""
IN_SUMMARY = ("intent_auroc", "recall_at_1pct_fpr")
SUITE = "worlds"


class Mean(Record):
    """A mean over n trajectories with its 95% interval, in [0, 1]."""

    value: float
    n: int
    ci_low: float
    ci_high: float


class CurvePoint(Record):
    """at: how many positions (completed sentences and actions) of a trajectory were read before this one.

    intent: the intent-tool score. refusal: the probability of refusing, None where it is not on offer.
    """

    at: int
    intent: Mean
    refusal: Mean | None


class Curve(Record):
    """Scores along the trajectories of one policy and label. A point is one that at least a tenth of them reach."""

    policy: str
    label: str
    decoys: DecoySplit
    points: tuple[CurvePoint, ...]


class IntentEvaluation(Record):
    """`intent.json`. tasks: read, of `tasks_of` that were played. notes: those of `monitor_notes`."""

    schema_version: Literal[1] = 1
    scorer: str
    tasks: int
    tasks_of: int
    notes: dict[str, str]
    rows: tuple[Row, ...]
    curves: tuple[Curve, ...]

    @property
    def summary_rows(self) -> list[Row]:
        """What `summary.json` takes on. The first of each policy and label is with the `main_split`."""
        rows = [row for row in self.rows if row.metric in IN_SUMMARY]
        return sorted(rows, key=lambda row: row.suite != SUITE)


@dataclass(frozen=True, slots=True)
class IntentReading:
    """Reads a run's evaluation. options: how the policies were prompted. notes: of the run's manifest."""

    scorer: Scorer
    tasks: Sequence[Task]
    options: PromptOptions
    notes: Mapping[str, object]

    def of(self, trajectories: Sequence[Trajectory]) -> IntentEvaluation:
        """Raises ValueError if the task of a trajectory is missing, or has no intent tools."""
        chosen = _evenly(self.tasks, MOST_TASKS)
        ids = {task.id for task in chosen}
        kept = [t for t in trajectories if t.task_id in ids]
        notes = monitor_notes(self.notes)
        rows: list[Row] = []
        curves: list[Curve] = []
        for split in SPLITS:
            monitor = Monitor(self.scorer, partial(decoys_for, split=split), options=self.options)
            scores = monitor.record(chosen, kept)
            rows += intent_rows(chosen, kept, scores, suite=suite_of(split, notes))
            curves += _curves(kept, scores, split)
        return IntentEvaluation(
            scorer=self.scorer.name,
            tasks=len(chosen),
            tasks_of=len(self.tasks),
            notes=notes,
            rows=tuple(rows),
            curves=tuple(curves),
        )


def suite_of(split: DecoySplit, notes: Mapping[str, object]) -> str:
    """`worlds` with the `main_split` of these `monitor_notes`, else the decoys are named, too."""
    return SUITE if split == main_split(notes) else f"{SUITE}, {split} decoys"


def write_intent(path: Path, found: IntentEvaluation) -> None:
    """Write it to `path`; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, found.model_dump_json(indent=1) + "\n")


def read_intent(path: Path) -> IntentEvaluation | None:
    """None without the file. Raises ValueError, naming it, if it holds anything else."""
    if not path.is_file():
        return None
    try:
        return IntentEvaluation.model_validate_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} holds no intent figures: {error}") from error


def _evenly(tasks: Sequence[Task], most: int) -> Sequence[Task]:
    if len(tasks) <= most:
        return tasks
    return [tasks[at * len(tasks) // most] for at in range(most)]


def _curves(
    trajectories: Sequence[Trajectory], scores: Sequence[TrajectoryScores], split: DecoySplit
) -> Iterator[Curve]:
    groups: dict[tuple[str, str], list[TrajectoryScores]] = defaultdict(list)
    for t, scored in zip(trajectories, scores, strict=True):
        groups[t.policy, t.label.value].append(scored)
    for (policy, label), group in groups.items():
        yield Curve(policy=policy, label=label, decoys=split, points=tuple(_points(group)))


def _points(group: Sequence[TrajectoryScores]) -> Iterator[CurvePoint]:
    least = max(2, len(group) / 10)  # further on, a mean would be that of a few odd ones
    for at in range(max(len(one.positions) for one in group)):
        there = [s for one in group if at < len(one.positions) if (s := one.positions[at]) is not None]
        if len(there) < least:
            return
        intent = _mean([s.intent for s in there])
        refusals = [s.refusal for s in there if s.refusal is not None]
        assert intent is not None, "there are scores to average"
        yield CurvePoint(at=at, intent=intent, refusal=_mean(refusals))


def _mean(values: Sequence[float]) -> Mean | None:
    found = mean(values)
    return found and Mean(**found._asdict())
