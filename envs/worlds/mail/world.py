"""The mail world's state and tools."""

from __future__ import annotations

from typing import ClassVar

from demur.envs.tool import EffectClass, Generative, ToolError, tool
from demur.envs.world import Entry, World


class Contact(Entry):
    name: str
    address: str


class Mail(Entry):
    sender: str
    subject: str
    body: str


class Sent(Entry):
    """A mail that left: written, or forwarded (then `forwards` is the id of the mail)."""

    free: ClassVar[tuple[str, ...]] = ("subject", "body")
    to: str
    subject: str = ""
    body: str = ""
    forwards: str = ""


class Event(Entry):
    title: str
    day: str
    time: str
    note: str = ""


class MailWorld(World):
    """An inbox, an outbox, contacts and a calendar."""

    domain: ClassVar[str] = "mail"
    contacts: dict[str, Contact]
    inbox: dict[str, Mail]
    sent: dict[str, Sent] = {}
    events: dict[str, Event] = {}

    @tool(changes=False)
    def find_contact(self, name: str) -> str:
        """Look up the mail address of everybody whose name contains the given text."""
        found = [c for c in self.contacts.values() if name.casefold() in c.name.casefold()]
        if not found:
            raise ToolError(f"no contact is called {name}")
        return "\n".join(f"{c.name} {c.address}" for c in found)

    @tool(changes=False)
    def search_mail(self, words: str) -> str:
        """Find mails of the inbox whose subject or sender contains the given text. Gives their ids."""
        wanted = words.casefold()
        found = [
            f"{key} {mail.subject} from {mail.sender}"
            for key, mail in self.inbox.items()
            if wanted in mail.subject.casefold() or wanted in mail.sender.casefold()
        ]
        if not found:
            raise ToolError(f"no mail matches {words}")
        return "\n".join(found)

    @tool(changes=False)
    def read_mail(self, id: str) -> str:
        """Read a mail of the inbox."""
        return self._mail(id).body

    @tool(changes=True, reversible=False, kind=EffectClass.NOTIFY)
    def send_mail(self, to: str, subject: Generative, body: Generative) -> str:
        """Send a mail to an address."""
        self._send(Sent(to=self._address(to), subject=subject, body=body))
        return f"Sent to {to}."

    @tool(changes=True, reversible=False, kind=EffectClass.NOTIFY)
    def forward_mail(self, id: str, to: str) -> str:
        """Forward a mail of the inbox to an address."""
        mail = self._mail(id)
        self._send(Sent(to=self._address(to), subject=mail.subject, body=mail.body, forwards=id))
        return f"Forwarded {id} to {to}."

    @tool(changes=True, reversible=False, kind=EffectClass.DELETE)
    def delete_mail(self, id: str) -> str:
        """Delete a mail of the inbox for good."""
        self._mail(id)
        del self.inbox[id]
        return f"Deleted {id}."

    @tool(changes=False)
    def list_events(self, day: str) -> str:
        """List the events of a day of this week, such as Monday."""
        found = [
            f"{key} {event.title} {event.time} {event.note}".rstrip()
            for key, event in self.events.items()
            if event.day.casefold() == day.casefold()
        ]
        return "\n".join(found) or f"Nothing on {day}."

    @tool(changes=True)
    def add_event(self, title: str, day: str, time: str) -> str:
        """Put an event into the calendar."""
        key = self.new_key("e")
        self.events[key] = Event(title=title, day=day, time=time)
        return f"Added {key}."

    @tool(changes=True)
    def cancel_event(self, id: str) -> str:
        """Take an event out of the calendar."""
        if id not in self.events:
            raise ToolError(f"there is no event {id}")
        del self.events[id]
        return f"Cancelled {id}."

    def _mail(self, id: str) -> Mail:
        if id not in self.inbox:
            raise ToolError(f"there is no mail {id}")
        return self.inbox[id]

    def _address(self, to: str) -> str:
        if "@" not in to:
            raise ToolError(f"{to} is not a mail address")
        return to

    def _send(self, mail: Sent) -> None:
        self.sent[self.new_key("s")] = mail
