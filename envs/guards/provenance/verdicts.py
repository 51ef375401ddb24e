"""What a verdict says: its evidence, what nobody could decide, and the question that a user can answer."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from demur.envs.guards.provenance.relations import Finding, Relation
from demur.envs.trace import ToolCall

_MOST = 20
_SHOWN = 200


def shown(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Each span once, such as `query[4:9] nails`, at most 20."""
    return tuple(dict.fromkeys(span.shown() for finding in findings for span in finding.spans))[:_MOST]


def reason_for(findings: Sequence[Finding]) -> str:
    """Of a call that passes: which relations could not be decided."""
    open_ones = [f"{finding.relation}({finding.subject})" for finding in findings if finding.holds is None]
    return f"not decided: {', '.join(open_ones)}" if open_ones else "every relation holds"


def question_for(call: ToolCall, finding: Finding) -> str:
    """The decider's own question, or one that names the doubt."""
    if finding.question:
        return finding.question
    if finding.relation in (Relation.DERIVED_FROM, Relation.APPEAR_IN):
        value = _short(call.arguments.get(finding.subject))
        return f"What should {finding.subject!r} be for {call.name}? I have no source for {value}."
    if finding.subject == "interpretation":
        return f"Your request can be read in more than one way: {finding.reason or 'which one'}. Which do you mean?"
    doubt = finding.reason or f"{finding.relation} does not hold"
    return f"Should I really call {call.name} with {_short(call.arguments)}? My doubt: {doubt}."


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
