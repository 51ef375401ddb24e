"""A contract read from a query by a language model, and rules where that fails.

    extractor = ExtractorLLM("my-model", base_url="http://127.0.0.1:8000/v1")
    contract, source, fault = await extractor.extract(query, tools)

The model sees the query and the tools, never a result of a tool. What it writes is checked by code: tools and
parameters must exist, and a pinned value must stand in the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import regex
from pydantic import ValidationError

from demur.envs.endpoint import EndpointError
from demur.envs.intent.contract import (
    Between,
    CallPattern,
    Constraint,
    Criterion,
    Equals,
    IntentContract,
    OneOf,
    Precondition,
    Predicate,
    Scalar,
)
from demur.envs.intent.extraction import extract
from demur.envs.intent.extraction.endpoint_json import JsonEndpoint
from demur.envs.tool import Tool
from demur.envs.trace import Level, Record

PROMPT = Path(__file__).parent / "prompts" / "extract.txt"


class Argument(Record):
    name: str
    values: tuple[Scalar, ...]


class Allowed(Record):
    tool: str
    arguments: tuple[Argument, ...]
    at_most: int | None


class Limit(Record):
    """minimum, maximum: of what is still allowed. values: that are not allowed."""

    text: str
    forbids: str | None
    argument: str | None
    values: tuple[Scalar, ...]
    minimum: float | None
    maximum: float | None
    level: Literal["block", "ask"]


class Part(Record):
    text: str
    tool: str | None


class Order(Record):
    first: str
    then: str


class Reading(Record):
    """What the model is asked for. Nothing has a default: strict schemas want every key."""

    goal: str
    allowed: tuple[Allowed, ...]
    constraints: tuple[Limit, ...]
    acceptance: tuple[Part, ...]
    approval: tuple[str, ...]
    order: tuple[Order, ...]
    confidence: float


class Extraction(NamedTuple):
    """fault: why the model's reading could not be used, where the source is `rules`."""

    contract: IntentContract
    source: Literal["model", "rules"]
    fault: str | None = None


class ExtractorLLM:
    """Reads queries with a model behind an OpenAI-compatible endpoint. `options` are those of `JsonEndpoint`."""

    def __init__(self, model: str, *, base_url: str, **options: Any) -> None:
        self._endpoint = JsonEndpoint(model, base_url=base_url, **options)
        self._prompt = PROMPT.read_text(encoding="utf-8")

    async def extract(self, query: str, tools: Mapping[str, Tool]) -> Extraction:
        """The model's reading; after a reply that can not be used and a second one, that of the rules."""
        data = {"request": query, "tools": [_told(tool) for tool in tools.values()]}
        try:
            contract = await self._endpoint.ask(self._prompt, data, Reading, lambda text: read(text, query, tools))
        except EndpointError as error:
            return Extraction(extract(query, tools), "rules", str(error))
        return Extraction(contract, "model")


def read(text: str, query: str, tools: Mapping[str, Tool]) -> IntentContract:
    """The contract in a model's reply. Raises ValueError, with what to change, if it can not be used."""
    try:
        reading = Reading.model_validate_json(text)
        return _Reader(reading, query, tools).contract()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None


class _Reader:
    def __init__(self, reading: Reading, query: str, tools: Mapping[str, Tool]) -> None:
        self._reading, self._query, self._tools = reading, query, tools

    def contract(self) -> IntentContract:
        reading, tools = self._reading, self._tools
        changing = [self._allowed(one) for one in reading.allowed if self._tool(one.tool).changes]
        return IntentContract(
            goal=reading.goal,
            source_text=self._query,
            constraints=tuple(self._constraint(i, limit) for i, limit in enumerate(reading.constraints, 1)),
            acceptance=tuple(self._criterion(i, part, changing) for i, part in enumerate(reading.acceptance, 1)),
            allowed=(*(CallPattern(tool=tool.name) for tool in tools.values() if not tool.changes), *changing),
            approval=tuple(CallPattern(tool=self._tool(name).name) for name in reading.approval),
            order=tuple(self._order()),
            confidence=reading.confidence,
        )

    def _tool(self, name: str) -> Tool:
        if name not in self._tools:
            raise ValueError(f"there is no tool {name!r}; name one of {', '.join(self._tools)}")
        return self._tools[name]

    def _allowed(self, allowed: Allowed) -> CallPattern:
        tool = self._tool(allowed.tool)
        where = tuple(self._pinned(tool, one.name, one.values) for one in allowed.arguments)
        return CallPattern(tool=tool.name, where=where, at_most=allowed.at_most)

    def _pinned(self, tool: Tool, name: str, values: tuple[Scalar, ...]) -> Predicate:
        if name not in tool.derivable:
            raise ValueError(f"{tool.name} has no parameter {name!r} that may be pinned; leave it out")
        if not values:
            raise ValueError(f"{tool.name}.{name} is pinned to no value; leave it out")
        for value in values:
            if not _stands_in(value, self._query):
                raise ValueError(f"{value!r} of {tool.name}.{name} does not stand in the request; leave it out")
        return Equals(argument=name, value=values[0]) if len(values) == 1 else OneOf(argument=name, values=values)

    def _constraint(self, number: int, limit: Limit) -> Constraint:
        forbid = None if limit.forbids is None else self._forbidden(self._tool(limit.forbids), limit)
        return Constraint(id=f"limit-{number}", text=limit.text, forbid=forbid, level=_LEVELS[limit.level])

    def _forbidden(self, tool: Tool, limit: Limit) -> CallPattern:
        if limit.argument is None:
            return CallPattern(tool=tool.name)
        if limit.argument not in {parameter.name for parameter in tool.parameters}:
            raise ValueError(f"{tool.name} has no parameter {limit.argument!r}")
        if limit.values:
            return CallPattern(tool=tool.name, where=(OneOf(argument=limit.argument, values=limit.values),))
        if limit.minimum is None and limit.maximum is None:
            raise ValueError(f"the limit {limit.text!r} names {limit.argument}, but neither values nor a bound")
        kept = Between(argument=limit.argument, minimum=limit.minimum, maximum=limit.maximum, negated=True)
        return CallPattern(tool=tool.name, where=(kept,))

    def _criterion(self, number: int, part: Part, changing: Iterable[CallPattern]) -> Criterion:
        name = f"part-{number}"
        if part.tool is None or not self._tool(part.tool).changes:
            return Criterion(id=name, text=part.text)
        fitting = next((pattern for pattern in changing if pattern.tool == part.tool), None)
        if fitting is None:
            raise ValueError(f"the part {part.text!r} needs {part.tool}, which is not under allowed")
        return Criterion(id=name, text=part.text, done_when=fitting.model_copy(update={"at_most": None}))

    def _order(self) -> Iterator[Precondition]:
        for number, order in enumerate(self._reading.order, 1):
            first, then = self._tool(order.first), self._tool(order.then)
            before = CallPattern(tool=then.name)
            yield Precondition(id=f"order-{number}", before=before, first=CallPattern(tool=first.name))


_LEVELS: dict[str, Literal[Level.BLOCK, Level.ASK]] = {"block": Level.BLOCK, "ask": Level.ASK}


def _told(tool: Tool) -> dict[str, Any]:
    return {
        "name": tool.name,
        "description": tool.description,
        "changes": tool.changes,
        "effect": tool.effect,
        "parameters": {p.name: p.schema | {"free_text": p.source == "generative"} for p in tool.parameters},
    }


def _stands_in(value: Scalar, query: str) -> bool:
    """As a whole word or phrase, in any letter case. True and False stand in no query."""
    if isinstance(value, bool):
        return False
    text = f"{value:g}" if isinstance(value, float) else str(value)
    found = regex.search(rf"(?<![^\W\p{{Han}}]){regex.escape(text)}(?![^\W\p{{Han}}])", query, regex.IGNORECASE)
    return bool(text.strip()) and found is not None
