"""Deciders: who says whether a relation holds. A chain asks code, then a model, then the stated default.

    class Mine:
        async def decide(self, question: Question, sources: Sequence[Source]) -> Finding: ...

A decider that cannot tell answers `question.undecided("code", "why")`, and the next of the chain is asked. Whatever
a decider raises blocks the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from demur.envs.guards import Context
from demur.envs.guards.provenance.relations import DecidedBy, Finding, Relation, Span
from demur.envs.guards.provenance.sources import Source
from demur.envs.tool import Tool
from demur.envs.trace import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Does this relation hold? subtask: the agent's plan. parameter: for DerivedFrom and AppearIn. found: what was
    decided about the call before.

    In stage III the relation is CanAddress and call is None: can only one action address the subtask? Neither the
    context nor the subtask then tells what was proposed. A finding that does not hold names the readings.
    """

    relation: Relation
    context: Context
    call: ToolCall | None
    parameter: str | None = None
    subtask: str = ""
    found: tuple[Finding, ...] = ()

    @property
    def blind(self) -> bool:
        """Whether it is stage III's question."""
        return self.call is None

    @property
    def proposed(self) -> ToolCall:
        """The call. Not for stage III."""
        assert self.call is not None, "stage III does not see the proposed call"
        return self.call

    @property
    def tool(self) -> Tool:
        """The proposed tool, which SpecifiedBy found."""
        return self.context.tools[self.proposed.name]

    @property
    def value(self) -> Any:
        """The parameter's proposed value."""
        assert self.parameter is not None, f"{self.relation} is not about a parameter"
        return self.proposed.arguments[self.parameter]

    @property
    def subject(self) -> str:
        return "interpretation" if self.call is None else self.parameter or self.call.name

    def finding(
        self,
        holds: bool | None,
        decided_by: DecidedBy,
        reason: str = "",
        *,
        spans: Iterable[Span] = (),
        question: str | None = None,
    ) -> Finding:
        """An answer to it."""
        return Finding(
            relation=self.relation,
            subject=self.subject,
            holds=holds,
            spans=tuple(spans),
            decided_by=decided_by,
            reason=reason,
            question=question,
        )

    def undecided(self, decided_by: DecidedBy, reason: str) -> Finding:
        return self.finding(None, decided_by, reason)


class Decider(Protocol):
    """Answers one question at a time."""

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding: ...


class BatchDecider(Decider, Protocol):
    """Answers several questions about one call at once, in order: a model needs one call for them."""

    async def decide_all(self, questions: Sequence[Question], sources: Sequence[Source]) -> list[Finding]: ...


@dataclass(frozen=True, slots=True)
class Default:
    """The end of a chain: what counts where nobody could tell. None lets the call pass and is reported."""

    holds: bool | None

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        before = next((f for f in question.found if _same(f, question)), None)
        reason = before.reason if before and before.reason else "nothing could decide it"
        if before is None:
            return question.finding(self.holds, "default", reason)
        return question.finding(self.holds, "default", reason, spans=before.spans, question=before.question)


class OnlyAgainst:
    """What another rejects. What it accepts is left to the rest of the chain, with its reason and evidence."""

    def __init__(self, other: Decider) -> None:
        self._other = other

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        finding = await self._other.decide(question, sources)
        return finding.model_copy(update={"holds": None}) if finding.holds else finding


class Specified:
    """SpecifiedBy: the rule that the tool is one of those on offer."""

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        call = question.proposed
        known = call.name in question.context.tools
        return question.finding(known, "rule", "" if known else f"no tool is called {call.name!r}")


async def decide_all(
    questions: Sequence[Question], sources: Sequence[Source], chain_of: Mapping[Relation, Sequence[Decider]]
) -> list[Finding]:
    """A finding a question, in order, up to the first that does not hold.

    The last deciders of all chains are asked after all others, those before them before that, and so on: so a model
    that several chains share is asked once, and only if code rejects nothing. What a chain leaves open without a
    stated default does not hold.
    """
    open_now, found = list(questions), dict[tuple[Relation, str], Finding]()
    longest = max((len(chain_of[question.relation]) for question in questions), default=0)
    for to_go in range(longest, 0, -1):
        for decider, asked in _grouped(open_now, to_go, chain_of):
            told = [replace(question, found=(*question.found, *found.values())) for question in asked]
            for question, finding in zip(asked, await _answers(decider, told, sources), strict=True):
                if not _same(finding, question):
                    raise ValueError(f"a decider answered {finding.relation} where {question.relation} was asked")
                found[question.relation, question.subject] = finding
            if any(finding.holds is False for finding in found.values()):
                return list(found.values())
        open_now = [q for q in open_now if (f := found.get((q.relation, q.subject))) is None or f.holds is None]
    for question in open_now:
        key = question.relation, question.subject
        if key not in found or found[key].decided_by != "default":
            found[key] = question.finding(False, "default", "nothing could decide it, and no default is stated")
    return list(found.values())


def _grouped(
    questions: Sequence[Question], to_go: int, chain_of: Mapping[Relation, Sequence[Decider]]
) -> list[tuple[Decider, list[Question]]]:
    """The deciders with which `to_go` are left of their chains, each with the questions that it is to answer."""
    groups: dict[int, tuple[Decider, list[Question]]] = {}
    for question in questions:
        chain = chain_of[question.relation]
        if to_go <= len(chain):
            decider = chain[-to_go]
            groups.setdefault(id(decider), (decider, []))[1].append(question)
    return list(groups.values())


async def _answers(decider: Decider, questions: Sequence[Question], sources: Sequence[Source]) -> Sequence[Finding]:
    if hasattr(decider, "decide_all"):  # isinstance with a protocol looks at all of its members, each time
        return await cast(BatchDecider, decider).decide_all(questions, sources)
    return [await decider.decide(question, sources) for question in questions]


def _same(finding: Finding, question: Question) -> bool:
    return (finding.relation, finding.subject) == (question.relation, question.subject)
