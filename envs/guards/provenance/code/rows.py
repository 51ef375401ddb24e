"""One record of a result, and the words that tell it from others."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from functools import cached_property
from typing import Final

import regex

from demur.envs.guards.provenance.code.values import moment_of
from demur.envs.guards.provenance.relations import Span
from demur.envs.guards.provenance.sources import Source

_LONGEST: Final = 2_000
"""Characters of one value that are looked at."""
_SHORT: Final = 8
"""Words of a field that says which record it is. A longer one is free text, which may name anything."""

_WORD: Final = regex.compile(r"[\p{L}\p{M}]+|\p{N}+")
_MARKED: Final = regex.compile(r"\p{N}|@|#|/")
_SHORT_ID: Final = regex.compile(r"(\p{L}{1,4})\p{N}+")
_NUMERAL: Final = regex.compile(r"\p{N}+")
_LETTERS: Final = regex.compile(r"\p{L}+")
_EDGES: Final = ",.;:()[]{}'\""


@dataclass(frozen=True, slots=True)
class Field:
    """One value of a row. name: "" where the result gives none. start, end: characters of the result, or -1."""

    name: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, eq=False)
class Row:
    """One record of a result; start and end are characters of its text."""

    fields: tuple[Field, ...]
    start: int
    end: int

    @cached_property
    def shape(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields if field.name)

    @cached_property
    def words(self) -> frozenset[str]:
        """Of its short fields: words without a plural's s, whole fields and what stands between blanks."""
        short = (words_in(field.text) for field in self.fields)
        return frozenset(singular(word) for words in short if len(words) <= _SHORT for word in words) | self.tokens

    @cached_property
    def all_words(self) -> frozenset[str]:
        """Those of free text among them."""
        texts = (words_in(field.text[:_LONGEST]) for field in self.fields)
        return frozenset(singular(word) for words in texts for word in words) | self.tokens

    @cached_property
    def tokens(self) -> frozenset[str]:
        """Whole fields, and what stands between blanks, in lower case: an id is one of them."""
        texts = [field.text.casefold() for field in self.fields if len(field.text) <= 200]
        parts = (part.strip(_EDGES) for text in texts for part in text.split())
        return frozenset((*texts, *parts))

    @cached_property
    def ids(self) -> frozenset[str]:
        """Its tokens with a digit or a mark, which may be ids, addresses and paths."""
        return frozenset(token for token in self.tokens if _MARKED.search(token))

    @cached_property
    def forms(self) -> frozenset[str]:
        return frozenset(map(form_of, self.ids))

    @cached_property
    def time(self) -> tuple[Field, datetime] | None:
        """Its one date, or that of its start; None where it has none, or several that could be meant."""
        found = [(f, day) for f in self.fields if len(f.text) <= 40 and (day := moment(f.text)) is not None]
        starts = [one for one in found if any(name in one[0].name.casefold() for name in ("start", "due"))]
        chosen = starts or found
        return chosen[0] if len(chosen) == 1 else None

    def get(self, *names: str) -> Field | None:
        """The first field whose name holds one of these words."""
        return next((f for f in self.fields if any(name in f.name.casefold() for name in names)), None)

    def span(self, source: Source) -> Span:
        start, end = max(0, self.start), min(max(0, self.end), len(source.text))
        return Span(source=source.id, start=start, end=end, text=source.text[start:end], origin=source.origin)


def form_of(token: str) -> str:
    """How an id is written: d42 is d0, #team-a is #a-a. Records of one kind have ids of one form."""
    short = _SHORT_ID.fullmatch(token)
    return f"{short[1]}0" if short else _NUMERAL.sub("0", _LETTERS.sub("a", token[:_LONGEST]))


def moment(text: str) -> datetime | None:
    """A value that begins with a year and is a date, or a date and a time."""
    told = moment_of(text) if text[:4].isdigit() else None  # a day without a year is no moment
    if told is None or told[0] is None:
        return None
    return datetime.combine(told[0], time()) + timedelta(minutes=told[1] or 0)


def singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word


def words_in(text: str) -> list[str]:
    """Words and numbers, in lower case."""
    return _WORD.findall(text.casefold())
