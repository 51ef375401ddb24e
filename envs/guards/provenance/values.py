"""The single values inside a call's arguments, and where one stands in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

import regex

_SMALL = 20_000
"""Characters of a text whose squeezed form is kept."""
_TRIES = 1_000
"""Places that are tried: a text made of parts of the value could hold it everywhere, each time inside a word."""

_WORDS = re.compile(r"\S+")  # splits where str.split does, other than `regex`
_WORD = regex.compile(r"[^\W\p{Han}]")
_DIGIT_POINT, _POINT_DIGIT = regex.compile(r"\d[.,]"), regex.compile(r"[.,]\d")


def values_in(value: Any) -> Iterator[Any]:
    """Every text, number, truth value and null, in order; keys of objects are none."""
    if isinstance(value, dict):
        for item in value.values():
            yield from values_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from values_in(item)
    else:
        yield value


def spelled(value: Any) -> str | None:
    """A text or number as it would be written. None for truth values and null, which no text holds."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def stretch_of(value: str, text: str) -> tuple[int, int] | None:
    """Where `value` stands in `text` as whole words, in any letter case and spacing. Time grows with len(text)."""
    wanted = _squeezed(value)
    squeezed = _kept(text) if len(text) <= _SMALL else _squeezed(text)
    at = squeezed.find(wanted) if wanted else -1
    for _ in range(_TRIES):
        if at < 0:
            return None
        if _is_whole(squeezed, at, at + len(wanted)):
            return _place(text, squeezed, at), _place(text, squeezed, at + len(wanted) - 1) + 1
        at = squeezed.find(wanted, at + 1)
    return None


def _squeezed(text: str) -> str:
    """In lower case, with one blank between words. Letters that become two in lower case stay as they are."""
    lower = text.lower()
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return " ".join(lower.split())


_kept = lru_cache(maxsize=1024)(_squeezed)


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no longer word or number goes on at either end. Han has no word boundaries."""
    before, after = text[max(0, start - 2) : start], text[end : end + 2]
    in_word = bool(_WORD.match(before[-1:]) and _WORD.match(text[start]))
    in_word = in_word or bool(_WORD.match(after[:1]) and _WORD.match(text[end - 1]))
    in_number = bool(_DIGIT_POINT.fullmatch(before) and text[start].isdigit())
    return not (in_word or in_number or (_POINT_DIGIT.fullmatch(after) and text[end - 1].isdigit()))


def _place(text: str, squeezed: str, at: int) -> int:
    """The character of `text` behind one of its squeezed form."""
    word = squeezed.count(" ", 0, at)
    start = squeezed.rfind(" ", 0, at) + 1
    found = next(islice(_WORDS.finditer(text), word, None))
    return found.start() + at - start


def whole_words(value: str) -> str:
    """A pattern for the same in a short text: trying it costs len(value) a character."""
    words = r"\s+".join(map(regex.escape, value.split()))
    return rf"(?<![^\W\p{{Han}}])(?<!\d[.,]){words}(?![^\W\p{{Han}}])(?![.,]\d)"
