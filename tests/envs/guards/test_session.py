"""A session: who is asked, what a yes is worth, what counts while calls run, and what the guard is told after."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards import Context, compose
from demur.envs.guards.decorator import (
    ApprovalRequired,
    CallBlocked,
    CallNeedsConfirmation,
    CallStopped,
    GuardSession,
    guarded,
)
from demur.envs.intent.contract import Between, CallPattern, Constraint, Criterion, IntentContract
from demur.envs.intent.guard import ContractGuard
from demur.envs.tool import Tool
from demur.envs.trace import Level, ToolCall, Verdict
from tests.envs.helpers import Asks, Says

DEAR = CallPattern(tool="pay", where=(Between(argument="amount", minimum=100),))
CONTRACT = IntentContract(
    goal="pay Ann",
    allowed=(CallPattern(tool="pay"),),
    constraints=(Constraint(id="dear", text="Ask me above 100.", level=Level.ASK, forbid=DEAR),),
    scope={"to": ("Ann*",)},
)


class Asked:
    """Answers questions, and keeps them."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.saw: list[tuple[Any, ...]] = []

    def __call__(self, *question: Any) -> Any:
        self.saw.append(question)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def later(self, *question: Any) -> Any:
        await asyncio.sleep(0)
        return self(*question)


class Till:
    def __init__(self, guard: Any = None, **options: Any) -> None:
        self.ran: list[tuple[str, Any]] = []
        self.session = GuardSession(guard or ContractGuard(), "pay Ann", contract=CONTRACT, **options)
        self.pay = guarded(self.session)(self._pay)
        self.pay_later = guarded(self.session, name="pay_later")(self._pay_later)

    def _pay(self, to: str, amount: float) -> str:
        self.ran.append((to, amount))
        return f"paid {to}"

    async def _pay_later(self, to: str, amount: float) -> str:
        return self._pay(to, amount)


Till._pay.__name__ = "pay"


# Confirmation


@pytest.mark.parametrize("later", [False, True])
def test_a_yes_of_the_user_lets_the_call_run_once(later: bool) -> None:
    asked = Asked(True, False)
    till = Till(confirm=asked.later if later else asked)
    assert till.pay("Ann", 100) == "paid Ann"
    with pytest.raises(CallNeedsConfirmation, match="Ask me above 100"):
        till.pay("Ann", 100)
    assert till.ran == [("Ann", 100)] and len(asked.saw) == 2
    question, call = asked.saw[0]
    assert question == "You said: Ask me above 100. Shall this be done all the same?"
    assert call.arguments == {"to": "Ann", "amount": 100}
    assert [v.level for v in till.session.history[0].verdicts] == [Level.ASK, Level.WARN]


def test_a_yes_does_not_lift_what_else_stands_against_the_call() -> None:
    till = Till(confirm=Asked(True))
    with pytest.raises(CallBlocked, match="out of scope"):
        till.pay("Bob", 100)
    assert till.ran == []


@pytest.mark.parametrize("level", [Level.ASK, Level.REQUIRE_APPROVAL])
def test_a_guard_that_asks_again_after_a_yes_is_not_overruled(level: Level) -> None:
    asked = Asked(True, True)
    till = Till(Says(level), **{"confirm" if level is Level.ASK else "approve": asked})
    with pytest.raises(CallStopped):
        till.pay("Ann", 1)
    assert till.ran == [] and len(asked.saw) == 1


@pytest.mark.parametrize("answer", [False, None, "yes", 1, RuntimeError("gone"), StopIteration(), SystemExit(1)])
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("level", [Level.ASK, Level.REQUIRE_APPROVAL])
def test_anything_but_a_plain_yes_is_a_no(answer: Any, later: bool, level: Level) -> None:
    asked = Asked(answer)
    ask = asked.later if later else asked
    till = Till(Says(level), **{"confirm" if level is Level.ASK else "approve": ask})
    with pytest.raises(SystemExit if isinstance(answer, SystemExit) else CallStopped):
        till.pay("Ann", 1)
    assert till.ran == [] and len(asked.saw) == 1


@pytest.mark.parametrize("level", [Level.ASK, Level.REQUIRE_APPROVAL])
@pytest.mark.parametrize("how", ["blocks", "waits"])
def test_no_answer_in_time_is_a_no(level: Level, how: str) -> None:
    release = threading.Event()

    async def waits(*question: Any) -> bool:
        await asyncio.sleep(60)
        return True

    def blocks(*question: Any) -> bool:
        return release.wait(60)

    ask = {"blocks": blocks, "waits": waits}[how]
    till = Till(Says(level), timeout=0.05, **{"confirm" if level is Level.ASK else "approve": ask})
    for pay in (till.pay, lambda *args: asyncio.run(till.pay_later(*args))):
        with pytest.raises(CallStopped) as stopped:
            pay("Ann", 1)
        assert isinstance(stopped.value.__cause__, TimeoutError)
    assert till.ran == []
    release.set()


def test_without_anybody_to_ask_the_call_is_stopped_and_a_later_yes_lets_it_through_once() -> None:
    till = Till()
    with pytest.raises(CallNeedsConfirmation) as stopped:
        till.pay("Ann", 100)
    till.session.confirmed(stopped.value.call)
    assert till.pay("Ann", 100) == "paid Ann"
    with pytest.raises(CallNeedsConfirmation):
        till.pay("Ann", 100)
    assert till.ran == [("Ann", 100)]


SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, -0.0, "1", "", "true"])
ANYTHING = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=1), SCALARS, max_size=2)
made: list[Any] = []
OPEN_TO_ALL = GuardSession(Asks(Level.ASK), "note this")


@guarded(OPEN_TO_ALL)
def note(first: Any, second: Any) -> None:
    made.append((first, second))


@settings(max_examples=40)
@given(ANYTHING, ANYTHING, ANYTHING)
def test_exactly_the_confirmed_call_passes(first: Any, second: Any, other: Any) -> None:
    OPEN_TO_ALL._agreed.clear()
    made.clear()
    OPEN_TO_ALL.confirmed(ToolCall(name="note", arguments={"first": first, "second": second}))
    if repr(other) != repr(second):
        with pytest.raises(CallNeedsConfirmation):
            note(first, other)
        assert made == []
    note(first, second=second)
    with pytest.raises(CallNeedsConfirmation):
        note(first, second)
    assert made == [(first, second)]


def test_true_is_not_one_for_a_guard_either() -> None:
    seen: list[tuple[ToolCall, ...]] = []

    class Looks(Asks):
        async def check(self, context: Context, call: ToolCall) -> Verdict:
            seen.append(tuple(context.confirmed))
            return await super().check(context, call)

    till = Till(Looks(Level.ASK), confirm=Asked(True, True))
    till.pay("Ann", 1)
    till.pay("Ann", True)
    one, true = (ToolCall(name="pay", arguments={"to": "Ann", "amount": amount}) for amount in (1, True))
    assert [list(map(repr, calls)) for calls in seen] == [[], [repr(one)], [], [repr(true)]]


def test_the_log_names_the_rule_and_no_argument(caplog: pytest.LogCaptureFixture) -> None:
    till = Till()
    with pytest.raises(CallNeedsConfirmation):
        till.pay("Ann of 7 Mill Lane", 100)
    assert caplog.messages == ["pay: ask, said contract (stage constraint, rule 'dear')"]


# Approval


def test_a_call_waits_for_its_approval_while_others_go_on() -> None:
    order: list[str] = []

    class Mixed(Asks):
        async def check(self, context: Context, call: ToolCall) -> Verdict:
            self.level = Level.REQUIRE_APPROVAL if call.arguments["amount"] > 100 else Level.ALLOW
            return await super().check(context, call)

    async def run() -> None:
        granted = asyncio.Event()

        async def approve(call: ToolCall, verdict: Verdict) -> bool:
            assert verdict.level is Level.REQUIRE_APPROVAL and call.arguments["to"] == "Ann"
            await granted.wait()
            return True

        till = Till(Mixed(Level.ALLOW), approve=approve)
        waiting = asyncio.ensure_future(till.pay_later("Ann", 500))
        await till.pay_later("Bob", 5)
        order.extend(to for to, _ in till.ran)
        granted.set()
        await waiting
        order.extend(to for to, _ in till.ran[1:])

    asyncio.run(run())
    assert order == ["Bob", "Ann"]


def test_without_an_approver_the_error_carries_the_verdict() -> None:
    till = Till(Says(Level.REQUIRE_APPROVAL))
    with pytest.raises(ApprovalRequired, match="says said require_approval") as stopped:
        till.pay("Ann", 1)
    assert stopped.value.verdict.level is Level.REQUIRE_APPROVAL and till.ran == []


def test_an_approved_call_may_still_have_to_be_confirmed() -> None:
    levels = [Level.REQUIRE_APPROVAL, Level.ASK, Level.WARN]

    class Steps(Says):
        async def check(self, context: Context, call: ToolCall) -> Verdict:
            self.level = levels.pop(0)
            return await super().check(context, call)

    confirm, approve = Asked(True), Asked(True)
    assert Till(Steps(Level.ALLOW), confirm=confirm, approve=approve).pay("Ann", 1) == "paid Ann"
    assert len(confirm.saw) == len(approve.saw) == 1 and levels == []


# Calls side by side


@pytest.mark.parametrize("threads", [False, True])
def test_a_limit_holds_for_calls_made_at_the_same_time(threads: bool) -> None:
    ran: list[int] = []
    contract = IntentContract(goal="pay", allowed=(CallPattern(tool="pay*", at_most=2),))
    session = GuardSession(ContractGuard(), "pay", contract=contract)

    @guarded(session)
    def pay(n: int) -> None:
        time.sleep(0.01)
        ran.append(n)

    @guarded(session)
    async def pay_later(n: int) -> None:
        await asyncio.sleep(0.01)
        ran.append(n)

    def stopped(n: int) -> bool:
        try:
            pay(n)
        except CallBlocked as error:
            return "used up" in str(error)
        return False

    async def at_once() -> list[bool]:
        done = await asyncio.gather(*(pay_later(n) for n in range(6)), return_exceptions=True)
        return [isinstance(one, CallBlocked) and "used up" in str(one) for one in done]

    if threads:
        with ThreadPoolExecutor(6) as pool:
            blocked = list(pool.map(stopped, range(6)))
    else:
        blocked = asyncio.run(at_once())
    assert sum(blocked) == 4 and len(ran) == 2
    assert [turn.executed for turn in session.history].count(True) == 2


def test_a_call_that_is_cancelled_while_it_is_checked_never_runs_and_counts_for_nothing() -> None:
    class Slow(Says):
        async def check(self, context: Context, call: ToolCall) -> Verdict:
            await asyncio.sleep(0.2)
            return await super().check(context, call)

    till = Till(Slow(Level.ALLOW))

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(till.pay_later("Ann", 1), 0.02)
        await asyncio.sleep(0.3)

    asyncio.run(run())
    assert till.ran == [] and not any(turn.executed for turn in till.session.history)
    assert asyncio.run(till.pay_later("Ann", 1)) == "paid Ann", "the next one is checked all the same"


def test_a_tool_may_call_other_guarded_tools() -> None:
    till = Till(Says(Level.ALLOW))

    @guarded(till.session)
    def pay_twice(to: str) -> str:
        return till.pay(to, 1) + till.pay(to, 2)

    assert pay_twice("Ann") == "paid Annpaid Ann"
    assert [turn.action.call.name for turn in till.session.history if turn.action.call] == ["pay_twice", "pay", "pay"]


def test_a_guard_that_calls_a_plain_guarded_tool_blocks_and_does_not_hang() -> None:
    class Circular(Says):
        async def check(self, context: Context, call: ToolCall) -> Verdict:
            till.pay("Ann", 1)
            return await super().check(context, call)

    till = Till(Circular(Level.ALLOW))
    with pytest.raises(CallBlocked, match="make it async"):
        till.pay("Ann", 1)
    assert till.ran == []


# What the guard is told


class Told(Says):
    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(Level.ALLOW, "told")
        self.error = error
        self.reports: list[tuple[str, str, bool]] = []

    async def ran(self, call: ToolCall, result: str, ok: bool) -> None:
        if self.error:
            raise self.error
        self.reports.append((call.name, result, ok))


class ToldPlainly(Told):
    def ran(self, call: ToolCall, result: str, ok: bool) -> None:  # type: ignore[override]
        self.reports.append((call.name, result, ok))


@pytest.mark.parametrize("kind", [Told, ToldPlainly])
def test_a_guard_is_told_what_came_of_each_call(kind: type[Told]) -> None:
    told = kind()
    till = Till(compose(Says(Level.ALLOW), compose(told, Says(Level.WARN))))
    till.pay("Ann", 1)
    with pytest.raises(TypeError):
        guarded(till.session, name="fails")(lambda: 1 + None)()  # type: ignore[operator]
    assert told.reports[0] == ("pay", "paid Ann", True)
    assert told.reports[-1][0] == "fails" and told.reports[-1][1].startswith("Error: unsupported operand")
    assert told.reports[-1][2] is False


def test_a_stopped_call_is_not_reported_as_run() -> None:
    told = Told()
    with pytest.raises(CallBlocked):
        Till(compose(told, Says(Level.BLOCK))).pay("Ann", 1)
    assert told.reports == []


def test_after_a_report_failed_the_result_is_returned_and_every_later_call_is_blocked() -> None:
    till = Till(Told(OSError("disk full")))
    assert till.pay("Ann", 1) == "paid Ann"
    for pay in (till.pay, lambda *args: asyncio.run(till.pay_later(*args))):
        with pytest.raises(CallBlocked, match="could not take note of a call of pay: disk full"):
            pay("Ann", 1)
    assert len(till.ran) == 1


# With a registry


def test_an_intent_of_a_registry_is_asked_approved_and_completed_through_its_tools(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy", reason="the registry of intents needs the extra `intent`")
    from demur.envs.intent.registry import Registry
    from demur.envs.intent.registry.intent import IntentStatus
    from demur.envs.intent.registry.session import IntentGuard

    contract = IntentContract(
        goal="pay Ann",
        allowed=(CallPattern(tool="pay"), CallPattern(tool="look")),
        approval=(DEAR,),
        constraints=CONTRACT.constraints,
        acceptance=(Criterion(id="paid", text="Ann has 500", done_when=DEAR),),
    )
    with Registry(f"sqlite:///{tmp_path / 'intents.db'}") as registry:
        intent_id = registry.register(contract).intent_id
        registry.update_status(intent_id, IntentStatus.ACTIVATED)

        async def approve(call: ToolCall, verdict: Verdict) -> bool:
            approval = registry.approvals.find(intent_id, call)
            assert approval is not None and registry.get(intent_id).status is IntentStatus.PAUSED
            registry.approvals.decide(approval.approval_id, "approve", "ann")
            return (await registry.approvals.wait(approval.approval_id, poll=0.01)).status == "approved"

        confirm = Asked(True)
        tools: dict[str, Tool] = {}
        guard = IntentGuard(registry, intent_id, tools)
        session = GuardSession(guard, "pay Ann", tools=tools, confirm=confirm, approve=approve)
        ran: list[float] = []

        @guarded(session)
        def pay(to: str, amount: float) -> str:
            ran.append(amount)
            return f"paid {to}"

        @guarded(session)
        def drop(id: str) -> None:
            ran.append(-1)

        with pytest.raises(CallBlocked, match="does not allow drop"):
            drop("i1")
        assert registry.get(intent_id).status is IntentStatus.ACTIVATED
        assert pay("Ann", 500) == "paid Ann"
        assert registry.get(intent_id).status is IntentStatus.COMPLETED
        assert len(confirm.saw) == 1
        with pytest.raises(CallBlocked, match="the intent is completed"):
            pay("Ann", 500)
        assert ran == [500]
