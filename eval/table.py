"""The table that a run prints at its end."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from demur.eval.compare import AFTER, BEFORE, Difference
from demur.eval.metrics import ALL, METRICS, Row
from demur.eval.summary import Summary

LABELS = ("harmful", "benign", "injected", "underspecified", ALL)
STYLES = {"better": "bold green", "worse": "bold red", "changed": "bold", "unclear": "dim"}


def before_after_table(summary: Summary, differences: Sequence[Difference] = ()) -> Table:
    """Before and after with 95% intervals, and the paired differences if they are given."""
    paired = {(d.label, d.metric): d for d in differences}
    table = Table(title="Before and after training, on the same held-out tasks", title_justify="left")
    table.add_column("tasks")
    table.add_column("metric")
    table.add_column("n", justify="right")
    table.add_column("before", justify="right")
    table.add_column("after", justify="right")
    if paired:
        table.add_column("change (paired)", justify="right")
    for label in LABELS:
        shown = [name for name in METRICS if summary.row(AFTER, name, label)]
        for name in shown:
            before, after = summary.row(BEFORE, name, label), summary.row(AFTER, name, label)
            assert after is not None
            cells = [
                label if name == shown[0] else "",
                METRICS[name].title,
                str(after.n),
                with_interval(before),
                with_interval(after),
            ]
            if paired:
                table.add_row(*cells, _change(paired.get((label, name))), end_section=name == shown[-1])
            else:
                table.add_row(*cells, end_section=name == shown[-1])
    return table


def number(metric: str, value: float, *, signed: bool = False) -> str:
    """A value in its metric's unit: percent for shares (points if signed), else a plain number."""
    unit = METRICS[metric].unit
    digits = {"share": 1, "turn": 2, "tokens": 1}[unit]
    text = f"{100 * value if unit == 'share' else value:{'+' if signed else ''}.{digits}f}"
    if float(text) == 0:
        text = text.replace("-", "+" if signed else "")
    return text + ("%" if unit == "share" and not signed else "")


def with_interval(row: Row | None) -> str:
    """`92.0% [87.4, 95.0]`; a dash where nothing was measured."""
    if row is None:
        return "–"
    low, high = (number(row.metric, bound).rstrip("%") for bound in (row.ci_low, row.ci_high))
    return f"{number(row.metric, row.value)} [{low}, {high}]"


def change_text(d: Difference) -> str:
    """`+54.5 [+47.0, +61.8]`, in points of percent for shares."""
    value, low, high = (number(d.metric, v, signed=True) for v in (d.difference, d.ci_low, d.ci_high))
    return f"{value} [{low}, {high}]"


def _change(d: Difference | None) -> Text:
    return Text("–") if d is None else Text(change_text(d), style=STYLES[d.verdict])
