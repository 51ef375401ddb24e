"""A contract read from a query by rules alone: without a model, a network or a key.

    contract = extract("Send 86 to Jonas, but never change my limit.", tools)

Least privilege: what reads is allowed, and of what changes only the tools that the words of the query call for, with
the values that it states. Rules read plain requests; where they are unsure, the contract's confidence is low, and a
question comes before anything is changed. `demur.envs.intent.extraction.model` reads with a model, and falls back to
this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import regex

from demur.envs.intent.contract import CallPattern, Criterion, IntentContract, Metric, Precondition, Predicate
from demur.envs.intent.extraction.limits import Limits, limits
from demur.envs.intent.extraction.pins import pins
from demur.envs.intent.extraction.wording import Choice, Clause, Matcher, clauses
from demur.envs.tool import Tool
from demur.envs.trace import Level

FALLBACK_CONFIDENCE: Final = 0.5
"""Of a query that cannot be read: its contract allows nothing."""
BY_NOUN: Final = 0.7
AMBIGUOUS: Final = 0.4
"""How sure a clause is that names no deed but a thing, and one that fits several tools alike; others are 1."""

_MANY: Final = regex.compile(r"\b(?:all|every|each|both|them|those|these|everybody|everyone|\w+ and [a-z]+)\b")
_IF: Final = regex.compile(r"\b(?:if|unless|in case|whether|otherwise)\b")
_METRIC: Final = regex.compile(
    r"(?:(?P<span>\d+-(?:day|week|month)) )?"
    r"\b(?P<name>(?:(?!the|a|day|week|month)[a-z]+ )?(?:rate|number|sum|total|average|share|count)"
    r"(?: of (?!the\b|last\b|past\b)[a-z]+)?)\b"
    r"(?:.*?\b(?:last|past) (?P<period>(?:\w+ )?(?:days?|weeks?|months?|years?)))?(?:.*?\bof (?P<scope>shop \w+))?"
)


class _Call(NamedTuple):
    """A clause that calls for a change."""

    clause: Clause
    choice: Choice
    patterns: tuple[CallPattern, ...]

    @property
    def sure(self) -> float:
        if len(self.choice.tools) > 1:
            return AMBIGUOUS
        return 1.0 if self.choice.by_action else BY_NOUN


def extract(query: str, tools: Mapping[str, Tool]) -> IntentContract:
    """Read a query.

    confidence: r / (r + u + v/2) · s, in [0, 1], where r clauses were read, u ask for something that no tool fits,
    v limits fit no rule, and s is the mean sureness of the clauses that call for a change (1, `BY_NOUN` or
    `AMBIGUOUS`; 1 without any). Of a query in which nothing can be read all lists are empty and it is
    `FALLBACK_CONFIDENCE`.
    """
    goal = " ".join(query.split())
    matcher, found = Matcher(tools), clauses(query)
    calls = _calls(found, matcher)
    asked = [clause for clause in found if clause.kind == "question" and matcher.knows(clause)]
    read = len(calls) + len(asked)
    limit = limits(found, matcher, tools, (tool for call in calls for tool in call.choice.tools))
    if not read and not limit.constraints:
        return IntentContract(goal=goal, source_text=query, confidence=FALLBACK_CONFIDENCE)
    kept = [call for call in calls if not _forbidden(call, limit)]
    unread = sum(c.kind == "request" for c in found) - sum(call.clause.kind == "request" for call in calls)
    return IntentContract(
        goal=goal,
        source_text=query,
        metrics=tuple(_metrics(asked)),
        constraints=limit.constraints,
        acceptance=tuple(_criteria(kept, asked)),
        allowed=(*_reading(tools), *_allowed(kept)),
        approval=limit.approval,
        order=tuple(_order(found, matcher, {call.clause: call for call in kept})),
        confidence=_confidence(read, unread, limit, calls),
    )


def _calls(found: Sequence[Clause], matcher: Matcher) -> list[_Call]:
    around = [clause for clause in found if clause.kind in ("request", "context", "question")]
    context = frozenset[str]().union(*(clause.stems for clause in around))
    values = _Values(" ".join(clause.text for clause in around))
    calls = []
    for clause in found:
        choice = matcher.changing(clause, context) if clause.kind == "request" else None
        if choice is not None:
            calls.append(_Call(clause, choice, tuple(values.pattern(tool, clause) for tool in choice.tools)))
    return calls


class _Values:
    """Pins the calls that clauses ask for; values that a clause does not state may stand in those around it."""

    def __init__(self, around: str) -> None:
        self._around = around
        self._found: dict[str, tuple[Predicate, ...]] = {}

    def pattern(self, tool: Tool, clause: Clause) -> CallPattern:
        if tool.name not in self._found:
            self._found[tool.name] = pins(tool, self._around)
        own = pins(tool, clause.text)
        known = {predicate.argument for predicate in own}
        more = (predicate for predicate in self._found[tool.name] if predicate.argument not in known)
        return CallPattern(tool=tool.name, where=(*own, *more), at_most=None if _MANY.search(clause.words) else 1)


def _reading(tools: Mapping[str, Tool]) -> Iterator[CallPattern]:
    return (CallPattern(tool=tool.name) for tool in tools.values() if not tool.changes)


def _allowed(calls: Sequence[_Call]) -> Iterator[CallPattern]:
    """Each pattern once, as often as it is called for."""
    counted: dict[CallPattern, int | None] = {}
    for pattern in (pattern for call in calls for pattern in call.patterns):
        bare = pattern.model_copy(update={"at_most": None})
        so_far = counted.get(bare, 0)
        counted[bare] = None if so_far is None or pattern.at_most is None else so_far + pattern.at_most
    return (pattern.model_copy(update={"at_most": times}) for pattern, times in counted.items())


def _criteria(calls: Sequence[_Call], asked: Sequence[Clause]) -> Iterator[Criterion]:
    """A criterion for each part of the goal; by rule where one change is asked for, and without a condition."""
    for number, call in enumerate(calls, 1):
        one = call.patterns[0].model_copy(update={"at_most": None})
        decided = len(call.patterns) == 1 and not _IF.search(call.clause.words)
        yield Criterion(id=f"change-{number}", text=call.clause.text, done_when=one if decided else None)
    for number, clause in enumerate(asked, 1):
        yield Criterion(id=f"answer-{number}", text=clause.text)


def _metrics(asked: Sequence[Clause]) -> Iterator[Metric]:
    for clause in asked:
        if match := _METRIC.search(clause.words):
            yield Metric(name=match["name"], period=match["period"] or match["span"], scope=match["scope"])


def _forbidden(call: _Call, limit: Limits) -> bool:
    """Where the query both asks for a call and forbids it, forbidding wins."""
    rules = {rule.forbid for rule in limit.constraints if rule.level is Level.BLOCK}
    bare = {pattern.model_copy(update={"at_most": None}) for pattern in call.patterns}
    return bool(bare & rules) or any(pattern.tool in limit.forbidden for pattern in call.patterns)


def _order(found: Sequence[Clause], matcher: Matcher, calls: Mapping[Clause, _Call]) -> Iterator[Precondition]:
    """`first …, then …`: what the second clause calls for waits for the first one's tool."""
    waits: dict[str, set[str]] = {}
    for number, (one, two) in enumerate(pairwise(found), 1):
        if not one.words.startswith("first ") or not two.words.startswith("then ") or two not in calls:
            continue
        tool = _tool(one, matcher, calls)
        for name in (pattern.tool for pattern in calls[two].patterns):
            if tool is None or name in _behind(tool.name, waits):
                continue  # it would wait for itself: the earlier sentence holds
            waits.setdefault(name, set()).add(tool.name)
            first = CallPattern(tool=tool.name)
            yield Precondition(id=f"order-{number}-{name}", before=CallPattern(tool=name), first=first)


def _behind(name: str, waits: Mapping[str, set[str]]) -> set[str]:
    """The tool and all that it waits for, directly or not."""
    seen, ahead = set[str](), {name}
    while ahead:
        seen |= ahead
        ahead = {later for one in ahead for later in waits.get(one, ())} - seen
    return seen


def _tool(clause: Clause, matcher: Matcher, calls: Mapping[Clause, _Call]) -> Tool | None:
    if clause in calls:
        tools = calls[clause].choice.tools
        return tools[0] if len(tools) == 1 else None
    return matcher.reading(clause)


def _confidence(read: int, unread: int, limit: Limits, calls: Sequence[_Call]) -> float:
    sure = sum(call.sure for call in calls) / len(calls) if calls else 1.0
    return sure * read / (read + unread + limit.vague / 2) if read else FALLBACK_CONFIDENCE
