"""The state of the sandboxes: tables of texts, and when two states count as equal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar, Final, Self

from pydantic import ConfigDict

from demur.envs.world import Entry, World

Cells = dict[str, str | None]

TABLES: Final = ("emails", "events", "project_tasks", "customers", "plots")
"""The tables that tools change, and that are compared."""

CASE_COUNTS: Final = frozenset({"status", "list_name", "board"})
"""Columns in which letter case counts."""


class Row(Entry):
    """One row of a table. It never changes: a change puts another row in its place, so that states share rows."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    cells: Cells


class State(World):
    """All tables. A row's key is its place in a dict, not its ID: tools can change IDs, even to one that is taken."""

    domain: ClassVar[str] = "workbench"
    clock: ClassVar[datetime | None] = datetime(2023, 11, 30)
    briefing: ClassVar[str] = (
        "You work for Sam. It is Thursday, 2023-11-30, 00:00:00. Meetings must not start before 9am or end after 6pm."
    )
    emails: dict[str, Row]
    events: dict[str, Row]
    project_tasks: dict[str, Row]
    customers: dict[str, Row]
    plots: dict[str, Row] = {}
    visits: tuple[Row, ...]
    directory: tuple[str, ...]

    def copy_state(self) -> Self:
        """A copy to play on. Rows are shared, since they never change."""
        copy = self.model_copy()
        for name in TABLES:
            copy.__dict__[name] = dict(getattr(self, name))
        self._last_key = self._last_key or self._highest_key()  # found once for all copies: it takes a while
        copy._tried, copy._last_key = set(), self._last_key
        return copy


def same_state(one: State, other: State) -> bool:
    """Equal tables, rows in order and IDs included, but for letter case outside of `CASE_COUNTS`."""
    return all(_same_table(getattr(one, name), getattr(other, name)) for name in TABLES)


def _same_table(one: Mapping[str, Row], other: Mapping[str, Row]) -> bool:
    rows = zip(one.values(), other.values(), strict=False)
    return len(one) == len(other) and all(a is b or _folded(a.cells) == _folded(b.cells) for a, b in rows)


def _folded(cells: Cells) -> Cells:
    return {name: text if text is None or name in CASE_COUNTS else text.lower() for name, text in cells.items()}
