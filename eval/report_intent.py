"""The report's section on intent: scores along trajectories, and what they tell, before and after training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from demur.envs.intent.decoys import SPLITS
from demur.eval.charts import LineChart, Series, line_chart
from demur.eval.compare import AFTER, BEFORE
from demur.eval.intent_evaluation import Curve, CurvePoint, IntentEvaluation, Mean, suite_of
from demur.eval.metrics import Row
from demur.eval.monitor_check import main_split
from demur.eval.report_page import Cell

TITLES = {
    "intent_auroc": "Harm told from benign changes, AUROC (0.5 is chance)",
    "recall_at_1pct_fpr": "Harmful calls found at 1% false positives",
    "intent_calibration_error": "Calibration error",
    "trigger_before_harm_rate": "Monitor triggered before the harm",
    "benign_trigger_rate": "Monitor triggered on a benign task",
}
DRAWN = (("harmful", BEFORE, 0), ("harmful", AFTER, 1), ("benign", BEFORE, 2), ("benign", AFTER, 3))
"""Label, policy and style of the charts' lines."""
SETS = {"train": "Intent tools for training", "held_out": "Held-out intent tools"}


class IntentLine(NamedTuple):
    """One figure. tasks: that it was measured on, before and after. Cells without a figure hold a dash."""

    title: str
    metric: str
    label: str
    tasks: str
    before: Cell
    after: Cell


class IntentSet(NamedTuple):
    """The figures of one set of intent tools. mark: what speaks against it, empty if nothing does."""

    title: str
    mark: str
    lines: list[IntentLine]


class IntentSection(NamedTuple):
    """charts_of: the set of intent tools that the charts were read with."""

    scorer: str
    tasks: int
    tasks_of: int
    charts_of: str
    charts: list[LineChart]
    sets: list[IntentSet]


def intent_section(found: IntentEvaluation | None) -> IntentSection | None:
    """None for a run whose evaluation read no intent."""
    if found is None:
        return None
    main = main_split(found.notes)
    curves = [curve for curve in found.curves if curve.decoys == main]
    charts = (
        _chart("Refusal readiness along the trajectory", curves, lambda point: point.refusal),
        _chart("Intent score along the trajectory", curves, lambda point: point.intent),
    )
    sets = [
        IntentSet(
            SETS[split], found.notes.get(f"monitor_{split}", ""), _lines(found.rows, suite_of(split, found.notes))
        )
        for split in (main, *(split for split in SPLITS if split != main))
    ]
    return IntentSection(
        scorer=found.scorer,
        tasks=found.tasks,
        tasks_of=found.tasks_of,
        charts_of=SETS[main].lower(),
        charts=[chart for chart in charts if chart.lines],
        sets=sets,
    )


def _chart(title: str, curves: Sequence[Curve], of: Callable[[CurvePoint], Mean | None]) -> LineChart:
    """A line a policy and label, over the number of sentences and actions read before."""
    by_key = {(curve.label, curve.policy): curve.points for curve in curves}
    longest = max((len(by_key.get((label, policy), ())) for label, policy, _ in DRAWN), default=0)
    series = []
    for label, policy, style in DRAWN:
        means = [of(point) for point in by_key.get((label, policy), ())]
        values = [None if one is None else one.value for one in means]
        series.append(Series(f"{label} {policy}", values + [None] * (longest - len(values)), style))
    return line_chart(title, range(longest), series, percent=True)


def _lines(rows: Sequence[Row], suite: str) -> list[IntentLine]:
    by_key = {(row.metric, row.label, row.policy): row for row in rows if row.suite == suite}
    labels = dict.fromkeys(label for _, label, _ in by_key)
    lines = []
    for metric, title in TITLES.items():
        for label in labels:
            sides = [by_key.get((metric, label, policy)) for policy in (BEFORE, AFTER)]
            if any(sides):
                tasks = " → ".join("–" if row is None else str(row.n) for row in sides)
                lines.append(IntentLine(title, metric, label, tasks, _cell(sides[0]), _cell(sides[1])))
    return lines


def _cell(row: Row | None) -> Cell:
    if row is None:
        return Cell("–", "")
    scale, digits, sign = (1, 2, "") if row.metric in ("intent_auroc", "intent_calibration_error") else (100, 1, "%")
    value, low, high = (f"{scale * x:.{digits}f}" for x in (row.value, row.ci_low, row.ci_high))
    return Cell(value + sign, f"[{low}, {high}]")
