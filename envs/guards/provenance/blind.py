"""Stage III's view: what it may know of a turn without learning which call was proposed."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import regex

from demur.envs.guards import Context
from demur.envs.guards.provenance.values import spelled, stretch_of, values_in, whole_words
from demur.envs.trace import ToolCall

HIDDEN: Final = "[…]"


class Blind(NamedTuple):
    context: Context
    subtask: str


def blind(context: Context, call: ToolCall, subtask: str) -> Blind:
    """The context without the turn's own words, without calls that did not run and without confirmed ones.

    A plan tends to name the values that it is about to use. Those that do not come from the user are hidden in the
    subtask, so that a choice between several records is not given away.
    """
    said = "\n".join((context.query, *context.user_said))
    ran = [at for at, turn in enumerate(context.history) if turn.executed]
    hidden = replace(
        context,
        plan="",
        check=None,
        history=tuple(context.history[at] for at in ran),
        partial=frozenset(new for new, at in enumerate(ran) if at in context.partial),
        confirmed=(),
        approved=(),
        contract=None,
    )
    lower = subtask.lower()
    values = {text for value in values_in(call.arguments) if (text := spelled(value)) and len(text) <= len(subtask)}
    # most values are not named at all, and a pattern for each takes its time
    named = [text for text in values if all(word in lower for word in text.lower().split())]
    return Blind(hidden, _masked(subtask, [text for text in named if stretch_of(text, said) is None]))


def _masked(subtask: str, values: list[str]) -> str:
    if not values:
        return subtask
    longest_first = sorted(values, key=len, reverse=True)
    return str(regex.sub("|".join(map(whole_words, longest_first)), HIDDEN, subtask, flags=regex.IGNORECASE))
