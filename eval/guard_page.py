"""What the page of a guard's verdicts shows, as data for its script: cases, calls, and texts cut at the spans.

Texts are cut into stretches here, so that the script never counts characters: a browser counts other units.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

from demur.envs.guards.provenance.relations import Finding, Origin, Relation, Span
from demur.envs.guards.provenance.sources import Source
from demur.eval.guard_cases import Case, Checked, origin_of, spans_in, spans_of

MOST_CASES: Final = 300
MOST_CALLS: Final = 6
"""Calls of a case that are shown."""
MOST_MARKS: Final = 60
LONGEST: Final = 2000
_HEAD, _AROUND = 600, 160
_HOLDS = {True: "holds", False: "does not hold", None: "not decided"}


class _Marks(NamedTuple):
    """The spans of a call, numbered from 1 as the page shows them. left_off: how many there are beyond."""

    numbers: Mapping[Span, int]
    left_off: int

    @classmethod
    def of(cls, spans: Sequence[Span]) -> _Marks:
        kept = spans[:MOST_MARKS]
        return cls({span: number for number, span in enumerate(kept, 1)}, len(spans) - len(kept))

    def told(self, spans: Sequence[Span]) -> list[dict[str, Any]]:
        """Number, place and origin of each, once."""
        known = [span for span in dict.fromkeys(spans) if span in self.numbers]
        return [{"number": self.numbers[s], "source": s.source, "origin": s.origin} for s in known]


def choose(cases: Sequence[Case]) -> list[Case]:
    """At most `MOST_CASES`: the stopped ones first where not all fit, in the order of the file."""
    if len(cases) <= MOST_CASES:
        return list(cases)
    ranked = sorted(range(len(cases)), key=lambda at: (not cases[at].verdict.stopped, at))[:MOST_CASES]
    return [cases[at] for at in sorted(ranked)]


def case_data(case: Case) -> dict[str, Any]:
    """What the script needs of a case."""
    verdict = case.verdict
    calls = _shown_calls(list(case.checked), verdict.step)
    return {
        "id": _clip(verdict.id),
        "run": verdict.run,
        "query": _clip(case.trace.query),
        "verdict": verdict.verdict,
        "label": verdict.label or "no label",
        "excluded": _clip(verdict.excluded or ""),
        "stage": verdict.stage or "",
        "relation": verdict.relation or "",
        "step": verdict.step,
        "turns": len(case.trace.turns),
        "checked": len(verdict.steps),
        "calls": [_call(one) for one in calls],
    }


def stretches(text: str, marks: Sequence[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """A text cut where marks (number, start, end) begin and end: `text` and the numbers of the marks on it.

    Of a long text the beginning and what is around the marks is kept; `cut` says how many characters are not.
    """
    windows = [(0, _HEAD if len(text) > LONGEST else len(text))]
    windows += [(max(0, start - _AROUND), min(len(text), end + _AROUND)) for _, start, end in marks]
    inner = [at for _, start, end in marks for at in (start, end)]
    edges = sorted({0, len(text), *inner, *(at for window in windows for at in window)})
    found: list[dict[str, Any]] = []
    for start, end in pairwise(edges):
        on = [number for number, first, last in marks if first <= start and end <= last]
        if any(first <= start and end <= last for first, last in windows):
            found.append({"text": _clip(text[start:end]), "marks": on})
        elif found and "cut" in found[-1]:
            found[-1]["cut"] += end - start
        else:
            found.append({"cut": end - start})
    return found


def _shown_calls(checked: Sequence[Checked], stopped: int | None) -> list[Checked]:
    """The first stopped one, and of the others those that were looked at closely before those that were not."""
    ranked = sorted(checked, key=lambda one: (one.step.at != stopped, not one.step.stopped, one.step.stage == "filter"))
    return sorted(ranked[:MOST_CALLS], key=lambda one: one.step.at)


def _call(checked: Checked) -> dict[str, Any]:
    step, findings = checked.step, checked.step.findings
    spans = spans_of(findings) if findings else spans_in(step.evidence, checked.sources)
    marks = _Marks.of(spans)
    return {
        "at": step.at,
        "tool": _clip(checked.call.name),
        "changes": step.changes,
        "level": step.level.replace("_", " "),
        "stops": step.stopped,
        "stage": step.stage or "",
        "relation": step.relation or "",
        "reason": _clip(step.reason),
        "question": _clip(step.question or ""),
        "label": step.label or "",
        "plan": _clip(checked.context.plan),
        "arguments": [_argument(checked, name, marks) for name in checked.call.arguments],
        "evidence": [] if findings else marks.told(spans),
        "said": [] if findings or spans else [_clip(text) for text in step.evidence],
        "findings": [_finding(finding, marks) for finding in findings],
        "left_off": marks.left_off,
        "sources": _sources(checked, marks),
    }


def _argument(checked: Checked, name: str, marks: _Marks) -> dict[str, Any]:
    about = [f for f in checked.step.findings if f.subject == name and _is_about_a_value(f)]
    return {
        "name": _clip(name),
        "value": _clip(json.dumps(checked.call.arguments[name], ensure_ascii=False)),
        "found": _found(checked, name, about),
        "marks": marks.told([span for finding in about for span in finding.spans]),
    }


def _found(checked: Checked, name: str, about: Sequence[Finding]) -> str:
    """How an argument fared. One that was not asked about is free text, or the call was settled before."""
    if about:
        held = [finding.holds for finding in about]
        return _HOLDS[False if False in held else None if None in held else True]
    tool = checked.context.tools.get(checked.call.name)
    free = {p.name for p in tool.parameters if p.source == "generative"} if tool else frozenset[str]()
    return "free text, not checked" if name in free else "not checked"


def _finding(finding: Finding, marks: _Marks) -> dict[str, Any]:
    return {
        "relation": finding.relation,
        "subject": _clip(finding.subject),
        "holds": _HOLDS[finding.holds],
        "by": finding.decided_by,
        "reason": _clip(finding.reason),
        "marks": marks.told(finding.spans),
    }


def _sources(checked: Checked, marks: _Marks) -> list[dict[str, Any]]:
    """What the call may rest on; of documentation and plug-ins only what is cited."""
    cited = {span.source for span in marks.numbers}
    known = [source for source in checked.sources if source.origin is not Origin.DOCS or source.id in cited]
    found = [_source(source, marks) for source in known]
    for id in sorted(cited - {source.id for source in known}):
        spans = [span for span in marks.numbers if span.source == id]
        found.append(
            {"id": _clip(id), "origin": spans[0].origin, "made_by": "", "parts": [], "quoted": _quoted(spans, marks)}
        )
    return found


def _source(source: Source, marks: _Marks) -> dict[str, Any]:
    mine = [span for span in marks.numbers if span.source == source.id]
    placed = [span for span in mine if 0 <= span.start < span.end and source.text[span.start : span.end] == span.text]
    places = [(marks.numbers[span], span.start, span.end) for span in placed]
    made_by = f"{source.call.name}({_arguments(source)})" if source.call else ""
    return {
        "id": _clip(source.id),
        "origin": origin_of(source, mine),
        "made_by": _clip(made_by),
        "parts": stretches(source.text, places),
        "quoted": _quoted([span for span in mine if span not in placed], marks),
    }


def _quoted(spans: Sequence[Span], marks: _Marks) -> list[dict[str, Any]]:
    """Evidence whose place in the text is not known."""
    return [{"text": _clip(span.text), "marks": [marks.numbers[span]]} for span in spans]


def _arguments(source: Source) -> str:
    given = source.call.arguments if source.call else {}
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items())


def _is_about_a_value(finding: Finding) -> bool:
    return finding.relation in (Relation.DERIVED_FROM, Relation.APPEAR_IN)


def _clip(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST} more characters)"
