"""Verdicts beside the traces they are about: what the page and the records of provenance are made of.

for case in read_cases(Path("out"), Path("traces.jsonl"), "workbench"):
    for checked in case.checked: ...
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from demur.envs.guards import Context
from demur.envs.guards.provenance.relations import Finding, Origin, Span
from demur.envs.guards.provenance.sources import Source, sources_of
from demur.envs.trace import ToolCall
from demur.eval.guard_judging import StepVerdict, TraceVerdict, read_verdicts
from demur.eval.traces import LabelledTrace, read_traces, steps

_EVIDENCE = re.compile(r"(\S+)\[(\d+):(\d+)\] ")


class Checked(NamedTuple):
    """A call, what was known when it was proposed, and what was said of it. sources: of the context."""

    context: Context
    call: ToolCall
    step: StepVerdict
    sources: Sequence[Source]


class Case(NamedTuple):
    """A trace with the verdict on it."""

    trace: LabelledTrace
    verdict: TraceVerdict

    @property
    def checked(self) -> Iterator[Checked]:
        """Every call that a guard was asked about, in order."""
        by_turn = {step.at: step for step in self.verdict.steps}
        for at, context, call in steps(self.trace):
            if at in by_turn:
                yield Checked(context, call, by_turn[at], sources_of(context))


def read_cases(verdicts: Path, traces: Path, format: str) -> list[Case]:
    """The verdicts of a folder that `eval/guard.py` wrote, in its order, each with its trace.

    Raises ValueError for a folder without verdicts, and for verdicts on other traces than those of the file.
    """
    path = verdicts / "verdicts.jsonl"
    if not path.is_file():
        raise ValueError(f"{verdicts} holds no verdicts.jsonl: give the folder that eval/guard.py wrote to")
    known = {trace.id: trace for trace in read_traces(traces, format)}
    cases = []
    for verdict in read_verdicts(path):
        if verdict.id not in known:
            raise ValueError(
                f"{path} judges the trace {verdict.id!r}, which {traces} lacks: give the file it was made of"
            )
        if max((step.at for step in verdict.steps), default=-1) >= len(known[verdict.id].turns):
            raise ValueError(f"{path}: the trace {verdict.id!r} changed since it was judged")
        cases.append(Case(known[verdict.id], verdict))
    if not cases:
        raise ValueError(f"{path} holds no verdict")
    return cases


def spans_of(findings: Iterable[Finding]) -> list[Span]:
    """Each span once, in the order in which the findings rest on them."""
    return list(dict.fromkeys(span for finding in findings for span in finding.spans))


def spans_in(evidence: Iterable[str], sources: Sequence[Source]) -> list[Span]:
    """The spans that texts such as `query[4:9] nails` speak of: all that guards without findings say."""
    by_id = {source.id: source for source in sources}
    found: dict[Span, None] = {}
    for text in evidence:
        match = _EVIDENCE.match(text)
        source = by_id.get(match[1]) if match else None
        if match and source and int(match[2]) < int(match[3]) <= len(source.text):
            start, end = int(match[2]), int(match[3])
            found[Span(source=source.id, start=start, end=end, text=source.text[start:end], origin=source.origin)] = (
                None
            )
    return list(found)


def origin_of(source: Source, spans: Iterable[Span]) -> Origin:
    """The origin that the guard gave a source, which knows the tools that are trusted; else the careful one."""
    return next((span.origin for span in spans if span.source == source.id), source.origin)
