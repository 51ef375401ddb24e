"""Cases as tasks: played by a rule or by a model, by the engine like any other task, with no facts made up."""

import asyncio
import json
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.endpoint import EndpointError
from demur.envs.engine import run_async, run_lockstep
from demur.envs.episode import UNKNOWN_REPLY, Conversation, Episode, Generation
from demur.envs.suites.agent_safetybench import Case, EndpointTools, StateTools, case_task, read_cases
from demur.envs.suites.agent_safetybench.simulators import Played
from demur.envs.tool import Tool, ToolError
from demur.envs.trace import ASK_TOOL, Ending, Label, Outcome, ToolCall
from tests.envs.suites.agent_safetybench.helpers import SCRIPT, STATE, Hasty, chat_server, data_folder, released


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return read_cases(data_folder(tmp_path))[0]


class Slow:
    """A policy of an endpoint's kind."""

    name = "slow"

    async def respond(self, conversation: Conversation) -> Generation:
        return Generation(text=SCRIPT[sum(m["role"] == "assistant" for m in conversation.messages)])


def test_a_case_runs_in_the_engine_and_no_fact_is_made_up(case: Case) -> None:
    (trajectory,) = run_lockstep([Episode(case_task(case, StateTools()))], Hasty())
    assert [call.name for call in trajectory.calls] == ["search_guests", "remove_access"]
    assert trajectory.turns[0].observation == f"<tool_response>{json.dumps({'Home': STATE})}</tool_response>"
    assert trajectory.ending is Ending.ANSWER and trajectory.label is Label.UNDERSPECIFIED
    assert trajectory.outcome == Outcome()


def test_both_engines_give_the_same_trajectories(case: Case) -> None:
    task = case_task(case, StateTools())
    locked = run_lockstep([Episode(task), Episode(task)], Hasty())
    apart = asyncio.run(run_async([Episode(task), Episode(task)], Slow()))
    assert [t.turns for t in apart] == [t.turns for t in locked]


def test_an_episode_does_not_wait_for_the_tools_of_another(case: Case) -> None:
    both = Barrier(2, timeout=30)

    class Meeting:
        name = "meeting"

        def play(self, *_: Any) -> Played:
            both.wait()  # breaks unless the other episode's tool is played meanwhile
            return Played(result="ok")

    task = case_task(case, Meeting())
    done = asyncio.run(run_async([Episode(task), Episode(task)], Slow()))
    assert [len(trajectory.calls) for trajectory in done] == [2, 2]


def test_the_state_reaches_the_policy_through_results_alone(case: Case) -> None:
    task = case_task(case, StateTools())
    assert "Mike" not in json.dumps(Episode(task).conversation.messages)


def test_calls_that_do_not_fit_never_reach_the_simulator(case: Case) -> None:
    class Never:
        name = "never"

        def play(self, *_: Any) -> Played:
            raise AssertionError("it was asked")

    world = case_task(case, Never()).initial
    with pytest.raises(ToolError, match="no tool 'fly'"):
        world.run(ToolCall(name="fly"))
    with pytest.raises(ToolError, match="needs 'guest_id'"):
        world.run(ToolCall(name="remove_access"))


def test_who_asks_hears_that_the_user_does_not_know(case: Case) -> None:
    episode = Episode(case_task(case, StateTools()))
    call = json.dumps({"name": ASK_TOOL, "arguments": {"question": "Which technician?"}})
    episode.propose(Generation(text=f"<think>?</think>\n<tool_call>{call}</tool_call>"))
    assert episode.turns[0].observation == f"<tool_response>{UNKNOWN_REPLY}</tool_response>"


@pytest.mark.parametrize(
    ("modes", "fulfillable", "label"), [("2,5", 1, "underspecified"), ("5", 1, "benign"), ("5", 0, "harmful")]
)
def test_the_label_follows_the_failure_mode(tmp_path: Path, modes: str, fulfillable: int, label: str) -> None:
    folder = data_folder(tmp_path, [released(1, modes, fulfillable=fulfillable)])
    assert case_task(read_cases(folder, {2, 5})[0], StateTools()).label == label


def test_a_model_is_told_the_tool_the_state_and_what_happened_so_far(case: Case) -> None:
    asked: list[dict[str, Any]] = []

    def answer(request: dict[str, Any]) -> str:
        asked.append(json.loads(request["messages"][1]["content"]))
        return json.dumps({"result": f"result {len(asked)}", "failed": len(asked) == 2})

    with chat_server(answer) as url:
        tools = EndpointTools("player", base_url=url)
        (trajectory,) = asyncio.run(run_async([Episode(case_task(case, tools))], Slow()))
    assert [turn.observation for turn in trajectory.turns[:2]] == [
        "<tool_response>result 1</tool_response>",
        "<tool_response>Error: result 2</tool_response>",
    ]
    assert [turn.failed for turn in trajectory.turns] == [False, True, False]
    assert asked[0]["calls_so_far"] == [] and asked[0]["state"] == {"Home": STATE}
    assert asked[1]["tool"]["name"] == "remove_access" and asked[1]["call"]["arguments"] == {"guest_id": "g1"}
    assert [done["result"] for done in asked[1]["calls_so_far"]] == ["result 1"]


def test_episodes_of_one_task_share_no_history(case: Case) -> None:
    lengths: list[int] = []

    class Counting:
        name = "counting"

        def play(self, case: Case, done: Any, call: ToolCall) -> Played:
            lengths.append(len(done))
            return Played(result="ok")

    task = case_task(case, Counting())
    run_lockstep([Episode(task)], Hasty())
    run_lockstep([Episode(task)], Hasty())
    assert lengths == [0, 1, 0, 1]


def test_a_reply_that_is_no_result_is_asked_for_again_and_then_fails(case: Case) -> None:
    replies = iter(["Sure!", '{"result": "ok"}', "Sure!", "Again: sure!"])
    with chat_server(lambda request: next(replies)) as url:
        tools, call = EndpointTools("player", base_url=url), ToolCall(name="search_guests", arguments={"name": "x"})
        assert tools.play(case, [], call) == Played(result="ok")
        with pytest.raises(EndpointError):
            tools.play(case, [], call)


@given(st.text())
def test_any_result_travels_as_data(text: str) -> None:
    class Says:
        name = "says"

        def play(self, *_: Any) -> Played:
            return Played(result=text)

    tools = {"search": Tool(name="search", description="Search.")}
    case = Case(id=1, query="q", tools=tools, state={}, failure_modes=frozenset({2}), fulfillable=False)
    episode = Episode(case_task(case, Says()))
    episode.propose(Generation(text='<think>x</think>\n<tool_call>{"name": "search", "arguments": {}}</tool_call>'))
    episode.settle()
    said = episode.turns[0].observation or ""
    assert said.startswith("<tool_response>") and said.count("</tool_response>") == 1
