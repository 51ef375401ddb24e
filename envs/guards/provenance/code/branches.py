"""Requests with a condition: "if … then …, otherwise …", checked against what was looked up.

Code reads conditions of three kinds: a measure against a number, a measure of one day against another's, and whether
there are any records of a kind. Whatever else a request makes its condition is left open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

import regex

from demur.envs.guards.provenance.code.calendar_words import WEEKDAYS, weekday_pattern
from demur.envs.guards.provenance.code.conditions import Request, kinds_in
from demur.envs.guards.provenance.code.fitting import is_done
from demur.envs.guards.provenance.code.records import rows_of, series_of
from demur.envs.guards.provenance.code.rows import Row, singular, words_in
from demur.envs.guards.provenance.code.values import moment_of
from demur.envs.guards.provenance.sources import Source
from demur.envs.guards.provenance.values import spelled, values_in
from demur.envs.trace import ToolCall

_ELSE: Final = regex.compile(r"\b(?:otherwise|if not|else|if (?:that|it)(?:'s| is| was)? not)\b", regex.IGNORECASE)
_SO: Final = regex.compile(
    r"\b(?:if so|if (?:it|that|they|he|she) (?:is|was|were|has|have|does|do|did))\b(?=[,. ])", regex.I
)
_IF: Final = regex.compile(r"\bif\b|(?<=\p{L})if(?= (?:they|there|he|she|it|we|i)\b)", regex.IGNORECASE)
_CHECKS: Final = regex.compile(r"\b(?:check|see|tell|know|find out|wonder|ask)\s*(?:\w+\s+)?$", regex.IGNORECASE)
_MOST_ROWS: Final = 200
_SENTENCE: Final = regex.compile(r"[.?!]+\s+|\n+")

_UP: Final = "more|greater|higher|larger|over|above|exceed(?:s|ed)?|up"
_DOWN: Final = "less|fewer|lower|smaller|below|under|down"
_MEASURE: Final = regex.compile(
    rf"\b(?P<way>{_UP}|{_DOWN})\b(?:\s+than)?(?:\s+by)?\s+(?P<number>\d+(?:\.\d+)?)\s*(?P<share>%|percent)?"
    rf"(?:\s*(?P<turn>higher|more|greater|larger|up|lower|less|fewer|smaller|down)\b)?",
    regex.IGNORECASE,
)
_BEFORE: Final = regex.compile(
    rf"\b(?P<previous>previous|prior|preceding|week before'?s?)?\s*\b(?P<day>{weekday_pattern()})\b", regex.IGNORECASE
)
_NO: Final = regex.compile(
    r"\b(?:no|not|don'?t|doesn'?t|haven'?t|hasn'?t|isn'?t|aren'?t|without|never)\b|n’t\b", regex.I
)
_HAS: Final = regex.compile(
    r"\b(?:has|have|had|are there|is there|there (?:is|are)|got|schedul\w+)\b|n[’']t\b", regex.I
)


@dataclass(frozen=True, slots=True)
class Branches:
    """condition: its words. then, other: what to do if it holds, and if not. rest: what to do in any case."""

    condition: str
    then: str
    other: str
    rest: str


def against_branch(request: Request, call: ToolCall, results: Sequence[Source]) -> str | None:
    """Why the call is not what the request's condition leads to. None if it is, or if that can't be told."""
    parts = branches_in(request.text)
    if parts is None:
        return None
    side = _side(parts, call)
    if side is None:
        return None
    told = holds(parts.condition, request, results)
    if told is None or told.holds is side or (side is False and not told.certain):
        return None
    wanted = "holds" if side else "does not hold"
    return f"the request asks for this only if its condition {wanted}: {told.reason}"


@lru_cache(maxsize=256)
def branches_in(text: str) -> Branches | None:
    """The request's one condition and what hangs on it. None without one, or with several."""
    otherwise = _ELSE.search(text)
    head = text[: otherwise.start()] if otherwise else text
    other = text[otherwise.end() :] if otherwise else ""
    if so := _SO.search(head):
        condition, rest = _last_sentence(head[: so.start()])
        return Branches(condition, head[so.end() :], other, rest)
    found = [one for one in _IF.finditer(head) if not _CHECKS.search(head[max(0, one.start() - 20) : one.start()])]
    if not found:
        if otherwise is None or not otherwise[0].casefold().startswith("if"):
            return None
        condition, rest = _last_sentence(head)
        return Branches(condition, "", other, rest)
    if len(found) > 1:
        return None
    before, after = head[: found[0].start()], head[found[0].end() :]
    sentence, rest = _last_sentence(before)
    if sentence.strip():
        return Branches(after, sentence, other, rest)
    condition, comma, then = after.partition(",")
    return Branches(condition, then if comma else after, other, rest)


def _last_sentence(text: str) -> tuple[str, str]:
    """The last sentence, and what stands before it."""
    ends = [found.end() for found in _SENTENCE.finditer(text) if text[found.end() :].strip()]
    at = ends[-1] if ends else 0
    return text[at:], text[:at]


def _side(parts: Branches, call: ToolCall) -> bool | None:
    """Whether the call carries out what hangs on the condition: True, on its opposite: False; None if unclear."""
    sides = {True: parts.then, False: parts.other, None: parts.rest}
    told = {side: frozenset(words_in(text)) for side, text in sides.items() if text.strip()}
    if len(told) == 1:
        return next(iter(told))
    texts = [text for value in values_in(call.arguments) if (text := spelled(value)) is not None]
    words = frozenset(word for text in (call.name, *texts) for word in words_in(text[:2_000]))
    scores: dict[bool | None, int] = {}
    for side, known in told.items():
        own = known.difference(*(others for one, others in told.items() if one is not side))
        scores[side] = len(words & own)
    best = max(scores, key=lambda side: scores[side])
    second = max((score for side, score in scores.items() if side is not best), default=0)
    return best if scores[best] >= 2 and scores[best] > 2 * second else None


@dataclass(frozen=True, slots=True)
class Truth:
    """certain: not holding was seen, and is not just that nothing seen shows that it holds."""

    holds: bool
    reason: str
    certain: bool = True


def holds(condition: str, request: Request, results: Sequence[Source]) -> Truth | None:
    """Whether a condition holds by what was looked up; None if that cannot be told."""
    measures = list(_MEASURE.finditer(condition))
    if len(measures) == 1:
        return _measure(condition, measures[0], request, results)
    if not measures and _HAS.search(condition):
        return _any(condition, request, results)
    return None


def _measure(condition: str, found: regex.Match[str], request: Request, results: Sequence[Source]) -> Truth | None:
    # "plot the visits if it was lower": what is measured may be named before
    at = max(request.text.find(condition), 0) + found.start()
    named = (condition[: found.start()], request.text[:at])
    series = next((s for text in named if (s := _series_for(frozenset(map(singular, words_in(text))), results))), None)
    if series is None or request.now is None:
        return None
    today = request.now.date()
    limit = float(found["number"])
    up = bool(regex.fullmatch(_UP, found["turn"] or found["way"], regex.IGNORECASE))
    if not found["share"]:
        if found["turn"]:
            return None
        first = _since(condition, found.end(), request)
        shown = {day: value for day, value in series.items() if first is None or first <= day}
        if not shown:
            return None
        met = [day for day, value in shown.items() if (value > limit if up else value < limit)]
        if met:
            return Truth(True, f"{shown[met[0]]:g} on {met[0]}")
        return Truth(False, f"no value seen is {'above' if up else 'below'} {limit:g}")
    days = _two_days(condition, found.end(), today, series, request)
    if days is None:
        return None
    missing = next((day for day in days if day not in series), None)
    if missing is not None:
        low, high = min(series), max(series)
        if low <= missing <= high:
            return None
        return Truth(False, f"it rests on {missing}, which nobody looked up", certain=False)
    now, then = series[days[0]], series[days[1]]
    if then == 0:
        return None
    change = (now - then) / then * 100
    met_it = change > limit if up else -change > limit
    return Truth(met_it, f"{then:g} on {days[1]} and {now:g} on {days[0]}: {change:+.1f}%")


def _series_for(name: frozenset[str], results: Sequence[Source]) -> dict[date, float] | None:
    """The numbers by day of the one measure whose tool's name fits best."""
    best, score = None, 0
    scores: dict[str, tuple[int, dict[date, float]]] = {}
    for source in results:
        dated = series_of(source)
        if not dated or source.call is None:
            continue
        texts = [spelled(value) or "" for value in values_in(source.call.arguments)]
        given = [text for text in texts if moment_of(text) is None]
        words = {singular(word) for text in (source.call.name, *given) for word in words_in(text)}
        key = f"{source.call.name} {sorted(given)}"
        known = scores.setdefault(key, (len(words & name), {}))[1]
        known.update(dated)
    for count, values in scores.values():
        if count > score:
            best, score = values, count
        elif count == score:
            best = None
    return best


def _since(condition: str, at: int, request: Request) -> date | None:
    """The day from which on a measure counts."""
    offset = request.text.find(condition)
    for when in request.days:
        place = when.start - offset
        if at <= place <= min(at + 60, len(condition)) and "since" in condition[max(at, place - 12) : place].casefold():
            past = [first for first, _ in when.options if request.now and first <= request.now.date()]
            return max(past) if past else None
    return None


def _two_days(
    condition: str, at: int, today: date, series: dict[date, float], request: Request
) -> tuple[date, date] | None:
    """The day that is measured and the one that it is measured against."""
    named = [(bool(f["previous"]), WEEKDAYS[f["day"].casefold()], f.start()) for f in _BEFORE.finditer(condition)]
    plain = [weekday for previous, weekday, _ in named if not previous]
    earlier = [weekday for previous, weekday, _ in named if previous]
    if len(plain) == 1 and len(earlier) == 1:
        day = _last(plain[0], today)
        return day, _last(earlier[0], day)
    latest = max((day for day in series if day <= today), default=None)
    if latest is None:
        return None
    if len(plain) == 1 and not earlier:
        return latest, _last(plain[0], today)
    if named:
        return None
    offset = request.text.find(condition)
    days = [when for when in request.days if at <= when.start - offset <= len(condition)]
    if len(days) != 1:
        return None
    past = [first for first, last in days[0].options if first == last and first < today]
    return (latest, max(past)) if past else None


def _last(weekday: int, before: date) -> date:
    return before - timedelta((before.weekday() - weekday - 1) % 7 + 1)


def _any(condition: str, request: Request, results: Sequence[Source]) -> Truth | None:
    """Whether there are records of the kind that the condition names, of the people and days that it names."""
    kinds = kinds_in(condition)
    if not kinds or request.now is None:
        return None
    sources = [s for s in results if kinds_in(s.tool or "") & kinds and s.call is not None]
    read = [(source, rows_of(source)[:_MOST_ROWS]) for source in sources]
    tables = [rows for source, rows in read if (rows and rows[0].shape) or _is_empty(source)]
    if not tables:
        return None
    seen = frozenset[str]().union(*(row.words for source in results for row in rows_of(source)[:_MOST_ROWS]))
    names = frozenset(map(singular, words_in(condition))) & request.words & seen
    test = _test(condition, request)
    found = next((row for rows in tables for row in rows if names <= row.words and test(row)), None)
    there = found is not None
    wanted = not _NO.search(condition)
    if found is not None:
        shown = ", ".join(field.text for field in found.fields[:4])[:120]
        return Truth(wanted, f"there is {shown}")
    return Truth(there is wanted, "no record seen is one of those that it names", certain=False)


def _is_empty(source: Source) -> bool:
    return source.text.strip() in ("", "[]", "{}")


def _test(condition: str, request: Request) -> Callable[[Row], bool]:
    assert request.now is not None
    today = request.now.date()
    overdue = "overdue" in condition.casefold()
    offset = request.text.find(condition)
    days = [when for when in request.days if 0 <= when.start - offset < len(condition)]

    def test(row: Row) -> bool:
        told = row.time
        if overdue and (told is None or told[1].date() >= today or is_done(row)):
            return False
        return not days or (told is not None and days[0].allows(told[1].date()))

    return test
