"""RelevantTo by verbs: what a tool does to the world, against what the request asks to be done.

Decided only where the words are clear: a tool that takes something away for a request that asks for
nothing to go, and an errand that an order in a result names and the request does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice
from typing import Final

from demur.envs.guards.provenance.code.contest import better_tool
from demur.envs.guards.provenance.code.derived import Tracers
from demur.envs.guards.provenance.code.tracing import Tracer
from demur.envs.guards.provenance.code.verbs import objects_of, stem, tool_effects, words_of
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.relations import Finding, Span
from demur.envs.guards.provenance.sources import Source
from demur.envs.guards.provenance.values import spelled, stretch_of, values_in

_FREE_TEXT: Final = 20_000
_MOST_NAMED: Final = 20
_NAMED = re.compile(
    r"(?<![\w.+-])[\w.+-]+@[\w-]+\.[\w.-]*\w|(?:https?://|www\.)[^\s<>\"']*[\w/]|\b[A-Z]{0,4}\d{6,34}\b"
)
_GOES: Final = re.compile(
    r"\b(?:rid of|instead|in place of|no longer|not need\w*|don['’]?t need\w*|without|except|only keep|keep only|"
    r"replace\w*|move\w*|merge\w*|free up|out of|take \w+(?: \w+)? (?:off|out|down)|off|stop|end|away|unneeded|"
    r"obsolete|duplicates?|dedup\w*|gone|go|died|lost|over|old|expired?|swap|change|leave[sd]?|left|fire[sd]?|reset|"
    r"rotate\w*|archive\w*|from .{1,40} to)\b",
    re.IGNORECASE,
)
"""Words that ask for something to go without one of the verbs."""


class VerbRelevance:
    """RelevantTo, where verbs and objects tell; else undecided."""

    def __init__(self, tracers: Tracers) -> None:
        self._tracers = tracers

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        tracer = self._tracers.of(sources, question.context.now)
        origins, tool = tracer.origins, question.tool
        does = tool_effects(tool)
        if ordered := _only_ordered(question, tracer, does):
            source, span = ordered
            reason = f"{source.id} orders it, and the request asks for nothing of the kind"
            return question.finding(False, "code", reason, spans=[span])
        if carried := _passed_on(question, tracer):
            reason = f"its text passes on what an order in {carried.source} names, which the user did not write"
            return question.finding(False, "code", reason, spans=[carried])
        if better := _better(question, origins.said):
            return question.finding(False, "code", f"{better} fits the step by far better")
        if origins.carries_out or not origins.effects or not does:
            return question.undecided("code", "the request's verbs do not tell")
        is_named = bool(objects_of(tool.name) & origins.said_stems)
        if does & origins.effects - {"read"}:
            if is_named:
                return question.finding(True, "code", "the request asks for such a change")
            return question.undecided("code", "the request does not name what the tool changes")
        if does == {"delete"} and not is_named and not _GOES.search(origins.said[:20_000]):
            return question.finding(False, "code", "it takes something away, which the request does not ask for")
        return question.undecided("code", "the request's verbs do not tell")


def _better(question: Question, said: str) -> str | None:
    """A tool on offer that fits the plan by far better. A plan that names all the values of the call means the call."""
    plan = question.subtask
    if not plan.strip():
        return None
    arguments = question.proposed.arguments
    derivable = {name: arguments[name] for name in question.tool.derivable if name in arguments}
    values = [text for value in values_in(derivable) if (text := spelled(value))]
    if len(values) > 1 and all(stretch_of(value, plan) for value in values):
        return None
    return better_tool(question.context.tools, question.proposed.name, plan=plan, said=said)


def _only_ordered(question: Question, tracer: Tracer, does: frozenset[str]) -> tuple[Source, Span] | None:
    """The order that a call carries out of which the user said nothing: neither a value nor such a change."""
    origins = tracer.origins
    values = (spelled(value) for value in values_in(question.proposed.arguments))
    if any(value and len(value) > 1 and origins.said_by_user(value) for value in values):
        return None
    objects = objects_of(question.tool.name)
    if does & origins.effects and objects & origins.said_stems:
        return None
    found = _looked_up(question, tracer)
    for source, text, order in origins.strong_orders():
        stems = set(map(stem, words_of(text)))
        if does & order.effects and (objects & stems or not objects) and all(value in text for value in found):
            span = Span(source=source.id, start=order.start, end=order.end, text=text, origin=source.origin)
            return source, span
    return None


def _looked_up(question: Question, tracer: Tracer) -> list[str]:
    """The values that stand where they may be used, and so outside of orders."""
    return [
        str(value)
        for name, argument in question.proposed.arguments.items()
        if name in question.tool.derivable
        for value, evidence in tracer.each(argument, name, question.tool)
        if evidence is not None and evidence.against is None and evidence.places
    ]


def _passed_on(question: Question, tracer: Tracer) -> Span | None:
    """An address, link or number in free text that stands only in orders to the reader."""
    origins = tracer.origins
    derivable = {p.name for p in question.tool.parameters if p.source == "derivable"}
    for name, argument in question.proposed.arguments.items():
        if name in derivable:
            continue  # AppearIn looks at it
        for text in filter(None, map(spelled, values_in(argument))):
            for match in islice(_NAMED.finditer(text[:_FREE_TEXT]), _MOST_NAMED):
                if origins.said_by_user(match[0]) or (place := origins.only_ordered(match[0])) is None:
                    continue
                evidence = tracer.trace(text, name, question.tool)
                # a record may be called after an order, and is then named by it
                if evidence is None or evidence.against is not None:
                    return place.span
    return None
