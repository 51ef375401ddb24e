"""Suites whose tools give recorded results: a world without a state of its own, and what its tasks have in common."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar

from pydantic import PrivateAttr

from demur.envs.intent.contract import CallPattern, IntentContract
from demur.envs.protocol import ParsedTurn, act, render, render_observation
from demur.envs.tool import Tool, ToolError
from demur.envs.trace import Ending, ToolCall, Trajectory, Turn
from demur.envs.world import World

Answering = Callable[[ToolCall, Sequence[ToolCall]], str]
"""From a call, and the calls that ran before it, to the tool's result. Raises ToolError if there is none."""


class RecordedWorld(World):
    """Tools from a benchmark's data. Nothing changes in here: what a policy did is read from its turns.

    checks: whether arguments have to fit the tool's schema.
    """

    domain: ClassVar[str] = "recorded"
    _tools: dict[str, Tool] = PrivateAttr(default_factory=dict)
    _answering: Answering = PrivateAttr()
    _checks: bool = PrivateAttr(default=True)
    _ran: list[ToolCall] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, tools: Iterable[Tool], answering: Answering, *, checks: bool = True) -> RecordedWorld:
        world = cls()
        world._tools, world._answering, world._checks = {tool.name: tool for tool in tools}, answering, checks
        return world

    def offered(self) -> dict[str, Tool]:
        return dict(self._tools)

    def run(self, call: ToolCall) -> str:
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(f"there is no tool {call.name!r}")
        if self._checks and (fault := tool.fault(call.arguments)):
            raise ToolError(fault)
        result = self._answering(call, tuple(self._ran))
        self._ran.append(call)
        return result

    def copy_state(self) -> World:
        return self.of(self._tools.values(), self._answering, checks=self._checks)


def recorded_turn(call: ToolCall, result: str, plan: str = "") -> Turn:
    """A call that was made before the policy's first turn."""
    action = act(call)
    return Turn(
        plan=plan,
        action=action,
        raw=render(ParsedTurn(plan, None, action)),
        observation=render_observation(result),
        executed=True,
    )


def ran(turns: Iterable[Turn]) -> list[str]:
    """The names of the tools that were on offer and ran, in order."""
    return [turn.action.call.name for turn in turns if turn.executed and turn.action.call and not turn.failed]


def finished_well(trajectory: Trajectory) -> bool:
    """Whether no turn of the policy was malformed, and its backend did not fail."""
    return not trajectory.ending.is_error and trajectory.valid_turns == len(trajectory.own_turns)


def answered(trajectory: Trajectory) -> bool:
    """Whether it ends in an answer that says something."""
    last = trajectory.own_turns[-1] if trajectory.own_turns else None
    return trajectory.ending is Ending.ANSWER and last is not None and bool(last.action.text.strip())


def contract_for(query: str, tools: Mapping[str, Tool], wanted: Iterable[str] = ()) -> IntentContract:
    """What only reads is free, and beside it the tools that the task is there for may be called."""
    names = dict.fromkeys([name for name, tool in tools.items() if not tool.changes] + list(wanted))
    return IntentContract(goal=query, source_text=query, allowed=tuple(CallPattern(tool=name) for name in names))


def opaque_id(*parts: object) -> str:
    """An id that says nothing of the task, the same each time."""
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:16]
