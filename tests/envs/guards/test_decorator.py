"""Guarded tools: the guard comes first, however a tool is written and called; a stopped one never runs."""

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.engine import run_lockstep
from demur.envs.episode import Episode
from demur.envs.guards import Context, Guard, compose
from demur.envs.guards.decorator import CallBlocked, CallStopped, GuardSession, guarded, reasoning
from demur.envs.intent.contract import CallPattern, IntentContract
from demur.envs.intent.guard import ContractGuard
from demur.envs.policies.scripted import ALWAYS_ACT
from demur.envs.tool import EffectClass, Generative, ToolError
from demur.envs.trace import Label, Level, ToolCall, Verdict
from tests.envs.helpers import Broken, Says, make_task

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class Till:
    """Tools of every form, and what they were called with."""

    def __init__(self) -> None:
        self.ran: list[Any] = []

    def pay(self, to: str, amount: float = 1.0, *notes: str, urgent: bool = False, **more: Any) -> str:
        """Pay somebody."""
        self.ran.append((to, amount, notes, urgent, more))
        return f"paid {to}"

    async def pay_later(self, to: str, amount: float = 1.0) -> str:
        await asyncio.sleep(0)
        self.ran.append((to, amount))
        return f"will pay {to}"

    def __call__(self, to: str) -> str:
        self.ran.append(to)
        return f"called {to}"

    def pay_somehow(self, to: str) -> Any:
        """A plain function that returns something to wait for."""
        return self.pay_later(to)


def session_with(guard: Guard, **options: Any) -> GuardSession:
    return GuardSession(guard, "pay Ann", **options)


def outcome(tool: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result, also of an asynchronous tool."""

    async def wait() -> Any:
        result = tool(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return asyncio.run(wait()) if inspect.iscoroutinefunction(tool) else tool(*args, **kwargs)


FORMS: dict[str, Callable[[Till], Callable[..., Any]]] = {
    "method": lambda till: till.pay,
    "async method": lambda till: till.pay_later,
    "partial": lambda till: partial(till.pay, amount=2.0),
    "async partial": lambda till: partial(till.pay_later, amount=2.0),
    "object": lambda till: till,
}


@pytest.mark.parametrize("form", FORMS)
def test_an_allowed_call_runs_and_returns_what_the_tool_returns(form: str) -> None:
    till, guard = Till(), Says(Level.ALLOW)
    tool = guarded(session_with(guard), name="pay")(FORMS[form](till))
    assert "Ann" in outcome(tool, "Ann") and len(till.ran) == 1
    assert [proposed.name for _, proposed in guard.saw] == ["pay"]
    assert guard.saw[0][1].arguments["to"] == "Ann"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("level", [Level.ASK, Level.REQUIRE_APPROVAL, Level.BLOCK])
def test_a_stopped_call_does_not_run_in_any_form(form: str, level: Level) -> None:
    till = Till()
    tool = guarded(session_with(Says(level)), name="pay")(FORMS[form](till))
    with pytest.raises(CallStopped, match=f"says said {level}") as stopped:
        outcome(tool, "Ann")
    assert stopped.value.verdict.level is level and stopped.value.call.name == "pay"
    assert till.ran == []


def test_the_guard_sees_every_argument_by_name_with_defaults() -> None:
    guard = Says(Level.ALLOW)
    pay = guarded(session_with(guard))(Till().pay)
    pay("Ann", 2.0, "a", "b", urgent=True, memo="x")
    pay(to="Ann")
    assert [proposed.arguments for _, proposed in guard.saw] == [
        {"to": "Ann", "amount": 2.0, "notes": ["a", "b"], "urgent": True, "memo": "x"},
        {"to": "Ann", "amount": 1.0, "notes": [], "urgent": False},
    ]


def test_methods_are_guarded_where_they_are_defined() -> None:
    guard = Says(Level.ALLOW)
    session = session_with(guard)

    class Desk:
        def __init__(self, owner: str) -> None:
            self.owner = owner

        @guarded(session)
        def open(self, drawer: int) -> str:
            return f"{self.owner} {drawer}"

        @staticmethod
        @guarded(session)
        def count(drawer: int) -> int:
            return drawer

        @classmethod
        @guarded(session, changes=False)
        def made(cls, drawer: int) -> str:
            return f"{cls.__name__} {drawer}"

    desk = Desk("Ann")
    assert (desk.open(3), Desk("Bob").open(drawer=4), desk.count(5), Desk.made(6)) == ("Ann 3", "Bob 4", 5, "Desk 6")
    assert [c.arguments["drawer"] for _, c in guard.saw] == [3, 4, 5, 6]
    assert "self" not in guard.saw[0][1].arguments and [p.name for p in session.tools["open"].parameters] == ["drawer"]


def test_a_plain_function_that_returns_an_awaitable_is_done_when_that_is() -> None:
    till, session = Till(), session_with(Says(Level.ALLOW))
    tool = guarded(session)(till.pay_somehow)

    async def run() -> Any:
        waiting = tool("Ann")
        before = session.history[0].observation
        return before, await waiting

    assert asyncio.run(run()) == (None, "will pay Ann")
    assert "will pay Ann" in (session.history[0].observation or "")


def test_a_plain_tool_works_inside_a_running_loop_and_runs_in_the_thread_that_called_it() -> None:
    threads = []

    class Where(Says):
        async def check(self, context: Context, call: ToolCall) -> Verdict:
            threads.append(threading.current_thread())
            return await super().check(context, call)

    @guarded(session_with(Where(Level.ALLOW)))
    def look() -> str:
        threads.append(threading.current_thread())
        return "seen"

    async def run() -> str:
        return look()

    assert asyncio.run(run()) == look() == "seen"
    guard_thread, own, again, _ = threads
    assert own is threading.current_thread() and guard_thread is again is not own, "one loop for every check"


def test_the_agents_loop_goes_on_while_a_guard_blocks_its_thread() -> None:
    go_on = threading.Event()

    class Waits(Says):
        async def check(self, context: Context, call: ToolCall) -> Verdict:
            assert go_on.wait(5)
            return await super().check(context, call)

    pay = guarded(session_with(Waits(Level.ALLOW)))(Till().pay_later)

    async def run() -> str:
        waiting = asyncio.ensure_future(pay("Ann"))
        await asyncio.sleep(0.01)
        go_on.set()
        return await waiting

    assert asyncio.run(run()) == "will pay Ann"


def test_guards_learn_the_query_the_reasoning_the_history_and_what_the_user_said() -> None:
    contract = IntentContract(goal="pay Ann")
    guard = Says(Level.ALLOW)
    session = session_with(guard, contract=contract)
    pay = guarded(session)(Till().pay)
    with reasoning("Ann is to be paid", "she is known"):
        pay("Ann")
    session.user_said.append("and hurry")
    pay("Bob")
    first, second = (context for context, _ in guard.saw)
    assert (first.query, first.plan, first.check, first.contract) == (
        "pay Ann",
        "Ann is to be paid",
        "she is known",
        contract,
    )
    assert (second.plan, second.check, second.user_said) == ("", None, ("and hurry",))
    (turn,) = second.history
    assert turn.action.call == guard.saw[0][1] and turn.executed and not turn.failed
    assert turn.plan == "Ann is to be paid" and turn.observation == "<tool_response>paid Ann</tool_response>"
    assert set(first.tools) == {"pay"}


def test_reasoning_reaches_tools_in_other_tasks_and_threads() -> None:
    guard = Says(Level.ALLOW)
    session = session_with(guard)
    later, now = guarded(session)(Till().pay_later), guarded(session)(Till().pay)

    async def run() -> None:
        with reasoning("one"):
            await asyncio.gather(later("Ann"), asyncio.to_thread(now, "Bob"))

    asyncio.run(run())
    assert [context.plan for context, _ in guard.saw] == ["one", "one"]


def test_a_tool_that_fails_raises_its_own_error_and_is_recorded_as_failed() -> None:
    session = session_with(Says(Level.ALLOW))

    @guarded(session)
    def drop(id: str) -> str:
        raise ToolError(f"there is no {id}")

    @guarded(session)
    async def drop_later(id: str) -> str:
        raise ToolError(f"there is no {id}")

    for tool in (drop, drop_later):
        with pytest.raises(ToolError, match="there is no i9"):
            outcome(tool, "i9")
    assert [(t.executed, t.failed) for t in session.history] == [(True, True)] * 2
    assert all("Error: there is no i9" in (t.observation or "") for t in session.history)


# Failing closed


class Raises(Says):
    def __init__(self, error: BaseException) -> None:
        super().__init__(Level.ALLOW, "raises")
        self.error = error

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        raise self.error


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


ERRORS = [
    RuntimeError("no model"),
    TimeoutError(),
    StopIteration(),
    StopAsyncIteration(),
    GeneratorExit(),
    asyncio.CancelledError(),
    KeyboardInterrupt(),
    SystemExit(3),
    MemoryError(),
    Unspeakable(),
]


TILL, RAISES = Till(), Raises(RuntimeError())
RAISING = guarded(session_with(RAISES))(TILL.pay)


@settings(max_examples=50)
@given(st.sampled_from(ERRORS), st.text(), st.dictionaries(st.text(min_size=1), JSON, max_size=3))
def test_whatever_a_guard_raises_and_whatever_the_arguments_the_tool_does_not_run(
    error: BaseException, to: str, more: dict[str, Any]
) -> None:
    RAISES.error = error
    with pytest.raises(BaseException):  # noqa: B017, PT011  an exit goes through as it is
        RAISING(to, **{key: value for key, value in more.items() if key not in ("self", "to")})
    assert TILL.ran == []


@pytest.mark.parametrize("error", [e for e in ERRORS if isinstance(e, Exception)], ids=lambda e: type(e).__name__)
def test_whatever_a_guard_raises_an_asynchronous_tool_does_not_run(error: BaseException) -> None:
    till = Till()
    pay = guarded(session_with(compose(Says(Level.ALLOW), Raises(error))))(till.pay_later)
    with pytest.raises(Exception):  # noqa: B017, PT011
        asyncio.run(pay("Ann"))
    assert till.ran == []


def test_an_exit_raised_by_a_guard_stops_that_call_and_no_later_one() -> None:
    with pytest.raises(SystemExit):
        guarded(session_with(Raises(SystemExit(3))))(Till().pay)("Ann")
    assert guarded(session_with(Says(Level.ALLOW)))(Till().pay)("Ann") == "paid Ann"


def test_a_guard_that_fails_blocks_and_says_why() -> None:
    till = Till()
    with pytest.raises(CallBlocked, match="RuntimeError: no model"):
        guarded(session_with(Broken()))(till.pay)("Ann")
    assert till.ran == []


OPEN, SHUT = Till(), Till()
LET_RUN = guarded(session_with(Says(Level.ALLOW)))(OPEN.pay)
STOPPED = guarded(session_with(Says(Level.BLOCK)))(SHUT.pay)


@settings(max_examples=50)
@given(st.lists(JSON, max_size=3), st.dictionaries(st.text(max_size=6), JSON, max_size=3))
def test_a_blocked_tool_never_runs_and_an_allowed_one_gets_its_arguments_untouched(
    args: list[Any], kwargs: dict[str, Any]
) -> None:
    kwargs.pop("self", None)
    with pytest.raises(CallBlocked):
        STOPPED(*args, **kwargs)
    assert SHUT.ran == []
    OPEN.ran.clear()
    with suppress(CallBlocked):  # for arguments that do not fit
        LET_RUN(*args, **kwargs)
        reference = Till()
        reference.pay(*args, **kwargs)
        assert repr(OPEN.ran) == repr(reference.ran)


class Endless:
    def __str__(self) -> str:
        raise RuntimeError("no text")


HOLDS_ITSELF: list[Any] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


@pytest.mark.parametrize(
    ("args", "kwargs", "why"),
    [
        ((), {}, "missing a required argument: 'to'"),
        (("Ann",), {"to": "Bob"}, "multiple values"),
        (("Ann",), {"notes": "hidden behind *notes"}, "two arguments are called 'notes'"),
        (({1: "one"},), {}, "the key 1, which is no text"),
        ((HOLDS_ITSELF,), {}, "holds itself"),
        ((Endless(),), {}, "no text"),
    ],
)
def test_arguments_that_cannot_be_judged_block(args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> None:
    till, guard = Till(), Says(Level.ALLOW)
    session = session_with(guard)
    with pytest.raises(CallBlocked, match=why):
        guarded(session)(till.pay)(*args, **kwargs)
    assert till.ran == [] and guard.saw == [] and not session.history[0].executed


def test_a_stopped_call_is_in_the_history_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    session = session_with(Says(Level.BLOCK))
    with pytest.raises(CallBlocked):
        guarded(session)(Till().pay)("a secret account")
    (turn,) = session.history
    assert not turn.executed and turn.verdicts[0].level is Level.BLOCK
    assert "Not carried out: says said block" in (turn.observation or "")
    (line,) = caplog.messages
    assert line.startswith("pay: block") and "secret" not in line


# Descriptions


def test_a_function_describes_itself_and_counts_as_changing_unless_told() -> None:
    session = session_with(Says(Level.ALLOW))

    @guarded(session)
    def send(
        to: list[str], body: Generative, how: Literal["mail", "post"] = "mail", *, at: Any = None, **more: int
    ) -> str:
        """Send a
        message."""
        return ""

    tool = session.tools["send"]
    assert (tool.description, tool.changes, tool.reversible) == ("Send a message.", True, False)
    assert tool.effect is EffectClass.PERSISTENT_WRITE and tool.derivable == {"to", "how", "at"}
    assert tool.schema()["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "to": {"type": "array", "items": {"type": "string"}},
            "body": {"type": "string"},
            "how": {"type": "string", "enum": ["mail", "post"]},
            "at": {},
        },
        "required": ["to", "body"],
    }
    assert inspect.signature(send).parameters["how"].default == "mail" and send.__doc__
    assert tool.fault({"to": ["a"], "body": "b", "at": 3}) is None
    assert tool.fault({"to": "a", "body": "b"}) == "'to' must be of type array"


def test_what_cannot_be_told_of_a_parameter_is_left_open() -> None:
    session = session_with(Says(Level.ALLOW))

    def pay(to: "Missing", how: object, *rest: int) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Pay."""

    guarded(session)(pay)
    guarded(session, name="part")(partial(Till().pay, amount=2.0))
    assert [(p.schema, p.required) for p in session.tools["pay"].parameters] == [
        ({}, True),
        ({}, True),
        ({"type": "array", "items": {}}, False),
    ]
    assert {p.name: (p.schema, p.required) for p in session.tools["part"].parameters} == {
        "to": ({"type": "string"}, True),
        "amount": ({"type": "number"}, False),
        "urgent": ({"type": "boolean"}, False),
    }


@pytest.mark.parametrize(
    ("options", "effect"),
    [
        ({}, EffectClass.PERSISTENT_WRITE),
        ({"changes": False}, EffectClass.READ),
        ({"kind": EffectClass.PAY}, EffectClass.PAY),
        ({"kind": EffectClass.READ}, EffectClass.READ),
    ],
)
def test_what_a_tool_changes_is_said_where_it_is_guarded(options: dict[str, Any], effect: EffectClass) -> None:
    session = session_with(Says(Level.ALLOW))
    guarded(session, **options)(Till().pay)
    assert session.tools["pay"].effect is effect and session.tools["pay"].changes is (effect is not EffectClass.READ)


def items() -> Any:
    yield 1


class Maker:
    @classmethod
    def make(cls) -> None: ...


@pytest.mark.parametrize(
    ("function", "options", "says"),
    [
        (lambda to: to, {}, "add name='…'"),
        (partial(print, "x"), {}, "add name='…'"),
        (items, {}, "is a generator"),
        (vars(Maker)["make"], {}, "below @classmethod"),
        (min, {}, "has no signature"),
        (Till().pay, {"changes": False, "kind": EffectClass.PAY}, "kind='pay' contradicts changes=False"),
        (Till().pay, {"name": "taken"}, "already guards a tool called 'taken'"),
        (Till().pay, {"name": "known", "changes": False}, "leave out changes and kind"),
    ],
)
def test_what_cannot_be_guarded_is_an_error_that_says_what_to_change(
    function: Any, options: dict[str, Any], says: str
) -> None:
    session = session_with(Says(Level.ALLOW), tools={"known": make_task().tools["order"]})
    guarded(session, name="taken")(Till().pay)
    with pytest.raises(ValueError, match=says):
        guarded(session, **options)(function)


# The same guard in episodes


@pytest.mark.parametrize("label", list(Label))
@pytest.mark.parametrize("strict", [False, True])
def test_a_guard_says_the_same_of_live_tools_as_in_an_episode(label: Label, strict: bool) -> None:
    only_looking = IntentContract(goal="look", allowed=(CallPattern(tool="look"),))
    task = make_task(label, contract=only_looking) if strict else make_task(label)
    guard = ContractGuard()
    (episode,) = run_lockstep([Episode(task)], ALWAYS_ACT, guard)
    proposed = [turn for turn in episode.turns if turn.verdicts]
    assert proposed

    world = task.initial.copy_state()
    session = GuardSession(guard, task.query, contract=task.contract, tools=task.tools)
    tools = {name: guarded(session)(getattr(world, name)) for name in world.tools()}
    for turn in proposed:
        assert turn.action.call is not None
        with suppress(CallBlocked), reasoning(turn.plan, turn.check):
            tools[turn.action.call.name](**turn.action.call.arguments)
    assert [turn.verdicts for turn in session.history] == [turn.verdicts for turn in proposed]
    assert [turn.executed for turn in session.history] == [turn.executed for turn in proposed]
    blocked = {turn.action.call.name for turn in proposed if turn.action.call and not turn.executed}
    assert ("order" in blocked or "drop" in blocked) is (strict or label is not Label.BENIGN)
