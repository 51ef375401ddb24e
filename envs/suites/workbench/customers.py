"""The customer relationship management sandbox."""

from __future__ import annotations

from typing import Final

from demur.envs.suites.workbench.state import Cells, State
from demur.envs.suites.workbench.tables import (
    MOST_FOUND,
    append,
    change,
    keys_of,
    matching,
    next_number,
    quoted,
    remove,
    rows,
)

ONE_OF: Final = {
    "status": ("Qualified", "Won", "Lost", "Lead", "Proposal"),
    "product_interest": ("Software", "Hardware", "Services", "Consulting", "Training"),
}
COLUMNS: Final = (
    "customer_id",
    "assigned_to_email",
    "customer_name",
    "customer_email",
    "customer_phone",
    "last_contact_date",
    "product_interest",
    "status",
    "follow_up_by",
    "notes",
)


def search_customers(
    state: State,
    customer_name: str = "",
    customer_email: str = "",
    product_interest: str = "",
    status: str = "",
    assigned_to_email: str = "",
    last_contact_date_min: str = "",
    last_contact_date_max: str = "",
    follow_up_by_min: str = "",
    follow_up_by_max: str = "",
) -> list[Cells] | str:
    patterns = {
        "customer_name": customer_name,
        "customer_email": customer_email,
        "product_interest": product_interest,
        "status": status,
        "assigned_to_email": assigned_to_email,
    }
    ranges = {
        "last_contact_date": (last_contact_date_min, last_contact_date_max),
        "follow_up_by": (follow_up_by_min, follow_up_by_max),
    }
    if not any(patterns.values()) and not any(map(any, ranges.values())):
        return "No search parameters provided. Please provide at least one parameter."
    found = matching(rows(state.customers), patterns)
    return [c for c in found if all(_within(c[column], *ends) for column, ends in ranges.items())][:MOST_FOUND]


def update_customer(state: State, customer_id: str = "", field: str = "", new_value: str = "") -> str:
    if not customer_id or not field or not new_value:
        return "Customer ID, field, or new value not provided."
    if field in ONE_OF and new_value not in ONE_OF[field]:
        return f"{field} not valid. Please choose from: {quoted(ONE_OF[field])}."
    found = keys_of(state.customers, "customer_id", customer_id)
    if not found:
        return "Customer not found."
    if field not in COLUMNS:
        return f"Field not valid. Please choose from: {quoted(COLUMNS)}."
    change(state.customers, found, field, new_value.lower() if field.endswith("_email") else new_value)
    return "Customer updated successfully."


def add_customer(
    state: State,
    customer_name: str = "",
    assigned_to_email: str = "",
    status: str = "",
    customer_email: str | None = None,
    customer_phone: str | None = None,
    last_contact_date: str | None = None,
    product_interest: str | None = None,
    notes: str = "",
    follow_up_by: str | None = None,
) -> str:
    """No value is checked."""
    if not customer_name or not assigned_to_email or not status:
        return "Please provide all required fields: customer_name, assigned_to_email, status."
    customer_id = f"{next_number(state.customers, 'customer_id'):08d}"
    values = (
        customer_id,
        assigned_to_email.lower(),
        customer_name,
        customer_email.lower() if customer_email else customer_email,
        customer_phone,
        last_contact_date,
        product_interest,
        status,
        follow_up_by,
        notes,
    )
    append(state, state.customers, dict(zip(COLUMNS, values, strict=True)))
    return customer_id


def delete_customer(state: State, customer_id: str = "") -> str:
    return remove(state.customers, "Customer", "customer_id", customer_id)


def _within(text: str | None, first: str, last: str) -> bool:
    """Compared as texts, both ends included. No value is in no range."""
    if not first and not last:
        return True
    return text is not None and (not first or text >= first) and (not last or text <= last)
