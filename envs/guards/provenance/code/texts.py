"""A source's text with what was found out about it, read once and kept as long as it is among the latest."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Final

from demur.envs.guards.provenance.code.commands import Command, commands_in
from demur.envs.guards.provenance.code.values import READ, Stretch, Values, read_values
from demur.envs.guards.provenance.code.verbs import stem, words_of

KEPT: Final = 20_000_000
"""Characters of texts that are kept, some twice or three times over."""
PLACES: Final = 50
"""Places of one value in one text that are looked at, of 1,000 that are tried."""
_TRIES: Final = 1_000
_MOST_WORDS: Final = 5_000
"""Words of a value that is looked for: what is longer stands nowhere."""

_WORD_CHAR = re.compile(r"[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_QUOTES = re.compile(r"'+")
_GAP = r"(?:\s|\\(?=[\sn])|(?<=\\)n)+"


class Text:
    """One text, in any script. What it holds is computed when it is asked for."""

    def __init__(self, text: str, now: datetime | None = None) -> None:
        self.text = text
        self._now = now

    @cached_property
    def lower(self) -> str:
        """In lower case, letter for letter."""
        lower = self.text.lower()
        if len(lower) == len(self.text):
            return lower
        return "".join(low if len(low := char.lower()) == 1 else char for char in self.text)

    @cached_property
    def values(self) -> Values:
        return read_values(self.text, self._now)

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        return commands_in(self.text)

    @cached_property
    def stems(self) -> frozenset[str]:
        """Stems of the words of its first 100,000 characters."""
        return frozenset(map(stem, words_of(self.text[:READ])))

    def places(self, value: str) -> Iterator[Stretch]:
        """Where a value stands as whole words, in any letter case and spacing; the first 50 that could be one."""
        wanted = value.lower().split()
        if not 0 < len(wanted) <= _MOST_WORDS or sum(map(len, wanted)) > len(self.text):
            return
        if any(word not in self.lower for word in wanted if "'" not in word):
            return
        if len(wanted) == 1 and "'" not in value:
            found = self._plain(wanted[0])
        else:
            pattern = _GAP.join(_QUOTES.sub(_doubled, re.escape(word)) for word in wanted)
            found = (match.span() for match in re.finditer(pattern, self.lower))
        whole = (stretch for stretch in islice(found, _TRIES) if self._is_whole(*stretch))
        yield from islice(whole, PLACES)

    def _plain(self, word: str) -> Iterator[Stretch]:
        at = self.lower.find(word)
        while at >= 0:
            yield at, at + len(word)
            at = self.lower.find(word, at + len(word))

    def _is_whole(self, start: int, end: int) -> bool:
        """Whether no longer word or number goes on at either end. Han, kana and Hangul have no word boundaries here."""
        text = self.text
        before, after = text[max(0, start - 2) : start], text[end : end + 2]
        if _joins(before[-1:], text[start]) and before != "\\n":
            return False
        if _joins(after[:1], text[end - 1]):
            return False
        first, last = text[start].isdigit(), text[end - 1].isdigit()
        if first and len(before) == 2 and before[1] in ".," and before[0].isdigit():
            return False
        return not (last and len(after) == 2 and after[0] in ".," and after[1].isdigit())


def _doubled(quotes: re.Match[str]) -> str:
    """Each may be written twice. One count for a run: with one a quote, there are too many ways to match."""
    return f"'{{{len(quotes[0])},{2 * len(quotes[0])}}}"


def _joins(one: str, other: str) -> bool:
    return bool(one and _WORD_CHAR.match(one) and _WORD_CHAR.match(other))


class Texts:
    """The latest texts, by content: a session's results are the same at each of its checks."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept, self._size = kept, 0
        self._texts: OrderedDict[tuple[str, datetime | None], Text] = OrderedDict()

    def of(self, text: str, now: datetime | None) -> Text:
        key = text, now
        if (known := self._texts.get(key)) is not None:
            self._texts.move_to_end(key)
            return known
        self._texts[key] = known = Text(text, now)
        self._size += len(text)
        while self._size > self._kept and len(self._texts) > 1:
            (oldest, _), _ = self._texts.popitem(last=False)
            self._size -= len(oldest)
        return known
