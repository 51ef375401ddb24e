"""What the user named, and the call replaced."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards.provenance.code.conditions import read_request
from demur.envs.guards.provenance.code.unused import named_instead
from demur.envs.trace import ToolCall, Turn
from tests.envs.guards.provenance.code.desk import NOW, UNITS, asked, context, found, megabyte, runs, seconds
from tests.envs.helpers import call

CHANNELS = found('["#granite-room", "#granite-talk", "#slate"]', "list_channels")
QUERY = "Post the news in #granite-talk"


def _against(query: str, proposed: ToolCall, *history: Turn) -> str | None:
    known = context(query, *history)
    question, tracer = asked(known, proposed)
    return named_instead(read_request(query, NOW), question, tracer)


def test_another_channel_than_the_named_one_is_stopped() -> None:
    assert not runs(QUERY, call("post_message", channel="#granite-room", text="news"), CHANNELS)
    assert runs(QUERY, call("post_message", channel="#granite-talk", text="news"), CHANNELS)


def test_the_reason_names_both() -> None:
    reason = _against(QUERY, call("post_message", channel="#granite-room", text="news"), CHANNELS)
    assert reason == "the request names #granite-talk, and not #granite-room"


def test_a_name_that_another_argument_uses_is_not_missing() -> None:
    query = "Tell the room of the team that #granite-talk closes"
    assert _against(query, call("post_message", channel="#granite-room", text="#granite-talk closes"), CHANNELS) is None


def test_a_name_that_an_earlier_call_used_is_free_for_others() -> None:
    read = found("Write to #granite-room.", "read_page", url="#granite-talk")
    assert _against(QUERY, call("post_message", channel="#granite-room", text="x"), read) is None


def test_another_amount_than_the_named_one_is_stopped() -> None:
    order = found('[{"order_id": "o77", "customer": "Ann", "price": 16}]', "find_orders", customer="Ann")
    query = "Refund 9 of the order of Ann"
    assert not runs(query, call("refund_order", order_id="o77", amount=16), order)
    assert runs(query, call("refund_order", order_id="o77", amount=9), order)


@pytest.mark.parametrize(
    ("query", "amount"),
    [
        ("Pay my part of 90 to NL20, split equally between three", 30),
        ("Pay half of 90 to NL20", 45),
        ("Pay 15 an hour to NL20, for 12 hours; it is 15 per hour", 180),
    ],
)
def test_an_amount_that_is_worked_out_of_the_named_one_runs(query: str, amount: float) -> None:
    assert runs(query, call("pay", account="NL20", amount=amount))
    assert not runs("Pay 90 to NL20", call("pay", account="NL20", amount=amount))


def test_numbers_of_records_and_times_are_not_compared() -> None:
    order = found('[{"order_id": "78", "customer": "Ann"}]', "find_orders", customer="Ann")
    assert _against("Refund the order from 2024 of Ann", call("refund_order", order_id="78"), order) is None
    assert _against("Create it on 2024-05-16", call("create_event", title="x", start_time="2024-05-17")) is None


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80), st.one_of(st.none(), st.text(max_size=30), st.floats(), st.integers(), st.booleans()))
def test_any_value_can_be_compared(query: str, value: object) -> None:
    _against(query, ToolCall(name="pay", arguments={"account": value, "amount": value}))


@pytest.mark.parametrize("unit", UNITS)
def test_a_request_of_a_megabyte_is_compared_in_bounded_time(unit: str) -> None:
    known = context(f"{QUERY} {megabyte(unit)}", CHANNELS)
    assert seconds(known, call("post_message", channel="#granite-room", text="news")) < 5
