"""The guard as tool guardrails of the OpenAI Agents SDK (package `openai-agents`)::

    session = GuardSession(enforced(provenance_guard(), log=log), query, confirm=ask_in_chat)
    agent = Agent(name="mail", tools=guard_function_tools(session, tools, reading={"search_emails"}))

The input guardrail asks the guard before a function tool runs; a call that is stopped gives the model the reason, and
the run goes on. The output guardrail only tells the session what came of the call. A guardrail that raises ends the
run, and the tool does not run. Hosted tools run at the provider, where no guardrail reaches them: they are refused.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from demur.envs.guards.calls import exactly
from demur.envs.guards.hooks import described
from demur.envs.guards.session import Attempt, CallStopped, GuardSession
from demur.envs.trace import ToolCall

if TYPE_CHECKING:
    from agents import (
        FunctionTool,
        ToolGuardrailFunctionOutput,
        ToolInputGuardrail,
        ToolInputGuardrailData,
        ToolOutputGuardrail,
        ToolOutputGuardrailData,
    )


def guard_function_tools(
    session: GuardSession, tools: Sequence[Any], *, reading: Collection[str] = ()
) -> list[FunctionTool]:
    """Guarded copies of the tools, in order; the originals stay as they are. The guard comes before other guardrails.

    reading: names of the tools that change nothing. Of every other one it is assumed that it may, unless the
    session's `tools` describe it. Raises ValueError for another kind of tool, and for names that no tool has.
    """
    from agents import FunctionTool

    for tool in tools:
        if not isinstance(tool, FunctionTool):
            raise ValueError(f"{tool!r} is no FunctionTool: no guardrail of the SDK reaches it, leave it out")
    if unknown := set(reading) - {tool.name for tool in tools}:
        raise ValueError(f"reading={sorted(unknown)} names no tool; there are {sorted(tool.name for tool in tools)}")
    guarded = []
    for tool in tools:
        told = described(tool.name, tool.description, tool.params_json_schema, changes=tool.name not in reading)
        session.add(session.tools.get(tool.name, told))
        before, after = guardrails(session)
        guarded.append(
            dataclasses.replace(
                tool,
                tool_input_guardrails=[before, *(tool.tool_input_guardrails or ())],
                # first of all, since a later one may turn the output away and the call has run all the same
                tool_output_guardrails=[after, *(tool.tool_output_guardrails or ())],
            )
        )
    return guarded


def guardrails(session: GuardSession) -> tuple[ToolInputGuardrail[Any], ToolOutputGuardrail[Any]]:
    """The two guardrails of a tool that the session's `tools` describe; they belong together, on one tool."""
    from agents import ToolGuardrailFunctionOutput, ToolInputGuardrail, ToolOutputGuardrail

    running: dict[str, Attempt] = {}

    async def before(data: ToolInputGuardrailData) -> ToolGuardrailFunctionOutput:
        attempt = _attempt(data.context.tool_name, data.context.tool_arguments)
        known = running.get(data.context.tool_call_id)
        # the SDK may ask twice for one call: before somebody approves it, and before it runs
        if known is not None and attempt.fault is None and exactly(known.call) == exactly(attempt.call):
            return ToolGuardrailFunctionOutput.allow()
        try:
            await session.admit(attempt)
        except CallStopped as stopped:
            await session.settle(attempt, stopped, ok=False)
            verdict = stopped.verdict
            said = verdict.question or verdict.reason
            return ToolGuardrailFunctionOutput.reject_content(
                f"The call was not made. {said}", output_info=verdict.model_dump(mode="json")
            )
        except BaseException as error:
            await session.settle(attempt, error, ok=False)
            raise
        running[data.context.tool_call_id] = attempt
        return ToolGuardrailFunctionOutput.allow(attempt.verdicts[-1].model_dump(mode="json"))

    async def after(data: ToolOutputGuardrailData) -> ToolGuardrailFunctionOutput:
        attempt = running.pop(data.context.tool_call_id, None)
        if attempt is not None:
            await session.settle(attempt, data.output, ok=True)
        return ToolGuardrailFunctionOutput.allow()

    return ToolInputGuardrail(before, name="demur"), ToolOutputGuardrail(after, name="demur")


def _attempt(name: str, arguments: str) -> Attempt:
    """The call as the model wrote it. The SDK reads empty text as no arguments."""
    try:
        read = json.loads(arguments or "{}")
    except ValueError as error:
        return Attempt(ToolCall(name=name), fault=f"the arguments of {name} are no JSON: {error}")
    if not isinstance(read, dict):
        return Attempt(ToolCall(name=name), fault=f"the arguments of {name} are no JSON object")
    return Attempt(ToolCall(name=name, arguments=read))
