"""What a query forbids or ties to a condition, as rules where a rule can express it.

"at most 50" bounds the amounts of the tools called for; "do not delete anything" forbids the tools it names; "do not
change anything" and "read only" forbid all that change; "ask me before you pay" makes a payment ask; "with the approval
of" makes it wait for an approver. A limit that fits no tool is kept in the user's words, for the judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import regex

from demur.envs.intent.contract import CallPattern, Constraint
from demur.envs.intent.extraction.pins import bounds, numeric, pins
from demur.envs.intent.extraction.wording import Clause, Matcher
from demur.envs.tool import EffectClass, Tool
from demur.envs.trace import Level

_NOTHING: Final = regex.compile(
    r"\b(?:change|alter|modify|touch|edit)\s+(?:anything|nothing)|\b(?:only|just) (?:read|look)\b|read[- ]only"
)
_ASK: Final = regex.compile(
    r"\b(?:ask|check with|confirm with)\s+me\b|\bwithout asking me\b|\bunless i (?:confirm|agree)\b"
)
_APPROVAL: Final = regex.compile(r"\b(?:approv\w+|sign(?:s|ed)?[- ]off)\b")
_ONLY: Final = regex.compile(r"\bonly\b|\bno one else\b|\bnothing else\b")


class Limits(NamedTuple):
    """vague: how many limits no rule expresses."""

    constraints: tuple[Constraint, ...]
    approval: tuple[CallPattern, ...]
    forbidden: frozenset[str]
    vague: int


def limits(found: Sequence[Clause], matcher: Matcher, tools: Mapping[str, Tool], called: Iterable[Tool]) -> Limits:
    """The limits in the clauses of a query. called: the tools that its other clauses call for."""
    called = tuple(called)
    rules = _Rules(tools)
    for clause in found:
        if _APPROVAL.search(clause.words) and clause.kind != "reason":
            rules.approval += [CallPattern(tool=tool.name) for tool in _meant(clause, matcher, called)]
        elif _ASK.search(clause.words):
            rules.add(clause, [CallPattern(tool=t.name) for t in _meant(clause, matcher, called)], Level.ASK)
        elif clause.kind == "limit":
            rules.forbid(clause, matcher)
        elif clause.kind != "reason":
            rules.bound(clause, called)
    return Limits(tuple(rules.constraints), tuple(rules.approval), frozenset(rules.forbidden), rules.vague)


class _Rules:
    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._tools = tools
        self.constraints: list[Constraint] = []
        self.approval: list[CallPattern] = []
        self.forbidden: set[str] = set()
        self.vague = 0

    def add(self, clause: Clause, forbid: Sequence[CallPattern], level: Level = Level.BLOCK) -> None:
        """A constraint for each pattern; one without a rule if there is none."""
        self.vague += not forbid
        for pattern in forbid or (None,):
            number = len(self.constraints) + 1
            made = {"id": f"limit-{number}", "text": _sentence(clause.text), "forbid": pattern, "level": level}
            self.constraints.append(Constraint.model_validate(made))

    def forbid(self, clause: Clause, matcher: Matcher) -> None:
        if _NOTHING.search(clause.words):
            effects = dict.fromkeys(tool.effect for tool in self._tools.values() if tool.effect is not EffectClass.READ)
            self.forbidden |= {tool.name for tool in self._tools.values() if tool.effect is not EffectClass.READ}
            self.add(clause, [CallPattern(effect=effect) for effect in effects])
            return
        choice = matcher.changing(clause, frozenset())
        patterns = []
        for tool in choice.tools if choice and choice.by_action else ():
            where = pins(tool, clause.text)
            patterns.append(CallPattern(tool=tool.name, where=where))
            if not where:
                self.forbidden.add(tool.name)
        self.add(clause, patterns)

    def bound(self, clause: Clause, called: Sequence[Tool]) -> None:
        for bound in bounds(clause.text):
            self.add(
                clause,
                [
                    CallPattern(tool=tool.name, where=(bound.model_copy(update={"argument": name, "negated": True}),))
                    for tool in called
                    for name in numeric(tool)[:1]
                ],
            )
        if _ONLY.search(clause.words):
            self.add(clause, ())  # what "only" leaves out is a matter of meaning


def _meant(clause: Clause, matcher: Matcher, called: Sequence[Tool]) -> Sequence[Tool]:
    """The tools a condition is about: those it names, else all that are called for."""
    words = _ASK.sub(" ", _APPROVAL.sub(" ", clause.words))
    choice = matcher.changing(clause._replace(words=words), frozenset())
    return choice.tools if choice and choice.by_action else called


def _sentence(text: str) -> str:
    return regex.sub(r"^(?:but|and)\s+", "", text.strip(" ,;，；"), flags=regex.IGNORECASE) or text
