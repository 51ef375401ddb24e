"""A scripted model, and a mail desk whose calls it is asked about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from demur.envs.guards import Context
from demur.envs.protocol import act, render_observation
from demur.envs.tool import Parameter, Tool
from demur.envs.trace import ToolCall, Turn
from tests.envs.helpers import call

RELATIONS = ("RelevantTo", "DerivedFrom", "AppearIn", "CanAddress")


class Text(NamedTuple):
    text: str


class ScriptedModel:
    """Says yes to everything but `no`. replies: what it answers instead, by kind of question; an error is raised.

    Kinds: the relations of one call joined by `+`, `derivable`, `unique`, `plan`.
    """

    def __init__(self, *no: str, replies: Mapping[str, Any] | None = None) -> None:
        self.no = no
        self.replies = dict(replies or {})
        self.asked: list[tuple[str, str, dict[str, Any]]] = []

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _, _ in self.asked]

    def data(self, kind: str) -> dict[str, Any]:
        return next(data for one, _, data in self.asked if one == kind)

    def prompt(self, kind: str) -> str:
        return next(prompt for one, prompt, _ in self.asked if one == kind)

    async def complete(self, messages: Any, **options: Any) -> Text:
        schema = options["response_format"]["json_schema"]["name"]
        data = json.loads(messages[1]["content"])
        kind = self._kind(schema, data)
        self.asked.append((kind, messages[0]["content"], data))
        reply = self.replies[kind] if kind in self.replies else self._usual(kind, data)
        if isinstance(reply, Exception):
            raise reply
        told = await reply(data) if callable(reply) else reply
        return Text(told if isinstance(told, str) else json.dumps(told))

    def _kind(self, schema: str, data: Mapping[str, Any]) -> str:
        if schema == "answers":
            asked = {question["relation"] for question in data["questions"]}
            return "+".join(relation for relation in RELATIONS if relation in asked)
        return {"derivable": "derivable", "readings": "unique", "subtask": "plan"}[schema]

    def _usual(self, kind: str, data: Mapping[str, Any]) -> Any:
        if kind == "derivable":
            return {"parameters": ["to", "day"]}
        if kind == "unique":
            several = "unique" in self.no
            actions, question = (["mail Ann Berg", "mail Ann Holm"], "Which Ann?") if several else (["mail Ann"], "")
            return {"actions": actions, "reason": "r", "question": question, "several": several}
        if kind == "plan":
            return {"subtask": "write to Ann"}
        return {"answers": [self._answer(question, data) for question in data["questions"]]}

    def _answer(self, question: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
        holds = question["relation"] not in self.no and question.get("parameter") not in self.no
        quotes = [{"source": "query", "text": "Ann"}] if "sources" in data else []
        return {"number": question["number"], "evidence": quotes, "reason": "r", "holds": holds}


def parameter(name: str, source: Any = "derivable", **schema: Any) -> Parameter:
    return Parameter(name=name, schema=schema or {"type": "string"}, required=False, source=source)


FIND = Tool(name="find", description="Look up addresses by name.", parameters=(parameter("name"),))
SEND = Tool(
    name="send",
    description="Send a mail.",
    parameters=(parameter("to"), parameter("day"), parameter("body", "generative")),
    changes=True,
)
PING = Tool(name="ping", description="Ring a bell.", changes=True)
SEND_UNKNOWN = replace(SEND, parameters=tuple(replace(p, source=None) for p in SEND.parameters))
TOOLS = {tool.name: tool for tool in (FIND, SEND, PING)}

ADDRESS = "ann.berg@nord.example"


def result(text: str, made_by: ToolCall | None = None, **changes: Any) -> Turn:
    fields: dict[str, Any] = {"executed": True, "observation": render_observation(text), **changes}
    return Turn(action=act(made_by or call("find", name="Ann")), **fields)


def context(**changes: Any) -> Context:
    fields: dict[str, Any] = {
        "query": "Write to Ann on Monday.",
        "tools": TOOLS,
        "history": (result(f"Ann Berg {ADDRESS}"),),
        "plan": f"send the mail to {ADDRESS} now",
    }
    return Context(**fields | changes)


MAIL = call("send", to=ADDRESS, day="monday", body="Dear Ann, blue marbles")
