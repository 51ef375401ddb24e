"""What is measured on finished cells: one pass over a cell's file, a few bytes a task and metric."""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from demur.envs.trace import Label, Trajectory
from demur.eval.metrics import ALL, METRICS, Row
from demur.eval.stats import estimate_clustered

Score = Callable[[Trajectory], Mapping[str, float]]


@dataclass
class Measures:
    """Columns over the tasks of one policy, guard and suite, all seeds: [n] each.

    families: the task family, as a number of `family_names`. columns: by metric, (parts, wholes); a whole of 0 where
    the metric does not apply.
    """

    split: str = ""
    labels: array[int] = field(default_factory=lambda: array("b"))
    families: array[int] = field(default_factory=lambda: array("i"))
    columns: dict[str, tuple[array[float], array[float]]] = field(default_factory=dict)
    family_names: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.labels)

    def add(self, t: Trajectory, score: Score) -> None:
        n = len(self)
        self.split = t.split
        self.labels.append(_LABELS.index(t.label))
        self.families.append(self.family_names.setdefault(f"{t.world}/{t.family}", len(self.family_names)))
        found = {name: measured for name, metric in METRICS.items() if (measured := metric.of(t)) is not None}
        for name, (part, whole) in found.items():
            if whole > 0 and (not METRICS[name].labels or t.label in METRICS[name].labels):
                self._set(name, n, part, whole)
        for name, value in score(t).items():
            self._set(name, n, value, 1.0)
        for column in self.columns.values():
            _pad(column, n + 1)

    def select(self, metric: str, label: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Parts and wholes of a metric, [n] each; the wholes of tasks with another label are 0."""
        parts, wholes = (np.array(column, np.float64) for column in self.columns[metric])
        if label != ALL:
            wholes = np.where(np.array(self.labels) == _LABELS.index(Label(label)), wholes, 0.0)
        return parts, wholes

    def labels_of(self, metric: str) -> list[str]:
        """The labels that the metric has a number for, with `all` for a metric of every label."""
        own = METRICS[metric].labels if metric in METRICS else ()
        found = [label.value for label in own or _LABELS if self.select(metric, label.value)[1].any()]
        return found if own or not found else [*found, ALL]

    def _set(self, name: str, at: int, part: float, whole: float) -> None:
        parts, wholes = self.columns.setdefault(name, (array("f"), array("f")))
        _pad((parts, wholes), at)
        parts.append(part)
        wholes.append(whole)


_LABELS = tuple(Label)


def is_share(metric: str) -> bool:
    """What a benchmark measures itself is a share."""
    return metric not in METRICS or METRICS[metric].unit == "share"


def measure(trajectories: Iterable[Trajectory], score: Score) -> tuple[Measures, str]:
    """The measures, and a fingerprint of the tasks: SHA-256 over their ids, samples and queries in order."""
    measures, digest = Measures(), hashlib.sha256()
    for t in trajectories:
        measures.add(t, score)
        digest.update(f"{t.task_id}\0{t.sample}\0{t.query}\n".encode())
    return measures, digest.hexdigest()


def rows_of(policy: str, guard: str, suite: str, measures: Measures) -> Iterator[Row]:
    """A row for each metric and label, its interval clustered by family."""
    families = np.array(measures.families)
    for metric in ordered(measures.columns):
        for label in measures.labels_of(metric):
            found = estimate_clustered(*measures.select(metric, label), families, share=is_share(metric))
            if found is not None:
                yield Row(
                    policy=policy,
                    guard=guard,
                    suite=suite,
                    split=measures.split,
                    label=label,
                    metric=metric,
                    value=found.value,
                    n=found.n,
                    ci_low=found.ci_low,
                    ci_high=found.ci_high,
                )


def ordered(names: Iterable[str]) -> Sequence[str]:
    """Ours in the order in which they are shown, then those of benchmarks."""
    place = defaultdict(lambda: len(METRICS), {name: at for at, name in enumerate(METRICS)})
    return sorted(names, key=lambda name: (place[name], name))


def _pad(columns: tuple[array[float], array[float]], size: int) -> None:
    for column in columns:
        if (missing := size - len(column)) > 0:
            column.extend([0.0] * missing)
