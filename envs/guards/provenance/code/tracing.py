"""DerivedFrom and AppearIn by code: a value is traced to the text that gives it, through the forms it can take.

Letter case and spacing, number and currency forms, dates and relative dates, times and durations, sums, differences,
products and shares of traced numbers, word forms, defaults and choices that the documentation states, and texts whose
parts trace one by one. A value that a result gives counts only where it may drive a call (`origins`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from itertools import islice
from typing import Any, Final

import regex

from demur.envs.guards.provenance.code.origins import Origins, Place, repeats
from demur.envs.guards.provenance.code.texts import Text, Texts
from demur.envs.guards.provenance.code.values import NAME_OF_A_THING, READ, moment_of, read_values, to_number
from demur.envs.guards.provenance.code.verbs import stem, words_of
from demur.envs.guards.provenance.sources import Source
from demur.envs.guards.provenance.values import spelled, values_in
from demur.envs.tool import Parameter, Tool

_WORDS: Final = 60
_OPERANDS: Final = 60
_POOL: Final = 2_000
_LONGEST_NAME: Final = 200
_DAY = Decimal(1440)
_OPEN_TIME = re.compile(
    r"\b(?:any ?time|free|available|availab\w*|slots?|whenever|earliest|soonest|first|next)\b", re.IGNORECASE
)
_UNTIL_NOW = re.compile(
    r"\b(?:since|so far|until now|up to now|to date|ever|seit|depuis|desde)\b|以来|至今", re.IGNORECASE
)
_INVISIBLE = regex.compile(r"\p{Cf}")
_SCHEME = re.compile(r"^(?:https?://|mailto:)|/+$", re.IGNORECASE)
_IDENTIFYING = re.compile(r"[\d@/\\]|\w\.\w")
_IDENTIFIERS: Final = [[word] for word in "id ids code key number no ref pin iban account phone".split()]
_NO_CHOICE = re.compile(r"\d{3}|@|://")  # an example in the documentation, at most
_TOKEN_EDGE = "\"'“”‘’()[]{}<>,;:.!?–-"
_DEFAULT = re.compile(r"\bdefaults?(?: value)?(?: is| are| to|:|=)?\s*(?:to )?[\"'`]?([^\s\"'`,;.)]+)", re.IGNORECASE)
_SMALL_WORDS = frozenset(
    "a an the of for to and or in on at by with from re fw fwd is are be this that my your our their his her "
    "its".split()
)
_SUM = re.compile(
    r"\b(?:plus|minus|add(?:ed|ing)?|total|sum|altogether|combined|together|difference|remain\w*|rest|balance|"
    r"increas\w*|decreas\w*|rais\w*|reduc\w*|adjust\w*|exten\w*|top up|by \W?\d[\d.,]*|"
    r"\d\S{0,30} (?:\w+ )?(?:more|less|extra|later|earlier|longer|shorter))\b",
    re.IGNORECASE,
)
_SHARE = re.compile(
    r"%|\b(?:half|halve|third|quarter|double|twice|triple|times|each|per|apiece|average|mean|percent|split|equally|tip|tax"
    r"|vat|discount|rate|off|fold)\b",
    re.IGNORECASE,
)
OPERATIONS: Final = {"a sum": _SUM, "a difference": _SUM, "a product": _SHARE, "a share": _SHARE}
_AROUND: Final = 40
"""Characters around a number in which words say what is to be done with it."""
Moment = tuple[date | None, int | None]
"""A date, a time of day in minutes, or both."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Where a value comes from. how: in words. against: why the places may not drive a call."""

    places: tuple[Place, ...]
    how: str
    against: str | None = None


class Tracer:
    """Traces the values of calls proposed in one context."""

    def __init__(self, sources: Sequence[Source], texts: Texts, now: datetime | None) -> None:
        self.origins = Origins(sources, texts, now)
        self._now = now
        self._known: dict[str, tuple[Any, list[tuple[Any, Evidence | None]]]] = {}

    def each(self, value: Any, parameter: str, tool: Tool) -> list[tuple[Any, Evidence | None]]:
        """The evidence of each value inside an argument, kept for the next question about it."""
        known = self._known.get(parameter)
        if known is None or known[0] is not value:
            found = [(single, self.trace(single, parameter, tool)) for single in values_in(value)]
            self._known[parameter] = known = value, found
        return known[1]

    def trace(self, value: Any, parameter: str, tool: Tool) -> Evidence | None:
        """The first evidence that may drive a call, else the first there is, else None."""
        text = spelled(value)
        if not text:
            return Evidence((), "a truth value, or empty")
        if not self._is_copied(value):
            return Evidence((), "another spelling", f"it is not spelled as in the texts: {value[:100]!r}")
        number = _as_number(value, text)
        moment = None if number is not None else moment_of(text)
        # what stands somewhere is not also guessed at: an order's number may well be a sum of others
        named = self.origins.said_stems.issuperset(map(stem, words_of(parameter)))
        return (
            self._best(self._direct(text, number, moment, tool), named)
            or self._best(self._inferred(text, number, moment, parameter, tool), named)
            or (None if re.search(r"\s", text) and moment is None else next(self._not_recorded(), None))
        )

    def _is_copied(self, value: Any) -> bool:
        """Whether what names something is spelled as some text has it: the case of its letters, nothing around it, no
        signs that look like others. The case is free where the user wrote it; what no text holds is not looked at here.
        """
        if not isinstance(value, str) or len(value) > _LONGEST_NAME or "\n" in value:
            return True
        if value != value.strip() and value.strip():
            return False
        texts = [text for _, text in (*self.origins.users, *self.origins.others)]
        shouted = value.isupper() and not self.origins.documents(value)
        if not (_IDENTIFYING.search(value) or _INVISIBLE.search(value) or shouted):
            return True
        if any(value in text.text for text in texts):
            return True
        plain = _INVISIBLE.sub("", unicodedata.normalize("NFKC", value)).strip()
        lower = _SCHEME.sub("", plain.lower())
        if plain != value:
            return not any(lower in text.lower for text in texts)
        if shouted and any(any(text.places(plain)) for text in texts):
            return False
        if moment_of(plain) or re.search(r"\s", plain) or any(lower in text.lower for _, text in self.origins.users):
            return True
        there = [text for text in texts if lower in text.lower]
        return not there or any(_SCHEME.sub("", value) in text.text for text in there)

    def _best(self, found: Iterator[Evidence], named: bool) -> Evidence | None:
        first: Evidence | None = None
        for evidence in found:
            reasons = (self.origins.against(place, named=named) for place in evidence.places)
            against = next(filter(None, reasons), None)
            if against is None:
                return evidence
            first = first or replace(evidence, against=against)
        return first

    def _direct(self, text: str, number: Decimal | None, moment: Moment | None, tool: Tool) -> Iterator[Evidence]:
        """The value itself, in any form."""
        origins = self.origins
        yield from _stated(self._verbatim(text, origins.users), "stands in the request")
        if number is not None:
            yield from self._counted(number, origins.users, "a number of the request")
        elif moment is not None and (found := self._moment(*moment, origins.users)):
            yield Evidence(found, "a date or time of the request")
        yield from _stated(self._verbatim(text, origins.holding(_SCHEME.sub("", text))), "stands in a result")
        if number is not None:
            yield from self._counted(number, origins.others, "a number of a result")
        elif moment is not None:
            yield from self._scheduled(*moment)
        elif not _NO_CHOICE.search(text) and (documented := origins.docs.get(tool.name)):
            yield from _stated((Place(*documented, *at) for at in documented[1].places(text)), "a documented choice")

    def _inferred(
        self, text: str, number: Decimal | None, moment: Moment | None, parameter: str, tool: Tool
    ) -> Iterator[Evidence]:
        """What follows from other values."""
        yield from self._default(text, parameter, tool)
        if number is not None and words_of(parameter)[-1:] not in _IDENTIFIERS:
            yield from self._computed(number)
        elif moment is not None:
            yield from self._scheduled(*moment, assumed=True)
        elif number is None:
            yield from self._worded(text, parameter, tool)

    def _not_recorded(self) -> Iterator[Evidence]:
        """The end of a record that leaves out the rest of what the agent saw."""
        for source, text in self.origins.others:
            end = len(text.text)
            if source.partial and self.origins.pointed(source) and not self.origins.driven(source):
                yield Evidence((Place(source, text, end, end),), "may stand in what the record leaves out")

    def _verbatim(self, text: str, among: Iterable[tuple[Source, Text]]) -> Iterator[Place]:
        plain = _SCHEME.sub("", text)
        for source, held in among:
            places = [Place(source, held, *stretch) for stretch in held.places(plain)]
            if places and not repeats(source, plain):
                yield from places

    def _counted(self, number: Decimal, among: Iterable[tuple[Source, Text]], how: str) -> Iterator[Evidence]:
        for source, text in among:
            if (stretch := text.values.numbers.get(number)) and not repeats(source, f"{number:f}"):
                yield Evidence((Place(source, text, *stretch),), how)
            for minutes, stretch in islice(text.values.durations.items(), _OPERANDS):
                if number in (minutes, minutes / 60, minutes * 60, minutes / _DAY):
                    yield Evidence((Place(source, text, *stretch),), f"a duration, {how}")
            for one, start in islice(text.values.times.items(), _OPERANDS):
                for minutes in (number, number * 60):
                    if number > 0 and minutes == int(minutes) and (end := text.values.times.get(one + int(minutes))):
                        places = (Place(source, text, *start), Place(source, text, *end))
                        yield Evidence(places, f"the time between two times, {how}")

    def _computed(self, number: Decimal) -> Iterator[Evidence]:
        """One step of arithmetic on two numbers, one of which the user wrote or pointed to."""
        if abs(number) < 10 and number == int(number):
            return  # a small count is the sum or difference of too many things
        pool = self._pool
        for one, first in self._operands:
            for other, what in _partners(number, one):
                second = pool.get(other)
                if second is not None and self._is_asked_to(OPERATIONS[what], first, second):
                    yield Evidence((first, second), what)

    def _is_asked_to(self, operation: re.Pattern[str], *operands: Place) -> bool:
        """Whether the request, or the words around an operand, speak of such a step: two numbers give many others."""
        return bool(operation.search(self.origins.said[:READ])) or any(
            operation.search(place.source.text, max(0, place.start - _AROUND), place.end + _AROUND)
            for place in operands
        )

    @cached_property
    def _pool(self) -> dict[Decimal, Place]:
        pool: dict[Decimal, Place] = {}
        for source, text in (*self.origins.users, *self.origins.others):
            for number, stretch in text.values.numbers.items():
                if len(pool) >= _POOL:
                    return pool
                # what a call was made with is no news in its result
                if repeats(source, f"{number:f}"):
                    continue
                pool.setdefault(number, Place(source, text, *stretch))
        return pool

    @cached_property
    def _operands(self) -> list[tuple[Decimal, Place]]:
        named = [(source, text) for source, text in self.origins.others if self._is_short(source, text)]
        return [
            (number, Place(source, text, *stretch))
            for source, text in (*self.origins.users, *named)
            for number, stretch in islice(text.values.numbers.items(), _OPERANDS)
            if number not in (0, 1) and not repeats(source, f"{number:f}")
        ][: 2 * _OPERANDS]

    def _is_short(self, source: Source, text: Text) -> bool:
        return len(text.values.numbers) <= _OPERANDS and self.origins.pointed(source)

    def _moment(
        self, day: date | None, minute: int | None, among: Sequence[tuple[Source, Text]]
    ) -> tuple[Place, ...] | None:
        """Places of its date and of its time. A day's first and last minute go with the day."""
        places = []
        if day is not None:
            found = ((s, t, at) for s, t in among if (at := t.values.stretch_of_day(day)))
            if (first := next(found, None)) is None:
                return None
            places.append(Place(first[0], first[1], *first[2]))
        if minute is not None and not (day is not None and minute in (0, 1439)):
            times = ((s, t, at) for s, t in among if (at := t.values.times.get(minute)))
            if (first := next(times, None)) is None:
                return None
            places.append(Place(first[0], first[1], *first[2]))
        return tuple(places)

    def _scheduled(self, day: date | None, minute: int | None, *, assumed: bool = False) -> Iterator[Evidence]:
        """A date or time out of several places, or a start and a duration. assumed: also what the request leaves
        open.
        """
        origins = self.origins
        every = [*origins.users, *origins.others]
        days: list[Evidence] = (
            [Evidence((), "no date")] if day is None else list(islice(self._days(day, every, assumed), 8))
        )
        whole = day is not None and minute in (0, 1439)
        times = [Evidence((), "")] if minute is None or whole else list(islice(self._times(minute, every, assumed), 8))
        for one in days:
            for other in times:
                yield Evidence((*one.places, *other.places), f"{one.how} {other.how}".strip())

    def _days(self, day: date, every: Sequence[tuple[Source, Text]], assumed: bool) -> Iterator[Evidence]:
        for source, text in every:
            if (stretch := text.values.stretch_of_day(day)) and not repeats(source, day.isoformat()):
                yield Evidence((Place(source, text, *stretch),), "a date of a source")
        if not assumed:
            pass
        elif self._now is None:
            # any clock shows whether the request names a date, be it a relative one
            said = NAME_OF_A_THING.sub(" ", self.origins.said)
            if not read_values(said, datetime(2024, 1, 1)).days:
                yield Evidence((), "the request sets no date, and there is no clock to check it by")
        elif day == self._now.date():
            yield Evidence((), "today")
        elif day.toordinal() == self._now.toordinal() - 1 and _UNTIL_NOW.search(self.origins.said):
            yield Evidence((), "the last whole day of a time that goes on until now")
        for source, text in self.origins.users:
            for minutes, stretch in text.values.durations.items():
                if minutes % _DAY:
                    continue
                for sign in (1, -1):
                    shifted = day.toordinal() - sign * int(minutes / _DAY)
                    for base, held in every:
                        if 0 < shifted <= date.max.toordinal() and (
                            at := held.values.stretch_of_day(date.fromordinal(shifted))
                        ):
                            yield Evidence((Place(source, text, *stretch), Place(base, held, *at)), "a date, moved")

    def _times(self, minute: int, every: Sequence[tuple[Source, Text]], assumed: bool) -> Iterator[Evidence]:
        for source, text in every:
            if stretch := text.values.times.get(minute):
                yield Evidence((Place(source, text, *stretch),), "a time of a source")
        for source, text in self.origins.users:
            for minutes, stretch in islice(text.values.durations.items(), _OPERANDS):
                for base, held in every:
                    for shifted in (minute - minutes, minute + minutes):
                        if shifted == int(shifted) and (at := held.values.times.get(int(shifted) % 1440)):
                            yield Evidence(
                                (Place(base, held, *at), Place(source, text, *stretch)), "a start and a duration"
                            )
        for source, text in self.origins.others:
            for time, at in islice(text.values.times.items(), _OPERANDS):
                if 0 < minute - time <= 480 and (
                    stretch := text.values.numbers.get(Decimal(minute - time).normalize())
                ):
                    yield Evidence((Place(source, text, *at), Place(source, text, *stretch)), "a start and a duration")
        if assumed and minute % 30 == 0 and _OPEN_TIME.search(self.origins.said):
            yield Evidence((), "the request leaves the time to the agent")

    def _default(self, text: str, parameter: str, tool: Tool) -> Iterator[Evidence]:
        described = next((p for p in tool.parameters if p.name == parameter), None)
        if described is not None and text.lower() in _defaults(described):
            yield Evidence((), "the documentation's default")

    def _worded(self, text: str, parameter: str, tool: Tool) -> Iterator[Evidence]:
        """Texts that no source holds as they are: other forms of the words, documented choices, parts put together."""
        spaced = re.sub(r"[\s-]", "", text)
        if 6 <= len(spaced) <= 40 and sum(map(str.isdigit, spaced)) >= 4:
            yield from _stated(self._apart(spaced), "stands in a source, other than in spacing")
        words = words_of(text)
        stems = [stem(word) for word in words]
        if _IDENTIFYING.search(text) is None and stems and self.origins.said_stems.issuperset(stems):
            yield Evidence((), "other forms of the request's words")
        if len(text.split()) > 1 or (len(words) > 1 and _IDENTIFYING.search(text) is None):
            yield from self._composed(text, parameter, tool)

    def _apart(self, spaced: str) -> Iterator[Place]:
        pattern = re.compile(r"[\s-]?".join(map(re.escape, spaced.lower())))
        for source, text in (*self.origins.users, *self.origins.others):
            if spaced[:1].lower() in text.lower:
                yield from (Place(source, text, *match.span()) for match in islice(pattern.finditer(text.lower), 5))

    def _composed(self, text: str, parameter: str, tool: Tool) -> Iterator[Evidence]:
        """A text put together: what identifies something must trace, and half of the other words be known ones."""
        tokens = [token.strip(_TOKEN_EDGE) for token in text.split()[: _WORDS + 1]]
        if len(tokens) > _WORDS:
            return
        places: list[Place] = []
        plain = []
        for token in filter(None, tokens):
            if len(tokens) > 1 and _IDENTIFYING.search(token) and not re.fullmatch(r"[^\W\d]+(?:/[^\W\d]+)+", token):
                part = self.trace(token, parameter, tool)
                if part is None or part.against is not None:
                    return
                places += part.places
            else:
                plain += words_of(token)
        known = [word for word in plain if word not in _SMALL_WORDS and len(word) > 1]
        if not known and not places:
            return
        theirs = self.origins.said_stems
        if 2 * sum(stem(word) in theirs for word in known) >= len(known):
            yield Evidence(tuple(places), "put together from the request's words and what traces")
            return
        calm = [(s, t) for s, t in self.origins.others if not any(order.strong for order in t.commands)]
        left = [word for word in known if stem(word) not in theirs]
        for word in left:
            stemmed = stem(word)
            held = next(((s, t) for s, t in calm if stemmed in t.stems and self.origins.pointed(s)), None)
            at = None if held is None else next(held[1].places(word), None)
            if held is not None and at is not None:
                places.append(Place(*held, *at))
        if len(places) and 4 * len(places) >= 3 * len(left):
            yield Evidence(tuple(places), "put together from words of the request and of results")


def _stated(places: Iterable[Place], how: str) -> Iterator[Evidence]:
    return (Evidence((place,), how) for place in places)


def _as_number(value: Any, text: str) -> Decimal | None:
    """None for what merely looks like one: an id with leading zeros, a telephone number."""
    if isinstance(value, (int, float)):
        return to_number(text)
    plain = text.lstrip("$€£¥")
    is_id = (plain[:1] == "0" and plain[1:2].isdigit()) or plain[:1] == "+" or len(plain) > 12
    return None if is_id or (not plain[:1].lstrip("-").isdigit() and plain[:1] != "-") else to_number(plain.rstrip("%"))


def _partners(number: Decimal, one: Decimal) -> Iterator[tuple[Decimal, str]]:
    """What the second operand would have to be."""
    yield (number - one).normalize(), "a sum"
    yield (one - number).normalize(), "a difference"
    yield (number + one).normalize(), "a difference"
    if one not in (0, 1):
        yield round(number / one, 6).normalize(), "a product"
        yield round(number * one, 6).normalize(), "a share"


def _defaults(parameter: Parameter) -> frozenset[str]:
    stated = [] if parameter.schema.get("default") is None else [str(parameter.schema["default"])]
    stated += _DEFAULT.findall(str(parameter.schema.get("description", ""))[:2_000])
    return frozenset(one.lower() for one in stated)
