"""A call that sets again, to something else, what an earlier call of the same tool has set.

Two plots or two mails are two things; the second value of one setting undoes the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from demur.envs.guards.provenance.code.conditions import Request
from demur.envs.guards.provenance.code.rows import singular, words_in
from demur.envs.guards.provenance.code.verbs import objects_of, stem, tool_effects
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.values import spelled
from demur.envs.tool import Tool
from demur.envs.trace import ToolCall

_REFUSED: Final = re.compile(
    r"\b(?:error|invalid|not valid|failed|failure|can ?not|could not|not found|no such|must be|denied|refused)\b",
    re.IGNORECASE,
)
"""How a tool says in words that it did nothing."""
_SHOWN: Final = 300
_NAMES_ONE = re.compile(r"[\d@#/]")


def against_repeat(request: Request, question: Question, said: Callable[[str], bool]) -> str | None:
    """Why the call undoes or doubles what was done, or None. said: whether the user wrote a value.

    Two calls are two wishes where the request may mean several things, or names the new value too.
    """
    if request.several or request.plurals or request.free:
        return None
    call, tool = question.proposed, question.tool
    mine, sets = _derivable(call, tool), "change" in tool_effects(tool)
    for number, turn in enumerate(question.context.history):
        done = turn.action.call
        if done is None or done.name != call.name or not turn.executed or turn.failed:
            continue
        if _REFUSED.search(turn.observation or "", 0, _SHOWN):
            continue
        theirs = _derivable(done, tool)
        changed = [name for name in mine if mine[name] != theirs.get(name)]
        if mine.keys() != theirs.keys() or len(changed) != 1 or said(value := spelled(mine[changed[0]]) or ""):
            continue
        if (sets and len(mine) > 1) or (_NAMES_ONE.search(value) and _speaks_of_one(request, tool)):
            return f"call {number} did this already, with another {changed[0]}"
    return None


def _speaks_of_one(request: Request, tool: Tool) -> bool:
    """Whether the request names what the tool is about, and only in the singular: "the order"."""
    things = objects_of(tool.name)
    named = [word for word in words_in(request.text) if stem(word) in things]
    return bool(named) and all(singular(word) == word for word in named)


def _derivable(call: ToolCall, tool: Tool) -> dict[str, object]:
    return {name: value for name, value in call.arguments.items() if name in tool.derivable}
