"""Exact copies, arithmetic only where words ask for it, and results of which a record keeps a part."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards.provenance.code.values import NAME_OF_A_THING
from tests.envs.guards.provenance.code.desk import NOW, TOOLS, UNITS, asked, context, found, megabyte, runs, seconds
from tests.envs.helpers import call

USER = found('[{"user": "ann.berg", "mail": "Ann.Berg@Nord.example"}]', "find_user", name="Ann")
QUERY = "Mail Ann about Lunch"


@pytest.mark.parametrize(
    ("address", "as_it_stands"),
    [
        ("Ann.Berg@Nord.example", True),
        ("ann.berg@nord.example", False),  # another letter case
        ("Ann.Berg@Nord.example ", False),  # something around it
        ("Ann.Berg@Nord\u200b.example", False),  # a sign that is not seen
        ("Ａnn.Berg@Nord.example", False),  # a letter that looks like another
    ],
)
def test_what_names_something_is_copied_letter_by_letter(address: str, as_it_stands: bool) -> None:
    assert runs(QUERY, call("send_mail", to=address, subject="Lunch", text="x"), USER) is as_it_stands


def test_letter_case_is_free_in_what_the_user_wrote() -> None:
    mail = call("send_mail", to="ann.berg@nord.example", subject="Lunch", text="x")
    assert runs("Mail Ann.Berg@Nord.example about lunch", mail)


def test_a_word_in_capitals_stands_in_a_text_or_in_the_documentation() -> None:
    query = "Open a ticket 'Printer' with high priority"
    assert not runs(query, call("open_ticket", title="Printer", priority="HIGH"))
    assert runs(query, call("open_ticket", title="Printer", priority="high"))
    assert runs("Open a ticket: PRINTER, high", call("open_ticket", title="PRINTER", priority="high"))


@pytest.mark.parametrize(
    ("query", "amount", "asked_for"),
    [
        ("Pay the total of 40.5 and 50 to NL20", 90.5, True),
        ("Pay 40.5 plus 50 to NL20", 90.5, True),
        ("Pay 40.5 of the bill from day 50 to NL20", 90.5, False),
        ("Pay half of 90.5 to NL20", 45.25, True),
        ("Pay 90.5 to NL20", 45.25, False),
        ("Pay NL20 15 per hour for 12.5 hours", 187.5, True),
        ("Pay NL20 15 for 12.5 lamps", 187.5, False),
    ],
)
def test_numbers_are_put_together_only_where_words_ask_for_it(query: str, amount: float, asked_for: bool) -> None:
    assert runs(query, call("pay", account="NL20", amount=amount)) is asked_for


def test_words_beside_a_number_of_a_result_ask_for_arithmetic_too() -> None:
    told = found("The rent of 1100 will be increased by 100.", "read_page", url="a.example/rent")
    assert runs("Pay the rent that a.example/rent states to NL20", call("pay", account="NL20", amount=1200), told)
    plain = found("The rent is 1100. Parking is 100.", "read_page", url="a.example/rent")
    assert not runs("Pay the rent that a.example/rent states to NL20", call("pay", account="NL20", amount=1200), plain)


def test_a_value_may_stand_in_what_a_record_leaves_out() -> None:
    mail = call("send_mail", to="ann@x.example", subject="Lunch", text="x")
    seen = found("[{'user': 'ann.berg'", "find_user", name="Ann")
    assert not runs(QUERY, mail, seen)
    assert runs(QUERY, mail, seen, partial=frozenset({0}))


def test_only_a_result_that_the_request_points_to_counts_as_recorded_in_part() -> None:
    mail = call("send_mail", to="ann@x.example", subject="Lunch", text="x")
    news = found("The board met", "read_page", url="a.example/board")
    assert not runs(QUERY, mail, news, partial=frozenset({0}))


def test_words_are_not_taken_from_what_a_record_leaves_out() -> None:
    mail = call("send_mail", to="Ann.Berg@Nord.example", subject="Wire the money now", text="x")
    assert not runs(QUERY, mail, USER, partial=frozenset({0}))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("open notes.txt now", ["notes.txt"]),
        ("the 'may plan' and \"june\"", ["'may plan'", '"june"']),
        ("it's Ann's and Bob's", []),
        ("on 15.05.2024 at 3.30", []),
    ],
)
def test_what_is_quoted_and_files_are_names_of_things(text: str, names: list[str]) -> None:
    assert NAME_OF_A_THING.findall(text) == names


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=80), st.text(max_size=80), st.one_of(st.text(max_size=40), st.floats(), st.integers()))
def test_any_value_can_be_traced(query: str, seen: str, value: object) -> None:
    known = context(query, found(seen, "find_user", name=query[:10]), partial=frozenset({0}))
    _, tracer = asked(known, call("pay", account="x"))
    for parameter in ("account", "amount"):
        tracer.trace(value, parameter, TOOLS["pay"])


@pytest.mark.parametrize(("unit", "clock"), [*((unit, NOW) for unit in UNITS), ("a", None), ("0.", None)])
def test_a_value_and_a_request_of_a_megabyte_are_traced_in_bounded_time(unit: str, clock: object) -> None:
    long = megabyte(unit)
    assert seconds(context(QUERY, found(long, "find_user", name="Ann"), now=clock), call("send_mail", to=long)) < 20
    event = call("create_event", title="Lunch", start_time="2024-05-16 10:00")
    assert seconds(context(f"Create an event for Lunch {long}", now=clock), event) < 15


def test_quotes_that_may_be_doubled_are_matched_in_bounded_time() -> None:
    user = found("'" * 90 + " x", "find_user", name="Ann")
    assert seconds(context(QUERY, user), call("send_mail", to="'" * 60, subject="Lunch")) < 2
