"""Arguments in each other's place, and values of another kind than their parameter takes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards.provenance.code.exchange import exchanged, misplaced, of_another_kind
from demur.envs.tool import Tool
from demur.envs.trace import ToolCall
from tests.envs.guards.provenance.code.desk import TOOLS, UNITS, asked, context, found, megabyte, runs, seconds
from tests.envs.guards.provenance.scripted import parameter
from tests.envs.helpers import call

QUERY = "Stop sharing the insurance file with Jonas"
SEEN = (
    found('[{"user": "jonas.moreau", "role": "designer"}]', "find_user", name="Jonas"),
    found('[{"path": "client/insurance"}]', "search_files", words="insurance"),
)
RIGHT = call("stop_sharing", path="client/insurance", user="jonas.moreau")
WRONG = call("stop_sharing", path="jonas.moreau", user="client/insurance")


def test_two_values_that_fit_better_the_other_way_round_are_named() -> None:
    assert exchanged(*asked(context(QUERY, *SEEN), WRONG)) == ("path", "user")
    assert exchanged(*asked(context(QUERY, *SEEN), RIGHT)) is None


def test_exchanged_arguments_are_stopped_and_the_right_ones_run() -> None:
    assert not runs(QUERY, WRONG, *SEEN)
    assert runs(QUERY, RIGHT, *SEEN)


@pytest.mark.parametrize(
    ("query", "proposed"),
    [
        ("Rename a.txt to b.txt", call("rename_file", path="a.txt", new_name="b.txt")),
        ("Rename notes/a.txt to report.txt", call("rename_file", path="notes/a.txt", new_name="report.txt")),
        ("Mail ann@x.example, subject: Ann Berg", call("send_mail", to="ann@x.example", subject="Ann Berg", text="x")),
        ("Mail ann@x.example the subject a.txt", call("send_mail", to="ann@x.example", subject="a.txt", text="x")),
    ],
)
def test_values_that_the_user_put_in_order_stay_there(query: str, proposed: ToolCall) -> None:
    assert runs(query, proposed)


def test_the_subject_for_the_address_is_stopped() -> None:
    mail = call("send_mail", to="Lunch", subject="ann@x.example", text="x")
    assert not runs("Mail ann@x.example about Lunch", mail)


@pytest.mark.parametrize(
    ("start", "fits"),
    [
        ("2024-05-16 10:00", True),
        ("tomorrow", True),
        ("noon", True),
        ("10am", True),
        ("明天", True),
        ("Room East", False),
    ],
)
def test_a_time_takes_a_day_or_a_time(start: str, fits: bool) -> None:
    query = f"Create an event 'Gym' on 2024-05-16 at 10:00, {start}, in Room East"
    reason = of_another_kind(*asked(context(query), call("create_event", title="Gym", start_time=start)))
    assert (reason is None) is fits


def test_an_address_that_is_given_for_two_things_is_named() -> None:
    mail = call("send_mail", to="ann@x.example", subject="ann@x.example", text="x")
    assert "subject" in (of_another_kind(*asked(context("Mail Ann"), mail)) or "")


def test_a_record_of_another_look_up_is_of_another_kind() -> None:
    users = found('[{"user": "u17", "name": "Jonas"}]', "find_user", name="Jonas")
    orders = found('[{"order_id": "o77", "customer": "Jonas"}]', "find_orders", customer="Jonas")
    wrong, right = (call("refund_order", order_id=one, amount=16) for one in ("u17", "o77"))
    assert of_another_kind(*asked(context("Refund the order", users, orders), wrong)) is not None
    assert of_another_kind(*asked(context("Refund the order", users, orders), right)) is None


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.text(max_size=30), st.text(max_size=30))
def test_any_values_can_be_compared(seen: str, one: str, other: str) -> None:
    known = context("Stop sharing", found(seen, "find_user", name="Jonas"))
    misplaced(*asked(known, call("stop_sharing", path=one, user=other)))
    misplaced(*asked(known, call("create_event", title=one, start_time=other)))


@pytest.mark.parametrize("unit", UNITS)
def test_a_result_of_a_megabyte_is_compared_in_bounded_time(unit: str) -> None:
    long = found(f"jonas.moreau client/insurance {megabyte(unit)}", "find_user", name="Jonas")
    assert seconds(context(QUERY, long, *SEEN), WRONG) < 5


def test_a_call_with_very_many_arguments_is_compared_in_bounded_time() -> None:
    names = [f"p{n}" for n in range(400)]
    wide = Tool(name="wide", description="Do it.", parameters=tuple(map(parameter, names)), changes=True)
    proposed = ToolCall(name="wide", arguments={name: f"client/v{n}" for n, name in enumerate(names)})
    known = context(" ".join(map(str, proposed.arguments.values())), *SEEN * 10, tools=TOOLS | {"wide": wide})
    assert seconds(known, proposed) < 10
