"""The text a policy writes, in both directions: `parse(text)` and `render(...)`.

One turn is a plan, an optional check and exactly one action::

    <think>look up the payee</think>
    <safety_thoughts>a usual bill, nobody is harmed</safety_thoughts>
    <tool_call>{"name": "find_payee", "arguments": {"name": "Anna Berg"}}</tool_call>

The last block may also be `<answer>…</answer>`; refusing and asking are tools in the same channel.
Any text parses: what does not follow the form becomes a malformed action with the reason, never an
exception. `parse(render(turn)) == turn` for every turn that `render` accepts.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, Action, ActionKind, ToolCall

TAGS = ("think", "safety_thoughts", "tool_call", "answer")
MARKUP = tuple(mark for tag in TAGS for mark in (f"<{tag}>", f"</{tag}>"))
OBSERVATION_MARKUP = ("<tool_response>", "</tool_response>")
MAX_DEPTH = 64
"""Levels of objects and lists in a call. Deeper ones cannot be written to a file and read back."""

_BLOCK = re.compile(r"\s*<(think|safety_thoughts|tool_call|answer)>(.*?)</\1>", re.DOTALL)


class ParsedTurn(NamedTuple):
    """What one message of a policy says."""

    plan: str
    check: str | None
    action: Action


class _Fault(ValueError):
    """Why a text is not a turn; becomes `Action.fault`."""


def parse(text: str, checks: bool = True) -> ParsedTurn:
    """Read one message of a policy. Never raises; see `Action.fault` for what went wrong.

    checks: whether a turn may hold a check; False is the ablation of safety thoughts.
    """
    try:
        turn = _parse(text)
        if turn.check is not None and not checks:
            raise _Fault("<safety_thoughts> is not offered here: the action comes right after the plan")
        return turn
    except _Fault as fault:
        return ParsedTurn("", None, Action(kind=ActionKind.MALFORMED, text=text, fault=str(fault)))


def render(turn: ParsedTurn) -> str:
    """Write a turn as text.

    Raises ValueError if a part would not parse back: it contains markup of the protocol, or the call
    holds what `parse` refuses (an infinite number, half a surrogate pair, no name, too deep nesting).
    """
    if turn.action.kind is ActionKind.MALFORMED:
        return turn.action.text
    blocks = [_block("think", turn.plan)]
    if turn.check is not None:
        blocks.append(_block("safety_thoughts", turn.check))
    if turn.action.kind is ActionKind.ANSWER:
        blocks.append(_block("answer", turn.action.text))
    else:
        assert turn.action.call is not None, "every action but an answer carries its call"
        blocks.append(f"<tool_call>{_dump_call(turn.action.call)}</tool_call>")
    return "\n".join(blocks)


def act(call: ToolCall) -> Action:
    """The action a call stands for: a refusal, a question, or a call of one of the world's tools."""
    if call.name == REFUSE_TOOL:
        return Action(kind=ActionKind.REFUSE, call=call, text=_text_argument(call, "reason"))
    if call.name == ASK_TOOL:
        return Action(kind=ActionKind.ASK, call=call, text=_text_argument(call, "question"))
    return Action(kind=ActionKind.CALL, call=call)


def answer(text: str) -> Action:
    return Action(kind=ActionKind.ANSWER, text=text)


def render_observation(text: str) -> str:
    """Wrap a tool's result for the user message it travels in; markup inside it is defused."""
    for mark in (*MARKUP, *OBSERVATION_MARKUP):
        text = text.replace(mark, mark.replace("<", "&lt;"))
    return f"<tool_response>{text}</tool_response>"


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, for `object_pairs_hook`. Raises ValueError for a key that stands twice."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("a key stands twice")
    return value


def _parse(text: str) -> ParsedTurn:
    blocks = _blocks(text)
    tags = [tag for tag, _ in blocks]
    if not tags or tags[0] != "think":
        raise _Fault("the turn must start with <think>")
    check = blocks[1][1] if len(blocks) > 1 and tags[1] == "safety_thoughts" else None
    rest = blocks[2:] if check is not None else blocks[1:]
    if not rest:
        raise _Fault("the turn has no action: end it with <tool_call> or <answer>")
    if len(rest) > 1:
        raise _Fault("the turn must hold exactly one action after the plan")
    tag, body = rest[0]
    if tag == "answer":
        return ParsedTurn(blocks[0][1], check, answer(body))
    if tag == "tool_call":
        return ParsedTurn(blocks[0][1], check, act(_load_call(body)))
    raise _Fault(f"<{tag}> may not stand where the action is expected")


def _blocks(text: str) -> list[tuple[str, str]]:
    """Split a message into (tag, body) pairs; anything between or behind them is a fault."""
    blocks: list[tuple[str, str]] = []
    at = 0
    while match := _BLOCK.match(text, at):
        tag, body = match.groups()
        if any(mark in body for mark in MARKUP):
            raise _Fault(f"a tag stands inside <{tag}>")
        blocks.append((tag, body))
        at = match.end()
    rest = text[at:].strip()
    if rest:
        opened = re.match(r"<(think|safety_thoughts|tool_call|answer)>", rest)
        raise _Fault(f"<{opened[1]}> is not closed" if opened else "text stands outside the tags")
    return blocks


def _load_call(body: str) -> ToolCall:
    try:
        value = json.loads(body, parse_constant=_refuse_constant, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise _Fault(f"the call is not valid JSON: {str(error)[:120]}") from None
    if not isinstance(value, dict) or set(value) - {"name", "arguments"}:
        raise _Fault('the call must be an object with "name" and "arguments"')
    name, arguments = value.get("name"), value.get("arguments", {})
    if not isinstance(name, str) or not name:
        raise _Fault('the call needs a "name"')
    if not isinstance(arguments, dict):
        raise _Fault('"arguments" must be an object')
    _check_values(value)
    return ToolCall(name=name, arguments=arguments)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _check_values(value: Any, depth: int = 0) -> None:
    """Refuse what a file cannot hold: infinite numbers, half surrogate pairs, deep nesting."""
    if depth > MAX_DEPTH:
        raise _Fault(f"the call is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            _check_values(key, depth + 1)
            _check_values(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check_values(item, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise _Fault("a number is too large")
    elif isinstance(value, str) and any("\ud800" <= c <= "\udfff" for c in value):
        raise _Fault("a text is not valid Unicode")


def _dump_call(call: ToolCall) -> str:
    if not call.name:
        raise ValueError("a call needs a name")
    value = {"name": call.name, "arguments": call.arguments}
    _check_values(value)
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    # "<" can only stand inside a JSON string, where the escape means the same and is no markup
    for mark in MARKUP:
        text = text.replace(mark, "\\u003c" + mark[1:])
    return text


def _block(tag: str, body: str) -> str:
    if any(mark in body for mark in MARKUP):
        raise ValueError(f"the text of <{tag}> contains a tag of the protocol: {body[:80]!r}")
    return f"<{tag}>{body}</{tag}>"


def _text_argument(call: ToolCall, key: str) -> str:
    value = call.arguments.get(key, "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
