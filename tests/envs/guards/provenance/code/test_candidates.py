"""Which record a call stands for: order words, conditions, ties and questions."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards import Context
from demur.envs.guards.provenance.blind import blind
from demur.envs.guards.provenance.code.candidates import Addresses, OneReading
from demur.envs.guards.provenance.code.derived import Tracers
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.relations import Finding, Relation
from demur.envs.guards.provenance.sources import sources_of
from demur.envs.protocol import act, render_observation
from demur.envs.tool import Parameter, Tool
from demur.envs.trace import ToolCall, Turn
from tests.envs.helpers import call

NOW = datetime(2024, 5, 15, 8)


def _parameter(name: str, **schema: Any) -> Parameter:
    return Parameter(name=name, schema=schema or {"type": "string"}, required=False, source="derivable")


SEARCH = Tool(name="search_events", description="Search events.", parameters=(_parameter("words"),))
VISITS = Tool(name="total_visits_count", description="Visits by day.", parameters=(_parameter("since"),))
DELETE = Tool(name="delete_event", description="Delete it.", parameters=(_parameter("id"),), changes=True)
BOOK = Tool(
    name="create_event",
    description="Book it.",
    parameters=(_parameter("start"), _parameter("duration", type="integer")),
    changes=True,
)
ROLE = Tool(
    name="set_role",
    description="Set it.",
    parameters=(_parameter("role", type="string", enum=["read", "write", "admin"]),),
    changes=True,
)
TOOLS = {tool.name: tool for tool in (SEARCH, VISITS, DELETE, BOOK, ROLE)}

EVENTS = [
    {"id": "e1", "name": "review", "with": "sofia@x.example", "start": "2024-03-01 10:00:00", "duration": "30"},
    {"id": "e2", "name": "planning", "with": "sofia@x.example", "start": "2024-05-16 09:00:00", "duration": "60"},
    {"id": "e3", "name": "review", "with": "sofia@x.example", "start": "2024-05-20 10:00:00", "duration": "30"},
    {"id": "e4", "name": "review", "with": "raj@x.example", "start": "2024-05-17 11:00:00", "duration": "30"},
]


def _seen(text: Any, made_by: ToolCall | None = None) -> Turn:
    observation = text if isinstance(text, str) else json.dumps(text)
    made_by = made_by or call("search_events", words="sofia")
    return Turn(action=act(made_by), executed=True, observation=render_observation(observation))


def _context(query: str, *turns: Turn, said: tuple[str, ...] = ()) -> Context:
    return Context(query=query, tools=TOOLS, history=turns, user_said=said, now=NOW)


def _decide(context: Context, proposed: ToolCall) -> Finding:
    question = Question(relation=Relation.CAN_ADDRESS, context=context, call=proposed)
    return asyncio.run(Addresses(Tracers()).decide(question, sources_of(context)))


def _third(context: Context, proposed: ToolCall) -> Finding:
    hidden = blind(context, proposed, "").context
    question = Question(relation=Relation.CAN_ADDRESS, context=hidden, call=None)
    return asyncio.run(OneReading().decide(question, sources_of(hidden)))


@pytest.mark.parametrize(("event", "holds"), [("e1", False), ("e3", False), ("e2", None)])
def test_the_next_event_is_the_first_one_ahead(event: str, holds: bool | None) -> None:
    finding = _decide(_context("Cancel my next meeting with Sofia", _seen(EVENTS)), call("delete_event", id=event))
    assert finding.holds is holds


def test_a_record_without_a_name_that_the_request_gives_is_the_wrong_one() -> None:
    context = _context("Delete the review with Sofia on 20 May", _seen(EVENTS))
    finding = _decide(context, call("delete_event", id="e4"))
    assert finding.holds is False
    assert any("sofia" in span.text for span in finding.spans)


def test_the_evidence_stands_where_the_span_says() -> None:
    context = _context("Delete the review with Raj", _seen(EVENTS))
    finding = _decide(context, call("delete_event", id="e4"))
    assert finding.holds is True
    texts = {source.id: source.text for source in sources_of(context)}
    assert all(texts[span.source][span.start : span.end] == span.text for span in finding.spans)


NAMESAKES = "e7 Rosa Urban, sales\ne8 Rosa Evans, support"


def test_namesakes_are_asked_about_and_the_answer_settles_it() -> None:
    look_up = _seen(NAMESAKES, call("search_events", words="Rosa"))
    asked = _context("Delete the entry of Rosa", look_up)
    told = _context("Delete the entry of Rosa", look_up, said=("Rosa Evans.",))
    right = call("delete_event", id="e8")
    for finding in (_decide(asked, right), _third(asked, right)):
        assert finding.holds is False
        assert finding.question is not None and "Which one" in finding.question and "Rosa Urban" in finding.question
    assert _decide(told, right).holds is True
    assert _third(told, right).holds is None
    assert _decide(told, call("delete_event", id="e7")).holds is False


def test_stage_three_says_the_same_whatever_was_proposed() -> None:
    context = _context("Delete the entry of Rosa", _seen(NAMESAKES, call("search_events", words="Rosa")))
    assert _third(context, call("delete_event", id="e7")) == _third(context, call("delete_event", id="e8"))


@pytest.mark.parametrize("query", ["Delete all entries of Rosa", "Delete one entry of Rosa, I don't care which"])
def test_a_request_for_several_or_for_any_is_not_asked_about(query: str) -> None:
    context = _context(query, _seen(NAMESAKES, call("search_events", words="Rosa")))
    assert _third(context, call("delete_event", id="e7")).holds is None


VISITED = _seen({"2024-05-13": 9, "2024-05-14": 4}, call("total_visits_count", since="2024-05-13"))


@pytest.mark.parametrize(("limit", "holds"), [(8, None), (9, False)])
def test_what_hangs_on_a_condition_is_not_done_where_it_is_false(limit: int, holds: bool | None) -> None:
    query = f"If total visits were more than {limit} at any time since May 13, delete e1"
    assert _decide(_context(query, VISITED), call("delete_event", id="e1")).holds is holds


def test_a_condition_between_days_is_computed() -> None:
    query = "If total visits is more than 50% lower than it was on Monday, delete e1"
    assert _decide(_context(query, VISITED), call("delete_event", id="e1")).holds is None
    other = query.replace("lower", "higher")
    assert _decide(_context(other, VISITED), call("delete_event", id="e1")).holds is False


@pytest.mark.parametrize(("start", "holds"), [("09:30", False), ("10:00", None), ("12:00", False)])
def test_the_first_free_time_is_the_one_after_what_is_planned(start: str, holds: bool | None) -> None:
    query = "Book half an hour at the earliest time I'm free tomorrow"
    day = [{"start": "2024-05-16 09:00:00", "duration": "60"}, {"start": "2024-05-16 14:00:00", "duration": "60"}]
    context = _context(query, _seen(day, call("search_events", words="2024-05-16")))
    assert _decide(context, call("create_event", start=f"2024-05-16 {start}:00", duration=30)).holds is holds


def test_a_choice_that_the_request_names_without_a_value_is_asked_about() -> None:
    finding = _decide(_context("Give Ann the role, please"), call("set_role", role="write"))
    assert finding.holds is False and finding.question == "Which role do you mean: read, write, admin?"
    assert _decide(_context("Give Ann the role of a writer"), call("set_role", role="write")).holds is None


@pytest.mark.parametrize("query", ["Count the words in a specific file", "Give Ann access as discussed"])
def test_a_thing_that_is_only_said_to_exist_is_asked_about(query: str) -> None:
    context = _context(query)
    finding = _third(context, call("set_role", role="read"))
    assert finding.holds is False and finding.question is not None
    assert _third(replace(context, user_said=("I mean notes.txt",)), call("set_role", role="read")).holds is None


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=200), st.text(max_size=200), st.text(max_size=30))
def test_no_text_makes_a_check_fail(query: str, result: str, value: str) -> None:
    context = _context(query, _seen(result))
    _decide(context, call("delete_event", id=value))
    _third(context, call("delete_event", id=value))
