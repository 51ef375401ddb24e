"""Relations asked of a language model, through `demur.envs.endpoint.Endpoint` or anything with its `complete`.

Each question goes out as one JSON object whose quoting no text in it can leave; the prompts stand in `prompts/`. A
reply that cannot be read is an error, and blocks the call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from pydantic import ValidationError

from demur.envs.guards import Context
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.relations import Finding, Origin, Relation, Span
from demur.envs.guards.provenance.sources import Source, sources_of, told
from demur.envs.tool import Tool
from demur.envs.trace import Record, ToolCall

PROMPTS: Final = Path(__file__).parent / "prompts"
MAX_CHARS: Final = 60_000
"""Of all sources in one question. What does not fit is left out, so that it can't be evidence."""

_SHOWS: Final[Mapping[Relation, frozenset[str]]] = {
    Relation.RELEVANT_TO: frozenset({"tool", "subtask"}),
    Relation.DERIVED_FROM: frozenset({"call", "sources"}),
    Relation.APPEAR_IN: frozenset({"call", "sources"}),
    Relation.CAN_ADDRESS: frozenset({"tool", "subtask", "call"}),
}
"""What a question of each relation holds: the arguments of its signature."""

R = TypeVar("R", bound=Record)


class Completion(Protocol):
    @property
    def text(self) -> str: ...


class Model(Protocol):
    """Continues chat messages. options: those of `/chat/completions`."""

    async def complete(self, messages: Any, **options: Any) -> Completion: ...


class Quote(Record):
    """source: its id. text: the words of it that count as evidence."""

    source: str
    text: str


class Answer(Record):
    """To one question, by its number."""

    number: int
    evidence: tuple[Quote, ...]
    reason: str
    holds: bool


class Answers(Record):
    answers: tuple[Answer, ...]


class Derivable(Record):
    parameters: tuple[str, ...]


class Readings(Record):
    """actions: each admissible action in a few words. question: what would settle it, if there are several."""

    actions: tuple[str, ...]
    reason: str
    question: str
    several: bool


class Subtask(Record):
    subtask: str


class Asker:
    """Asks the model for JSON of a schema, and counts. options: passed on, such as `temperature` or `max_tokens`."""

    def __init__(self, model: Model, **options: Any) -> None:
        self._model = model
        self._options = options
        self._calls = 0

    def pop_calls(self) -> int:
        calls, self._calls = self._calls, 0
        return calls

    async def ask(self, prompt: str, data: Mapping[str, Any], schema: type[R]) -> R:
        """Raises ValueError for a reply that is no such JSON, and whatever the model raises."""
        from demur.envs.endpoint import json_form  # its client is slow to import, and a guard by code needs none

        self._calls += 1
        messages = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False, default=str)},
        ]
        reply = await self._model.complete(messages, response_format=json_form(schema), **self._options)
        try:
            return schema.model_validate_json(reply.text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise ValueError(f"the model's reply cannot be read: {where}: {first['msg']}") from None


class ModelDecider:
    """Any relation of stages I and II, several in one call.

    signature_only: the model sees no more than the relation's own arguments, and its quotes are taken as they are,
    as in the paper. Otherwise it sees the request, the tool, the call, the plan and all sources, and a value whose
    quoted evidence stands in none of them does not count as derived.
    """

    def __init__(self, asker: Asker, *, signature_only: bool = False) -> None:
        self._asker = asker
        self._signature_only = signature_only

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        (finding,) = await self.decide_all([question], sources)
        return finding

    async def decide_all(self, questions: Sequence[Question], sources: Sequence[Source]) -> list[Finding]:
        relations = list(dict.fromkeys(question.relation for question in questions))
        shows = frozenset[str]().union(*(_SHOWS[relation] for relation in relations))
        if not self._signature_only:
            shows = frozenset({"request", "tool", "subtask", "call", "sources"})
        elif "subtask" in shows and not questions[0].subtask.strip():
            raise ValueError("the turn has no plan: give the guard a plan_of")
        data = _data(questions[0], sources, shows)
        data["questions"] = [_asked(number, question) for number, question in enumerate(questions)]
        prompt = "\n\n".join([prompt_text("relations"), *(prompt_text(relation) for relation in relations)])
        reply = await self._asker.ask(prompt, data, Answers)
        answers = {answer.number: answer for answer in reply.answers}
        if sorted(a.number for a in reply.answers) != list(range(len(questions))):
            raise ValueError("the model's reply cannot be read: it must hold one answer a question")
        texts = {source.id: source for source in sources}
        return [self._finding(question, answers[number], texts) for number, question in enumerate(questions)]

    def _finding(self, question: Question, answer: Answer, texts: Mapping[str, Source]) -> Finding:
        spans = [_span(quote, texts) for quote in answer.evidence]
        holds, reason = answer.holds, answer.reason
        if question.relation in (Relation.DERIVED_FROM, Relation.APPEAR_IN) and holds and not self._signature_only:
            spans = [span for span in spans if span.start >= 0]
            if not spans:
                holds, reason = False, "the model's evidence stands in no source"
        return question.finding(holds, "model", reason, spans=spans)


class ModelUnique:
    """Stage III: whether more than one action is admissible. It never sees the proposed one."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        assert question.blind, "stage III does not see the proposed call"
        data = _data(question, sources, frozenset({"request", "subtask", "sources"}))
        data["tools"] = [told(tool) for tool in question.context.tools.values()]
        reply = await self._asker.ask(prompt_text("unique"), data, Readings)
        readings = "; ".join(reply.actions)
        reason = f"{reply.reason} ({readings})" if readings else reply.reason
        asked = reply.question if reply.several and reply.question.strip() else None
        return question.finding(not reply.several, "model", reason, question=asked)


class ModelParameters:
    """The derivable parameters of a tool, from its documentation only."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def derivable(self, tool: Tool) -> frozenset[str]:
        reply = await self._asker.ask(prompt_text("derivable"), {"tool": told(tool)}, Derivable)
        names = frozenset(reply.parameters)
        if unknown := names - {parameter.name for parameter in tool.parameters}:
            raise ValueError(f"the model's reply cannot be read: {tool.name} has no parameter {min(unknown)!r}")
        return names


class PlanReader:
    """A `plan_of` for traces without plans: the model says what a call was to achieve, from all that led to it."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def __call__(self, context: Context, call: ToolCall) -> str:
        question = Question(relation=Relation.CONTRIBUTE_TO, context=context, call=call)
        data = _data(question, sources_of(context), frozenset({"request", "tool", "call", "sources"}))
        return (await self._asker.ask(prompt_text("plan"), data, Subtask)).subtask


def _data(question: Question, sources: Sequence[Source], shows: frozenset[str]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if "request" in shows:
        data["request"] = question.context.query
    if "subtask" in shows:
        data["subtask"] = question.subtask
    if "tool" in shows:
        data["tool"] = told(question.tool)
    if "call" in shows:
        data["call"] = {"name": question.proposed.name, "arguments": question.proposed.arguments}
    if "sources" in shows:
        data["sources"] = shown_sources(sources)
    return data


def _asked(number: int, question: Question) -> dict[str, Any]:
    asked: dict[str, Any] = {"number": number, "relation": question.relation}
    return asked if question.parameter is None else {**asked, "parameter": question.parameter}


def shown_sources(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """The sources but for documentation: the user's and plug-ins' first, then the newest results, while they fit."""
    kept: dict[str, str] = {}
    left = MAX_CHARS
    said = [s for s in sources if s.origin is not Origin.DOCS and s.turn is None]
    for source in [*said, *sorted((s for s in sources if s.turn is not None), key=lambda s: -(s.turn or 0))]:
        kept[source.id] = source.text[:left]
        left -= len(kept[source.id])
    shown = [s for s in sources if kept.get(s.id)]
    return [{"id": s.id, "text": kept[s.id], **_made_by(s)} for s in shown]


def _made_by(source: Source) -> dict[str, Any]:
    return {} if source.call is None else {"call": {"name": source.call.name, "arguments": source.call.arguments}}


def _span(quote: Quote, texts: Mapping[str, Source]) -> Span:
    source = texts.get(quote.source)
    at = -1 if source is None or not quote.text else source.text.find(quote.text)
    if source is None or at < 0:
        return Span(source=quote.source, start=-1, end=-1, text=quote.text, origin=Origin.NOWHERE)
    return Span(source=source.id, start=at, end=at + len(quote.text), text=quote.text, origin=source.origin)


@cache
def prompt_text(name: str) -> str:
    return (PROMPTS / f"{name}.txt").read_text(encoding="utf-8").strip()
