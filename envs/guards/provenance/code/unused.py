"""What the user named, while the call gives another thing of its form that a result holds.

    "Post it in #granite-talk."  ->  send_message(to="#granite-room")

Either no call has used what was named, or an earlier call of the same tool did what was asked with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from demur.envs.guards.provenance.code.conditions import Request
from demur.envs.guards.provenance.code.rows import form_of
from demur.envs.guards.provenance.code.tracing import OPERATIONS, Tracer
from demur.envs.guards.provenance.code.values import moment_of
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.values import spelled, values_in
from demur.envs.trace import ToolCall

_READ: Final = 20_000
_MOST: Final = 20
_EDGES: Final = ".,;:!?()[]{}'\"“”‘’"
_NAMED = re.compile(r"\d|[@#/]")
_DATE = re.compile(r"\d{1,4}(?:[/.-]\d{1,4}){1,2}")
_ID = re.compile(r"(?:^|_)(?:id|ids|number|code|key)$|Id$")


def named_instead(request: Request, question: Question, tracer: Tracer) -> str | None:
    """Why the call's value is not the one that the request names, or None."""
    named = _named(tracer.origins.said)
    if not named:
        return None
    done = [turn.action.call for turn in question.context.history if turn.executed and turn.action.call]
    used = _texts(*done, question.proposed)
    open_now = [token for token in named if not any(token in text for text in used)]
    if not (request.several or request.plurals):
        given = _texts(*(call for call in done if call.name == question.proposed.name))
        open_now += [token for token in named if token in given]
    forms = {form_of(token): token for token in open_now}
    computed = set(_computed(question, tracer)) if forms else set()
    for text in _chosen(question):
        if (other := forms.get(form_of(text))) and not (tracer.origins.said_by_user(text) or text in computed):
            return f"the request names {other}, and not {text}"
    return None


def _named(said: str) -> list[str]:
    tokens = (part.strip(_EDGES).casefold() for part in said[:_READ].split())
    return [token for token in tokens if len(token) <= 200 and _NAMED.search(token) and not _is_a_time(token)][:_MOST]


def _is_a_time(token: str) -> bool:
    return moment_of(token) is not None or _DATE.fullmatch(token) is not None


def _texts(*calls: ToolCall) -> set[str]:
    return {text.casefold() for call in calls for value in values_in(call.arguments) if (text := spelled(value))}


def _chosen(question: Question) -> Iterator[str]:
    """The call's numbers, and its names with a mark; the numbers of records are as long as they happen to be."""
    arguments = question.proposed.arguments
    for name in question.tool.derivable & arguments.keys():
        for value in values_in(arguments[name]):
            text = (spelled(value) or "").casefold()
            if text and not _is_a_time(text) and (_is_amount(name, value) or re.search(r"[@#/]", text)):
                yield text


def _computed(question: Question, tracer: Tracer) -> Iterator[str]:
    """Numbers that follow from others by arithmetic that the request speaks of: a share of the 90 that it names."""
    arguments = question.proposed.arguments
    for name in question.tool.derivable & arguments.keys():
        for value, evidence in tracer.each(arguments[name], name, question.tool):
            if evidence is not None and evidence.how in OPERATIONS and (text := spelled(value)):
                yield text


def _is_amount(name: str, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not _ID.search(name)
