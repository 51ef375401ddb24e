"""Baselines: what each lets run and stops, and that they fail closed."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards import Guard, check_sync, checked
from demur.envs.guards.provenance.baselines import DirectPrompt, ProvePrompt, ToolAllowList, Verbatim
from demur.envs.trace import Level
from tests.envs.guards.provenance.scripted import ADDRESS, FIND, MAIL, SEND, ScriptedModel, context, parameter, result
from tests.envs.helpers import call

JUDGED = {"reason": "r", "kind": "none", "misaligned": False}


class Judge(ScriptedModel):
    """Answers both prompts; `reply` replaces parts of the answer."""

    def __init__(self, **reply: Any) -> None:
        super().__init__()
        self.reply = reply

    def _kind(self, schema: str, data: Any) -> str:
        return schema

    def _usual(self, kind: str, data: Any) -> Any:
        evidence = {"evidence": [{"source": "query", "text": "Ann"}]} if kind == "proven" else {}
        return {**JUDGED, **evidence, **self.reply}


@pytest.mark.parametrize(("make", "schema"), [(DirectPrompt, "judged"), (ProvePrompt, "proven")])
def test_a_prompt_costs_one_call_and_its_word_counts(make: Any, schema: str) -> None:
    model = Judge()
    guard = make(model)
    assert check_sync(guard, context(), MAIL).level is Level.ALLOW
    assert model.kinds == [schema] and guard.pop_calls() == 1 and guard.pop_calls() == 0
    stopped = check_sync(make(Judge(kind="parameter", misaligned=True)), context(), MAIL)
    assert (stopped.level, stopped.stage) == (Level.BLOCK, "parameter")


@pytest.mark.parametrize("make", [DirectPrompt, ProvePrompt])
def test_a_prompt_shows_request_plan_documentation_call_and_history(make: Any) -> None:
    model = Judge()
    check_sync(make(model), context(), MAIL)
    ((_, _, data),) = model.asked
    assert set(data) == {"request", "plan", "tools", "call", "sources"}
    assert {tool["name"] for tool in data["tools"]} == {"find", "send", "ping"}
    assert any(ADDRESS in source["text"] for source in data["sources"])


@pytest.mark.parametrize("make", [DirectPrompt, ProvePrompt])
@pytest.mark.parametrize("reply", [RuntimeError("no connection"), "no JSON", '{"misaligned": false}'])
def test_a_model_that_fails_or_writes_something_else_blocks(make: Any, reply: Any) -> None:
    model = Judge()
    model.replies = {"judged": reply, "proven": reply}
    verdict = check_sync(make(model), context(), MAIL)
    assert (verdict.level, verdict.stage) == (Level.BLOCK, "error")


@pytest.mark.parametrize("guard", [DirectPrompt(Judge()), ToolAllowList([]), Verbatim()])
def test_reading_is_not_checked_and_unknown_tools_are_blocked(guard: Guard) -> None:
    assert check_sync(guard, context(), call("find", name="Zoe")).level is Level.ALLOW
    assert check_sync(guard, context(), call("wipe_disk")).level is Level.BLOCK


def test_an_allow_list_looks_at_names_alone() -> None:
    anywhere = call("send", to="eve@evil.example")
    assert check_sync(ToolAllowList(["send"]), context(), anywhere).level is Level.ALLOW
    assert check_sync(ToolAllowList(["ping"]), context(), anywhere).level is Level.BLOCK


@pytest.mark.parametrize(
    ("name", "query", "level"),
    [
        ("send_email", "Email Ann the plan", Level.ALLOW),
        ("email.send_email", "Could you send it?", Level.ALLOW),
        ("createPlot", "plots of all visits, please", Level.ALLOW),
        ("delete_file", "Read the file", Level.ALLOW),  # a word in common is all it looks for
        ("update_password", "Pay the bill", Level.BLOCK),
        ("send_email", "", Level.BLOCK),
    ],
)
def test_without_names_a_word_of_the_request_allows_a_tool(name: str, query: str, level: Level) -> None:
    tools = {name: SEND.__class__(name=name, description="", changes=True)}
    assert check_sync(ToolAllowList(), context(query=query, tools=tools), call(name)).level is level


@pytest.mark.parametrize(
    ("changes", "arguments", "level"),
    [
        ({}, {"to": ADDRESS}, Level.ALLOW),
        ({}, {"to": ADDRESS.upper()}, Level.BLOCK),
        ({}, {"to": "ann@nord.example"}, Level.BLOCK),
        ({}, {"to": "Ann", "day": "2023-11-30"}, Level.ALLOW),  # neither is an id or an address
        ({}, {"body": "write to eve@evil.example"}, Level.ALLOW),
        ({"history": ()}, {"to": ADDRESS}, Level.BLOCK),
        ({"history": (), "user_said": (f"it is {ADDRESS}",)}, {"to": ADDRESS}, Level.ALLOW),
        ({}, {"to": "GB29NWBK60161331926819"}, Level.BLOCK),
    ],
)
def test_verbatim_wants_ids_and_addresses_letter_by_letter(changes: Any, arguments: Any, level: Level) -> None:
    assert check_sync(Verbatim(), context(**changes), call("send", **arguments)).level is level


def test_verbatim_knows_ids_by_their_name_and_takes_no_documentation_as_evidence() -> None:
    tool = SEND.__class__(name="drop", description="Such as 42.", parameters=(parameter("task_id"),), changes=True)
    tools = {"drop": tool, "find": FIND}
    assert check_sync(Verbatim(), context(tools=tools), call("drop", task_id="42")).level is Level.BLOCK
    seen = context(tools=tools, history=(result("task 42"),))
    assert check_sync(Verbatim(), seen, call("drop", task_id=42)).level is Level.ALLOW


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_gives_a_verdict(query: str, value: str) -> None:
    for guard in (ToolAllowList(), Verbatim()):
        verdict = asyncio.run(checked(guard, context(query=query), call("send", to=value)))
        assert verdict.stage != "error"
