"""The sandboxes of WorkBench on small states: results, changes, and what counts as the same state."""

import inspect
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.suites.workbench.state import Row, same_state
from demur.envs.suites.workbench.tools import workbench_tools
from demur.envs.suites.workbench.world import OPERATIONS, WorkBenchWorld, read_call, replay
from demur.envs.tool import ToolError
from demur.envs.trace import ToolCall

ANN, BO = "ann.berg@atlas.com", "bo.lind@atlas.com"


def email(number: int, day: int, subject: str = "Lunch") -> dict[str, str | None]:
    return {
        "email_id": f"{number:08d}",
        "inbox/outbox": "inbox",
        "sender/recipient": ANN,
        "subject": subject,
        "sent_datetime": f"2023-11-{day:02d} 09:00:00",
        "body": "Dear Sam",
    }


def event(number: int, start: str, name: str = "sync up") -> dict[str, str | None]:
    return {
        "event_id": f"{number:08d}",
        "event_name": name,
        "participant_email": BO,
        "event_start": start,
        "duration": "30",
    }


def task(number: int, who: str) -> dict[str, str | None]:
    return {
        "task_id": f"{number:08d}",
        "task_name": "Fix menu",
        "assigned_to_email": who,
        "list_name": "Backlog",
        "due_date": "2023-12-01",
        "board": "Design",
    }


def customer(number: int, last: str | None) -> dict[str, str | None]:
    return {
        "customer_id": f"{number:08d}",
        "assigned_to_email": ANN,
        "customer_name": f"Customer {number}",
        "customer_email": "c@firm",
        "customer_phone": None,
        "last_contact_date": last,
        "product_interest": "Software",
        "status": "Lead",
        "follow_up_by": "2023-12-20",
        "notes": None,
    }


def visit(day: str, seconds: str, source: str, engaged: str) -> Row:
    return Row(
        cells={
            "date_of_visit": day,
            "visitor_id": "0001",
            "page_views": "2",
            "session_duration_seconds": seconds,
            "traffic_source": source,
            "user_engaged": engaged,
        }
    )


def world() -> WorkBenchWorld:
    tables = {
        "emails": [email(n, n) for n in range(1, 8)],
        "events": [event(1, "2023-12-01 09:00:00"), event(2, "2023-12-01 13:00:00", "review (Q4)")],
        "project_tasks": [task(n, who) for n, who in enumerate([ANN, BO] * 4, 1)],
        "customers": [customer(1, "2023-11-01"), customer(2, None), *(customer(n, "2023-11-20") for n in range(3, 9))],
    }
    keyed: dict[str, dict[str, Row]] = {
        name: {f"r{at}{place}": Row(cells=cells) for place, cells in enumerate(rows)}
        for at, (name, rows) in enumerate(tables.items(), 1)
    }
    visits = (
        visit("2023-11-01", "10", "direct", "True"),
        visit("2023-11-01", "15", "referral", "False"),
        visit("2023-11-03", "4", "direct", "False"),
    )
    return WorkBenchWorld(**keyed, visits=visits, directory=(ANN, BO))


def run(world: WorkBenchWorld, tool: str, /, **arguments: Any) -> Any:
    result = world.run(ToolCall(name=tool, arguments=arguments))
    try:
        return json.loads(result) if result[0] in "[{" else result
    except ValueError:
        return result


def test_every_tool_takes_the_parameters_that_it_is_described_with() -> None:
    assert workbench_tools().keys() == OPERATIONS.keys()
    for name, operation in OPERATIONS.items():
        taken = list(inspect.signature(operation).parameters)[1:]
        assert sorted(taken) == sorted(p.name for p in workbench_tools()[name].parameters), name


@pytest.mark.parametrize("name", [name for name, tool in workbench_tools().items() if not tool.changes])
def test_a_tool_that_reads_changes_nothing(name: str) -> None:
    state = world()
    values = {"field": "subject", "query": "sync", "name": "ann", "email_id": "00000001", "status": "Lead"}
    arguments = {p.name: values.get(p.name, "") for p in workbench_tools()[name].parameters}
    state.run(ToolCall(name=name, arguments=arguments))
    assert state == world()


def test_a_search_for_emails_wants_every_word_and_gives_the_newest_five_first() -> None:
    found = run(world(), "email.search_emails", query="LUNCH ann")
    assert [row["email_id"] for row in found] == ["00000007", "00000006", "00000005", "00000004", "00000003"]
    assert run(world(), "email.search_emails", query="lunch dinner") == "No emails found."


def test_dates_of_a_search_for_emails_are_both_included() -> None:
    found = run(world(), "email.search_emails", date_min="2023-11-02", date_max="2023-11-03")
    assert [row["email_id"] for row in found] == ["00000003", "00000002"]
    with pytest.raises(ToolError, match="no date or time"):
        run(world(), "email.search_emails", date_min="last week")


def test_a_sent_email_has_an_id_without_zeros_and_a_recipient_in_small_letters() -> None:
    state = world()
    assert run(state, "email.send_email", recipient="Bo@X.com", subject="Hi", body="Yes") == "Email sent successfully."
    assert list(state.emails.values())[-1].cells == {
        "email_id": "8",
        "inbox/outbox": "outbox",
        "sender/recipient": "bo@x.com",
        "subject": "Hi",
        "sent_datetime": "2023-11-30 00:00:00",
        "body": "Yes",
    }


def test_forwarding_and_replying_send_what_the_email_holds() -> None:
    state = world()
    assert run(state, "email.forward_email", email_id="00000001", recipient=BO) == "Email forwarded successfully."
    assert run(state, "email.reply_email", email_id="00000001", body="Thanks") == "Email replied successfully."
    forwarded, replied = (row.cells for row in list(state.emails.values())[-2:])
    assert (forwarded["subject"], forwarded["body"], forwarded["email_id"]) == ("FW: Lunch", "Dear Sam", "8")
    assert (replied["subject"], replied["sender/recipient"], replied["email_id"]) == ("Lunch", ANN, "9")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("email.get_email_information_by_id", {}, "Email ID not provided."),
        ("email.get_email_information_by_id", {"email_id": "1"}, "Field not provided."),
        ("email.get_email_information_by_id", {"email_id": "1", "field": "body"}, "Email not found."),
        ("email.get_email_information_by_id", {"email_id": "00000001", "field": "sender"}, "Field not found."),
        ("email.send_email", {"recipient": "bo", "subject": "x"}, "Recipient, subject, or body not provided."),
        ("email.send_email", {"recipient": "bo", "subject": "x", "body": "y"}, "Invalid recipient email address."),
        ("email.delete_email", {"email_id": "1"}, "Email not found."),
        ("email.forward_email", {"email_id": "1"}, "Email ID or recipient not provided."),
        ("email.reply_email", {"email_id": "1"}, "Email ID or body not provided."),
        ("calendar.search_events", {"query": "nothing"}, "No events found."),
        ("calendar.create_event", {"event_name": "x"}, "Participant email not provided."),
        ("calendar.update_event", {"event_id": "1"}, "Event ID, field, or new value not provided."),
        ("calendar.delete_event", {}, "Event ID not provided."),
        ("analytics.get_visitor_information_by_id", {"visitor_id": "9"}, "Visitor not found."),
        ("analytics.create_plot", {"time_max": "x"}, "Start date not provided."),
        ("analytics.create_plot", {"time_min": "x"}, "End date not provided."),
        ("project_management.search_tasks", {}, "No search parameters provided."),
        ("project_management.create_task", {"task_name": "x"}, "Missing task details."),
        ("project_management.delete_task", {"task_id": "1"}, "Task not found."),
        (
            "project_management.update_task",
            {"task_id": "00000001", "field": "x", "new_value": "y"},
            "Field not valid.",
        ),
        (
            "customer_relationship_manager.search_customers",
            {},
            "No search parameters provided. Please provide at least one parameter.",
        ),
        (
            "customer_relationship_manager.add_customer",
            {"customer_name": "x"},
            "Please provide all required fields: customer_name, assigned_to_email, status.",
        ),
        ("company_directory.find_email_address", {}, "Name not provided."),
    ],
)
def test_what_can_not_be_done_is_said_and_changes_nothing(tool: str, arguments: dict[str, str], said: str) -> None:
    state = world()
    assert run(state, tool, **arguments) == said
    assert state == world()


def test_events_are_found_by_pattern_and_by_their_start() -> None:
    search = "calendar.search_events"
    assert len(run(world(), search, query="SYNC|bo.lind")) == 2
    assert len(run(world(), search, time_min="2023-12-01 10:00:00", time_max="2023-12-01 13:00:00")) == 1
    with pytest.raises(ToolError, match="no regular expression"):
        run(world(), search, query="review (")


def test_a_pattern_that_never_ends_is_stopped() -> None:
    state = world()
    state.events["r20"] = Row(cells=event(9, "2023-12-01 09:00:00", "a" * 80 + "b"))
    with pytest.raises(ToolError, match="took too long"):
        run(state, "calendar.search_events", query="(?:a|aa)+$")


def test_a_new_event_gets_the_next_id_at_the_end_of_the_table() -> None:
    state = world()
    made = run(
        state,
        "calendar.create_event",
        event_name="x",
        participant_email="Bo.Lind@atlas.com",
        event_start="2023-12-01 09:00:00",
        duration=30,
    )
    assert made == "00000003" and list(state.events.values())[-1].cells == {
        **event(3, "2023-12-01 09:00:00", "x"),
        "duration": "30",
    }


def test_an_unknown_field_of_an_event_becomes_a_column() -> None:
    state = world()
    run(state, "calendar.update_event", event_id="00000001", field="room", new_value="A")
    assert [row.cells["room"] for row in state.events.values()] == ["A", None]
    assert not same_state(state, world())


def test_visits_are_counted_by_day_with_zeros_only_for_days_with_visits() -> None:
    assert run(world(), "analytics.total_visits_count") == {"2023-11-01": 2, "2023-11-03": 1}
    assert run(world(), "analytics.engaged_users_count") == {"2023-11-01": 1, "2023-11-03": 0}
    assert run(world(), "analytics.traffic_source_count", traffic_source="referral", time_max="2023-11-02") == {
        "2023-11-01": 1
    }
    assert run(world(), "analytics.get_average_session_duration", time_min="2023-11-01") == {
        "2023-11-01": 12.5,
        "2023-11-03": 4.0,
    }
    assert [v["user_engaged"] for v in run(world(), "analytics.get_visitor_information_by_id", visitor_id="0001")] == [
        True,
        False,
        False,
    ]


def test_a_plot_is_added_under_a_name_that_holds_its_values() -> None:
    state = world()
    values = {"time_min": "a", "time_max": "b", "value_to_plot": "visits_direct", "plot_type": "bar"}
    assert run(state, "analytics.create_plot", **values) == "plots/a_b_visits_direct_bar.png"
    assert "must be one of" in run(state, "analytics.create_plot", **{**values, "plot_type": "pie"})
    assert "must be one of" in run(state, "analytics.create_plot", **{**values, "value_to_plot": "direct"})
    assert len(state.plots) == 1


def test_a_task_goes_to_somebody_who_has_one_on_a_list_and_board_that_exist() -> None:
    state = world()
    values = {**task(1, "ANN.berg@atlas.com"), "due_date": "2023-12-05"}
    del values["task_id"]
    create = "project_management.create_task"
    assert run(state, create, **{**values, "assigned_to_email": "x@y.z"}).startswith("Assignee email not valid.")
    assert run(state, create, **{**values, "list_name": "backlog"}).startswith("List not valid.")
    assert run(state, create, **{**values, "board": "Back End"}).startswith("Board not valid.")
    assert run(state, create, **values) == "00000009"
    assert len(run(state, "project_management.search_tasks", assigned_to_email="ann", task_name="MENU")) == 5


def test_a_search_for_customers_gives_five_and_no_value_is_in_no_range() -> None:
    search = "customer_relationship_manager.search_customers"
    assert len(run(world(), search, status="lead")) == 5
    found = run(world(), search, last_contact_date_max="2023-11-01")
    assert [row["customer_id"] for row in found] == ["00000001"]


def test_a_customer_is_updated_with_known_values_only() -> None:
    state = world()
    update = "customer_relationship_manager.update_customer"
    assert "not valid" in run(state, update, customer_id="00000001", field="status", new_value="won")
    assert "not valid" in run(state, update, customer_id="00000001", field="size", new_value="9")
    assert state == world()
    done = run(state, update, customer_id="00000001", field="assigned_to_email", new_value="BO@x.com")
    assert done == "Customer updated successfully."
    assert next(iter(state.customers.values())).cells["assigned_to_email"] == "bo@x.com"


def test_a_new_customer_lacks_what_was_not_given() -> None:
    state = world()
    add = "customer_relationship_manager.add_customer"
    assert run(state, add, customer_name="N", assigned_to_email=BO, status="Lead") == "00000009"
    added = list(state.customers.values())[-1].cells
    assert (added["notes"], added["customer_phone"]) == ("", None)
    assert run(state, "customer_relationship_manager.delete_customer", customer_id="00000009").endswith("successfully.")
    assert state == world()


def test_unknown_tools_and_parameters_are_errors() -> None:
    with pytest.raises(ToolError, match="no tool"):
        run(world(), "email.burn")
    with pytest.raises(ToolError, match="no parameter 'state'"):
        run(world(), "email.delete_email", state="x")


def test_letter_case_counts_in_the_columns_of_choices_alone() -> None:
    for field, value, same in (("task_name", "fix MENU", True), ("board", "design", False), ("due_date", "x", False)):
        state = world()
        row = state.project_tasks["r30"]
        state.project_tasks["r30"] = Row(cells={**row.cells, field: value})
        assert same_state(state, world()) is same, field


def test_the_order_of_new_rows_counts() -> None:
    one, other = world(), world()
    for state, names in ((one, "ab"), (other, "ba")):
        for name in names:
            run(state, "email.send_email", recipient=ANN, subject=name, body="x")
    assert not same_state(one, other)


def test_recorded_calls_that_can_not_be_read_or_fail_are_skipped() -> None:
    calls = [
        'email.delete_email.func(email_id="00000001")',
        'email.send_email.func(recipient="a@b.c", subject="s", body="he said "no"")',
        'email.delete_email.func(id="00000002")',
        "__import__('os').system('x')",
        'calendar.search_events.func(query="(")',
        'email.send_email.func(recipient="a@b.c", subject="s", body="two\nlines")',
    ]
    state = replay(world(), calls)
    assert len(state.emails) == 7 and list(state.emails.values())[-1].cells["body"] == "two\nlines"


@given(st.text())
def test_any_text_is_a_call_or_none(text: str) -> None:
    call = read_call(text)
    assert call is None or isinstance(call.arguments, dict)


@given(
    st.sampled_from(sorted(OPERATIONS)),
    st.data(),
)
def test_any_arguments_give_a_text_or_a_tool_error_and_leave_the_origin_alone(name: str, data: st.DataObject) -> None:
    origin = world()
    state = origin.copy_state()
    value = st.one_of(st.text(max_size=8), st.none(), st.integers(), st.booleans(), st.lists(st.text(), max_size=2))
    names = [p.name for p in workbench_tools()[name].parameters]
    arguments = data.draw(st.dictionaries(st.sampled_from(names), value))
    with suppress(ToolError):
        assert isinstance(state.run(ToolCall(name=name, arguments=arguments)), str)
    assert origin == world()
