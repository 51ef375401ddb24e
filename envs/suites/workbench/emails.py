"""The email sandbox."""

from __future__ import annotations

from demur.envs.suites.workbench.state import Cells, State
from demur.envs.suites.workbench.tables import MOST_FOUND, append, field_of, keys_of, moment, next_number, remove, rows


def get_email_information_by_id(state: State, email_id: str = "", field: str = "") -> Cells | str:
    return field_of(state.emails, "Email", "email_id", email_id, field)


def search_emails(state: State, query: str = "", date_min: str = "", date_max: str = "") -> list[Cells] | str:
    words = query.lower().split()
    first, last = (moment(day).date() if day else None for day in (date_min, date_max))
    found = []
    for cells in sorted(rows(state.emails), key=_sent, reverse=True):
        text = f"{cells['subject']} {cells['body']} {cells['sender/recipient']}".lower()
        if not all(word in text for word in words):
            continue
        day = moment(_sent(cells)).date()
        if (first is None or day >= first) and (last is None or day <= last):
            found.append(cells)
    return found[:MOST_FOUND] or "No emails found."


def send_email(state: State, recipient: str = "", subject: str = "", body: str = "") -> str:
    if not recipient or not subject or not body:
        return "Recipient, subject, or body not provided."
    return _send(state, recipient, subject, body) or "Email sent successfully."


def delete_email(state: State, email_id: str = "") -> str:
    return remove(state.emails, "Email", "email_id", email_id)


def forward_email(state: State, email_id: str = "", recipient: str = "") -> str:
    if not email_id or not recipient:
        return "Email ID or recipient not provided."
    email = _email(state, email_id)
    if email is None:
        return "Email not found."
    problem = _send(state, recipient, f"FW: {email['subject']}", email["body"] or "")
    return problem or "Email forwarded successfully."


def reply_email(state: State, email_id: str = "", body: str = "") -> str:
    if not email_id or not body:
        return "Email ID or body not provided."
    email = _email(state, email_id)
    if email is None:
        return "Email not found."
    problem = _send(state, email["sender/recipient"] or "", email["subject"] or "", body)
    return problem or "Email replied successfully."


def _send(state: State, recipient: str, subject: str, body: str) -> str | None:
    """Append an email to the outbox. Returns what is wrong with its recipient, or None."""
    if "@" not in recipient or "." not in recipient:
        return "Invalid recipient email address."
    append(
        state,
        state.emails,
        {
            "email_id": str(next_number(state.emails, "email_id")),  # not padded, unlike all other IDs
            "inbox/outbox": "outbox",
            "sender/recipient": recipient.lower(),
            "subject": subject,
            "sent_datetime": str(state.clock),
            "body": body,
        },
    )
    return None


def _email(state: State, email_id: str) -> Cells | None:
    found = keys_of(state.emails, "email_id", email_id)
    return state.emails[found[0]].cells if found else None


def _sent(cells: Cells) -> str:
    return cells["sent_datetime"] or ""
