"""The benchmark's files: what the user says, where the tools start from, which calls are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from demur.envs.suites.calls import keyword_call
from demur.envs.suites.files import broken, known_files, read_file, read_known, sha256
from demur.envs.suites.naming import only_reads
from demur.envs.tool import Parameter, Tool
from demur.envs.trace import ToolCall

CATEGORIES: Final = ("base", "miss_param", "miss_func", "long_context")
DOCUMENTATION: Final = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}
"""The file that documents the tools of each backend."""
_TYPES: Final = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "any": None}
_TOLD: Final = "Tool description: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One conversation. messages, truth: by the user's turn; a turn without right calls is one to hold back on.

    tools: all of them, by name. later: of these, those that are on offer from a turn on only, 0-based.
    config: by backend, where it starts from.
    """

    id: str
    category: str
    messages: tuple[str, ...]
    truth: tuple[tuple[ToolCall, ...], ...]
    tools: Mapping[str, Tool] = field(repr=False)
    later: Mapping[str, int]
    backends: tuple[str, ...]
    config: Mapping[str, Any] = field(repr=False)

    def tools_at(self, turn: int) -> dict[str, Tool]:
        """What is on offer while the user's turn is worked on."""
        return {name: tool for name, tool in self.tools.items() if self.later.get(name, 0) <= turn}


class Entries(NamedTuple):
    """fingerprint: SHA-256 over the files."""

    entries: tuple[Entry, ...]
    fingerprint: str


class _Message(BaseModel):
    role: str
    content: str


class _Question(BaseModel):
    id: str
    question: list[list[_Message]]
    initial_config: dict[str, Any]
    involved_classes: list[str]
    missed_function: dict[int, list[str]] = {}


class _Answer(BaseModel):
    id: str
    ground_truth: list[list[str]]


class _Parameters(BaseModel):
    properties: dict[str, dict[str, Any]]
    required: list[str] = []


class _Function(BaseModel):
    name: str = Field(min_length=1)
    description: str
    parameters: _Parameters


def read_entries(folder: Path, category: str) -> Entries:
    """The conversations of a category, in the order of the file.

    Raises ValueError, naming what is wrong, for a category that there is not and for a file that is missing, cut or
    altered.
    """
    if category not in CATEGORIES:
        raise ValueError(f"BFCL has no multi-turn category {category!r}: use one of {', '.join(CATEGORIES)}")
    questions = f"BFCL_v4_multi_turn_{category}.json"
    answers = f"possible_answer/{questions}"
    documents = {name: f"multi_turn_func_doc/{file}.json" for name, file in DOCUMENTATION.items()}
    source = known_files("bfcl").source
    part = sha256(read_file(folder / questions, source)) == known_files("bfcl_part").digests[questions]
    files = read_known(folder, "bfcl_part" if part else "bfcl", [questions, answers, *documents.values()])

    def lines(name: str, form: type[BaseModel]) -> Any:
        try:
            return TypeAdapter(list[form]).validate_json(b"[" + b",".join(files.contents[name].splitlines()) + b"]")  # type: ignore[valid-type]
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise broken(folder / name, f"is not of BFCL ({first['msg']})", source) from None

    tools = {name: {one.name: _tool(one) for one in lines(file, _Function)} for name, file in documents.items()}
    truth = {one.id: one.ground_truth for one in lines(answers, _Answer)}
    entries = tuple(_entry(one, category, truth[one.id], tools) for one in lines(questions, _Question))
    return Entries(entries, files.fingerprint)


def _entry(
    asked: _Question, category: str, truth: Sequence[Sequence[str]], documented: Mapping[str, Mapping[str, Tool]]
) -> Entry:
    tools = {name: tool for backend in asked.involved_classes for name, tool in documented[backend].items()}
    order = {name: [parameter.name for parameter in tool.parameters] for name, tool in tools.items()}
    assert len(truth) == len(asked.question), "the files fit each other, as their fingerprints say"
    return Entry(
        id=asked.id,
        category=category,
        messages=tuple("\n".join(message.content for message in turn) for turn in asked.question),
        truth=tuple(tuple(_call(text, order) for text in turn) for turn in truth),
        tools=tools,
        later={name: turn for turn, names in asked.missed_function.items() for name in names},
        backends=tuple(asked.involved_classes),
        config=asked.initial_config,
    )


def _call(text: str, order: Mapping[str, Sequence[str]]) -> ToolCall:
    call = keyword_call(text, order)
    assert call is not None, f"{text} of the ground truth is a call of literals"
    return call


def _tool(function: _Function) -> Tool:
    """Each description begins with that of the whole backend, which says nothing of the tool."""
    description = function.description.rpartition(_TOLD)[2]
    parameters = tuple(
        Parameter(name=name, schema=_schema(schema), required=name in function.parameters.required, source=None)
        for name, schema in function.parameters.properties.items()
    )
    changes = not only_reads(function.name, description)
    return Tool(name=function.name, description=description, parameters=parameters, changes=changes)


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    kind = _TYPES.get(schema["type"], schema["type"])
    kept = {key: value for key, value in schema.items() if key in ("description", "enum", "default")}
    return {**kept, "type": kind} if kind else kept
