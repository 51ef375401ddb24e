"""The contract guard: in episodes, with a judge, and for calls that the user confirmed."""

import asyncio
from typing import Any

from demur.envs.engine import run_lockstep
from demur.envs.episode import Episode
from demur.envs.guards import Context, check_sync, checked
from demur.envs.intent.contract import CallPattern, Compared, IntentContract
from demur.envs.intent.guard import ContractGuard
from demur.envs.policies.scripted import ALWAYS_ACT, EXPERT
from demur.envs.trace import Action, ActionKind, Label, Level, ToolCall, Turn, Verdict
from tests.envs.helpers import call, make_task


def context(**changes: Any) -> Context:
    task = make_task()
    return Context(**{"query": task.query, "tools": task.tools, "contract": task.contract, **changes})


def test_a_call_without_an_intent_is_blocked() -> None:
    verdict = check_sync(ContractGuard(), context(contract=None), call("look", name="nails"))
    assert (verdict.level, verdict.stage) == (Level.BLOCK, "unknown_intent")


def test_the_harm_is_stopped_and_the_expert_is_not() -> None:
    (harmful,) = run_lockstep([Episode(make_task(Label.HARMFUL))], ALWAYS_ACT, ContractGuard())
    assert harmful.outcome.harmless and "Not carried out" in (harmful.turns[1].observation or "")
    for label in Label:
        (expert,) = run_lockstep([Episode(make_task(label))], EXPERT, ContractGuard())
        assert all(v.level is Level.ALLOW for turn in expert.turns for v in turn.verdicts)
        assert expert.outcome.goal == (label is not Label.HARMFUL)


def test_earlier_calls_count_and_failed_ones_do_not() -> None:
    contract = IntentContract(goal="g", allowed=(CallPattern(tool="order", at_most=1),))
    order = call("order", name="nails", count=7)

    def after(**turn: Any) -> Verdict:
        past = Turn(action=Action(kind=ActionKind.CALL, call=order), **turn)
        return check_sync(ContractGuard(), context(contract=contract, history=(past,)), order)

    assert after(executed=True).level is Level.BLOCK
    assert after(executed=True, failed=True).level.lets_run
    assert after(executed=False).level.lets_run


def test_exactly_the_confirmed_call_is_let_through() -> None:
    unsure = make_task().contract.model_copy(update={"confidence": 0.2})
    order = call("order", name="nails", count=7)
    other = call("order", name="nails", count=8)
    for confirmed, level in [([], Level.ASK), ([other], Level.ASK), ([order], Level.ALLOW)]:
        verdict = check_sync(ContractGuard(), context(contract=unsure, confirmed=confirmed), order)
        assert verdict.level is level


def test_the_judge_is_asked_only_about_changes_that_no_rule_decides() -> None:
    asked: list[ToolCall] = []

    async def judge(contract: IntentContract, context: Context, proposed: ToolCall) -> Verdict:
        asked.append(proposed)
        return Verdict(level=Level.BLOCK, guard="judge", reason="off the goal")

    contract = IntentContract(goal="g", allowed=(CallPattern(tool="look"), CallPattern(tool="drop")))
    guard = ContractGuard(lambda _: contract, judge=judge)
    assert check_sync(guard, context(), call("look", name="nails")).level is Level.ALLOW
    assert check_sync(guard, context(), call("order", name="nails", count=1)).stage == "allowed_tools"
    assert not asked
    assert check_sync(guard, context(), call("drop", id="i1")).reason == "off the goal"
    assert asked == [call("drop", id="i1")]
    assert check_sync(ContractGuard(lambda _: contract), context(), call("drop", id="i1")).level is Level.WARN


def test_a_judge_or_a_state_that_fails_blocks() -> None:
    async def judge(*_: object) -> Verdict:
        raise TimeoutError("no answer")

    def state() -> dict[str, Any]:
        raise OSError("unreachable")

    contract = IntentContract(goal="g", allowed=(CallPattern(tool="drop"),))
    for guard in (ContractGuard(lambda _: contract, judge=judge), ContractGuard(lambda _: contract, state=state)):
        assert check_sync(guard, context(), call("drop", id="i1")).level is Level.BLOCK


def test_rules_can_compare_with_the_state_of_now() -> None:
    state = {"stock": 5}
    rule = CallPattern(tool="order", where=(Compared(argument="count", relation="<=", other="state:stock"),))
    guard = ContractGuard(lambda _: IntentContract(goal="g", allowed=(rule,)), state=lambda: state)
    order = call("order", name="nails", count=7)
    assert check_sync(guard, context(), order).level is Level.BLOCK
    state["stock"] = 7
    assert check_sync(guard, context(), order).level.lets_run


def test_contracts_of_many_episodes_are_told_apart() -> None:
    guard = ContractGuard()
    look_once = (CallPattern(tool="look", at_most=1),)
    contracts = [IntentContract(goal=str(i), allowed=look_once * (i % 2)) for i in range(600)]

    async def check_all() -> list[Verdict]:
        look = call("look", name="x")
        return await asyncio.gather(*(checked(guard, context(contract=c), look) for c in contracts))

    assert [v.level.lets_run for v in asyncio.run(check_all())] == [bool(i % 2) for i in range(600)]
