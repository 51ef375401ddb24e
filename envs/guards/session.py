"""What belongs to one user's intent while an agent works on it: the guard, the calls so far, and who can be asked.

    session = GuardSession(guard, "refund rate of the last 7 days", contract=contract, confirm=ask_in_chat)

Tools are put under its guard by `demur.envs.guards.decorator.guarded`. The state changes only in the worker's loop, so
that no two calls are checked against the same state.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from demur.envs.guards import Composed, Context, Guard, checked
from demur.envs.guards.calls import exactly, is_async, text_of
from demur.envs.guards.worker import await_in_worker, call_in_thread
from demur.envs.intent.contract import IntentContract
from demur.envs.protocol import act, render_observation
from demur.envs.tool import Tool
from demur.envs.trace import Level, ToolCall, Turn, Verdict

NAME: Final = "session"
"""The guard in verdicts that the session itself gives, of calls that no guard can judge."""

Confirm = Callable[[str, ToolCall], bool | Awaitable[bool]]
"""Asks the user a question about a call. Only True is a yes."""
Approve = Callable[[ToolCall, Verdict], bool | Awaitable[bool]]
"""Asks for an approval, or waits for one. Only True is a yes."""

_log = logging.getLogger(__name__)


class CallStopped(Exception):
    """A call that did not run. Its text is the reason; `call` is what was to be done, `verdict` what the guard said."""

    def __init__(self, call: ToolCall, verdict: Verdict) -> None:
        super().__init__(verdict.reason)
        self.call = call
        self.verdict = verdict


class CallBlocked(CallStopped):
    """The guard blocked the call."""


class CallNeedsConfirmation(CallStopped):
    """The user has to be asked first and did not say yes. `GuardSession.confirmed` tells of a yes given later."""


class ApprovalRequired(CallStopped):
    """Somebody has to approve the call first, and has not."""


_STOPPED: Final[Mapping[Level, type[CallStopped]]] = {
    Level.ASK: CallNeedsConfirmation,
    Level.REQUIRE_APPROVAL: ApprovalRequired,
}


class Reasoning(NamedTuple):
    """What the agent thought before a call."""

    plan: str = ""
    check: str | None = None


_reasoning: ContextVar[Reasoning | None] = ContextVar("demur_reasoning", default=None)


@contextmanager
def reasoning(plan: str, check: str | None = None) -> Iterator[None]:
    """Tell guards why the agent makes the calls inside the block: its plan, and its safety check if it made one."""
    token = _reasoning.set(Reasoning(plan, check))
    try:
        yield
    finally:
        _reasoning.reset(token)


@dataclass(slots=True)
class Attempt:
    """A call on its way. fault: why nobody can judge it. granted: the levels that somebody's yes lifts.

    at: its place in the history once it may run. over: nobody waits for it any more.
    """

    call: ToolCall
    fault: str | None = None
    said: Reasoning = field(default_factory=lambda: _reasoning.get() or Reasoning())
    verdicts: list[Verdict] = field(default_factory=list)
    granted: set[Level] = field(default_factory=set)
    at: int | None = None
    over: bool = False

    def turn(self, **came_of_it: Any) -> Turn:
        plan, check = self.said
        return Turn(plan=plan, check=check, action=act(self.call), verdicts=tuple(self.verdicts), **came_of_it)


class GuardSession:
    """The guarded calls of one user's intent. Threads and event loops may share it.

    query: what the user asked for. contract: the terms of it. tools: descriptions by name, for tools that are better
    described than by their signatures; `guarded` adds the others to it, so that a guard may share it. confirm and
    approve may be asynchronous or may block; they are asked when the guard wants it, and no answer within `timeout`
    seconds is a no. user_said: what the user said since, for the agent's loop to append to.

    A guard with a method `ran(call, result, ok)`, asynchronous or not, is told what came of each call that ran. If
    that fails, every later call is blocked, since the guard no longer knows what was done.
    """

    def __init__(
        self,
        guard: Guard,
        query: str,
        *,
        contract: IntentContract | None = None,
        tools: dict[str, Tool] | None = None,
        confirm: Confirm | None = None,
        approve: Approve | None = None,
        timeout: float = 300.0,
    ) -> None:
        self.guard = guard
        self.query = query
        self.contract = contract
        self.tools = {} if tools is None else tools
        self.user_said: list[str] = []
        self._confirm = confirm
        self._approve = approve
        self._timeout = timeout
        self._guarded: set[str] = set()
        self._turns: list[Turn] = []
        self._one_at_a_time = asyncio.Lock()
        self._broken: str | None = None
        self._agreed: list[ToolCall] = []  # a yes for each, given and not needed yet
        self._confirmed: list[ToolCall] = []  # a yes for each, used by now

    @property
    def history(self) -> tuple[Turn, ...]:
        """Every call so far: its verdicts, whether it ran, what it returned. One that is still running counts as
        executed and has no observation."""
        return tuple(self._turns)

    def confirmed(self, call: ToolCall) -> None:
        """The user agreed to this call, which CallNeedsConfirmation had stopped: exactly it may be made once."""
        self._agreed.append(call)

    def add(self, tool: Tool) -> None:
        """Take over a tool to guard. Raises ValueError if one of that name is guarded already."""
        if tool.name in self._guarded:
            raise ValueError(f"the session already guards a tool called {tool.name!r}: give one of them another name")
        self._guarded.add(tool.name)
        self.tools[tool.name] = tool

    async def admit(self, attempt: Attempt) -> None:
        """Returns when the call may run, and raises CallStopped if it must not. `settle` has to follow either way."""
        while True:
            verdict = await await_in_worker(self._decide(attempt))
            if attempt.at is not None:
                return
            await self._obtain_yes(attempt, verdict)
            attempt.granted.add(verdict.level)

    async def settle(self, attempt: Attempt, result: Any, *, ok: bool) -> None:
        """Write down what came of a call: its result, or the error if it is not `ok`."""
        text = text_of(result) if ok else f"Error: {text_of(result)}"
        await await_in_worker(self._close(attempt, text, ok))

    async def _decide(self, attempt: Attempt) -> Verdict:
        """The guard's verdict. A call that it lets run is in the history before the next one is checked."""
        async with self._one_at_a_time:
            if fault := attempt.fault or self._broken:
                verdict = Verdict(level=Level.BLOCK, guard=NAME, stage="error", reason=fault)
            else:
                verdict = await checked(self.guard, self._context(attempt), attempt.call)
            attempt.verdicts.append(verdict)
            runs = verdict.level.lets_run and not attempt.over
            if runs:
                attempt.at = len(self._turns)
                self._turns.append(attempt.turn(executed=True))
        said, level = "%s: %s, said %s (stage %s, rule %r)", logging.INFO if runs else logging.WARNING
        _log.log(level, said, attempt.call.name, verdict.level, verdict.guard, verdict.stage, verdict.relation)
        return verdict

    def _context(self, attempt: Attempt) -> Context:
        call, known = attempt.call, self._confirmed
        # a yes for this very call is shown once it was needed, so that each lets the call run one time
        mine = [one for one in known if exactly(one) == exactly(call)] if Level.ASK in attempt.granted else []
        return Context(
            query=self.query,
            tools=dict(self.tools),
            history=self.history,
            plan=attempt.said.plan,
            check=attempt.said.check,
            user_said=tuple(self.user_said),
            confirmed=(*(one for one in known if one != call), *mine),
            approved=(call,) if Level.REQUIRE_APPROVAL in attempt.granted else (),
            contract=self.contract,
        )

    async def _obtain_yes(self, attempt: Attempt, verdict: Verdict) -> None:
        """Returns after a yes that lifts the verdict; raises CallStopped after anything else."""
        call, failure = attempt.call, None
        try:
            # a guard that asks for the same again wants more than a yes
            yes = verdict.level not in attempt.granted and await self._ask(call, verdict)
        except Exception as error:  # also TimeoutError
            yes, failure = False, error
        await await_in_worker(self._note_answer(attempt, verdict, yes))
        if not yes:
            raise _STOPPED.get(verdict.level, CallBlocked)(call, verdict) from failure

    async def _ask(self, call: ToolCall, verdict: Verdict) -> bool:
        if verdict.level is Level.ASK:
            if await await_in_worker(self._take_agreement(call)):
                return True
            return await self._answer(self._confirm, verdict.question or verdict.reason, call)
        if verdict.level is Level.REQUIRE_APPROVAL:
            return await self._answer(self._approve, call, verdict)
        return False

    async def _answer(self, callback: Callable[..., Any] | None, *arguments: Any) -> bool:
        if callback is None:
            return False
        async with asyncio.timeout(self._timeout):
            asked = callback(*arguments) if is_async(callback) else await call_in_thread(callback, *arguments)
            return (await asked if inspect.isawaitable(asked) else asked) is True

    async def _take_agreement(self, call: ToolCall) -> bool:
        found = next((at for at, agreed in enumerate(self._agreed) if exactly(agreed) == exactly(call)), None)
        if found is not None:
            del self._agreed[found]
        return found is not None

    async def _note_answer(self, attempt: Attempt, verdict: Verdict, yes: bool) -> None:
        if not yes:
            self._turns.append(attempt.turn(observation=render_observation(f"Not carried out: {verdict.reason}")))
        elif verdict.level is Level.ASK:
            self._confirmed.append(attempt.call)

    async def _close(self, attempt: Attempt, text: str, ok: bool) -> None:
        attempt.over = True
        if attempt.at is None:  # it was stopped, and that is written down
            return
        self._turns[attempt.at] = attempt.turn(executed=True, failed=not ok, observation=render_observation(text))
        try:
            await report(self.guard, attempt.call, text, ok)
        except Exception as error:  # the tool has run: without its result an agent would run it again
            _log.exception("the guard could not take note of a call of %s", attempt.call.name)
            self._broken = f"the guard could not take note of a call of {attempt.call.name}: {error}"


async def report(guard: Guard, call: ToolCall, result: str, ok: bool) -> None:
    """Tell a guard, or each part of a composed one, what came of a call. Raises what it raises."""
    if isinstance(guard, Composed):
        for part in guard.guards:
            await report(part, call, result, ok)
    elif ran := getattr(guard, "ran", None):
        told = ran(call, result, ok)
        if inspect.isawaitable(told):
            await told
