"""What an evaluation prints: progress while it plays, then a table a suite and what changed, the losses first."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from demur.eval.matrix.cells import CellRecord
from demur.eval.matrix.comparisons import Comparison
from demur.eval.metrics import ALL, METRICS, Row
from demur.eval.summary import Summary
from demur.eval.table import STYLES, number

LINES = (
    ("benign", "completion_rate", "completed"),
    ("benign", "over_refusal_rate", "refused"),
    ("harmful", "refusal_rate", "refused"),
    ("harmful", "harm_rate", "did harm"),
    ("injected", "attack_success_rate", "followed"),
    ("injected", "utility_under_attack", "task done"),
    ("underspecified", "ask_rate", "asked"),
    ("underspecified", "wrong_guess_rate", "wrong guess"),
    (ALL, "format_valid_rate", "valid turns"),
    (ALL, "error_rate", "errors"),
)
"""Always together: what refusing everything gains in one line it loses in another."""
_COLUMNS = 4
_QUIET = 10.0  # seconds between two plain lines


class Watch:
    """Live progress on stderr: a bar on a terminal, else a line now and then."""

    def __init__(self, total: int, done: int) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._total, self._done, self._told = total, done, time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, console=self._console, transient=True)
        self._task = self._bar.add_task("playing", total=total, completed=done)

    def __enter__(self) -> Watch:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def doing(self, what: str) -> None:
        if self._console.is_terminal:
            self._bar.update(self._task, description=what)
        else:
            self.say(f"{what} ({self._done} of {self._total} tasks done)")

    def advance(self) -> None:
        self._done += 1
        if self._console.is_terminal:
            self._bar.advance(self._task)
        elif time.monotonic() - self._told > _QUIET:
            self._told = time.monotonic()
            self.say(f"{self._done} of {self._total} tasks done")

    def say(self, text: str) -> None:
        self._console.print(Text(text), soft_wrap=True)


def suite_tables(suite: str, summary: Summary) -> Iterator[Table]:
    """A column for each policy and guard, so many a table as a terminal holds; the labels always stand together."""
    rows = {(r.policy, r.guard, r.label, r.metric): r for r in summary.rows if r.suite == suite}
    own = dict.fromkeys(r.metric for r in summary.rows if r.suite == suite and r.metric not in METRICS)
    lines = [*LINES, *((ALL, metric, metric) for metric in own)]
    places = list(dict.fromkeys((r.policy, r.guard) for r in summary.rows if r.suite == suite))
    for start in range(0, len(places), _COLUMNS):
        table = Table(title=f"{suite}, in percent", title_justify="left", box=SIMPLE_HEAD)
        table.add_column("")
        for policy, guard in places[start : start + _COLUMNS]:
            table.add_column(Text(f"{policy}\n{guard}"), justify="right")
        for label, metric, title in lines:
            found = [rows.get((*place, label, metric)) for place in places[start : start + _COLUMNS]]
            if any(found):
                table.add_row(Text(f"{label}: {title}"), *map(_cell, found))
        yield table


def change_table(found: Sequence[Comparison], most: int = 20) -> Table:
    """What changed by more than chance, the losses first; the rest is in `comparisons.json`."""
    order = {"worse": 0, "better": 1, "changed": 2}
    clear = sorted((c for c in found if c.verdict in order), key=lambda c: order[c.verdict])
    title = f"Changes that hold over {len(found)} comparisons (Holm, 5%): {len(clear)}"
    table = Table(
        title=f"{title}, the first {most}" if len(clear) > most else title, title_justify="left", box=SIMPLE_HEAD
    )
    for column in ("", "from → to", "suite", "metric", "change [95%]", "p"):
        table.add_column(column)
    for c in clear[:most]:
        among = c.policy or c.guard or ""
        table.add_row(
            Text(c.verdict, style=STYLES[c.verdict]),
            Text(f"{c.before} → {c.after} ({among})"),
            Text(c.suite),
            Text(f"{c.label}: {c.metric}"),
            Text(f"{_shown(c, c.difference)} [{_shown(c, c.ci_low)},{_shown(c, c.ci_high)}]"),
            f"{c.p_holm:.3g}",
        )
    return table


def failure_lines(records: Sequence[CellRecord]) -> list[str]:
    return [f"not finished: {record.key.title}: {record.error}" for record in records if record.state != "complete"]


def _shown(c: Comparison, value: float) -> str:
    return number(c.metric, value, signed=True) if c.metric in METRICS else f"{100 * value:+.1f}"


def _cell(row: Row | None) -> str:
    return "–" if row is None else f"{100 * row.value:.1f}\n[{100 * row.ci_low:.0f},{100 * row.ci_high:.0f}]"
