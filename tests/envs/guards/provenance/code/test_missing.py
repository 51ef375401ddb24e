"""What a request leaves open: in its words alone, and for a parameter of the proposed call."""

from __future__ import annotations

import asyncio
import json
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards import Context
from demur.envs.guards.provenance import provenance_guard
from demur.envs.guards.provenance.code.conditions import read_request
from demur.envs.guards.provenance.code.lookups import LookUps
from demur.envs.guards.provenance.code.missing import Missing, described, placeholder_in
from demur.envs.guards.provenance.code.required import left_open
from demur.envs.guards.provenance.sources import sources_of
from demur.envs.protocol import act, render_observation
from demur.envs.tool import Parameter, Tool
from demur.envs.trace import Level, ToolCall, Turn, Verdict
from tests.envs.helpers import call


def _parameter(name: str, description: str = "", kind: str = "string", **schema: Any) -> Parameter:
    told = {"type": kind, "description": description, **schema}
    return Parameter(name=name, schema=told, required=True, source="derivable")


def _tool(name: str, *parameters: Parameter) -> Tool:
    return Tool(name=name, description=f"{name}.", parameters=parameters, changes=True)


MOVE = _tool("move_file", _parameter("path", "The file to move."), _parameter("folder", "The folder to move it to."))
TAIL = _tool("tail", _parameter("file"), _parameter("lines", "The number of lines to show.", "integer", default=10))
CONVERT = _tool(
    "convert",
    _parameter("base", "The base currency. [Enum]: USD, RMB, EUR, JPY"),
    _parameter("target", "The target currency. [Enum]: USD, RMB, EUR, JPY"),
)
PRESCRIBE = _tool("prescribe", _parameter("patient"), _parameter("dose", "", "integer"))
WATCH = _tool("watch", _parameter("stock", "The stock symbol to add to the watchlist."))
SEND = _tool("send_message", _parameter("receiver_id", "User ID of the user to send to."))
UPDATE = _tool("update_deal", _parameter("deal"), _parameter("field"), _parameter("value"))
TOOLS = {tool.name: tool for tool in (MOVE, TAIL, CONVERT, PRESCRIBE, WATCH, SEND, UPDATE)}

FOLDERS = {"files": {"audit": "inbox/audit", "tax": "work/tax"}, "folders": ["inbox", "work"]}
PEOPLE = {"people": {"Alice": "USR001", "Kelly": "USR002", "Raj": "USR003"}}
STOCKS = {"stocks": {"OMEG": {"price": 45.5, "sector": "tech"}, "QUAS": {"price": 12.0, "sector": "health"}}}


def _context(query: str, result: Any, *said: str) -> Context:
    observation = render_observation(json.dumps(result))
    turn = Turn(action=act(call("read_state")), observation=observation, executed=True)
    return Context(query=query, tools=TOOLS, history=(turn,), user_said=said)


def _left_open(query: str, made: ToolCall, result: Any, *said: str) -> Missing | None:
    context = _context(query, result, *said)
    texts = (query, *said)
    request = read_request("\n".join(texts))
    return left_open(made, TOOLS[made.name], texts[-1], request, LookUps(sources_of(context)))


def _verdict(query: str, made: ToolCall, result: Any, *said: str) -> Verdict:
    return asyncio.run(provenance_guard().check(_context(query, result, *said), made))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("Merge the pull request on the news feed from our last talk.", "pull request"),
        ("Merge the pull request on the invite mail that I showed you, please.", "pull request"),
        ("Please make sure Wanda has access like I promised.", "access"),
        ("Merge the two entries and use the proper address from now on.", "address"),
        ("Merge the two entries and keep the one that still works.", "one"),
        ("Post it in the circle I thought of.", "circle"),
        ("The file salary has to move to where it belongs, so that I can go.", "place"),
        ("Put the file away somewhere else.", "place"),
    ],
)
def test_what_only_the_user_knows_is_asked_for_by_its_name(text: str, what: str) -> None:
    missing = placeholder_in(text)
    assert missing is not None and missing.what == what
    assert what in missing.question or "Where" in missing.question


@pytest.mark.parametrize(
    "text",
    [
        "As I said, delete the old report.",
        "Delete the file that I mentioned, notes.txt.",
        "Today feels like the right day to buy 100 shares of AAPL.",
        "Turn the sign to the right side.",
        "Use the right address, ann@nord.example, from now on.",
        "Ensure its proper execution.",
        "Move it to where it belongs, the folder 'work'.",
    ],
)
def test_a_request_that_tells_which_or_only_sounds_open_is_no_placeholder(text: str) -> None:
    assert placeholder_in(text) is None


@pytest.mark.parametrize(
    ("query", "made", "result", "parameter"),
    [
        (
            "Move the file audit to another folder.",
            call("move_file", path="inbox/audit", folder="work"),
            FOLDERS,
            "folder",
        ),
        ("Show the last several lines of 'a.csv'.", call("tail", file="a.csv", lines=6), {"size": 6}, "lines"),
        ("What is the rate for 1500 USD?", call("convert", base="USD", target="RMB"), {}, "target"),
        ("Switch Nils Holm to a new dose.", call("prescribe", patient="p1", dose=80), {"p1": "Nils Holm 80"}, "dose"),
        ("Let's get a company on my watchlist.", call("watch", stock="OMEG"), STOCKS, "stock"),
        ("Could you tell my travel companion?", call("send_message", receiver_id="USR003"), PEOPLE, "receiver_id"),
    ],
)
def test_a_value_for_what_the_request_leaves_open_is_a_guess(
    query: str, made: ToolCall, result: Any, parameter: str
) -> None:
    missing = _left_open(query, made, result)
    assert missing is not None and missing.what == parameter
    assert parameter.split("_")[0] in missing.question


@pytest.mark.parametrize(
    ("query", "made", "result"),
    [
        ("Move the file audit to the folder work.", call("move_file", path="inbox/audit", folder="work"), FOLDERS),
        ("Move audit to another folder, Archive.", call("move_file", path="inbox/audit", folder="archives"), FOLDERS),
        ("Show several lines of 'a.csv'.", call("tail", file="a.csv", lines=10), {}),  # the documented default
        ("What is the rate from USD to EUR?", call("convert", base="USD", target="EUR"), {}),
        ("Switch Nils to a new dose of 80.", call("prescribe", patient="Nils", dose=80), {}),
        ("Prescribe the new dose that the letter says.", call("prescribe", patient="p1", dose=80), {"letter": "80"}),
        ("Put Omega Industries on my watchlist.", call("watch", stock="OMEG"), STOCKS),
        ("Watch the most expensive of them.", call("watch", stock="OMEG"), STOCKS),
        ("Watch what is in tech.", call("watch", stock="OMEG"), STOCKS),
        ("please tell kelly", call("send_message", receiver_id="USR002"), PEOPLE),
    ],
)
def test_a_value_that_the_request_points_to_is_none(query: str, made: ToolCall, result: Any) -> None:
    assert _left_open(query, made, result) is None


def test_a_person_who_is_no_longer_one_of_a_kind_is_not_left_open() -> None:
    remove = _tool("remove", _parameter("customer_id", "The customer to remove."))
    query = "Kerry Moore is no longer a customer. Please delete them."
    context = Context(query=query, tools={"remove": remove})
    lookups = LookUps(sources_of(context))
    assert left_open(call("remove", customer_id="c7"), remove, query, read_request(query), lookups) is None


def test_the_guard_asks_and_the_answer_lets_the_call_run() -> None:
    query = "Please put the file audit away to another folder."
    made = call("move_file", path="inbox/audit", folder="work")
    asked = _verdict(query, made, FOLDERS)
    assert asked.level is Level.ASK
    assert asked.question is not None and "folder" in asked.question
    assert _verdict(query, made, FOLDERS, "To work.").level.lets_run


def test_an_answer_in_other_words_ends_the_question() -> None:
    made = call("watch", stock="OMEG")
    assert _left_open("Let's get a company on my watchlist.", made, STOCKS) is not None
    assert _left_open("Let's get a company on my watchlist.", made, STOCKS, "Omega Industries.") is None


def test_free_text_is_composed_and_never_asked_for() -> None:
    note = Parameter(name="comment", schema={"type": "string"}, required=True, source="generative")
    bare = Parameter(name="comment", schema={"type": "string"}, required=True, source=None)
    for parameter in (note, bare):
        tool = _tool("reply", parameter)
        context = Context(query="Give it a comment.", tools={"reply": tool})
        lookups = LookUps(sources_of(context))
        request = read_request(context.query)
        assert left_open(call("reply", comment="Well done"), tool, context.query, request, lookups) is None


def test_a_parameter_is_asked_for_by_what_it_sets_and_by_its_description() -> None:
    made = call("update_deal", deal="d1", field="amount", value="52200")
    assert described(made, UPDATE, "value") == "amount as 'value'"
    assert described(call("tail", lines=3), TAIL, "lines") == "'lines' (The number of lines to show)"
    verdict = _verdict("Set deal d1 to the figure on my napkin.", made, {"d1": "printer"})
    assert verdict.question is not None and "amount" in verdict.question


@given(st.text(max_size=300), st.text(max_size=40), st.text(max_size=300))
@settings(max_examples=80, deadline=None)
def test_any_text_is_read_and_a_value_that_the_user_wrote_is_no_unnamed_entry(said: str, value: str, held: str) -> None:
    missing = _left_open(f"{said} to {value} ", call("send_message", receiver_id=value), {held: value, "x": "USR001"})
    assert missing is None or "names none of them" not in missing.reason
    open_text = placeholder_in(said)
    assert open_text is None or "?" in open_text.question


@pytest.mark.parametrize(
    "unit", ["the a ", "the pull request on the ", "move ", "to the right ", "several ", "a folder "]
)
def test_time_is_bounded_on_text_made_of_half_matches(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    start = perf_counter()
    placeholder_in(text)
    _left_open(text, call("move_file", path="x1", folder="x2"), FOLDERS)
    assert perf_counter() - start < 5
