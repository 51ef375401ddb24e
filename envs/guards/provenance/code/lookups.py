"""The look-ups made so far, and how their records compare under a request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import regex

from demur.envs.guards.provenance.code.conditions import YOU, Request
from demur.envs.guards.provenance.code.records import Table, table_of
from demur.envs.guards.provenance.code.rows import Row, form_of, singular, words_in
from demur.envs.guards.provenance.code.values import moment_of
from demur.envs.guards.provenance.sources import Source
from demur.envs.guards.provenance.values import values_in

_MOST_ROWS: Final = 200
"""Rows of one look-up, and others of a kind, that are compared."""
_MOST_TIED: Final = 20
_LINKED: Final = 20
_LETTERS: Final = regex.compile(r"\p{L}{4}")

Found = tuple[Source, Row]


@dataclass(frozen=True, eq=False)
class LookUp:
    """A result with its records. given: the values that its call was made with, in lower case."""

    source: Source
    table: Table
    given: frozenset[str]

    @classmethod
    def of(cls, source: Source) -> LookUp:
        """The same one for a source that was seen before."""
        known = source.memo.get("look-up")
        if known is None:
            source.memo["look-up"] = known = cls(source, table_of(source), _given(source))
        assert isinstance(known, cls)
        return known

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        return self.table.rows[:_MOST_ROWS]

    @cached_property
    def by_word(self) -> dict[str, list[Row]]:
        """The rows by the words of their short fields."""
        index: dict[str, list[Row]] = {}
        for row in self.rows:
            for word in row.words:
                index.setdefault(word, []).append(row)
        return index

    def rows_that(self, request: Request, fits: Callable[[frozenset[str]], bool]) -> Iterator[Row]:
        """The rows whose words of the request fit. Most hold none of them, or all the same one."""
        held = request.words & self.by_word.keys()
        if len(held) == 1:
            if fits(held):
                yield from self.by_word[next(iter(held))]
        elif held:
            some = {id(row): row for word in held for row in self.by_word[word]}
            yield from (row for row in some.values() if fits(matched(request, row)))
        if fits(frozenset()):
            yield from (row for row in self.rows if held.isdisjoint(row.words))

    @cached_property
    def names(self) -> list[str]:
        """What tells the kind of its records: the tool that found them, and their fields."""
        return [self.source.tool or "", *(self.table.rows[0].shape if self.table.rows else ())]

    @cached_property
    def searched(self) -> frozenset[str]:
        """Words that it was made with. A look-up by a day alone lists what that day holds, whatever is asked for."""
        return frozenset(singular(w) for text in self.given if moment_of(text) is None for w in words_in(text))


@dataclass(frozen=True, slots=True)
class Choice:
    """The row that a value of a call stands for. among: the look-ups that may hold others of its kind."""

    value: str
    at: LookUp
    row: Row
    among: Sequence[LookUp]

    def peers(
        self,
        request: Request,
        least: frozenset[str] = frozenset(),
        fits: Callable[[frozenset[str]], bool] | None = None,
    ) -> Iterator[Found]:
        """Others of its kind, each once, at most 200: those whose words of the request are at least these, and fit.
        They have its shape, or without field names an id of the same form, and were found by the same tool."""
        row, wanted = self.row, self.value.casefold()
        seen, form = {row.tokens}, form_of(wanted)
        for one in self.among:
            if not least <= one.by_word.keys():
                continue
            for peer in one.rows_that(request, lambda words: least <= words and (fits is None or fits(words))):
                alike = peer.shape == row.shape if row.shape else not peer.shape and form in peer.forms
                if alike and wanted not in peer.tokens and peer.tokens not in seen:
                    seen.add(peer.tokens)
                    yield one.source, peer
                    if len(seen) > _MOST_ROWS:
                        return


class LookUps:
    """All results, oldest first."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.all = [LookUp.of(source) for source in sources if source.call is not None]

    @cached_property
    def given(self) -> frozenset[str]:
        """What any of them was made with."""
        return frozenset[str]().union(*(one.given for one in self.all))

    def holds(self, word: str) -> bool:
        """Whether a record has the word."""
        return any(word in row.all_words for one in self.all for row in one.rows)

    def choice(self, value: str) -> Choice | None:
        """The longest look-up, the latest on a tie, in which one row stands for the value."""
        wanted = value.casefold()
        found = [
            (len(one.table.rows), number, one, rows[0])
            for number, one in enumerate(self.all)
            if len(rows := one.table.by_token.get(wanted, [])) == 1 and wanted not in one.given
        ]
        if not found:
            return None
        _, _, at, row = max(found, key=lambda one: one[:2])
        return Choice(value, at, row, [o for o in self.all if o.source.tool == at.source.tool] if row.shape else [at])

    def known_of(self, request: Request, choice: Choice) -> frozenset[str]:
        """Words of the request in all that was seen of the chosen record: its row, what an id in it stands for, and
        what a look-up by an id that only this row has gave."""
        words = request.words & choice.row.all_words
        index = choice.at.table.by_token
        ids = frozenset(token for token in choice.row.ids if len(index.get(token, ())) == 1)
        for one in self.all:
            linked: Sequence[Row] = ()
            if not one.given.isdisjoint(ids):
                linked = one.table.rows[:_LINKED]
            elif held := ids & one.table.by_token.keys():
                linked = [rows[0] for token in held if len(rows := one.table.by_token[token]) == 1]
            for other in linked:
                words |= request.words & other.all_words
        return words

    def were_compared(self, rows: Sequence[Row]) -> bool:
        """Whether each was looked into: the agent may have found there what the request goes by."""
        return all(not own.isdisjoint(self.given) for own in own_tokens(rows))

    def invented(self, request: Request, at: LookUp) -> str | None:
        """What a look-up was made with, if it is words that stand neither in the request nor in an earlier result."""
        said = {singular(word) for word in words_in(request.text)}
        for text in sorted(text for text in at.given if _LETTERS.search(text)):
            words = {singular(word) for word in words_in(text)}
            earlier = self.all[: self.all.index(at)]
            if words.isdisjoint(said) and all(words.isdisjoint(row.all_words) for one in earlier for row in one.rows):
                return text
        return None


def _given(source: Source) -> frozenset[str]:
    values = values_in(source.call.arguments) if source.call else ()
    return frozenset(str(value).strip().casefold()[:_MOST_ROWS] for value in values if value is not None)


def own_tokens(rows: Sequence[Row]) -> list[frozenset[str]]:
    """Of each row the tokens that no other has."""
    once: set[str] = set()
    often: set[str] = set()
    for row in rows:
        often |= once & row.tokens
        once |= row.tokens
    return [row.tokens - often for row in rows]


def matched(request: Request, row: Row) -> frozenset[str]:
    """Words of the request that the row's short fields hold."""
    return request.words & row.words


def tied_in(request: Request, one: LookUp) -> list[Row]:
    """The rows of a look-up by the request's own words that fit it alike, if no other fits it better; [] if they are
    told apart."""
    key = request.words & one.searched
    rows = [row for row in one.rows if row.ids] if key else []
    if len(rows) < 2:
        return []
    fits = {row: request.words & row.all_words for row in rows}
    # a search by words finds what holds them; a list of what belongs to something else need not
    if not all(key & words for words in fits.values()):
        return []
    kinds = set(fits.values())
    best = [words for words in kinds if not any(words < other for other in kinds)]
    if len(best) != 1:
        return []
    top = [row for row in rows if fits[row] == best[0]]
    if len(top) < 2 or len({row.tokens for row in top}) != len(top) or len({row.shape for row in top}) != 1:
        return []
    return [] if any(is_singled_out(request, row, top) for row in top) else top


def is_singled_out(request: Request, row: Row, rows: Sequence[Row]) -> bool:
    """Whether a row differs from others that fit the request alike in a way that the request tells: it is the one
    that a result calls the user's, or the others say all that it says and more, as "identity card, copy" does."""
    if request.mine and YOU in row.all_words and sum(YOU in one.all_words for one in rows) == 1:
        return True
    if len(rows) > _MOST_TIED:
        return False
    rest = request.rest_of(row)
    return all(rest < request.rest_of(other) for other in rows if other is not row)
