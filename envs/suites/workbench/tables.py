"""What the sandboxes have in common: finding, reading, adding, changing and removing rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from time import monotonic
from typing import Final

import regex

from demur.envs.suites.workbench.state import Cells, Row, State
from demur.envs.tool import ToolError

MOST_FOUND: Final = 5
"""Rows that a search gives at most."""
SECONDS: Final = 1.0
"""So long may a search take with a pattern."""

Table = dict[str, Row]


def rows(table: Mapping[str, Row]) -> list[Cells]:
    return [row.cells for row in table.values()]


def keys_of(table: Mapping[str, Row], column: str, value: str) -> list[str]:
    """Keys of the rows whose `column` is `value`."""
    return [key for key, row in table.items() if row.cells.get(column) == value]


def field_of(table: Mapping[str, Row], noun: str, column: str, value: str, field: str) -> Cells | str:
    """One field of the row with an ID, or what is wrong. noun: what the rows are called in messages."""
    if not value:
        return f"{noun} ID not provided."
    if not field:
        return "Field not provided."
    found = keys_of(table, column, value)
    if not found:
        return f"{noun} not found."
    cells = table[found[0]].cells
    return {field: cells[field]} if field in cells else "Field not found."


def next_number(table: Mapping[str, Row], column: str) -> int:
    """One more than the highest ID. Raises ToolError if IDs were changed to what is no number, or none is left."""
    try:
        return int(max(row.cells[column] or "" for row in table.values())) + 1
    except ValueError:
        raise ToolError("no new ID can be made: the last one is no number") from None


def append(state: State, table: Table, cells: Cells) -> None:
    table[state.new_key("r")] = Row(cells=cells)


def change(table: Table, keys: list[str], field: str, value: str) -> None:
    """Set a cell of some rows. A column that did not exist is there for all rows from then on."""
    if any(field not in row.cells for row in table.values()):
        for key, row in table.items():
            table[key] = Row(cells={**row.cells, field: row.cells.get(field)})
    for key in keys:
        table[key] = Row(cells={**table[key].cells, field: value})


def remove(table: Table, noun: str, column: str, value: str) -> str:
    """Delete the row with an ID."""
    if not value:
        return f"{noun} ID not provided."
    found = keys_of(table, column, value)
    for key in found:
        del table[key]
    return f"{noun} deleted successfully." if found else f"{noun} not found."


def matching(cells: list[Cells], patterns: Mapping[str, str]) -> Iterator[Cells]:
    """Rows whose cells hold all the patterns (by column) somewhere, in any letter case. No value matches nothing."""
    wanted = {column: Pattern(pattern) for column, pattern in patterns.items() if pattern}
    return (row for row in cells if all(pattern.within(row.get(column)) for column, pattern in wanted.items()))


class Pattern:
    """A regular expression in any letter case, with a time limit for all texts together: a policy wrote it."""

    def __init__(self, text: str) -> None:
        """Raises ToolError for what is no regular expression."""
        try:
            self._compiled = regex.compile(text, regex.IGNORECASE)
        except regex.error as error:
            raise ToolError(f"{text!r} is no regular expression: {error}") from None
        self._until = monotonic() + SECONDS

    def within(self, text: str | None) -> bool:
        """Whether it matches somewhere; in no value it never does. Raises ToolError when the time is up."""
        left = max(self._until - monotonic(), 0.001)
        try:
            return text is not None and self._compiled.search(text, timeout=left) is not None
        except TimeoutError:
            raise ToolError("the search took too long: search for plain words") from None


def quoted(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def moment(text: str) -> datetime:
    """A date or time as ISO 8601 writes it. Raises ToolError for another text."""
    try:
        return datetime.fromisoformat(text).replace(tzinfo=None)
    except ValueError:
        raise ToolError(f"{text!r} is no date or time: write YYYY-MM-DD or YYYY-MM-DD HH:MM:SS") from None
