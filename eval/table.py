"""The table that a run prints at its end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from demur.eval.compare import AFTER, BEFORE, Difference
from demur.eval.metrics import ALL, METRICS, Metric, Row
from demur.eval.summary import Summary

LABELS = ("harmful", "benign", "injected", "underspecified", ALL)
STYLES = {"better": "bold green", "worse": "bold red", "changed": "bold", "unclear": "dim"}


def before_after_table(summary: Summary, differences: Sequence[Difference] = ()) -> Table:
    """Before and after with 95% intervals, and the paired differences if they are given.

    What is measured on every label is shown over all tasks only; the summary has it by label too.
    """
    paired = {(d.label, d.metric): d for d in differences}
    table = Table(title="Before and after, on the same held-out tasks", title_justify="left", box=SIMPLE_HEAD)
    table.add_column("")
    for column in ("before", "after", *(["change, paired"] if paired else [])):
        table.add_column(column, justify="right")
    for label in LABELS:
        names = [m.name for m in main_metrics(label) if summary.row(AFTER, m.name, label)]
        if not names:
            continue
        tasks = max(row.n for row in summary.rows if row.label == label and row.metric in names)
        table.add_row(Text(f"{label}, {tasks} tasks", style="bold"))
        for name in names:
            cells: list[str | Text] = [_cell(summary.row(side, name, label)) for side in (BEFORE, AFTER)]
            if paired:
                cells.append(_change(paired.get((label, name))))
            table.add_row("  " + METRICS[name].title, *cells)
        table.add_section()
    return table


def main_metrics(label: str) -> list[Metric]:
    """The metrics that belong to a label, or for `all` those of every label."""
    return [m for m in METRICS.values() if (label in m.labels if m.labels else label == ALL)]


def number(metric: str, value: float, *, signed: bool = False) -> str:
    """A value in its metric's unit: percent for shares (points if signed), else a plain number."""
    unit = METRICS[metric].unit
    digits = {"share": 1, "turn": 2, "tokens": 1}[unit]
    text = f"{100 * value if unit == 'share' else value:{'+' if signed else ''}.{digits}f}"
    if float(text) == 0:
        text = text.replace("-", "+" if signed else "")
    return text + ("%" if unit == "share" and not signed else "")


def interval(row: Row) -> str:
    """`[87.4, 95.0]`, in percent for shares."""
    low, high = (number(row.metric, bound).rstrip("%") for bound in (row.ci_low, row.ci_high))
    return f"[{low}, {high}]"


def change_text(d: Difference) -> str:
    """`+54.5 [+47.0, +61.8]`, in points of percent for shares."""
    value, low, high = (number(d.metric, v, signed=True) for v in (d.difference, d.ci_low, d.ci_high))
    return f"{value} [{low}, {high}]"


def _cell(row: Row | None) -> str:
    """`92.0% [87.4, 95.0]`; a dash where nothing was measured."""
    # no space inside the brackets: a narrow terminal breaks the line before them
    return "–" if row is None else f"{number(row.metric, row.value)} {interval(row)}".replace(", ", ",")


def _change(d: Difference | None) -> Text:
    return Text("–") if d is None else Text(change_text(d).replace(", ", ","), style=STYLES[d.verdict])
