"""Traces that ASSEBench and R-Judge keep as chats of user, agent and environment, with one label by people.

An agent's message is a thought and an action. An action such as `send_mail{'to': …}`, `Send: {…}` or `scan()` is a
call; arguments that are neither JSON nor Python literals are kept as one text, `input`. Other actions are answers.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from demur.envs.protocol import act, answer, render_observation
from demur.envs.suites.calls import keyword_call
from demur.envs.tool import Tool
from demur.envs.trace import ToolCall, Turn
from demur.eval.traces import LabelledTrace, Said
from demur.eval.traces.files import Loose, arguments_of

_CALL: Final = re.compile(r"\s*([A-Za-z_][\w.\-]{0,127})(?::\s*(?=[{(]))?([{(].*)", re.DOTALL)
_FINAL: Final = frozenset({"complete", "finish", "finalanswer", "final_answer"})
_OBSERVED, _TOOLS = "[Observation]:", "You are given the available tools from the tool list:"
_PLANNED: Final = re.compile(r"At step \d+, you need to ")


class Message(Loose):
    role: Literal["user", "agent", "environment"]
    content: str | None = None
    thought: str | None = None
    action: str | None = None


class Chat(Loose):
    id: int | str
    contents: list[list[Message]]
    label: Literal[0, 1]


@dataclass(slots=True)
class _Read:
    """A chat on its way to a trace. heard: what followed each turn."""

    opening: list[str] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    heard: list[list[str]] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    plan: str = ""


def trace_of(
    chat: Chat, source: str, *, tools: Sequence[Mapping[str, Any]] = (), notes: Iterable[str] = ()
) -> LabelledTrace:
    """tools: documentation beside that in the first message. Tools without any are known by name alone, and those of
    which nobody says that they only read count as changing. Raises ValueError for a chat in which the user says
    nothing before the agent acts.
    """
    read = _Read()
    for message in (message for session in chat.contents for message in session):
        if message.role == "agent":
            _agent(read, message)
        elif not read.turns:
            read.opening.append(message.content or "")
        elif message.role == "environment":
            read.heard[-1].append(message.content or "")
        else:
            _user(read, message.content or "")
    query, listed = _query("\n\n".join(read.opening))
    if not query.strip():
        raise ValueError(f"the trace {chat.id} has no query, so nothing can be checked against it")
    turns = tuple(_heard(turn, heard) for turn, heard in zip(read.turns, read.heard, strict=True))
    names = dict.fromkeys(turn.action.call.name for turn in turns if turn.action.call)
    documented = {tool.name: tool for tool in map(_tool, [*listed, *tools])}
    unread = () if names else ("no action of it could be read as a call",)
    return LabelledTrace(
        id=str(chat.id),
        source=source,
        query=query,
        tools=documented or {name: Tool(name=name, description="", changes=True) for name in names},
        turns=turns,
        labels=(None,) * len(turns),
        label="misaligned" if chat.label else "aligned",
        # many traces share a request
        group=hashlib.sha256(query.encode()).hexdigest()[:16],
        said=tuple(read.said),
        notes=(*notes, *unread),
    )


def _agent(read: _Read, message: Message) -> None:
    thought = message.thought or ""
    action = (message.action or message.content or "").strip()
    call = action_call(action)
    # some traces hold a call's result in the thought beside it
    observed = thought.removeprefix(_OBSERVED) if call and thought.startswith(_OBSERVED) else None
    plan = "\n".join(text for text in (read.plan, thought if observed is None else "") if text)
    read.plan = ""
    if call is None:
        read.turns.append(Turn(plan=plan, action=answer(action or thought), raw=action or thought))
    else:
        read.turns.append(Turn(plan=plan, action=act(call), raw=action, executed=True))
    read.heard.append([] if observed is None else [observed.strip()])


def _user(read: _Read, text: str) -> None:
    """The scaffold of some traces repeats the agent's own plan in the user's name: it is the next turn's plan."""
    if found := _PLANNED.match(text):
        read.plan = text[found.end() :].strip()
    else:
        read.said.append(Said(len(read.turns), text))


def _heard(turn: Turn, heard: list[str]) -> Turn:
    return turn.model_copy(update={"observation": render_observation("\n\n".join(heard))}) if heard else turn


def _query(text: str) -> tuple[str, list[dict[str, Any]]]:
    """The request, and the tools that the message goes on to list."""
    at = text.find(_TOOLS)
    if at < 0:
        return text.strip(), []
    try:
        listed, _ = json.JSONDecoder().raw_decode(text[at + len(_TOOLS) :].lstrip())
    except (ValueError, RecursionError):
        raise ValueError("the list of tools in its first message can not be read: it was cut or altered") from None
    functions = [one.get("function", one) for one in listed if isinstance(one, dict)]
    return text[:at].strip(), [one for one in functions if isinstance(one, dict) and isinstance(one.get("name"), str)]


def _tool(function: Mapping[str, Any]) -> Tool:
    return Tool(name=function["name"], description=str(function.get("description") or ""), changes=True)


def action_call(text: str) -> ToolCall | None:
    """The call that an action spells, None for words."""
    found = _CALL.fullmatch(text)
    if found is None or found[1].casefold() in _FINAL:
        return None
    name, rest = found[1], found[2].strip()
    if rest.startswith("("):
        if call := keyword_call(text):
            return call
        rest = rest[1:].removesuffix(")")
    arguments = arguments_of(rest)
    return ToolCall(name=name, arguments={"input": rest} if arguments is None else dict(arguments))
