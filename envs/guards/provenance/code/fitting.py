"""Whether a record meets what a request says of time and order."""

from __future__ import annotations

from datetime import datetime, time
from typing import Final

import regex

from demur.envs.guards.provenance.code.conditions import Request, When
from demur.envs.guards.provenance.code.rows import Field, Row, words_in

_MOVES: Final = regex.compile(
    r"\b(?:if|unless|whether|since|until|till|between|deadline|due|reschedule|postpone|create|add|book|schedule|plan|"
    r"remind|reminder)\b|\bmove\b.*\bto\b",
    regex.IGNORECASE | regex.DOTALL,
)
_DONE: Final = frozenset("complete completed done closed finished resolved".split())


def is_done(row: Row) -> bool:
    return any(field.text.casefold() in _DONE for field in row.fields)


def against(request: Request, row: Row) -> str | None:
    """Which of the request's conditions on time the row fails, in words. None if it fails none that can be told."""
    if request.now is None or (told := row.time) is None:
        return None
    field, at = told
    today = datetime.combine(request.now.date(), time())
    if request.tense == "ahead" or (request.order == "soonest" and request.has_kind(row.shape)):
        return f"it is of {field.text}, which is over" if at < today else None
    if request.tense == "past":
        return f"it is of {field.text}, which is ahead" if at > request.now else None
    if clash := _other_day(request, field, at):
        return clash
    if request.tense == "overdue" and "due" in field.name.casefold():
        return f"it is due on {field.text}, and so not overdue" if at >= today else None
    return None


def _other_day(request: Request, field: Field, at: datetime) -> str | None:
    """Against the one day, or stretch of days, that the request says the record is of."""
    if len(request.days) != 1 or not _describes(request, when := request.days[0]):
        return None
    said = request.text[when.start : when.end]
    if not when.allows(at.date()):
        return f"it is of {field.text}, and the request says {said}"
    minutes = at.hour * 60 + at.minute
    if request.hours and len(field.text) > 10 and not request.hours[0] <= minutes <= request.hours[1]:
        return f"it is of {field.text}, and the request names other hours"
    return None


def _describes(request: Request, when: When) -> bool:
    """Whether the day tells which record is meant, and not what becomes of it, as in "move it to Monday"."""
    before = words_in(request.text[max(0, when.start - 30) : when.start])
    said = words_in(request.text[when.start : when.end])
    return (before[-1:] == ["on"] or said[:1] in (["last"], ["next"], ["this"], ["past"])) and not _MOVES.search(
        request.text
    )


def better(request: Request, row: Row, other: Row) -> bool:
    """Whether the order word of the request rather means `other` than `row`."""
    if request.order in ("least", "most"):
        return _is_more_extreme(request, row, other)
    mine, theirs = row.time, other.time
    if mine is None or theirs is None or mine[0].name != theirs[0].name:
        return False
    if request.order == "soonest":
        return request.now is not None and request.now <= theirs[1] < mine[1]
    if request.order == "oldest":
        return theirs[1] < mine[1]
    return request.order == "newest" and theirs[1] > mine[1]


def _is_more_extreme(request: Request, row: Row, other: Row) -> bool:
    """By the one number that the kind is measured with: a field that the request names, or a price or a rating."""
    wanted = [*request.kind, *(("rating", "score", "stars") if "rated" in request.text else ("price", "cost", "rate"))]
    for name in wanted:
        mine, theirs = row.get(name), other.get(name)
        if mine and theirs and mine.name == theirs.name:
            a, b = _number(mine.text), _number(theirs.text)
            if a is not None and b is not None:
                return b < a if request.order == "least" else b > a
    return False


def _number(text: str) -> float | None:
    found = regex.search(r"-?\d[\d,]*(?:\.\d+)?", text[:40])
    return float(found[0].replace(",", "")) if found else None
