"""Numbers, dates, times and durations as they are written in a text, each with the stretch where it stands.

    read_values("Lunch at 12:00 for an hour, 1,200 EUR", now=None).numbers

Only the first 100,000 characters of a text are read. Relative dates ("next Monday") need `now`; a date without a year
is taken in the years around it, in any year where there is no clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from demur.envs.guards.provenance.code.calendar_words import (
    COUNTS,
    MONTHS,
    WEEKDAYS,
    month_pattern,
    weekday_pattern,
)

READ: Final = 100_000
_MOST = 5_000
"""Values of a kind that are kept of one text."""

NAME_OF_A_THING: Final = re.compile(r"(?<!\w)'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|(?<!\S)\S+\.[^\W\d]{2,4}\b")
"""What is quoted, and files: a month or a verb in a name says nothing of the request."""

Stretch = tuple[int, int]
K = TypeVar("K")


class Day(NamedTuple):
    """A date; year 0 where the text gives none."""

    year: int
    month: int
    day: int

    def is_same(self, other: date) -> bool:
        return (self.month, self.day) == (other.month, other.day) and self.year in (0, other.year)


@dataclass(frozen=True, slots=True)
class Values:
    """What one text holds, first places only. times: minutes after midnight. durations: minutes."""

    numbers: dict[Decimal, Stretch]
    days: dict[Day, Stretch]
    times: dict[int, Stretch]
    durations: dict[Decimal, Stretch]

    def stretch_of_day(self, wanted: date) -> Stretch | None:
        exact = self.days.get(Day(wanted.year, wanted.month, wanted.day))
        return exact or self.days.get(Day(0, wanted.month, wanted.day))


_COUNT = "|".join(sorted(map(re.escape, COUNTS), key=len, reverse=True))
_NUMBER = re.compile(
    r"(?<![\w.,])[-+−]?(\d{1,3}(?:[,.'’\u00a0\u202f ]\d{3}){1,6}(?:[.,]\d{1,2})?|\d{1,15}(?:[.,]\d{1,6})?)"
    r"(?:\s?(%|(?:k|thousand|m|mn|million|tausend|mille)\b)|(?=\D|$))(?![.,]?\d)",
    re.IGNORECASE,
)
_MONEY_NUMBER = re.compile(r"(?<=[$€£¥₹])\s?(\d[\d,.'’]{0,20}\d|\d)(?:\s?(k|m|mn|million|thousand)\b)?", re.IGNORECASE)
_NO_NUMBER = re.compile(r"(?<!\d)\d{4}([-/.])\d{1,2}\1\d{1,2}(?!\d)|(?<![\d:.])\d{1,2}:\d{2}(?::\d{2})?(?!\d)")
"""Dates and times, whose parts are no numbers."""
_ONE = re.compile(
    r"(?<!\bthe )(?<!\bthis )(?<!\bthat )(?<!\bno )(?<!\bany )(?<!\bevery )(?<!\bwhich )(?<!\beach )(?<!\w)"
    r"one(?= (?!more thing|of|that|who|which|with|at|for|in|on|to|and|or|is|was|i|we|you|he|she|they|it)[^\W\d])",
    re.IGNORECASE,
)
"""As a count, and no pronoun."""
_SCALES = {"%": Decimal("0.01"), "k": Decimal(1000), "m": Decimal(10**6), "mn": Decimal(10**6)}
_SCALES |= {"thousand": Decimal(1000), "tausend": Decimal(1000), "mille": Decimal(1000), "million": Decimal(10**6)}

_ISO = re.compile(r"(?<!\d)(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)")
_CJK = re.compile(r"(?:(\d{4})\s?[年년]\s?)?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日号일]")
_HAN_MONTH = re.compile("[月월]")
_SHORT_DATE = re.compile(r"(?<![\d.])(\d{1,2})[./-](\d{1,2})[./-](\d{4}|\d{2})(?!\d)")
_DAY_MONTH = re.compile(
    r"(?<!\d)(\d{1,2})(?:st|nd|rd|th|\.|º)?(?:\s?(?:-|–|to|and|until|bis|au|al)\s?(?:the )?(\d{1,2})(?:st|nd|rd|th"
    r"|\.)?)?"
    rf"\s{{1,40}}(?:(?:of|de)\s{{1,40}})?({month_pattern()})\.?(?:,?\s{{1,40}}(?:de )?(\d{{4}}))?\b",
    re.IGNORECASE,
)
_MONTH_DAY = re.compile(
    rf"\b({month_pattern()})\.?\s{{1,40}}(?:the )?(\d{{1,2}})(?:st|nd|rd|th)?"
    r"(?:\s?(?:-|–|to|and|until)\s?(?:the )?(\d{1,2})(?:st|nd|rd|th)?)?(?!\d)(?:,?\s{1,40}(\d{4}))?\b",
    re.IGNORECASE,
)
_MONTH_ALONE = re.compile(rf"\b({month_pattern()})\b(?:,? (\d{{4}}))?", re.IGNORECASE)
_WEEKDAY = re.compile(
    rf"\b(?:(next|last|this|coming|past|previous|prior|following|nächsten?|letzten?)\s)?({weekday_pattern()})s?\b",
    re.IGNORECASE,
)
_RELATIVE = re.compile(
    r"\b(day after tomorrow|day before yesterday|today|tonight|tomorrow|yesterday|now|heute|morgen|gestern|übermorgen"
    r"|aujourd'hui|demain|hier|hoy|mañana|ayer|oggi|domani|ieri)\b|(今天|明天|昨天|后天|今日|明日|昨日|오늘|내일|어제)",
    re.IGNORECASE,
)
_RELATIVE_DAYS = {"day after tomorrow": 2, "day before yesterday": -2, "tomorrow": 1, "yesterday": -1, "morgen": 1}
_RELATIVE_DAYS |= {"gestern": -1, "übermorgen": 2, "demain": 1, "hier": -1, "mañana": 1, "ayer": -1, "domani": 1}
_RELATIVE_DAYS |= {"ieri": -1, "明天": 1, "昨天": -1, "后天": 2, "明日": 1, "昨日": -1, "내일": 1, "어제": -1}
_SPAN_AWAY = re.compile(
    rf"\b(?:(in|within|next|last|past|coming|previous)\s(?:the )?(?:(?:next|last|past)\s)?)?(\d{{1,4}}|{_COUNT})?\s?"
    r"(day|week|fortnight|month|quarter|year)s?(?:'s?|’s?)?(?:\s(ago|from now|from today|later|earlier))?\b",
    re.IGNORECASE,
)
_UNIT_DAYS = {"day": 1, "week": 7, "fortnight": 14, "month": 30, "quarter": 91, "year": 365}

_CLOCK = re.compile(r"(?<![\d:.])(\d{1,2})(?:[:.hH](\d{2}))(?::\d{2})?\s?([ap])?\.?(?:m\b)?(?![\d:])", re.IGNORECASE)
_HOUR = re.compile(r"(?<![\d:.])(\d{1,2})\s?(?:([ap])\.?m\b|o'?clock\b|uhr\b|heures?\b|[点點時시])", re.IGNORECASE)
_AT_HOUR = re.compile(r"\b(?:at|from|until|till|to|by|um|à)\s(\d{1,2})(?![\d:./]|\s?%|st|nd|rd|th)\b", re.IGNORECASE)
_NAMED_TIME = re.compile(r"\b(noon|midday|midnight)\b", re.IGNORECASE)
_DURATION = re.compile(
    rf"(?<![\w.,])(\d{{1,4}}(?:[.,]\d{{1,2}})?|{_COUNT})(?:\s|-)?(?:(an?)\s)?(?:and (?:a|one) (half)\s)?"
    r"(minutes?|mins?|hours?|hrs?|h|days?|weeks?|minuten?|stunden?|heures?|horas?|minutos?|seconds?|分钟|小时|時間)\b"
    r"(?: and (?:a|one) (half))?(?:(?: and|,)? (\d{1,2}) (?:minutes?|mins?))?",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)?")
_MONTH_WORDS, _WEEKDAY_WORDS = frozenset(MONTHS), frozenset(WEEKDAYS)
_RELATIVE_WORDS = frozenset(
    "today tonight tomorrow yesterday now heute morgen gestern übermorgen aujourd demain hier hoy mañana ayer oggi "
    "domani "
    "ieri".split()
)
_LONG_UNITS = frozenset("day week fortnight month quarter year".split())
_SHORT_UNITS = frozenset("minute min hour hr h day week minuten stunde stunden heure hora minuto second".split())
_HAN_UNIT = re.compile(r"分钟|小时|時間")
_MINUTES = {"m": Decimal(1), "h": Decimal(60), "d": Decimal(1440), "w": Decimal(10080), "s": Decimal(1) / 60}


def read_values(text: str, now: datetime | None) -> Values:
    """The values of a text. Patterns of words are only tried where one of the words occurs: most texts hold few."""
    text = text[:READ]
    words = [(match[0].lower(), match.span()) for match in _LETTERS.finditer(text)]
    # `Mondays`, `2 hours`: the plural counts as its word
    known = {part.removesuffix("s") for word, _ in words for part in (word, *word.split("-"))} | {w for w, _ in words}
    return Values(
        _first(_numbers(text, words)),
        _first(_days(text, now, known)),
        _first(_times(text)),
        _first(_durations(text) if known & _SHORT_UNITS or _HAN_UNIT.search(text) else ()),
    )


def _first(found: Iterable[tuple[K, Stretch]]) -> dict[K, Stretch]:
    kept: dict[K, Stretch] = {}
    for value, stretch in found:
        if len(kept) >= _MOST:
            break
        kept.setdefault(value, stretch)
    return kept


def number_readings(written: str) -> list[Decimal]:
    """What a written number can mean: `1.200` is 1.2, and 1200 in half of Europe."""
    plain = re.sub(r"['’\u00a0\u202f ]", "", written)
    comma, point = plain.count(","), plain.count(".")
    forms = []
    if comma and point:
        last = max(plain.rfind(","), plain.rfind("."))
        forms.append(re.sub(r"[.,]", "", plain[:last]) + "." + plain[last + 1 :])
    elif comma + point == 1:
        mark = "," if comma else "."
        forms.append(plain.replace(mark, "."))
        if len(plain) - plain.index(mark) == 4:
            forms.append(plain.replace(mark, ""))
    else:
        forms.append(re.sub(r"[.,]", "", plain))
    return [number for form in forms if (number := to_number(form)) is not None]


def to_number(text: str) -> Decimal | None:
    """Without trailing zeros, so that 98.70 is 98.7. None for what is no plain number."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number.normalize() if number.is_finite() and abs(number.adjusted()) < 30 else None


def _numbers(text: str, words: Iterable[tuple[str, Stretch]]) -> Iterator[tuple[Decimal, Stretch]]:
    plain = _NO_NUMBER.sub(lambda match: " " * len(match[0]), text)
    for pattern in (_NUMBER, _MONEY_NUMBER):
        for match in pattern.finditer(plain):
            sign = -1 if pattern is _NUMBER and match[0][0] in "-−" else 1
            for number in number_readings(match[1]):
                if match[2]:
                    yield (number * _SCALES[match[2].lower()]).normalize(), match.span()
                yield (sign * number).normalize(), match.span()
                yield number, match.span()
    for word, stretch in words:
        if word in COUNTS and word not in ("a", "an", "un", "une", "one"):
            yield COUNTS[word].normalize(), stretch
    for match in _ONE.finditer(text):
        yield Decimal(1), match.span()


def _valid(year: int, month: int, day: int) -> Iterator[Day]:
    try:
        date(year or 2024, month, day)  # 2024 has a 29 February
    except ValueError:
        return
    yield Day(year, month, day)


def _days(text: str, now: datetime | None, known: set[str]) -> Iterator[tuple[Day, Stretch]]:
    for match in _ISO.finditer(text):
        for day in _valid(*map(int, match.groups())):
            yield day, match.span()
    for match in _CJK.finditer(text) if _HAN_MONTH.search(text) else ():
        for day in _valid(int(match[1] or 0), int(match[2]), int(match[3])):
            yield day, match.span()
    for match in _SHORT_DATE.finditer(text):
        year = int(match[3]) + (2000 if len(match[3]) == 2 else 0)
        for month, number in ((int(match[2]), int(match[1])), (int(match[1]), int(match[2]))):
            for day in _valid(year, month, number):
                yield day, match.span()
    if known & _MONTH_WORDS:
        for match in _DAY_MONTH.finditer(text):
            yield from _named(match, match[3], match[4], match[1], match[2])
        for match in _MONTH_DAY.finditer(text):
            yield from _named(match, match[1], match[4], match[2], match[3])
    if now is not None:
        yield from _relative(text, now.date(), known)


def _named(match: re.Match[str], month: str, year: str | None, *days: str | None) -> Iterator[tuple[Day, Stretch]]:
    for number in days:
        if number is not None:
            for day in _valid(int(year or 0), MONTHS[month.lower()], int(number)):
                yield day, match.span()


def _as_day(day: date) -> Day:
    return Day(day.year, day.month, day.day)


def _relative(text: str, today: date, known: set[str]) -> Iterator[tuple[Day, Stretch]]:
    for match in _RELATIVE.finditer(text) if known & _RELATIVE_WORDS or not text.isascii() else ():
        yield _as_day(_plus(today, _RELATIVE_DAYS.get(match[0].lower(), 0))), match.span()
    for match in _WEEKDAY.finditer(text) if known & _WEEKDAY_WORDS else ():
        ahead = (WEEKDAYS[match[2].lower()] - today.weekday()) % 7
        which = (match[1] or "").lower()
        if which in ("last", "past", "previous", "prior") or which.startswith("letzt"):
            shifts: tuple[int, ...] = (ahead - 7, ahead - 14)
        elif which in ("next", "following") or which.startswith("nächst"):
            shifts = (ahead or 7, ahead + 7)
        else:
            shifts = (ahead, ahead + 7, ahead - 7)
        for shift in shifts:
            yield _as_day(_plus(today, shift)), match.span()
    for match in _SPAN_AWAY.finditer(text) if known & _LONG_UNITS else ():
        for day in _ends(match, today):
            yield _as_day(day), match.span()
    for match in _MONTH_ALONE.finditer(text) if known & _MONTH_WORDS else ():
        for year in (int(match[2]),) if match[2] else (today.year, today.year - 1, today.year + 1):
            if 1 <= year < 9999:
                month = MONTHS[match[1].lower()]
                yield Day(year, month, 1), match.span()
                yield _as_day(_month_end(year, month)), match.span()


def _ends(match: re.Match[str], today: date) -> Iterator[date]:
    """First and last day that a stretch of time away from today can mean."""
    where, count, unit, after = ((part or "").lower() for part in match.groups())
    number = int(COUNTS.get(count, Decimal(1)) if not count.isdigit() else int(count))
    length = _UNIT_DAYS[unit] * max(number, 1)
    back = where in ("last", "past", "previous") or after in ("ago", "earlier")
    if not (where or after) or length > 36_500:
        return
    sign = -1 if back else 1
    yield from (today, _plus(today, sign * length), _plus(today, sign * (length - 1)))
    if unit == "week":
        monday = _plus(today, -today.weekday() + sign * 7 * max(number, 1))
        yield from (_plus(monday, shift) for shift in (-1, 0, 4, 5, 6))
    elif unit in ("month", "year"):
        months = today.year * 12 + today.month - 1 + sign * max(number, 1) * (12 if unit == "year" else 1)
        year, month = divmod(months, 12)
        if 1 <= year < 9999:
            last = _month_end(year, month + 1)
            yield from (date(year, month + 1, 1), last, date(year, month + 1, min(today.day, last.day)))
            if unit == "year":
                yield from (date(year, 1, 1), date(year, 12, 31))


def _month_end(year: int, month: int) -> date:
    return _plus(date(year + month // 12, month % 12 + 1, 1), -1)


def _plus(day: date, days: int) -> date:
    return date.fromordinal(min(max(day.toordinal() + days, 1), date.max.toordinal()))


def _times(text: str) -> Iterator[tuple[int, Stretch]]:
    for match in _CLOCK.finditer(text):
        yield from _o_clock(match, int(match[1]), int(match[2]), match[3])
        if match[3] is None and len(match[1]) == 1:  # 3:30 without a zero in front may be of the afternoon
            yield from _o_clock(match, int(match[1]), int(match[2]), "p")
    for match in _HOUR.finditer(text):
        yield from _o_clock(match, int(match[1]), 0, match[2])
    for match in _AT_HOUR.finditer(text):
        yield from _o_clock(match, int(match[1]), 0, None)
        if int(match[1]) < 12:
            yield from _o_clock(match, int(match[1]), 0, "p")
    for match in _NAMED_TIME.finditer(text):
        yield 0 if match[1].lower() == "midnight" else 720, match.span()


def _o_clock(match: re.Match[str], hour: int, minute: int, half: str | None) -> Iterator[tuple[int, Stretch]]:
    if half is not None and hour <= 12:
        hour = hour % 12 + (12 if half.lower() == "p" else 0)
    if hour < 24 and minute < 60:
        yield hour * 60 + minute, match.span()


def _durations(text: str) -> Iterator[tuple[Decimal, Stretch]]:
    for match in _DURATION.finditer(text):
        count = match[1].replace(",", ".").lower()
        number = COUNTS[count] if count in COUNTS else Decimal(count)
        unit = _unit(match[4].lower())
        minutes = (number + (Decimal("0.5") if match[3] or match[5] else 0)) * _MINUTES[unit]
        if match[6]:
            yield (minutes + int(match[6])).normalize(), match.span()
        yield round(minutes, 6).normalize(), match.span()


def _unit(word: str) -> str:
    known = {"stunde": "h", "stunden": "h", "小时": "h", "時間": "h", "分钟": "m", "seconds": "s", "second": "s"}
    return known.get(word, word[0])


@lru_cache(maxsize=4096)
def moment_of(written: str) -> tuple[date | None, int | None] | None:
    """A value that is a date, a time or both, such as `2023-12-01 09:00:00`. None for anything else."""
    text = written.strip()
    try:
        moment = datetime.fromisoformat(text)
        if len(text) > 10:
            return moment.date(), moment.hour * 60 + moment.minute
        return moment.date(), None
    except ValueError:
        pass
    if len(text) > 40:
        return None
    if (match := _CLOCK.fullmatch(text) or _HOUR.fullmatch(text)) and (times := dict(_times(text))):
        assert match is not None
        return None, next(iter(times))
    for pattern in (_ISO, _DAY_MONTH, _MONTH_DAY, _SHORT_DATE):
        if (
            pattern.fullmatch(text)
            and (day := next((d for d, _ in _days(text, None, set(_MONTH_WORDS))), None))
            and day.year
        ):
            return date(day.year, day.month, day.day), None
    return None
