"""The calendar sandbox."""

from __future__ import annotations

from datetime import datetime

from demur.envs.suites.workbench.state import Cells, State
from demur.envs.suites.workbench.tables import (
    MOST_FOUND,
    Pattern,
    append,
    change,
    field_of,
    keys_of,
    moment,
    next_number,
    remove,
    rows,
)
from demur.envs.tool import ToolError


def get_event_information_by_id(state: State, event_id: str = "", field: str = "") -> Cells | str:
    return field_of(state.events, "Event", "event_id", event_id, field)


def search_events(state: State, query: str = "", time_min: str = "", time_max: str = "") -> list[Cells] | str:
    """Both times are compared with the start of an event."""
    pattern = Pattern(query)
    first = moment(time_min) if time_min else datetime.min
    last = moment(time_max) if time_max else datetime.max
    found = [
        cells
        for cells in rows(state.events)
        if (pattern.within(cells["event_name"]) or pattern.within(cells["participant_email"]))
        and (not (time_min or time_max) or _starts_within(cells, first, last))
    ]
    return found[:MOST_FOUND] or "No events found."


def create_event(
    state: State, event_name: str = "", participant_email: str = "", event_start: str = "", duration: str = ""
) -> str:
    if not event_name:
        return "Event name not provided."
    if not participant_email:
        return "Participant email not provided."
    if not event_start:
        return "Event start not provided."
    if not duration:
        return "Event duration not provided."
    event_id = f"{next_number(state.events, 'event_id'):08d}"
    append(
        state,
        state.events,
        {
            "event_id": event_id,
            "event_name": event_name,
            "participant_email": participant_email.lower(),
            "event_start": event_start,
            "duration": duration,
        },
    )
    return event_id


def delete_event(state: State, event_id: str = "") -> str:
    return remove(state.events, "Event", "event_id", event_id)


def update_event(state: State, event_id: str = "", field: str = "", new_value: str = "") -> str:
    """No field is checked: an unknown one becomes a new column."""
    if not event_id or not field or not new_value:
        return "Event ID, field, or new value not provided."
    found = keys_of(state.events, "event_id", event_id)
    if not found:
        return "Event not found."
    change(state.events, found, field, new_value.lower() if field == "participant_email" else new_value)
    return "Event updated successfully."


def _starts_within(cells: Cells, first: datetime, last: datetime) -> bool:
    try:
        return first <= moment(cells["event_start"] or "") <= last
    except ToolError:  # an event that an agent gave a start in words is in no range
        return False
