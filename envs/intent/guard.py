"""The contract as a guard: of rollouts, of evaluations, of live tools.

    guard = ContractGuard()                                    # the contract that the context carries
    guard = ContractGuard(lambda context: extract(context.query))

The judge is asked only about calls that change something and that no rule decides; what it says stands in for the
warning. Without one, such a call runs with a warning.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from demur.envs.guards import Context
from demur.envs.intent.checks import NAME, Checker, State, confidence_now, past_calls
from demur.envs.intent.contract import IntentContract
from demur.envs.trace import Level, ToolCall, Verdict

BoundaryJudge = Callable[[IntentContract, Context, ToolCall], Awaitable[Verdict]]
"""Whether a call serves the goal: looks at goal, criteria, constraints that no rule expresses, and the reasoning."""

_KEPT = 256


class ContractGuard:
    """Checks each call against a contract. state: the facts that rules compare arguments with."""

    name = NAME

    def __init__(
        self,
        contract_of: Callable[[Context], IntentContract | None] = lambda context: context.contract,
        *,
        judge: BoundaryJudge | None = None,
        state: Callable[[], State] = dict,
    ) -> None:
        self._contract_of = contract_of
        self._judge = judge
        self._state = state
        self._checkers: OrderedDict[int, tuple[IntentContract, Mapping[str, Any], Checker]] = OrderedDict()

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        contract = self._contract_of(context)
        if contract is None:
            reason = "no intent is known for this call"
            return Verdict(level=Level.BLOCK, guard=self.name, stage="unknown_intent", reason=reason)
        verdict = self._checker(contract, context).check(
            call,
            past_calls(context.history),
            self._state(),
            confidence=confidence_now(contract, _levels(context)),
            lifted=_lifted(context, call),
        )
        undecided = verdict.stage == "boundary" and verdict.level is Level.WARN
        return await self._judge(contract, context, call) if self._judge and undecided else verdict

    def _checker(self, contract: IntentContract, context: Context) -> Checker:
        """Made once a contract: making one costs as much as many checks."""
        key = id(contract)  # the entry holds the contract, so that its id is not used again
        kept = self._checkers.get(key)
        if kept is None or kept[0] is not contract or kept[1] != context.tools:
            kept = (contract, context.tools, Checker(contract, context.tools))
            self._checkers[key] = kept
            while len(self._checkers) > _KEPT:
                self._checkers.popitem(last=False)
        return kept[2]


def _lifted(context: Context, call: ToolCall) -> frozenset[Level]:
    agreed = {Level.ASK: context.confirmed, Level.REQUIRE_APPROVAL: context.approved}
    return frozenset(level for level, calls in agreed.items() if call in calls)


def _levels(context: Context) -> list[Level]:
    return [v.level for turn in context.history for v in turn.verdicts if v.guard == NAME]
