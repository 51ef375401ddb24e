"""Results as rows: what a look-up found, field by field, with the place of each in the text.

    for row in rows_of(source):
        print(row.words, row.start, row.end)

JSON, Python literals, CSV, "key: value" lists and plain lines are read, by parsers that evaluate nothing. A text that
is none of these is one row a line. Long results are read in part: at most 200,000 characters and 2,000 rows.
"""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, Final

import regex

from demur.envs.guards.provenance.code.rows import Field, Row, moment
from demur.envs.guards.provenance.sources import Source

_MOST_CHARS: Final = 200_000
_LITERAL_CHARS: Final = 20_000
"""Of a Python literal: its parser keeps far more in memory than the text takes, and can't be stopped."""
_MOST_ROWS: Final = 2_000
_MOST_FIELDS: Final = 60
_LONGEST_FIELD: Final = 2_000
_DEEPEST: Final = 4

_KEY: Final = regex.compile(r"^[ \t]*(-[ \t]+)?([\p{L}_][\p{L}\p{N}_ ]{0,40}):(?:[ \t]+(.*))?$")
_PAIR: Final = regex.compile(r"^[ \t]*([\p{L}_-]+(?: [\p{L}_-]+){0,2}):[ \t]+(.+)$")
_PARTS: Final = regex.compile(r"[,.;]\s+")
_DECODER: Final = json.JSONDecoder()
_LIST: Final = regex.compile(r"\s*\[\s*")
_COMMA: Final = regex.compile(r"\s*,\s*")


@dataclass(frozen=True)
class Table:
    """The rows of one text, in order."""

    rows: tuple[Row, ...]

    @cached_property
    def by_token(self) -> dict[str, list[Row]]:
        """The rows that hold a token."""
        index: dict[str, list[Row]] = {}
        for row in self.rows:
            for token in row.tokens:
                index.setdefault(token, []).append(row)
        return index


def table_of(source: Source) -> Table:
    """The records of a result. Each text is read once."""
    text = source.text[:_MOST_CHARS]
    return _few(text) if len(text) > _LITERAL_CHARS else _read(text)


def rows_of(source: Source) -> tuple[Row, ...]:
    """The records of a result, in order."""
    return table_of(source).rows


def series_of(source: Source) -> dict[date, float]:
    """Numbers by day, such as visits, where a result is one flat object of them."""
    return _series(source.text) if len(source.text) <= _LITERAL_CHARS else {}


@lru_cache(maxsize=2048)
def _series(text: str) -> dict[date, float]:
    data = _data(text) if text.lstrip()[:1] == "{" else None
    if not isinstance(data, dict):
        return {}
    days = {key: moment(str(key)) for key in data}
    numbers = {
        day.date(): float(value)
        for key, value in data.items()
        if (day := days[key]) and isinstance(value, int | float) and not isinstance(value, bool)
    }
    return numbers if len(numbers) == len(data) else {}


def _tabled(text: str) -> Table:
    data = _data(text)
    if data is not None:
        return Table(tuple(islice(_located(text, data), _MOST_ROWS)))
    lines = list(islice(_lines(text), _MOST_ROWS))
    return Table(tuple(_mappings(lines) or _table(lines) or _plain(lines)))


_read = lru_cache(maxsize=2048)(_tabled)
_few = lru_cache(maxsize=8)(_tabled)


def _data(text: str) -> Any:
    """JSON, or a Python literal, of objects and lists; None if the text is neither."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    if len(text) <= _LITERAL_CHARS:
        try:
            return ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            pass
    return _whole_items(text) or None


def _whole_items(text: str) -> list[Any]:
    """The items of a JSON list that was cut off, up to the cut."""
    items: list[Any] = []
    found = _LIST.match(text)
    while found and len(items) < _MOST_ROWS:
        try:
            item, end = _DECODER.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            break
        items.append(item)
        found = _COMMA.match(text, end)
    return items


def _located(text: str, data: Any) -> Iterator[Row]:
    """The rows of parsed data. Values are looked for from one to the next; one that is escaped has no place."""
    at = 0
    for flat in _flat(data, 0):
        fields = []
        first = at
        for name, value in islice(flat, _MOST_FIELDS):
            written = str(value)
            start = text.find(written, at, at + 5_000) if written else -1
            if start >= 0:
                at = start + len(written)
            fields.append(Field(name, written, start, start + len(written) if start >= 0 else -1))
        placed = [field for field in fields if field.start >= 0]
        start, end = (placed[0].start, placed[-1].end) if placed else (first, at)
        if fields:
            yield Row(tuple(fields), start, end)


def _flat(data: Any, depth: int) -> Iterator[list[tuple[str, Any]]]:
    """Each object of single values, and each single value of a list, as named values."""
    if depth > _DEEPEST:
        return
    if isinstance(data, dict):
        single = [(str(name), value) for name, value in data.items() if not isinstance(value, dict | list)]
        # a list of single values, such as participants, belongs to the record around it
        for name, value in data.items():
            if isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
                single += [(str(name), item) for item in value]
        if single:
            yield single
        for value in data.values():
            if isinstance(value, dict) or (isinstance(value, list) and any(isinstance(i, dict | list) for i in value)):
                yield from _flat(value, depth + 1)
    elif isinstance(data, list):
        for item in data:
            if isinstance(item, dict | list):
                yield from _flat(item, depth + 1)
            else:
                yield [("", item)]


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    start: int


def _lines(text: str) -> Iterator[_Line]:
    at = 0
    for line in text.splitlines(keepends=True):
        if line.strip():
            yield _Line(line.rstrip(), at)
        at += len(line)


def _mappings(lines: list[_Line]) -> list[Row]:
    """A list of "- key: value" blocks, or one such block. Empty if the lines are none."""
    rows: list[list[Field]] = []
    known, quote = 0, ""
    for line in lines:
        if quote:  # a quoted text that goes over several lines, whatever they look like
            rows[-1][-1] = _longer(rows[-1][-1], line)
            known, quote = known + 1, "" if _ends(line.text, quote) else quote
            continue
        found = _KEY.match(line.text)
        if found is None:
            continue
        known += 1
        if found[1] or not rows:
            rows.append([])
        value = found[3] or ""
        start = line.start + (found.start(3) if found[3] else len(line.text))
        if len(rows[-1]) < _MOST_FIELDS:
            rows[-1].append(Field(found[2], value.strip("'\""), start, start + len(value)))
            if value[:1] in ("'", '"') and (len(value) == 1 or not _ends(value, value[0])):
                quote = value[0]
    # a name that comes twice in one block: each line is a record of its own, such as "Id: 1, Name: x"
    twice = any(len({field.name for field in fields}) < len(fields) for fields in rows)
    if known < 2 or known * 2 < len(lines) or twice:
        return []
    return [Row(tuple(fields), fields[0].start, fields[-1].end) for fields in rows if fields]


def _longer(field: Field, line: _Line) -> Field:
    end = line.start + len(line.text)
    text = field.text if len(field.text) > _LONGEST_FIELD else f"{field.text} {line.text.strip()}"
    return Field(field.name, text, field.start, end)


def _ends(text: str, quote: str) -> bool:
    """Whether a quoted text ends here; a doubled quote, or one behind a backslash, stands for itself."""
    left = text.rstrip()
    closing = len(left) - len(left.rstrip(quote))
    escaped = quote == '"' and left[: len(left) - closing].endswith("\\")
    return closing % 2 == 1 and not escaped


def _table(lines: list[_Line]) -> list[Row]:
    """Lines of one width with a heading, divided by commas, tabs, semicolons or bars. Empty if they are none."""
    if len(lines) < 3:
        return []
    for mark in ("|", "\t", ";", ","):
        if mark not in lines[0].text:
            continue
        read = [[cell.strip() for cell in _cells(line.text.strip("| "), mark)] for line in lines]
        heading, body = read[0], read[1:]
        if len(heading) > 1 and all(len(cells) == len(heading) for cells in body) and _is_heading(heading):
            rows = (_cut(line, cells, heading) for line, cells in zip(lines[1:], body, strict=True))
            return [row for row in rows if any(field.text.strip("-: ") for field in row.fields)]
    return []


def _cells(line: str, mark: str) -> list[str]:
    if len(line) > 10_000:
        return []
    try:
        return next(csv.reader([line], delimiter=mark), [])
    except csv.Error:
        return []


def _is_heading(cells: list[str]) -> bool:
    return len(set(cells)) == len(cells) and all(c and len(c) <= 40 and not any(x.isdigit() for x in c) for c in cells)


def _plain(lines: list[_Line]) -> list[Row]:
    """A row a line, its fields between commas and full stops; "Name: x, Name: y" gives them names."""
    return [_cut(line, _PARTS.split(line.text), None) for line in lines]


def _cut(line: _Line, cells: list[str], heading: list[str] | None) -> Row:
    fields, at = [], 0
    for number, cell in enumerate(cells[:_MOST_FIELDS]):
        pair = None if heading else _PAIR.match(cell)
        name = heading[number] if heading else pair[1].strip() if pair else ""
        text = pair[2] if pair else cell
        start = line.text.find(text, at)
        if start >= 0:
            at = start + len(text)
        fields.append(Field(name, text.strip(), line.start + start, line.start + start + len(text)))
    return Row(tuple(fields), line.start, line.start + len(line.text))
