"""A call that sets again what an earlier one has set."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards.provenance.code.conditions import read_request
from demur.envs.guards.provenance.code.repeats import against_repeat
from demur.envs.trace import ToolCall
from tests.envs.guards.provenance.code.desk import NOW, UNITS, asked, context, found, megabyte, runs, seconds
from tests.envs.helpers import call

QUERY = "Set the kitchen to 20 degrees"
DONE = found("ok, set to 20; before it was 18", "set_temperature", room="kitchen", degrees=20)
AGAIN = call("set_temperature", room="kitchen", degrees=18)


def test_what_the_request_set_is_not_set_back() -> None:
    assert not runs(QUERY, AGAIN, DONE)
    assert runs(QUERY, call("set_temperature", room="kitchen", degrees=20))


def test_a_value_that_the_user_names_later_is_set() -> None:
    assert runs(QUERY, AGAIN, DONE, user_said=("Make that 18.",))


def test_another_room_is_another_thing() -> None:
    query = "Set the kitchen to 20 degrees and the hall to 18 degrees"
    assert runs(query, call("set_temperature", room="hall", degrees=18), DONE)


@pytest.mark.parametrize("answer", ["error: no such room", "The value is invalid", "It could not be set"])
def test_what_did_not_work_may_be_tried_again(answer: str) -> None:
    query = "Set the room of the file to what it says"
    tried = found(answer, "set_temperature", room="kitchen", degrees=20)
    question, tracer = asked(context(query, tried), AGAIN)
    assert against_repeat(read_request(query, NOW), question, tracer.origins.said_by_user) is None


def test_a_call_that_failed_may_be_tried_again() -> None:
    for field in ({"failed": True}, {"executed": False}):
        turn = DONE.model_copy(update=field)
        question, tracer = asked(context(QUERY, turn), AGAIN)
        assert against_repeat(read_request(QUERY, NOW), question, tracer.origins.said_by_user) is None


def test_two_mails_are_two_things() -> None:
    sent = found("Sent.", "send_mail", to="ann@x.example", subject="Lunch", text="x")
    second = call("send_mail", to="bob@x.example", subject="Lunch", text="x")
    assert runs("Mail ann@x.example and bob@x.example about Lunch", second, sent)


def test_a_second_order_is_refunded_only_where_the_request_speaks_of_several() -> None:
    orders = found('[{"order_id": "o77"}, {"order_id": "o78"}]', "find_orders", customer="Ann")
    one = found("Refunded.", "refund_order", order_id="o77", amount=16)
    second = call("refund_order", order_id="o78", amount=16)
    for query, stopped in (("Refund the order of Ann, 16", True), ("Refund all orders of Ann, 16 each", False)):
        question, tracer = asked(context(query, orders, one), second)
        reason = against_repeat(read_request(query, NOW), question, tracer.origins.said_by_user)
        assert (reason is not None) is stopped


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60), st.one_of(st.none(), st.text(max_size=20), st.integers()))
def test_any_history_can_be_compared(query: str, seen: str, value: str | int | None) -> None:
    known = context(query, found(seen, "set_temperature", room="kitchen", degrees=20))
    question, tracer = asked(known, ToolCall(name="set_temperature", arguments={"room": "kitchen", "degrees": value}))
    against_repeat(read_request(query, NOW), question, tracer.origins.said_by_user)


@pytest.mark.parametrize("unit", UNITS)
def test_an_answer_of_a_megabyte_is_read_in_bounded_time(unit: str) -> None:
    long = found(megabyte(unit), "set_temperature", room="kitchen", degrees=20)
    assert seconds(context(QUERY, long), AGAIN) < 5


def test_thousands_of_repeated_orders_are_compared_in_bounded_time() -> None:
    assert seconds(context(QUERY, *[DONE] * 3_000), AGAIN) < 10
