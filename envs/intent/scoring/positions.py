"""Where a turn is scored: after each completed sentence of its plan and its check, and where it acts.

A score asks what the model would call if it acted now. So what stands open is closed, a call is opened, and the
tool's name comes next; how that is written depends on the model's format::

    <think>Pay her. Then she lies.|</think>⏎<tool_call>{"name": "…

A `CallFormat` is those few texts. `FORMATS` has our own protocol and the native ones of Qwen; another is three
lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from demur.envs.trace import Record

Part = Literal["plan", "check", "action"]
Which = Literal["all", "action", "changes"]
"""all: every sentence and every action. action: actions only. changes: actions that change the environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFormat:
    """What ends a plan and a check, and what opens a call up to its tool's name (which a quote or `closer` ends)."""

    plan_end: str
    check_end: str
    opener: str
    closer: str = '"'


FORMATS: dict[str, CallFormat] = {
    "demur": CallFormat(
        plan_end="</think>\n", check_end="</safety_thoughts>\n", opener='<tool_call>{"name": "'
    ),  # see envs/protocol.py
    "qwen3": CallFormat(
        plan_end="\n</think>\n\n", check_end="</safety_thoughts>\n", opener='<tool_call>\n{"name": "'
    ),  # reasons in <think>, blank line, then the call
    "qwen2.5": CallFormat(
        plan_end="</think>\n", check_end="</safety_thoughts>\n", opener='<tool_call>\n{"name": "'
    ),  # no reasoning of its own, so the plan is our protocol's
}


class Position(Record):
    """A place in a turn: `end` characters of its raw text have been read. turn: 0-based. part: what they end in."""

    turn: int
    part: Part
    end: int

    def tail(self, form: CallFormat) -> str:
        """What comes between the text read so far and the tool's name."""
        closing = {"plan": form.plan_end, "check": form.check_end, "action": ""}[self.part]
        return closing + form.opener


# `.`, `!` or `?` before a blank, but not behind a digit (such as `3. `); a line break; a Chinese full stop
_SENTENCE = re.compile(r"(?<![\d.!?])[.!?]+(?=\s)|(?<=\S)(?=[^\S\n]*\n)|[。！？]+")
_OPEN = re.compile(r"\s*<(think|safety_thoughts)>")
_ACTION = re.compile(r"\s*(?=<(?:tool_call|answer)>)")
_PARTS: dict[str, Part] = {"think": "plan", "safety_thoughts": "check"}


def positions_of(raw: str, turn: int = 0) -> list[Position]:
    """The positions of a turn's text, in order; the text may still be growing, then its last sentence waits.

    The end of a part counts as the end of its last sentence. Where an action follows it directly, that end and
    the action are one position, the action's. A text that does not start with a plan has no position.
    """
    found: list[Position] = []
    at = 0
    for tag in _PARTS:
        opened = _OPEN.match(raw, at)
        if opened is None or opened[1] != tag:
            if tag == "think":
                return []
            continue
        closed = raw.find(f"</{tag}>", opened.end())
        ends = _sentence_ends(raw, opened.end(), closed if closed >= 0 else None)
        found += [Position(turn=turn, part=_PARTS[tag], end=end) for end in ends]
        if closed < 0:
            return found
        at = closed + len(f"</{tag}>")
    action = _ACTION.match(raw, at)
    if action:
        if found and raw[found[-1].end : at].strip() in (f"</{tag}>" for tag in _PARTS):
            found.pop()
        found.append(Position(turn=turn, part="action", end=action.end()))
    return found


def _sentence_ends(raw: str, start: int, closed: int | None) -> list[int]:
    """Offsets behind each completed sentence of raw[start:closed]; `closed` is None while the part is open."""
    body = raw[start:closed]
    ends = [start + match.end() for match in _SENTENCE.finditer(body) if body[: match.end()].strip()]
    last = start + len(body.rstrip())
    if closed is not None and last > start:
        ends.append(last)
    return sorted(set(ends))
