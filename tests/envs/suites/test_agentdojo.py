"""AgentDojo: run by an environment that has the package, see docs/suites.md; skipped elsewhere."""

import sys
from collections.abc import Mapping
from itertools import islice
from typing import Any

import pytest

from demur.envs.canaries import CANARIES, EXPERT
from demur.envs.episode import Conversation, Generation
from demur.envs.guards import Context
from demur.envs.policies.scripted import ScriptedPolicy
from demur.envs.suites.agentdojo import SUITES, DojoAgent, DojoWorld, Figures, chat, evaluate, figures, load_suite, play
from demur.envs.task import Step, Task
from demur.envs.tool import ToolError
from demur.envs.trace import Ending, Label, Level, ToolCall, Verdict

BY_NAME = {policy.name: policy for policy in (EXPERT, *CANARIES)}


def package() -> None:
    pytest.importorskip("agentdojo", reason="the package is not installed here: it needs an environment of its own")


class BlockAll:
    name = "block_all"

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        return Verdict(level=Level.BLOCK, guard=self.name, reason="not today")


class Failing:
    name = "failing"

    async def respond(self, conversation: Conversation) -> Generation:
        return Generation(text="", stop="error", error="the endpoint is gone")


@pytest.mark.slow
def test_ground_truth_solves_all_97_user_tasks() -> None:
    package()
    results = list(evaluate(EXPERT))
    assert len(results) == 97
    assert [(one.suite, one.user_task) for one in results if not one.utility] == []
    assert figures(results) == Figures(1.0, None, None, 0)


@pytest.mark.slow
def test_canaries_score_what_they_must() -> None:
    package()
    hijacked, refusing = (
        figures(evaluate(BY_NAME[name], suites=["slack"], attack="direct")) for name in ("always_act", "refuse_all")
    )
    assert hijacked.utility == 1 and hijacked.attack_success == 1
    assert refusing.attack_success == 0 and refusing.utility is not None and refusing.utility < 0.1


def test_guard_that_blocks_everything_stops_attack_and_task() -> None:
    package()
    played = list(islice(evaluate(BY_NAME["always_act"], BlockAll(), suites=["banking"], attack="direct"), 6))
    assert figures(played).attack_success == 0
    turns = [turn for one in played for turn in one.trajectory.turns if turn.action.call]
    assert turns and not any(turn.executed for turn in turns)


def test_blocked_calls_are_no_calls_for_agentdojos_checks() -> None:
    package()
    seen = _messages(DojoAgent(EXPERT, BlockAll()))
    assert all(not message.get("tool_calls") for message in seen)
    assert any("not today" in message["content"][0]["content"] for message in seen if message["role"] == "user")


def test_result_carries_the_verdicts_as_facts_of_the_trajectory() -> None:
    package()
    benign, attacked = islice(evaluate(BY_NAME["always_act"], suites=["banking"], attack="direct"), 2)
    assert (benign.trajectory.label, attacked.trajectory.label) == (Label.BENIGN, Label.INJECTED)
    assert benign.trajectory.outcome.goal == 1 and attacked.trajectory.outcome.attack == 1
    assert benign.trajectory.task_id != attacked.trajectory.task_id
    assert "banking" not in benign.trajectory.task_id


def test_agent_is_an_element_of_a_pipeline() -> None:
    package()
    from agentdojo.agent_pipeline import AgentPipeline, InitQuery, SystemMessage

    seen: list[str] = []

    def watched(task: Task) -> tuple[Step, ...]:
        seen.append(task.briefing)
        return (Step(plan="", call=ToolCall(name="get_iban")), Step(plan="", answer="Read."))

    pipeline = AgentPipeline([SystemMessage("You are Emma's."), InitQuery(), DojoAgent(ScriptedPolicy("own", watched))])
    pipeline.name = "local"
    suite = load_suite("banking")
    task = next(iter(suite.user_tasks.values()))
    assert suite.run_task_with_pipeline(pipeline, task, None, {}) == (False, True)
    assert set(seen) == {"You are Emma's."}


def test_messages_hold_the_call_its_result_and_the_answer_in_order() -> None:
    package()
    messages = _messages(DojoAgent(EXPERT))
    assert [message["role"] for message in messages[:2]] == ["assistant", "tool"]
    assert messages[0]["tool_calls"] == [messages[1]["tool_call"]] and messages[1]["error"] is None
    assert messages[-1]["role"] == "assistant" and messages[-1]["tool_calls"] is None


def test_failing_backend_is_an_error_and_no_score() -> None:
    package()
    played = list(islice(evaluate(Failing(), suites=["banking"]), 2))
    assert all(one.trajectory.ending is Ending.ERROR for one in played)
    assert figures(played) == Figures(None, None, None, 2)


def test_wrong_arguments_and_unknown_tools_are_tool_errors() -> None:
    package()
    from agentdojo.functions_runtime import FunctionsRuntime

    suite = load_suite("banking")
    world = DojoWorld.of(FunctionsRuntime(suite.tools), suite.load_and_inject_default_environment({}))
    with pytest.raises(ToolError, match="ValidationError"):
        world.run(ToolCall(name="send_money", arguments={"amount": "lots"}))
    with pytest.raises(ToolError, match="not available"):
        world.run(ToolCall(name="no_such_tool"))


def test_episode_works_on_a_copy_of_the_environment() -> None:
    package()
    from agentdojo.functions_runtime import FunctionsRuntime

    suite = load_suite("banking")
    world = DojoWorld.of(FunctionsRuntime(suite.tools), suite.load_and_inject_default_environment({}))
    copy = world.copy_state()
    copy.run(ToolCall(name="update_password", arguments={"password": "another"}))
    assert isinstance(copy, DojoWorld) and copy.environment != world.environment


@pytest.mark.parametrize("suite", SUITES)
def test_schemas_of_tools_stand_for_themselves(suite: str) -> None:
    package()
    from agentdojo.functions_runtime import FunctionsRuntime

    loaded = load_suite(suite)
    tools = DojoWorld.of(FunctionsRuntime(loaded.tools), loaded.load_and_inject_default_environment({})).offered()
    assert len(tools) == len(loaded.tools)
    assert "$ref" not in str([tool.schema() for tool in tools.values()])
    assert any(tool.changes for tool in tools.values()) and not all(tool.changes for tool in tools.values())


def test_attack_that_there_is_not_is_named() -> None:
    package()
    with pytest.raises(ValueError, match="no attack 'gossip'"):
        list(evaluate(EXPERT, suites=["banking"], attack="gossip"))


def test_suite_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="no suite 'office'"):
        load_suite("office")


def test_without_the_package_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "agentdojo", None)
    monkeypatch.setitem(sys.modules, "agentdojo.task_suite.load_suites", None)
    with pytest.raises(ValueError, match=r"pip install agentdojo==0\.1\.35"):
        load_suite("banking")


def _messages(agent: DojoAgent) -> list[Mapping[str, Any]]:
    """The messages of a first task."""
    suite = load_suite("banking")
    return chat(play(suite, agent, next(iter(suite.user_tasks.values()))).trajectory)
