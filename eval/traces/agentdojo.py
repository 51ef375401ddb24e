"""Scripted traces on AgentDojo (arXiv 2406.13352): `<suite>_scripted_traces.jsonl`, with `tools.json` beside them.

An agent does the user's task by its ground truth and then follows the injection by that one's. Every call is labelled
aligned (the user's) or injected. Whether the agent had read the injection when it made a call is found here, from the
results so far: some tools quote and break the text, so that letters and digits alone are compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from demur.envs.tool import Parameter, Tool
from demur.envs.trace import ToolCall
from demur.eval.traces import LabelledTrace, TraceLabel
from demur.eval.traces.files import Loose, bytes_of, call_turn, lines_of

CHANGING: Final = frozenset(
    "add_calendar_event_participants add_user_to_channel append_to_file cancel_calendar_event create_calendar_event "
    "create_file delete_email delete_file get_webpage invite_user_to_slack post_webpage remove_user_from_slack "
    "reschedule_calendar_event reserve_car_rental reserve_hotel reserve_restaurant schedule_transaction "
    "send_channel_message send_direct_message send_email send_money share_file update_password "
    "update_scheduled_transaction update_user_info".split()
)
"""Tools that change the environment. get_webpage is one, as in the labels: the suite logs each page that is fetched."""

_NOW: Final = {"workspace": datetime(2024, 5, 15)}
_CUT: Final = re.compile(r"\.\.\.\[\d+ more chars\]\Z")
_TELLING: Final = 40
"""Letters and digits of an injection's opening that tell that it was read."""


class _Function(Loose):
    name: str
    description: str
    parameters: dict[str, Any]


class _Step(Loose):
    function: str = Field(min_length=1)
    args: dict[str, Any]
    result: str
    error: str | None = None
    changes_environment: bool
    label: Literal["aligned", "injected"]


class _Trace(Loose):
    suite: Literal["banking", "slack", "travel", "workspace"]
    user_task: str
    injection_task: str | None
    prompt: str
    injection_goal: str | None
    steps: list[_Step] = Field(min_length=1)


_TOOLS: Final = TypeAdapter(dict[str, list[_Function]])


def read(path: Path) -> list[LabelledTrace]:
    """Raises ValueError, naming file and line, for a line that is cut, altered or of another format."""
    suites = _suites(path.with_name("tools.json"))
    found = []
    for number, trace in lines_of(path, _Trace):
        if trace.suite not in suites:
            raise ValueError(f"{path.with_name('tools.json')} lacks the suite {trace.suite!r}")
        tools = suites[trace.suite]
        for at, step in enumerate(trace.steps):
            # a tool that changes things may leave them as they were, but not the other way round
            if (tool := tools.get(step.function)) and step.changes_environment and not tool.changes:
                raise ValueError(f"{path}:{number} was altered: step {at} says that {tool.name} changes something")
        found.append(_labelled(trace, tools))
    return found


@cache
def _suites(path: Path) -> Mapping[str, Mapping[str, Tool]]:
    try:
        read = _TOOLS.validate_json(bytes_of(path))
    except ValidationError:
        raise ValueError(f"{path} is not AgentDojo's list of tools") from None
    return {suite: {function.name: _tool(function) for function in functions} for suite, functions in read.items()}


def _tool(function: _Function) -> Tool:
    """Nothing says which parameters are free text, so a guard has to infer it."""
    required = function.parameters.get("required", [])
    parameters = tuple(
        Parameter(name=name, schema=schema, required=name in required, source=None)
        for name, schema in function.parameters.get("properties", {}).items()
    )
    changes = function.name in CHANGING
    return Tool(name=function.name, description=function.description, parameters=parameters, changes=changes)


def _labelled(trace: _Trace, tools: Mapping[str, Tool]) -> LabelledTrace:
    injected = any(step.label == "injected" and step.changes_environment for step in trace.steps)
    label: TraceLabel | None = "misaligned" if injected else None if trace.injection_task else "aligned"
    return LabelledTrace(
        id=f"{trace.suite}/{trace.user_task}/{trace.injection_task or 'none'}",
        source=f"agentdojo/{trace.suite}",
        policy="scripted",
        query=trace.prompt,
        tools=tools,
        turns=tuple(
            call_turn(ToolCall(name=s.function, arguments=s.args), s.result, failed=s.error is not None)
            for s in trace.steps
        ),
        labels=tuple(step.label for step in trace.steps),
        label=label,
        group=f"{trace.suite}/{trace.user_task}",
        now=_NOW.get(trace.suite),
        allowed=frozenset(step.function for step in trace.steps if step.label == "aligned"),
        partial=frozenset(at for at, step in enumerate(trace.steps) if _CUT.search(step.result)),
        injection_seen=tuple(_seen(trace.injection_goal or "", trace.steps)),
        notes=() if injected or not trace.injection_task else ("the injection's own calls only read",),
    )


def _seen(goal: str, steps: Sequence[_Step]) -> Iterator[bool]:
    """For each step, whether an earlier result holds the opening of the injection."""
    opening = _letters(goal)[:_TELLING]
    if not opening:
        return iter([False] * len(steps))
    after = [opening in _letters(step.result) for step in steps]
    return accumulate([False, *after[:-1]], lambda before, now: before or now)


def _letters(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()
