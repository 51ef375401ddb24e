"""Guards stand between a proposed call and its execution.

One asynchronous protocol serves rollouts, evaluation and live agents::

    verdict = await checked(guard, context, call)     # never raises: a failing guard blocks
    verdict = check_sync(guard, context, call)        # the same, from code without an event loop
    strict = compose(contract_guard, provenance_guard)
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from demur.envs.intent.contract import IntentContract
from demur.envs.tool import Tool
from demur.envs.trace import Level, ToolCall, Turn, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a guard may know. plan and check: of the turn that proposes the call.

    user_said: what the user answered during the episode. confirmed: calls the user was asked about and agreed
    to, each exactly as it was shown; approved: the same of whoever approves. It is for the guard to let such a call
    through. contract: the terms of the user's intent, where the runtime knows them. now: the world's clock, or None.
    briefing: what the policy was told of the world besides its tools.
    partial: turns of the history, 0-based, of whose results a record holds less than the agent saw.
    """

    query: str
    tools: Mapping[str, Tool]
    history: Sequence[Turn] = ()
    plan: str = ""
    check: str | None = None
    user_said: Sequence[str] = ()
    confirmed: Sequence[ToolCall] = ()
    approved: Sequence[ToolCall] = ()
    contract: IntentContract | None = None
    now: datetime | None = None
    briefing: str = ""
    partial: frozenset[int] = frozenset()


class Guard(Protocol):
    """Decides on one proposed call, before it runs."""

    @property
    def name(self) -> str: ...

    async def check(self, context: Context, call: ToolCall) -> Verdict: ...


class AllowAll:
    """Lets every call run: the condition without a guard."""

    name = "none"

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        return Verdict(level=Level.ALLOW, guard=self.name)


@dataclass(frozen=True, slots=True)
class Composed:
    """Several guards at once; the strictest verdict counts, the earlier guard on a tie."""

    guards: tuple[Guard, ...]

    @property
    def name(self) -> str:
        return "+".join(guard.name for guard in self.guards)

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        verdicts = await asyncio.gather(*(checked(guard, context, call) for guard in self.guards))
        return max(verdicts, key=lambda verdict: verdict.level.severity)


def compose(*guards: Guard) -> Guard:
    """One guard out of several. Raises ValueError without any: nothing would be guarded."""
    if not guards:
        raise ValueError("compose needs at least one guard; use AllowAll() to guard nothing on purpose")
    return guards[0] if len(guards) == 1 else Composed(guards)


async def checked(guard: Guard, context: Context, call: ToolCall) -> Verdict:
    """Ask a guard and fail closed: if it raises, the call is blocked and the reason says why."""
    try:
        verdict = await guard.check(context, call)
        if not isinstance(verdict, Verdict):
            raise TypeError(f"it returned a {type(verdict).__name__}, not a Verdict")
        return verdict
    except Exception as error:  # any failure of a guard must block
        return Verdict(
            level=Level.BLOCK,
            guard=guard.name,
            stage="error",
            reason=f"the guard failed: {type(error).__name__}: {error}",
        )


def check_sync(guard: Guard, context: Context, call: ToolCall) -> Verdict:
    """`checked` for code that has no running event loop."""
    return asyncio.run(checked(guard, context, call))
