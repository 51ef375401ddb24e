"""The guard as an approver of inspect_ai (package `inspect-ai`)::

    guard = enforced(provenance_guard(), log=log)
    approver = guard_approver(guard, tools, reading={"search"})
    Task(..., approval=[ApprovalPolicy(approver, "*"), ApprovalPolicy(human_approver(), "*")])

Nothing is kept between calls: the query, the calls so far and their results come from the conversation, so that one
approver serves all samples. A call that the guard wants to have confirmed or approved is escalated to the next approver
of the policy; without one, inspect_ai rejects it. The guard is not told of results otherwise, so that the audit log has
what was checked, and not what ran.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from demur.envs.guards import Context, Guard, checked
from demur.envs.guards.calls import plain
from demur.envs.guards.hooks import described
from demur.envs.intent.contract import IntentContract
from demur.envs.protocol import act, render_observation
from demur.envs.tool import Tool
from demur.envs.trace import Level, ToolCall, Turn, Verdict

if TYPE_CHECKING:
    from inspect_ai.approval import Approver

Decision = Literal["approve", "escalate", "reject"]

_DECISIONS: Final[dict[Level, Decision]] = {
    Level.ALLOW: "approve",
    Level.WARN: "approve",
    Level.ASK: "escalate",
    Level.REQUIRE_APPROVAL: "escalate",
    Level.BLOCK: "reject",
}
_NOT_RUN: Final = ("approval", "parsing")
"""Kinds of a tool message's error that say that the tool was not called."""


def guard_approver(
    guard: Guard, tools: Sequence[Any], *, reading: Collection[str] = (), contract: IntentContract | None = None
) -> Approver:
    """An approver that asks the guard. The user's first message is the query; later ones are what the user said since.

    tools: inspect_ai's, or descriptions of our own. reading: names of the tools that change nothing; of every other of
    inspect_ai's it is assumed that it may. Raises ValueError for names that no tool has.
    """
    from inspect_ai.approval import Approval, approver

    known = _described(tools, reading)

    async def approve(message: str, call: Any, view: Any, history: list[Any]) -> Approval:
        if call.parse_error:
            reason = f"the arguments of {call.function} can't be read: {call.parse_error}"
            verdict = Verdict(level=Level.BLOCK, guard=guard.name, stage="error", reason=reason)
        else:
            try:
                proposed = ToolCall(name=call.function, arguments=plain(call.arguments))
                context = _context(message, history, known, contract)
            except Exception as error:  # the guard can't judge what it can't see
                reason = f"the conversation can't be read: {type(error).__name__}: {error}"
                verdict = Verdict(level=Level.BLOCK, guard=guard.name, stage="error", reason=reason)
            else:
                verdict = await checked(guard, context, proposed)
        said = verdict.question or verdict.reason
        told = verdict.model_dump(mode="json", exclude_none=True)
        return Approval(decision=_DECISIONS[verdict.level], explanation=said, metadata={"verdict": told})

    @approver(name="demur")  # type: ignore[untyped-decorator]  # the log names it
    def made() -> Approver:
        return approve

    return made()


def _described(tools: Sequence[Any], reading: Collection[str]) -> dict[str, Tool]:
    from inspect_ai.tool import ToolDef

    known = {}
    for tool in tools:
        if not isinstance(tool, Tool):
            found = tool if isinstance(tool, ToolDef) else ToolDef(tool)
            schema = found.parameters.model_dump(mode="json", exclude_none=True)
            tool = described(found.name, found.description, schema, changes=found.name not in reading)
        known[tool.name] = tool
    if unknown := set(reading) - set(known):
        raise ValueError(f"reading={sorted(unknown)} names no tool; there are {sorted(known)}")
    return known


def _context(message: str, history: Sequence[Any], tools: dict[str, Tool], contract: IntentContract | None) -> Context:
    said = [one.text for one in history if one.role == "user"]
    return Context(
        query=said[0] if said else "",
        tools=tools,
        history=tuple(_turns(history)),
        plan=message,
        user_said=said[1:],
        contract=contract,
    )


def _turns(history: Sequence[Any]) -> Iterator[Turn]:
    """The calls that have a result, each with it. One that nobody let run has none that a value could rest on."""
    proposed: dict[str, tuple[str, Any]] = {}
    for one in history:
        if one.role == "assistant":
            proposed.update((call.id, (one.text, call)) for call in one.tool_calls or ())
        elif one.role == "tool" and one.tool_call_id in proposed:
            plan, call = proposed[one.tool_call_id]
            yield Turn(
                plan=plan,
                action=act(ToolCall(name=call.function, arguments=plain(call.arguments))),
                observation=render_observation(one.error.message if one.error else one.text),
                executed=one.error is None or one.error.type not in _NOT_RUN,
                failed=one.error is not None,
            )
