"""The deciders of DerivedFrom and AppearIn: what `tracing` found, as findings.

DerivedFrom asks whether a text gives the value at all, AppearIn whether that text is one that may: the request, or
what was looked up for it, and not somebody else's order to the reader.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from demur.envs.guards.provenance.code.missing import described
from demur.envs.guards.provenance.code.texts import Texts
from demur.envs.guards.provenance.code.tracing import Evidence, Tracer
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.relations import Finding, Relation
from demur.envs.guards.provenance.sources import Source

_SHOWN = 120


class Tracers:
    """The tracer of the latest list of sources; the questions about one call bring the same list."""

    def __init__(self) -> None:
        self._texts = Texts()
        self._last: tuple[Sequence[Source], datetime | None, Tracer] | None = None

    def of(self, sources: Sequence[Source], now: datetime | None) -> Tracer:
        last = self._last
        if last is None or last[0] is not sources or last[1] != now:
            self._last = last = (sources, now, Tracer(sources, self._texts, now))
        return last[2]


class TracedDerived:
    """DerivedFrom: each value inside the parameter follows from what the user said or from a result, else undecided."""

    def __init__(self, tracers: Tracers) -> None:
        self._tracers = tracers

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        spans, reasons = [], []
        for value, evidence in _each(self._tracers, question, sources):
            if evidence is None:
                # a model may still see how it follows; without one the stated default counts
                reason = f"nothing in the request or in a result gives {_shown(value)}"
                return question.finding(None, "code", reason, question=_asked(question, value))
            spans += [place.span for place in evidence.places]
            reasons.append(evidence.how)
        return question.finding(True, "code", "; ".join(dict.fromkeys(reasons)), spans=spans)


class TracedAppears:
    """AppearIn: the evidence stands in the request, or in a result where the user may have meant it."""

    def __init__(self, tracers: Tracers) -> None:
        self._tracers = tracers

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        if any(
            f.relation is Relation.DERIVED_FROM and f.subject == question.parameter and f.holds for f in question.found
        ):
            spans = []
            for value, evidence in _each(self._tracers, question, sources):
                here = [] if evidence is None else [place.span for place in evidence.places]
                if evidence is None or evidence.against is not None:
                    why = "nothing gives it" if evidence is None else evidence.against
                    reason = f"{_shown(value)} may not be used: {why}"
                    return question.finding(False, "code", reason, spans=here, question=_asked(question, value))
                spans += here
            return question.finding(True, "code", "the evidence may be used", spans=spans)
        return question.undecided("code", "there is no evidence to look for")


def _each(tracers: Tracers, question: Question, sources: Sequence[Source]) -> list[tuple[Any, Evidence | None]]:
    assert question.parameter is not None
    tracer = tracers.of(sources, question.context.now)
    return tracer.each(question.value, question.parameter, question.tool)


def _asked(question: Question, value: Any) -> str:
    assert question.parameter is not None
    call = question.proposed
    what = described(call, question.tool, question.parameter)
    return f"What should {what} be for {call.name}? {_shown(value)} does not come from you."


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
