"""A time that the request leaves to the calendar: "at the earliest time I'm free tomorrow"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

import regex

from demur.envs.guards.provenance.code.conditions import Request
from demur.envs.guards.provenance.code.records import rows_of
from demur.envs.guards.provenance.code.rows import Row
from demur.envs.guards.provenance.code.values import moment_of
from demur.envs.guards.provenance.sources import Source
from demur.envs.guards.provenance.values import spelled, values_in
from demur.envs.trace import ToolCall

_FREE: Final = regex.compile(
    r"\b(?:earliest|first|next|soonest)\s+(?:\w+\s+){0,2}?(?:time|slot|moment|opening|gap)\b"
    r"(?=.{0,60}\b(?:free|available|can (?:do|make)|open|slot|opening|gap)\b)"
    r"|\bas soon as \w+(?:'m| am| are| is) free\b",
    regex.IGNORECASE | regex.DOTALL,
)
_NUMBER: Final = regex.compile(r"\d{1,4}")
_LENGTHS: Final = ("duration", "length", "minutes")
_USUAL: Final = 30
"""Minutes of a meeting whose length the call does not tell."""


def against_slot(request: Request, call: ToolCall, results: Sequence[Source]) -> str | None:
    """Why the call's time is not the first free one, by the calendar seen. None if nothing speaks against it."""
    found = _FREE.search(request.text)
    start = _start(call)
    if found is None or start is None:
        return None
    near = [when for when in request.days if found.start() <= when.start <= found.end() + 60]
    if len(near) == 1 and not near[0].allows(start.date()):
        return f"{start} is not on the day that the request names for the free time"
    length = timedelta(minutes=_length(call.arguments))
    busy = [(begin, end) for begin, end in _events(results) if begin.date() == start.date()]
    if clash := next((one for one in busy if one[0] < start + length and start < one[1]), None):
        return f"{start} is not free: something goes from {clash[0]:%H:%M} to {clash[1]:%H:%M}"
    for _, end in sorted(busy):
        free = all(not (begin < end + length and end < until) for begin, until in busy)
        if free and end + length <= start:
            return f"{start} is not the first free time: nothing is planned at {end:%H:%M}"
    if not any(_is_whole_day(source, start) for source in results):
        return f"nobody looked at the whole calendar of {start:%Y-%m-%d}, so no time of it is known to be free"
    return None


def _start(call: ToolCall) -> datetime | None:
    starts = []
    for value in values_in(call.arguments):
        text = spelled(value)
        told = moment_of(text) if text and len(text) <= 40 else None
        if told and told[0] is not None and told[1] is not None:
            starts.append(datetime.combine(told[0], datetime.min.time()) + timedelta(minutes=told[1]))
    return min(starts, default=None)


def _length(arguments: dict[str, object]) -> int:
    for name, value in arguments.items():
        if any(word in name.casefold() for word in ("duration", "length", "minutes")) and (
            n := _NUMBER.search(str(value))
        ):
            return int(n[0])
    return _USUAL


def _events(results: Sequence[Source]) -> Iterator[tuple[datetime, datetime]]:
    for source in results:
        for row in rows_of(source):
            if event := _event(row):
                yield event


def _event(row: Row) -> tuple[datetime, datetime] | None:
    told = row.time
    length = row.get(*_LENGTHS)
    if told is None or length is None or not (minutes := _NUMBER.search(length.text)):
        return None
    return told[1], told[1] + timedelta(minutes=int(minutes[0]))


def _is_whole_day(source: Source, day: datetime) -> bool:
    """Whether it is a look-up by time alone, so that nothing of the day was left out."""
    if source.call is None or not any(_event(row) for row in rows_of(source)):
        return False
    texts = [text for value in values_in(source.call.arguments) if (text := spelled(value))]
    return all(moment_of(text) is not None for text in texts)
