"""The guardrails for the OpenAI Agents SDK, in runs of its own runner with a scripted model."""

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("agents", reason="the package openai-agents is not installed: its pins contradict constraints.txt")

from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, Usage, WebSearchTool, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from demur.envs.guards import Guard
from demur.envs.guards.adapters.audit import enforced
from demur.envs.guards.adapters.openai_agents import guard_function_tools
from demur.envs.guards.session import GuardSession
from demur.envs.trace import Level
from tests.envs.helpers import Asks, Broken, Says


class Scripted(Model):
    """Calls `pay` once with these arguments, then answers. saw: what it was given the second time."""

    def __init__(self, arguments: str) -> None:
        self.arguments, self.saw = arguments, ""

    async def get_response(self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any) -> ModelResponse:
        results = [one for one in input if isinstance(one, dict) and one.get("type") == "function_call_output"]
        output: Any
        if results:
            self.saw = str(results[0]["output"])
            text = ResponseOutputText(text="done", type="output_text", annotations=[])
            output = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        else:
            output = ResponseFunctionToolCall(call_id="c", name="pay", arguments=self.arguments, type="function_call")
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def run(guard: Guard, arguments: str = '{"to": "Ann"}', **options: Any) -> tuple[list[str], str, GuardSession]:
    """Who was paid, what the model was told, and the session."""
    paid: list[str] = []

    @function_tool
    def pay(to: str) -> str:
        """Pay somebody."""
        if to == "nobody":
            raise ValueError("no such person")
        paid.append(to)
        return f"paid {to}"

    session = GuardSession(enforced(guard), "pay Ann", **options)
    (tool,) = guard_function_tools(session, [pay])
    assert not pay.tool_input_guardrails
    model = Scripted(arguments)
    agent = Agent(name="payer", model=model, tools=[tool])
    asyncio.run(Runner.run(agent, "pay Ann", run_config=RunConfig(tracing_disabled=True)))
    return paid, model.saw, session


def test_a_call_that_the_guard_lets_run_runs_and_stands_in_the_history() -> None:
    guard = Says(Level.ALLOW)
    paid, told, session = run(guard)
    assert (paid, told) == (["Ann"], "paid Ann")
    (context, call), (turn,) = guard.saw[0], session.history
    assert (context.query, call.arguments) == ("pay Ann", {"to": "Ann"}) and context.tools["pay"].changes
    assert turn.executed and turn.observation == "<tool_response>paid Ann</tool_response>"


@pytest.mark.parametrize("guard", [Says(Level.BLOCK), Says(Level.ASK), Says(Level.REQUIRE_APPROVAL), Broken()])
def test_a_call_that_is_stopped_does_not_run_and_the_run_goes_on(guard: Guard) -> None:
    paid, told, session = run(guard)
    assert paid == [] and told.startswith("The call was not made.")
    assert [turn.executed for turn in session.history] == [False]


def test_a_call_that_the_user_confirms_runs() -> None:
    asked: list[str] = []

    def confirm(question: str, call: Any) -> bool:
        asked.append(question)
        return True

    paid, _, _ = run(Asks(Level.ASK, question="Really?"), confirm=confirm)
    assert (paid, asked) == (["Ann"], ["Really?"])


@pytest.mark.parametrize("arguments", ["{", "[1]", '"Ann"'])
def test_arguments_that_cannot_be_read_are_stopped(arguments: str) -> None:
    guard = Says(Level.ALLOW)
    paid, told, _ = run(guard, arguments)
    assert paid == [] and guard.saw == [] and "JSON" in told


def test_what_is_no_function_tool_is_refused() -> None:
    session = GuardSession(Says(Level.ALLOW), "q")
    with pytest.raises(ValueError, match="no FunctionTool"):
        guard_function_tools(session, [WebSearchTool()])

    async def look(context: Any, arguments: str) -> str:
        return json.dumps(arguments)

    tool = FunctionTool("look", "Look.", {"type": "object", "properties": {}}, look)
    with pytest.raises(ValueError, match="names no tool"):
        guard_function_tools(session, [tool], reading={"lok"})
    guard_function_tools(session, [tool], reading={"look"})
    assert not session.tools["look"].changes
