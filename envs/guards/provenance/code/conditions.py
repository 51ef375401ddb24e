"""What a request says about the record it means: its words, one or several, an order word, when it is.

    request = read_request("Cancel my next meeting with Sofia", now)
    request.order, request.words

Only what is said in so many words is read. What is not understood sets no condition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Final, Literal

import regex

from demur.envs.guards.provenance.code.rows import Row, singular, words_in
from demur.envs.guards.provenance.code.values import read_values

_READ: Final = 20_000
"""Characters of what the user said that are read for conditions."""

Pick = Literal["soonest", "newest", "oldest", "least", "most"]
Tense = Literal["ahead", "past", "overdue"]

_UNIT: Final = (
    r"(?:\d+|few|couple|two|three|four|five|six|seven|time|times|day|week|weekend|fortnight|month|quarter|year|hour|"
    r"minute|night|morning|afternoon|evening|moment|spring|summer|autumn|fall|winter|mon|tues?|wed|wednes|thur?s?|fri|satur|sat|sun|january|february|march|"
    r"april|may|june|july|august|september|october|november|december|name|names|slot|step|thing)"
)
_PICK_WORDS: Final[tuple[tuple[Pick, str], ...]] = (
    ("soonest", "next"),
    ("newest", "last|latest|most recent|newest"),
    ("oldest", "first|earliest|oldest"),
    ("least", "costs? (?:the )?least|cheapest|lowest(?:[- ]priced)?|least expensive|smallest|shortest"),
    ("most", "most expensive|highest(?:[- ]rated)?|best[- ]rated|top[- ]rated|largest|biggest|longest"),
)
_PICKS: Final[tuple[tuple[Pick, regex.Pattern[str]], ...]] = tuple(
    (
        pick,
        regex.compile(rf"\b(?:{words})\b(?!\s+(?:available |free |possible )?{_UNIT}(?:day)?s?\b)", regex.IGNORECASE),
    )
    for pick, words in _PICK_WORDS
)
_AHEAD: Final = regex.compile(r"\b(?:future|upcoming|forthcoming)\b", regex.IGNORECASE)
_PAST: Final = regex.compile(
    r"\bpast\b(?!\s+(?:\d|few|couple|two|three|week|month|day|year|fortnight))", regex.IGNORECASE
)
_OVERDUE: Final = regex.compile(r"\boverdue\b|\bpast (?:its|their) due date\b", regex.IGNORECASE)
_SEVERAL: Final = regex.compile(
    r"(?<!after )(?<!at )(?<!above )\b(?:all(?! (?:day|morning|afternoon|evening|night|week|right|along|i|we)\b)|"
    r"every(?! time)|each|both|"
    r"any(?! more| longer)|everyone|everybody|several|these|those|them all|merge|duplicates?|double|twice)\b",
    regex.IGNORECASE,
)
_FREE: Final = regex.compile(
    r"\b(?:whichever|whatever|either (?:one|of)|no matter (?:which|who|what)|(?:do not|don['’]t) (?:mind|care)|"
    r"you (?:choose|decide|pick))\b",
    regex.IGNORECASE,
)
_MARKED: Final = regex.compile(r"[@#/\\_]|\p{N}\D|\D\p{N}")
_COMMON: Final = frozenset(
    """a about above after again all also am an and any are as at be because been before being below but by can could
    day days did do does done for from get give go had has have her here hers him his how i if in into is it its
    just let like make me more most my next no not now of off on one only or our out over own please put same send
    set she should so some still tell than thank thanks that the their them then there these they thing this those
    time to today tomorrow too two under until up us use used very want was we were what when where which while
    who why will with would yes you your yesterday last first latest week month year hi hello need needs move
    change add remove delete cancel book forward reply rename update create write mail email emails message
    meeting meetings event events""".split()
)
_KINDS: Final = tuple(
    frozenset(words.split())
    for words in (
        "meeting event appointment calendar call invite",
        "email mail message inbox letter",
        "task ticket issue todo card",
        "customer client lead account contact",
        "order purchase parcel delivery",
        "file document folder report note",
        "flight train trip booking reservation hotel room car restaurant",
        "payment transaction transfer bill invoice",
    )
)
_MINE: Final = frozenset("i me my mine we our us".split())
YOU: Final = "you"
"""How results name the user: "booked by you"."""
_ENDS: Final = frozenset("s m d ll re ve t".split())
"""What stands behind an apostrophe."""
_KIND_WORDS: Final = frozenset[str]().union(*_KINDS)
_CLOCK: Final = regex.compile(r"\b(before|after)\s+(?:the )?(?=\d|noon|midday)", regex.IGNORECASE)


@dataclass(frozen=True)
class When:
    """A day, or a stretch of days, that the request names. options: it can mean any of these."""

    options: tuple[tuple[date, date], ...]
    start: int
    end: int

    def allows(self, day: date) -> bool:
        return any(first <= day <= last for first, last in self.options)


@dataclass(frozen=True)
class Request:
    """words: those that can tell records apart, and ids and addresses. several: more than one record may be meant.
    plurals: kinds of which more than one may be. mine: the user speaks of themself. free: they leave the choice.

    order: which of the records; kind: the words behind it, which name what they are. tense: of their time. hours:
    minutes after midnight between which the record is, for "before 11" and "after 14:00".
    """

    text: str
    words: frozenset[str]
    several: bool
    plurals: frozenset[str]
    mine: bool
    free: bool
    order: Pick | None
    kind: frozenset[str]
    tense: Tense | None
    days: tuple[When, ...]
    hours: tuple[int, int] | None
    now: datetime | None

    def rest_of(self, row: Row) -> frozenset[str]:
        """Words of the row that it does not say; numbers and ids are none."""
        return frozenset(word for word in row.all_words - self.words - row.ids if len(word) > 1 and word.isalpha())

    def is_open(self, names: Iterable[str]) -> bool:
        """Whether it may mean more than one record of these names, orders them, or leaves the choice."""
        text = " ".join(names)
        plural = self.plurals & _kinds(text)
        return self.several or self.free or bool(plural) or self._orders(text)

    def _orders(self, text: str) -> bool:
        return self.order in ("least", "most") or (self.order is not None and self.has_kind([text]))

    def has_kind(self, names: Iterable[str]) -> bool:
        """Whether what the order word is said of can be a record of these names: of a tool, of fields."""
        return bool(self.kind & _kinds(" ".join(names)))


@lru_cache(maxsize=256)
def read_request(text: str, now: datetime | None = None) -> Request:
    """What the user said, as conditions."""
    text = text[:_READ]
    picks = [(pick, found) for pick, pattern in _PICKS for found in pattern.finditer(text)]
    # two order words are about two things, and it is not told which is about which
    pick, found = picks[0] if len(picks) == 1 else (None, None)
    behind = words_in(text[found.end() : found.end() + 60])[:5] if found else []
    return Request(
        text=text,
        words=frozenset((*(singular(word) for word in words_in(text) if word not in _ENDS), *_marked(text))) - _COMMON,
        mine=not _MINE.isdisjoint(words_in(text)),
        free=bool(_FREE.search(text)),
        several=bool(_SEVERAL.search(text)),
        plurals=frozenset(singular(word) for word in words_in(text) if _is_plural(word)),
        order=pick,
        kind=frozenset(map(singular, behind)),
        tense="overdue" if _OVERDUE.search(text) else "ahead" if _AHEAD.search(text) else _past(text),
        days=tuple(_days(text, now)),
        hours=_hours(text),
        now=now,
    )


def _marked(text: str) -> Iterator[str]:
    """Addresses, paths, ids and dates as a whole."""
    for part in text.casefold().split():
        if len(part) <= 200 and _MARKED.search(token := part.strip(".,;:!?()[]{}'\"“”‘’")):
            yield token


def _is_plural(word: str) -> bool:
    return singular(word) != word and singular(word) in _KIND_WORDS


@lru_cache(maxsize=1024)
def _kinds(text: str) -> frozenset[str]:
    """The words of a text, and those for the kinds of records that it names."""
    return frozenset(map(singular, words_in(text))) | kinds_in(text)


@lru_cache(maxsize=1024)
def kinds_in(text: str) -> frozenset[str]:
    """The kinds of records that a text names, each by all its words: a meeting is also an event."""
    return frozenset[str]().union(*_named(text))


def kind_names(text: str) -> list[str]:
    """One name for each kind of record that a text names."""
    return [min(kind) for kind in _named(text)]


@lru_cache(maxsize=1024)
def _named(text: str) -> list[frozenset[str]]:
    words = frozenset(map(singular, words_in(text)))
    return [kind for kind in _KINDS if kind & words]


def _past(text: str) -> Tense | None:
    return "past" if _PAST.search(text) else None


def _days(text: str, now: datetime | None) -> Iterator[When]:
    if now is None:
        return
    read = read_values(text, now)
    by_place: dict[tuple[int, int], list[date]] = {}
    for day, place in read.days.items():
        years = [day.year] if day.year else [now.year - 1, now.year, now.year + 1]
        for year in years:
            try:
                by_place.setdefault(place, []).append(date(year, day.month, day.day))
            except ValueError:  # 29 February
                continue
    for (start, end), days in by_place.items():
        words = text[start:end].casefold()
        if regex.search(r"week|month|year|quarter|fortnight|days", words):
            yield When(((min(days), max(days)),), start, end)
        else:
            yield When(tuple((day, day) for day in sorted(days)), start, end)


def _hours(text: str) -> tuple[int, int] | None:
    found = list(_CLOCK.finditer(text))
    if len(found) != 1:
        return None
    times = read_values("at " + text[found[0].end() : found[0].end() + 8], None).times
    # "at 3" can be read as the morning's or the afternoon's
    if len(times) != 1:
        return None
    minutes = next(iter(times))
    return (0, minutes) if found[0][1].casefold() == "before" else (minutes, 24 * 60)
