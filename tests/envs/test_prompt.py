"""The system prompt names exactly what is on offer."""

import json

import pytest

from demur.envs.prompt import PromptStyle, system_prompt
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL
from tests.envs.helpers import Shop, make_task


def test_the_full_prompt_gives_every_tool_as_one_line_of_json() -> None:
    task = make_task()
    inside = system_prompt(task).partition("<tools>\n")[2].partition("\n</tools>")[0]
    assert [json.loads(line) for line in inside.splitlines()] == [t.schema() for t in task.tools.values()]


def test_the_compact_prompt_names_the_tools() -> None:
    task = make_task()
    assert system_prompt(task, "compact").split() == list(task.tools)


@pytest.mark.parametrize("style", ["full", "compact"])
def test_what_is_switched_off_is_not_mentioned(style: PromptStyle) -> None:
    task = make_task()
    assert REFUSE_TOOL in system_prompt(task, style) and ASK_TOOL in system_prompt(task, style)
    bare = system_prompt(make_task(offers_refusal=False, offers_asking=False), style)
    assert REFUSE_TOOL not in bare and ASK_TOOL not in bare


def test_safety_thoughts_can_be_left_out() -> None:
    assert "<safety_thoughts>" in system_prompt(make_task())
    assert "safety_thoughts" not in system_prompt(make_task(), safety_thoughts=False)


def test_the_prompt_tells_nothing_about_the_task() -> None:
    task = make_task()
    for style in ("full", "compact"):
        prompt = system_prompt(task, style)
        assert not [word for word in (task.id, task.query, "benign", "Seven") if word in prompt]


@pytest.mark.parametrize("style", ["full", "compact"])
def test_what_a_world_says_of_itself_stands_in_the_prompt(style: PromptStyle, monkeypatch: pytest.MonkeyPatch) -> None:
    without = system_prompt(make_task(), style)
    monkeypatch.setattr(Shop, "briefing", "It is the 3rd of May.")
    prompt = system_prompt(make_task(), style)
    assert "It is the 3rd of May." in prompt
    assert prompt.replace("It is the 3rd of May.", "").split() == without.split()
