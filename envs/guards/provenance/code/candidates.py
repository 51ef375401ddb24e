"""Which record a call stands for, and whether the request means that one, by comparing it with the others seen.

`Addresses` (CanAddress) looks at the record behind a value of the call. `OneReading` (stage III) does not know the
call: it looks for a look-up with several matches that the request does not tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

import regex

from demur.envs.guards.provenance.code.branches import against_branch
from demur.envs.guards.provenance.code.conditions import Request, read_request
from demur.envs.guards.provenance.code.derived import Tracers
from demur.envs.guards.provenance.code.exchange import misplaced
from demur.envs.guards.provenance.code.fitting import against, better
from demur.envs.guards.provenance.code.lookups import (
    Choice,
    Found,
    LookUps,
    is_singled_out,
    matched,
    own_tokens,
    tied_in,
)
from demur.envs.guards.provenance.code.missing import open_choice, placeholder_in
from demur.envs.guards.provenance.code.repeats import against_repeat
from demur.envs.guards.provenance.code.required import left_open
from demur.envs.guards.provenance.code.rows import Row
from demur.envs.guards.provenance.code.slots import against_slot
from demur.envs.guards.provenance.code.unused import named_instead
from demur.envs.guards.provenance.code.values import moment_of
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.relations import Finding, Origin
from demur.envs.guards.provenance.sources import Source
from demur.envs.guards.provenance.values import spelled, stretch_of, values_in

_MOST_VALUES: Final = 20
"""Values of a call behind which a record is looked for."""
_LISTED: Final = 5
_SHOWN: Final = 70
_TIME: Final = regex.compile(r"\b\d{1,2}:\d{2}\b")


class Doubt(NamedTuple):
    """Why the request rather does not mean a record. found: the records that show it."""

    reason: str
    found: tuple[Found, ...] = ()
    question: str | None = None


class Addresses:
    """CanAddress: the record is the one that the request describes, and the request's condition holds."""

    def __init__(self, tracers: Tracers) -> None:
        self._tracers = tracers

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        said = _said(sources)
        request = read_request(said, question.context.now)
        call, lookups = question.proposed, LookUps(sources)
        last = (question.context.query, *question.context.user_said)[-1]
        missing = open_choice(call, question.tool, said, lookups.holds)
        if missing := missing or left_open(call, question.tool, last, request, lookups):
            return question.finding(False, "code", missing.reason, question=missing.question)
        results = [one.source for one in lookups.all]
        if reason := against_branch(request, call, results) or against_slot(request, call, results):
            return question.finding(False, "code", reason)
        tracer = self._tracers.of(sources, question.context.now)
        said_by_user = tracer.origins.said_by_user
        if reason := (
            misplaced(question, tracer)
            or against_repeat(request, question, said_by_user)
            or named_instead(request, question, tracer)
        ):
            return question.finding(False, "code", reason)
        values = list(islice(_chosen(question, said), _MOST_VALUES))
        dated = any(moment_of(str(value)) is not None for value in values_in(call.arguments))
        sure: list[Choice] = []
        for choice in filter(None, map(lookups.choice, values)):
            known = lookups.known_of(request, choice)
            if doubt := _doubt(request, choice, known, lookups, values, dated):
                spans = [row.span(source) for source, row in doubt.found[:_LISTED]]
                return question.finding(False, "code", doubt.reason, spans=spans, question=doubt.question)
            if known and _is_only(request, choice, known):
                sure.append(choice)
        if sure:
            spans = [choice.row.span(choice.at.source) for choice in sure[:_LISTED]]
            return question.finding(True, "code", "the request describes this record and no other", spans=spans)
        return question.undecided("code", "the records seen do not tell whether it is the right one")


class OneReading:
    """Stage III: no look-up leaves open which record is meant, and the request names what it speaks of."""

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        assert question.blind, "it is asked without the call"
        request = read_request(_said(sources), question.context.now)
        if missing := placeholder_in((question.context.query, *question.context.user_said)[-1]):
            return question.finding(False, "code", missing.reason, question=missing.question)
        lookups = LookUps(sources)
        changes = [one for one in lookups.all if _changes(question, one.source)]
        changed = frozenset[str]().union(*(one.given for one in changes))
        for one in reversed(lookups.all):
            if one in changes or not (tied := tied_in(request, one)) or request.is_open(one.names):
                continue
            # that an earlier change of one of them could run settled which is meant
            settled = any(not own.isdisjoint(changed) for own in own_tokens(tied))
            if not settled and not lookups.were_compared(tied):
                spans = [row.span(one.source) for row in tied[:_LISTED]]
                reason = f"{len(tied)} matches fit the request alike"
                return question.finding(False, "code", reason, spans=spans, question=_which(tied))
        return question.undecided("code", "no look-up leaves open which record is meant")


def _said(sources: Sequence[Source]) -> str:
    """The request and what the user answered; not what the user confirmed, whose values the agent chose."""
    return "\n".join(s.text for s in sources if s.origin is Origin.USER and not s.id.startswith("confirmed:"))


def _changes(question: Question, source: Source) -> bool:
    tool = question.context.tools.get(source.tool or "")
    return tool is None or tool.changes


def _chosen(question: Question, said: str) -> Iterator[str]:
    """Values of the call that the user did not give: the agent took them from somewhere."""
    generative = {p.name for p in question.tool.parameters if p.source == "generative"}
    arguments = question.proposed.arguments
    for value in values_in({name: arguments[name] for name in arguments if name not in generative}):
        text = spelled(value)
        # a time is set, or stands in many records: it is no record's name
        if text and len(text) <= 200 and moment_of(text) is None and stretch_of(text, said) is None:
            yield text


def _doubt(
    request: Request, choice: Choice, known: frozenset[str], lookups: LookUps, values: Sequence[str], dated: bool
) -> Doubt | None:
    """Why the request rather does not mean the chosen row. known: its words in what was seen of the row. values: of
    the call. dated: the call sets a date, which the request may name."""
    row, here = choice.row, (choice.at.source, choice.row)
    if not dated and (clash := against(request, row)):
        return Doubt(f"{choice.value} does not fit: {clash}", (here,))
    if not known and (words := lookups.invented(request, choice.at)):
        reason = f"{choice.value} was found by {words!r}, which stands neither in the request nor in a result"
        return Doubt(reason, (here,), _which([row]))
    others = frozenset(value.casefold() for value in values) - row.tokens
    ordered = request.order is not None and request.has_kind(choice.at.names)

    for found in choice.peers(request, known, lambda theirs: ordered or theirs != known):
        if not found[1].tokens.isdisjoint(others):  # the call is about both
            continue
        more = matched(request, found[1]) - known
        if any(len(word) > 2 for word in more) and not request.free:
            reason = f"{_line(found[1])} fits the request better than {choice.value}: it has {', '.join(sorted(more))}"
            return Doubt(reason, (found, here), _which([found[1], row]))
        if ordered and better(request, row, found[1]):
            reason = f"the request asks for another by its order: {_line(found[1])}, and not {choice.value}"
            return Doubt(reason, (found, here))
    return _left_open(request, choice, known, lookups)


def _is_only(request: Request, choice: Choice, known: frozenset[str]) -> bool:
    """Whether others of its kind were seen, and what is known of it fits none of them."""
    return any(choice.peers(request)) and not any(choice.peers(request, known))


def _left_open(request: Request, choice: Choice, known: frozenset[str], lookups: LookUps) -> Doubt | None:
    """Whether others fit the request as well as the chosen row, so that choosing it was a guess."""
    short = matched(request, choice.row)
    # something else that was seen of it fits the request
    if not short or known != short or request.is_open(choice.at.names):
        return None
    alike = list(choice.peers(request, short, lambda words: words == short))
    rows = [choice.row, *(row for _, row in alike)]
    if not alike or is_singled_out(request, choice.row, rows) or lookups.were_compared(rows):
        return None
    found = ((choice.at.source, choice.row), *alike)
    return Doubt(f"{len(found)} matches fit the request alike", found, _which(rows))


def _which(rows: Sequence[Row]) -> str:
    """A question that lists them, and asks for the time if each has another."""
    clocks = {tuple(_TIME.findall(_text(row))) for row in rows}
    by = ", and at what time" if len(clocks) == len(rows) > 1 else ""
    listed = "; ".join(_line(row) for row in rows[:_LISTED])
    more = f"; and {len(rows) - _LISTED} more" if len(rows) > _LISTED else ""
    return f"Which one do you mean{by}: {listed}{more}?"


def _text(row: Row) -> str:
    return ", ".join(field.text[: 2 * _SHOWN] for field in row.fields if field.text)


def _line(row: Row) -> str:
    text = " ".join(_text(row).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
