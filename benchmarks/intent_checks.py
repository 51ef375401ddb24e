"""What a contract costs before a call: 50 rules, a history of 200 calls, no judge.

    python benchmarks/intent_checks.py

check_us_p50, check_us_p99   microseconds of `Checker.check`
guard_us_p50, guard_us_p99   the same through `ContractGuard`, which reads the history off the turns each time
"""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Callable, Sequence
from time import perf_counter

from demur.envs.guards import Context
from demur.envs.intent.checks import Checker, PastCall
from demur.envs.intent.contract import (
    Between,
    CallPattern,
    Constraint,
    Criterion,
    Equals,
    IntentContract,
    Like,
    Matches,
    Precondition,
)
from demur.envs.intent.guard import ContractGuard
from demur.envs.tool import Tool
from demur.envs.trace import Action, ActionKind, ToolCall, Turn

TOOLS = {f"tool_{i}": Tool(name=f"tool_{i}", description="d", changes=i % 2 == 0) for i in range(20)}


def _constraint(i: int) -> Constraint:
    """Of one tool or of all, on a number and a text; none is hit, so that each is looked at to its end."""
    where = (Between(argument="amount", minimum=0), Matches(argument="to", pattern=f"[a-z]+ no {i}"))
    return Constraint(id=f"c{i}", text="no", forbid=CallPattern(tool=f"tool_{i}" if i % 2 else "tool_*", where=where))


CONTRACT = IntentContract(
    goal="pay what is due",
    scope={"account": ("me-*",)},
    allowed=tuple(
        CallPattern(tool=f"tool_{i}", where=(Like(argument="to", pattern="*@*"),), at_most=150) for i in range(20)
    ),
    constraints=tuple(_constraint(i) for i in range(15)),
    order=tuple(
        Precondition(
            id=f"o{i}",
            before=CallPattern(tool=f"tool_{i}"),
            first=CallPattern(tool=f"tool_{i + 10}", where=(Equals(argument="amount", value=i),)),
        )
        for i in range(5)
    ),
    approval=tuple(CallPattern(tool=f"tool_{i}", where=(Between(argument="amount", minimum=900),)) for i in range(5)),
    acceptance=tuple(Criterion(id=f"a{i}", text="done", done_when=CallPattern(tool=f"tool_{2 * i}")) for i in range(5)),
)
CALLS = [
    ToolCall(name=f"tool_{i % 20}", arguments={"amount": i % 50, "to": "ann@example.org", "account": "me-1"})
    for i in range(200)
]


def check_figures(quick: bool = False) -> dict[str, float]:
    contract = CONTRACT
    rules = sum(map(len, (contract.allowed, contract.constraints, contract.order, contract.approval)))
    assert rules + len(contract.acceptance) == 50 and len(CALLS) == 200
    checker, history = Checker(CONTRACT, TOOLS), [PastCall(call) for call in CALLS]
    assert all(checker.check(call, history).level.lets_run for call in CALLS)
    turns = tuple(Turn(action=Action(kind=ActionKind.CALL, call=call), executed=True) for call in CALLS)
    context, guard = Context(query="q", tools=TOOLS, history=turns, contract=CONTRACT), ContractGuard()
    rounds = 10 if quick else 100

    async def guarded() -> list[float]:
        seconds = []
        for call in CALLS * rounds:
            start = perf_counter()
            await guard.check(context, call)
            seconds.append(perf_counter() - start)
        return seconds

    checks = _timed(lambda call: checker.check(call, history), CALLS * rounds)
    return {**_percentiles("check", checks), **_percentiles("guard", asyncio.run(guarded()))}


def _timed(check: Callable[[ToolCall], object], calls: Sequence[ToolCall]) -> list[float]:
    gc.disable()  # what other parts of a program left behind is not a cost of the check
    try:
        seconds = []
        for call in calls:
            start = perf_counter()
            check(call)
            seconds.append(perf_counter() - start)
        return seconds
    finally:
        gc.enable()


def _percentiles(name: str, seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        f"{name}_us_p50": ordered[len(ordered) // 2] * 1e6,
        f"{name}_us_p99": ordered[int(len(ordered) * 0.99)] * 1e6,
    }


if __name__ == "__main__":
    print(json.dumps({name: round(value, 1) for name, value in check_figures().items()}))
