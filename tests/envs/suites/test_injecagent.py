"""InjecAgent on its own data: canaries, the rule of two steps, simulated results, and files that are not whole."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.engine import run_batched
from demur.envs.episode import Episode, Generation
from demur.envs.suites.files import known_files
from demur.envs.suites.injecagent import InjecAgent, SimulatedResponses
from demur.envs.trace import Label, ToolCall
from tests.envs.suites.helpers import POLICIES, SHARED, assert_broken_is_named, copied, mean_scores

DATA = SHARED / "injecagent"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the files of InjecAgent are not beside the repository")


@pytest.fixture(scope="module")
def suite() -> InjecAgent:
    return InjecAgent.read(DATA)


class Calls:
    """A policy that calls these tools one after the other; None is a message that can not be read."""

    name = "calls"

    def __init__(self, *tools: str | None) -> None:
        self.tools = tools

    def generate(self, episodes):
        def text(tool):
            call = json.dumps({"name": tool, "arguments": {}})
            return "?" if tool is None else f"<think>x</think>\n<tool_call>{call}</tool_call>"

        return [Generation(text=text(self.tools[len(e.turns) - len(e.task.given)])) for e in episodes]


@needs_data
@pytest.mark.parametrize("setting", ["base", "enhanced"])
def test_canaries_and_the_right_behaviour_score_as_they_must(setting: str) -> None:
    suite = InjecAgent.read(DATA, setting)
    assert len(suite.tasks()) == len({task.id for task in suite.tasks()}) == suite.size == 1054
    some = suite.tasks()[::3]
    assert {task.family.split("/")[0] for task in some} == {"direct_harm", "data_stealing"}
    safe = {"attack_success": 0, "valid": 1, "first_step": 0}
    assert mean_scores(suite, "expert", some) == safe | {"answered": 1}
    assert mean_scores(suite, "refuse_all", some) == safe | {"answered": 0}
    assert mean_scores(suite, "always_act", some) == {"attack_success": 1, "valid": 1, "first_step": 1, "answered": 0}


@needs_data
def test_the_poisoned_result_is_there_before_the_policy_writes(suite: InjecAgent) -> None:
    for task, (_, case) in zip(suite.tasks()[::50], suite.cases[::50], strict=True):
        episode = Episode(task)
        assert [m["role"] for m in episode.conversation.messages] == ["system", "user", "assistant", "user"]
        assert case.response in episode.conversation.messages[-1]["content"]
        assert task.label is Label.INJECTED and case.attacker_instruction not in task.query


@needs_data
def test_the_settings_differ_in_what_the_tool_gives_back_alone() -> None:
    base, enhanced = (InjecAgent.read(DATA, setting).tasks() for setting in ("base", "enhanced"))
    assert [t.query for t in base] == [t.query for t in enhanced]
    assert all(a.given[0].observation != b.given[0].observation for a, b in zip(base, enhanced, strict=True))


@needs_data
def test_stealing_succeeds_with_both_steps_in_order_and_nothing_between(suite: InjecAgent) -> None:
    task = next(task for task in suite.tasks() if task.family.startswith("data_stealing"))
    fetch, send = task.attacker
    (user,) = {name for name in task.tools if name not in task.attacker and name[0].isupper()}
    for tools, success, first, valid in (
        ((fetch, send), 1, 1, 1),
        ((fetch, user), 0, 1, 1),
        ((user, fetch), 0, 0, 1),
        ((send, fetch), 0, 0, 1),
        ((None, fetch), 0, 0, 0),
        ((fetch, None), 0, 1, 0),
        ((fetch, "NoSuchTool"), 0, 1, 1),
    ):
        (played,) = run_batched([Episode(task)], Calls(*tools))
        score = suite.score(played)
        assert (score["attack_success"], score["first_step"], score["valid"]) == (success, first, valid), tools


@needs_data
def test_what_was_stolen_comes_back_as_it_was_simulated(suite: InjecAgent) -> None:
    task = next(task for task in suite.tasks() if task.attacker[0] == "AmazonViewSavedAddresses")
    (played,) = run_batched([Episode(task)], POLICIES["always_act"])
    assert "123 Main St" in (played.turns[1].observation or "")
    assert len(played.own_turns) == 2 and played.given == 1 and played.valid_turns == 2


def test_the_nearest_call_of_the_same_tool_is_taken() -> None:
    responses = {'(Read,{"who": "Ann", "n": 1})': "1", "(Read,{'who': 'Bob'})": "2", "(Send,no JSON)": "3"}
    simulated = SimulatedResponses(responses)
    assert simulated.nearest(ToolCall(name="Read", arguments={"n": 1, "who": "Ann"})) == "1"
    assert simulated.nearest(ToolCall(name="Read", arguments={"who": "Bobby"})) == "2"
    assert simulated.nearest(ToolCall(name="Send", arguments={"anything": 1})) == "3"
    assert "Read" in simulated and "Delete" not in simulated


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.none()))
def test_any_arguments_find_a_result(arguments: dict) -> None:
    simulated = SimulatedResponses({'(Read,{"who": "Ann"})': "1", '(Read,{"who": "Bob"})': "2"})
    assert simulated.nearest(ToolCall(name="Read", arguments=arguments)) in {"1", "2"}


@needs_data
@pytest.mark.parametrize("name", [name for name in known_files("injecagent").digests if "enhanced" not in name])
def test_a_missing_cut_or_altered_file_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    folder = copied(DATA, tmp_path / "data")
    assert_broken_is_named(folder / name, lambda: InjecAgent.read(folder))
