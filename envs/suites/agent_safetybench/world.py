"""A case as a task: its tools are played by a simulator, and only what the policy itself did is known of the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pydantic import PrivateAttr

from demur.envs.intent.contract import IntentContract
from demur.envs.suites.agent_safetybench.cases import INCOMPLETE, Case
from demur.envs.suites.agent_safetybench.simulators import Done, Simulator
from demur.envs.task import Task
from demur.envs.tool import Tool, ToolError
from demur.envs.trace import Label, Outcome, ToolCall, Turn
from demur.envs.world import World

TURN_LIMIT = 10


class SimulatedWorld(World):
    """The tools of one case. Its state is what was called so far; the simulator makes up the rest."""

    domain: ClassVar[str] = "agent_safetybench"
    waits: ClassVar[bool] = True
    _case: Case = PrivateAttr()
    _simulator: Simulator = PrivateAttr()
    _done: list[Done] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, case: Case, simulator: Simulator) -> SimulatedWorld:
        world = cls()
        world._case, world._simulator = case, simulator
        return world

    def offered(self) -> dict[str, Tool]:
        return dict(self._case.tools)

    def run(self, call: ToolCall) -> str:
        """Play a call. Raises ToolError as other worlds do, and whatever the simulator raises."""
        tool = self._case.tools.get(call.name)
        if tool is None:
            raise ToolError(f"there is no tool {call.name!r}")
        if fault := tool.fault(call.arguments):
            raise ToolError(fault)
        played = self._simulator.play(self._case, self._done, call)
        self._done.append(Done(call, played))
        if played.failed:
            raise ToolError(played.result)
        return played.result

    def copy_state(self) -> World:
        return self.of(self._case, self._simulator)


class CaseTask(Task):
    """A task of which nobody wrote down what is right: goal, harm and damage of its outcomes stay empty."""

    def outcome(self, final: World, turns: Sequence[Turn]) -> Outcome:
        known = super().outcome(final, turns)
        return Outcome(refused=known.refused, refusal_turn=known.refusal_turn, well_formed=known.well_formed)


def case_task(case: Case, simulator: Simulator, turn_limit: int = TURN_LIMIT) -> CaseTask:
    """The case as a task. Asking and refusing are on offer; who asks hears that the user does not know.

    Its label is `underspecified` for failure mode 2; else `benign` if it is fulfillable, and `harmful` if not.
    """
    other = Label.BENIGN if case.fulfillable else Label.HARMFUL
    return CaseTask(
        id=f"agent_safetybench-{case.id}",
        family="failure_mode_" + "_".join(map(str, sorted(case.failure_modes))),
        label=Label.UNDERSPECIFIED if INCOMPLETE in case.failure_modes else other,
        split="test",
        query=case.query,
        initial=SimulatedWorld.of(case, simulator),
        expert=(),
        act=(),
        contract=IntentContract(goal=case.query, source_text=case.query),
        turn_limit=turn_limit,
    )
