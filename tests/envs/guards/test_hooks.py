"""Tools of agent frameworks: no way to run a guarded one goes around the guard, and one call is judged once."""

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest

from demur.envs.guards.decorator import CallBlocked, GuardSession
from demur.envs.guards.hooks import guard_tools
from demur.envs.tool import EffectClass, Tool
from demur.envs.trace import Level
from tests.envs.helpers import Says

LEVELS = [Level.ALLOW, Level.BLOCK]


def check(session: GuardSession, guard: Says, ways: list[Callable[[], Any]], arguments: dict[str, Any]) -> None:
    """Go each way; the guard is asked once, and what it says holds."""
    for way in ways:
        before = len(guard.saw)
        if guard.level is Level.ALLOW:
            way()
        else:
            with pytest.raises(CallBlocked, match="says said block"):
                way()
        assert [call.arguments for _, call in guard.saw[before:]] == [arguments]
    assert len(session.history) == len(ways)


def test_other_things_are_no_tools_of_a_framework() -> None:
    with pytest.raises(ValueError, match="put a plain function under guarded"):
        guard_tools(GuardSession(Says(Level.ALLOW), "q"), [print])


# LangChain


@pytest.fixture
def langchain() -> Any:
    return pytest.importorskip("langchain_core.tools", reason="langchain-core is not installed")


@pytest.mark.parametrize("level", LEVELS)
def test_every_way_to_run_a_structured_tool_of_langchain_is_guarded(langchain: Any, level: Level) -> None:
    from langchain_core.runnables import RunnableConfig

    ran: list[Any] = []

    def pay(to: str, user: Annotated[str, langchain.InjectedToolArg], config: RunnableConfig, amount: int = 1) -> str:
        """Pay somebody."""
        ran.append((to, user, amount))
        return f"paid {to}"

    guard = Says(level)
    session = GuardSession(guard, "q")
    original = langchain.tool(pay)
    (tool,) = guard_tools(session, [original])
    given = {"to": "Ann", "user": "me"}
    ways: list[Callable[[], Any]] = [
        lambda: tool.invoke(given),
        lambda: tool.invoke({"name": "pay", "args": given, "id": "1", "type": "tool_call"}),
        lambda: tool.run(given),
        lambda: tool.batch([given]),
        lambda: list(tool.stream(given)),
        lambda: asyncio.run(tool.ainvoke(given)),
        lambda: asyncio.run(tool.arun(given)),
        lambda: tool.func("Ann", "me", {}),
        lambda: tool.model_copy().invoke(given),
    ]
    check(session, guard, ways, {"to": "Ann", "amount": 1})
    assert ran == [("Ann", "me", 1)] * (len(ways) if level is Level.ALLOW else 0)
    assert original.func is pay and tool.name == "pay" and tool.args == original.args
    described = session.tools["pay"]
    assert described.description == "Pay somebody." and described.changes
    assert [(p.name, p.required) for p in described.parameters] == [("to", True), ("amount", False)]


@pytest.mark.parametrize("level", LEVELS)
def test_asynchronous_and_single_input_tools_of_langchain_are_guarded(langchain: Any, level: Level) -> None:
    ran: list[Any] = []

    async def find(name: str) -> str:
        """Find somebody."""
        ran.append(name)
        return name

    guard = Says(level)
    session = GuardSession(guard, "q")
    one = langchain.tool(find)
    two = langchain.Tool(name="say", description="Say it.", func=lambda words: ran.append(words) or words)
    finds, says = guard_tools(session, [one, two], reading={"find"})
    check(
        session,
        guard,
        [lambda: asyncio.run(finds.ainvoke({"name": "Ann"})), lambda: asyncio.run(finds.coroutine("Ann"))],
        {"name": "Ann"},
    )
    guard.saw.clear()
    ways: list[Callable[[], Any]] = [
        lambda: says.invoke("hi"),
        lambda: asyncio.run(says.ainvoke("hi")),
        lambda: says.func("hi"),
    ]
    before = len(ran)
    for way in ways:
        if level is Level.ALLOW:
            assert way() == "hi"
        else:
            with pytest.raises(CallBlocked):
                way()
    assert [call.arguments for _, call in guard.saw] == [{"words": "hi"}] * 3
    assert ran[before:] == ["hi"] * (3 if level is Level.ALLOW else 0)
    assert not session.tools["find"].changes and session.tools["say"].changes


@pytest.mark.parametrize("level", LEVELS)
def test_a_tool_class_of_ones_own_is_guarded_once_each_way(langchain: Any, level: Level) -> None:
    ran: list[str] = []

    class Drop(langchain.BaseTool):  # type: ignore[misc]
        name: str = "drop"
        description: str = "Drop something."

        def _run(self, id: str, run_manager: Any = None) -> str:
            ran.append(id)
            return id

    class DropBoth(Drop):
        name: str = "drop_both"

        async def _arun(self, id: str, run_manager: Any = None) -> str:
            return self._run(id)

    for kind in (Drop, DropBoth):
        guard = Says(level)
        session = GuardSession(guard, "q")
        (tool,) = guard_tools(session, [kind()])
        assert isinstance(tool, kind)
        ways: list[Callable[[], Any]] = [
            lambda tool=tool: tool.invoke({"id": "i1"}),
            lambda tool=tool: asyncio.run(tool.ainvoke({"id": "i1"})),
            lambda tool=tool: tool._run("i1"),
        ]
        check(session, guard, ways, {"id": "i1"})
    assert ran == ["i1"] * (6 if level is Level.ALLOW else 0)


def test_a_tool_class_that_runs_in_a_way_of_its_own_is_refused(langchain: Any) -> None:
    class Sly(langchain.BaseTool):  # type: ignore[misc]
        name: str = "sly"
        description: str = "Do it."

        def invoke(self, *args: Any, **kwargs: Any) -> str:
            return "done"

        def _run(self) -> str:
            return "done"

    with pytest.raises(ValueError, match="overrides invoke"):
        guard_tools(GuardSession(Says(Level.ALLOW), "q"), [Sly()])


def test_names_are_checked_and_the_sessions_own_descriptions_count(langchain: Any) -> None:
    def pay(to: str) -> None:
        """Pay."""

    tool = langchain.tool(pay)
    described = Tool(name="pay", description="Pays money out.", changes=True, kind=EffectClass.PAY)
    session = GuardSession(Says(Level.ALLOW), "q", tools={"pay": described})
    with pytest.raises(ValueError, match=r"reading=\['find'\] names no tool; there are \['pay'\]"):
        guard_tools(session, [tool], reading={"find"})
    guard_tools(session, [tool])
    assert session.tools["pay"] is described
    with pytest.raises(ValueError, match="already guards a tool called 'pay'"):
        guard_tools(session, [tool])


# LlamaIndex


@pytest.mark.parametrize("level", LEVELS)
def test_every_way_to_run_a_function_tool_of_llama_index_is_guarded(level: Level) -> None:
    pytest.importorskip("llama_index.core", reason="llama-index-core is not installed; it is not among the extras")
    from llama_index.core.tools import FunctionTool
    from llama_index.core.workflow import Context

    ran: list[str] = []

    def pay(to: str, amount: int = 1) -> str:
        """Pay somebody."""
        ran.append(to)
        return f"paid {to}"

    async def pay_later(ctx: Context, to: str, amount: int = 1) -> str:
        """Pay somebody later."""
        return pay(to, amount)

    guard = Says(level)
    session = GuardSession(guard, "q")
    one, two = guard_tools(session, [FunctionTool.from_defaults(pay), FunctionTool.from_defaults(async_fn=pay_later)])
    ways: list[Callable[[], Any]] = [
        lambda: one(to="Ann"),
        lambda: one.call("Ann"),
        lambda: one.fn("Ann"),
        lambda: one.real_fn(to="Ann"),
        lambda: asyncio.run(one.acall(to="Ann")),
        lambda: asyncio.run(one.async_fn("Ann")),
        lambda: two.call(to="Ann", ctx=None),
        lambda: asyncio.run(two.acall(to="Ann", ctx=None)),
        lambda: asyncio.run(two.real_fn(None, "Ann")),
    ]
    check(session, guard, ways, {"to": "Ann", "amount": 1})
    assert len(ran) == (len(ways) if level is Level.ALLOW else 0)
    assert [(p.name, p.required) for p in session.tools["pay_later"].parameters] == [("to", True), ("amount", False)]
