"""The approver for inspect_ai: what it decides, and what the guard is shown of a conversation."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("inspect_ai", reason="the package inspect-ai is not installed: its pins contradict constraints.txt")

from inspect_ai import Task, eval
from inspect_ai.approval import ApprovalPolicy
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageAssistant, ChatMessageTool, ChatMessageUser, ModelOutput, get_model
from inspect_ai.solver import generate, use_tools
from inspect_ai.tool import ToolCall as InspectCall
from inspect_ai.tool import ToolCallError, ToolCallView, tool

from demur.envs.guards.adapters.inspect_ai import guard_approver
from demur.envs.trace import Level
from tests.envs.helpers import Broken, Says

RAN: list[str] = []


@tool
def pay() -> Any:
    async def execute(to: str) -> str:
        """Pay somebody.

        Args:
            to: Whom.
        """
        RAN.append(to)
        return f"paid {to}"

    return execute


def call(number: str, **arguments: Any) -> InspectCall:
    return InspectCall(id=number, function="pay", arguments=arguments)


HISTORY = [
    ChatMessageUser(content="pay Ann and Bob"),
    ChatMessageAssistant(content="first Ann", tool_calls=[call("1", to="Ann"), call("2", to="Eve")]),
    ChatMessageTool(content="paid Ann", tool_call_id="1", function="pay"),
    ChatMessageTool(content="", tool_call_id="2", function="pay", error=ToolCallError("approval", "not to Eve")),
    ChatMessageUser(content="go on"),
    ChatMessageAssistant(content="now Bob", tool_calls=[call("3", to="Bob")]),
]


def decide(guard: Any, proposed: InspectCall | None = None) -> Any:
    approver = guard_approver(guard, [pay()])
    return asyncio.run(approver("now Bob", proposed or call("3", to="Bob"), ToolCallView(), list(HISTORY)))


@pytest.mark.parametrize(
    ("level", "decision"),
    [
        (Level.ALLOW, "approve"),
        (Level.WARN, "approve"),
        (Level.ASK, "escalate"),
        (Level.REQUIRE_APPROVAL, "escalate"),
        (Level.BLOCK, "reject"),
    ],
)
def test_each_level_is_a_decision(level: Level, decision: str) -> None:
    approval = decide(Says(level))
    assert approval.decision == decision and approval.explanation == f"says said {level}"


def test_the_guard_sees_the_conversation() -> None:
    guard = Says(Level.ALLOW)
    decide(guard)
    ((context, proposed),) = guard.saw
    assert (context.query, list(context.user_said), context.plan) == ("pay Ann and Bob", ["go on"], "now Bob")
    assert [(turn.plan, turn.executed) for turn in context.history] == [("first Ann", True), ("first Ann", False)]
    assert context.history[0].observation == "<tool_response>paid Ann</tool_response>"
    assert proposed.arguments == {"to": "Bob"}
    described = context.tools["pay"]
    assert described.changes and [p.name for p in described.parameters] == ["to"]


def test_what_fails_is_rejected() -> None:
    assert decide(Broken()).decision == "reject"
    unread = InspectCall(id="3", function="pay", arguments={}, parse_error="no JSON")
    guard = Says(Level.ALLOW)
    assert decide(guard, unread).decision == "reject" and guard.saw == []


def test_names_of_no_tool_are_refused() -> None:
    with pytest.raises(ValueError, match="names no tool"):
        guard_approver(Says(Level.ALLOW), [pay()], reading={"look"})


@pytest.mark.slow
@pytest.mark.parametrize(("level", "ran"), [(Level.ALLOW, ["Ann"]), (Level.BLOCK, []), (Level.ASK, [])])
def test_in_an_evaluation_only_what_is_approved_runs(
    level: Level, ran: list[str], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    RAN.clear()
    # inspect_ai counts tokens with an encoding that tiktoken would download
    letters = SimpleNamespace(encode=lambda text, **options: list(text))
    monkeypatch.setattr("tiktoken.get_encoding", lambda name: letters)
    outputs = [
        ModelOutput.for_tool_call("mockllm/model", "pay", {"to": "Ann"}),
        ModelOutput.from_content("mockllm/model", "done"),
    ]
    task = Task(
        dataset=[Sample(input="pay Ann")],
        solver=[use_tools(pay()), generate()],
        approval=[ApprovalPolicy(guard_approver(Says(level), [pay()]), "*")],
    )
    model = get_model("mockllm/model", custom_outputs=outputs)
    (log,) = eval(task, model=model, log_dir=str(tmp_path), display="none")
    assert log.status == "success" and ran == RAN
