"""What a guard found out about a call as W3C PROV: entities, activities and agents, for tools that read PROV.

    python eval/w3c_prov.py --verdicts out --traces traces.jsonl --format workbench --out out/prov

    document = prov_document(context, call, examination)     # of the package `prov` (extra `prov`)
    document.serialize("call.json", format="json")           # PROV-JSON; document.get_provn() is PROV-N

Entities are the arguments, the spans they rest on, the sources those are quoted from, the findings and the verdict;
activities are the call, earlier calls whose results are cited, and the check of each relation; agents are the user,
the agent, the tools and the guard. After PROV-DM (W3C Recommendation, 2013). Texts stand in attributes only, never in
identifiers.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from demur.envs.guards import Context
from demur.envs.guards.provenance.relations import Examination, Finding, Origin, Relation, Span
from demur.envs.guards.provenance.sources import Source, sources_of
from demur.envs.trace import ToolCall, Verdict
from demur.eval.guard_cases import Checked, origin_of, read_cases, spans_of
from demur.eval.summary import write_whole
from demur.eval.traces import FORMATS

if TYPE_CHECKING:
    from prov.model import ProvDocument

NAMESPACE: Final = "urn:demur:provenance:"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write verdicts as W3C PROV.", allow_abbrev=False)
    parser.add_argument("--verdicts", type=Path, required=True, help="folder that eval/guard.py wrote")
    parser.add_argument("--traces", type=Path, required=True, help="the file the verdicts are about")
    parser.add_argument("--format", choices=FORMATS, required=True, help="what that file is")
    parser.add_argument("--out", type=Path, required=True, help="folder for a .json and a .provn file a checked call")
    options = parser.parse_args(arguments)
    try:
        print(f"{write_prov(options.out, options.verdicts, options.traces, options.format)} calls in {options.out}")
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split())[:500], file=sys.stderr)
        return 2
    return 0


def write_prov(out: Path, verdicts: Path, traces: Path, format: str) -> int:
    """Write PROV-JSON and PROV-N of every call that has findings, as `<line of verdicts.jsonl>-<turn>`; returns how
    many calls there are. Raises ValueError for verdicts without findings, and as `read_cases` does.
    """
    written = 0
    for number, case in enumerate(read_cases(verdicts, traces, format), 1):
        for checked in case.checked:
            if not checked.step.findings:
                continue
            document = prov_document(checked.context, checked.call, _examination(checked))
            out.mkdir(parents=True, exist_ok=True)
            as_json = document.serialize(format="json", indent=1)
            assert as_json is not None, "without a destination it returns the text"
            write_whole(out / f"{number:05d}-{checked.step.at}.json", as_json)
            write_whole(out / f"{number:05d}-{checked.step.at}.provn", document.get_provn())
            written += 1
    if not written:
        raise ValueError(f"{verdicts} holds no findings: only the provenance guard writes them")
    return written


def prov_document(context: Context, call: ToolCall, examination: Examination) -> ProvDocument:
    """One checked call as a PROV document. Raises ValueError if the package `prov` is not installed."""
    try:
        from prov.model import ProvDocument
    except ImportError as error:
        raise ValueError("PROV records need the package prov: pip install 'demur[prov]'") from error
    document = ProvDocument()
    document.add_namespace("demur", NAMESPACE)
    _Writer(document, context, call, examination).write()
    return document


def _examination(checked: Checked) -> Examination:
    step = checked.step
    told = step.model_dump(include={"level", "stage", "relation", "reason", "evidence", "question"})
    verdict = Verdict(guard="provenance", **told)
    return Examination.model_validate({"findings": step.findings, "stage": step.stage, "verdict": verdict})


class _Writer:
    """Fills a document. Ids are numbers, so that no text of a model or a tool has to be one."""

    def __init__(self, document: ProvDocument, context: Context, call: ToolCall, examination: Examination) -> None:
        self._document, self._call, self._examination = document, call, examination
        self._spans = spans_of(examination.findings)
        self._ids = {span: f"demur:span-{number}" for number, span in enumerate(self._spans)}
        self._arguments = {name: f"demur:argument-{number}" for number, name in enumerate(call.arguments)}
        cited = {span.source for span in self._spans}
        known = [source for source in sources_of(context) if source.id in cited]
        self._sources = {source.id: source for source in known}
        self._source_ids = {id: f"demur:source-{number}" for number, id in enumerate(sorted(cited))}
        self._tools: dict[str, str] = {}

    def write(self) -> None:
        verdict = self._examination.verdict
        self._document.agent("demur:user", {"prov:type": self._name("prov:Person")})
        self._document.agent("demur:agent", {"prov:type": self._name("prov:SoftwareAgent")})
        self._document.agent(
            "demur:guard", {"prov:type": self._name("prov:SoftwareAgent"), "demur:name": verdict.guard}
        )
        for id in self._source_ids:
            self._source(id)
        for span in self._spans:
            self._span(span)
        self._proposal()
        self._document.entity("demur:verdict", _told(verdict, "level", "stage", "relation", "reason", "question"))
        self._document.attribution("demur:verdict", "demur:guard")
        self._document.influence("demur:call", "demur:verdict")
        for number, finding in enumerate(self._examination.findings):
            self._check(number, finding)

    def _source(self, id: str) -> None:
        name, source = self._source_ids[id], self._sources.get(id)
        if source is None:  # a plug-in's, which the context does not hold
            self._document.entity(name, {"demur:id": id})
            return
        origin = origin_of(source, self._spans)
        self._document.entity(name, {"demur:id": id, "demur:origin": origin.value})
        if origin is Origin.USER:
            self._document.attribution(name, "demur:user")
        elif source.tool is not None:
            self._document.attribution(name, self._tool(source.tool))
        if source.turn is not None:
            self._earlier(name, source)

    def _earlier(self, name: str, source: Source) -> None:
        """The call whose result is cited."""
        activity = f"demur:turn-{source.turn}"
        self._document.activity(activity, other_attributes=_call_told(source.call))
        self._document.association(activity, "demur:agent")
        self._document.generation(name, activity)

    def _span(self, span: Span) -> None:
        name = self._ids[span]
        place: dict[str, Any] = {"demur:start": span.start, "demur:end": span.end}
        self._document.entity(name, place | {"prov:value": span.text, "demur:origin": span.origin.value})
        self._document.quotation(name, self._source_ids[span.source])

    def _proposal(self) -> None:
        self._document.activity("demur:call", other_attributes=_call_told(self._call))
        self._document.association("demur:call", "demur:agent")
        self._document.influence("demur:call", self._tool(self._call.name))
        for argument, name in self._arguments.items():
            value = json.dumps(self._call.arguments[argument], ensure_ascii=False)
            self._document.entity(name, {"demur:name": argument, "prov:value": value})
            self._document.attribution(name, "demur:agent")
            self._document.usage("demur:call", name)

    def _check(self, number: int, finding: Finding) -> None:
        check, found = f"demur:check-{number}", f"demur:finding-{number}"
        about: dict[str, Any] = {"demur:relation": finding.relation.value, "demur:subject": finding.subject}
        self._document.activity(check, other_attributes=about | {"demur:decidedBy": finding.decided_by})
        self._document.association(check, "demur:guard")
        holds = "undecided" if finding.holds is None else str(finding.holds).lower()
        self._document.entity(found, about | {"demur:holds": holds, "demur:reason": finding.reason})
        self._document.generation(found, check)
        self._document.derivation("demur:verdict", found)
        argument = self._arguments.get(finding.subject) if _is_about_a_value(finding) else None
        if argument:
            self._document.usage(check, argument)
        for span in dict.fromkeys(finding.spans):
            self._document.usage(check, self._ids[span])
            if argument and finding.holds and finding.relation is Relation.DERIVED_FROM:
                self._document.derivation(argument, self._ids[span])

    def _name(self, text: str) -> Any:
        """As a qualified name: a plain text would be a string in PROV."""
        return self._document.mandatory_valid_qname(text)

    def _tool(self, name: str) -> str:
        if name not in self._tools:
            self._tools[name] = f"demur:tool-{len(self._tools)}"
            self._document.agent(self._tools[name], {"prov:type": self._name("prov:SoftwareAgent"), "demur:name": name})
        return self._tools[name]


def _is_about_a_value(finding: Finding) -> bool:
    return finding.relation in (Relation.DERIVED_FROM, Relation.APPEAR_IN)


def _call_told(call: ToolCall | None) -> dict[str, Any]:
    return {} if call is None else {"demur:tool": call.name}


def _told(verdict: Verdict, *fields: str) -> dict[str, str]:
    """What is known of a verdict, as attributes."""
    return {f"demur:{field}": str(value) for field in fields if (value := getattr(verdict, field)) is not None}


if __name__ == "__main__":
    sys.exit(main())
