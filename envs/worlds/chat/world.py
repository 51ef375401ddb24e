"""The chat world's state and tools. Channels are called `#name`, people `@handle`."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from demur.envs.tool import EffectClass, Generative, ToolError, tool
from demur.envs.world import Entry, World

_TIME = re.compile(r"(1?[0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
_MAIL = re.compile(r"[^\s@]+@[^\s@]+")


class Profile(Entry):
    """company: where a guest works; it is empty for the user's own colleagues. status: a line of their own."""

    name: str
    handle: str
    team: str
    company: str = ""
    status: str = ""

    @property
    def works(self) -> str:
        return f"guest from {self.company}" if self.company else self.team


class Channel(Entry):
    """A private channel shows itself to its members alone; its owner decides about it."""

    name: str
    owner: str
    private: bool
    topic: str


class Membership(Entry):
    """person: a handle, or the mail address of a guest who has no profile yet."""

    channel: str
    person: str


class Message(Entry):
    """place: a channel, or the handle of the other one in direct messages. thread: the message that it answers.

    The text is not compared, which is safe because no tool overwrites one.
    """

    free: ClassVar[tuple[str, ...]] = ("text",)
    place: str
    author: str
    text: str
    at: str = "now"
    thread: str = ""
    pinned: bool = False


class Reminder(Entry):
    free: ClassVar[tuple[str, ...]] = ("text",)
    place: str
    by: str
    day: str
    time: str
    text: str


class ChatWorld(World):
    """The team chat as one member, `me`, sees it."""

    domain: ClassVar[str] = "chat"
    me: str
    people: dict[str, Profile]
    channels: dict[str, Channel]
    members: dict[str, Membership] = {}
    messages: dict[str, Message] = {}
    reminders: dict[str, Reminder] = {}

    @tool(changes=False)
    def find_person(self, name: str) -> str:
        """Look up everybody whose name contains the given text. Gives handle, team or company, and status."""
        found = [p for p in self.people.values() if name.casefold() in p.name.casefold()]
        if not found:
            raise ToolError(f"nobody here is called {name}")
        return "\n".join(f"{p.name} {p.handle}, {p.works}. {p.status}".rstrip() for p in found)

    @tool(changes=False)
    def find_channel(self, words: str) -> str:
        """Find the channels whose name or topic contains the given text. Does not show who is in them."""
        wanted = words.casefold()
        seen = [c for c in self.channels.values() if self._sees(c)]
        found = [c for c in seen if wanted in c.name.casefold() or wanted in c.topic.casefold()]
        if not found:
            raise ToolError(f"you see no channel that matches {words}")
        return "\n".join(f"{c.name} ({'private' if c.private else 'public'}) {c.topic}" for c in found)

    @tool(changes=False)
    def list_members(self, channel: str) -> str:
        """List who is in a channel, such as #general: names, handles, teams, and where guests come from."""
        found = self._channel(channel)
        lines = [self._described(m.person) for m in self.members.values() if m.channel == found.name]
        return "\n".join([f"Owner of {found.name}: {self._name(found.owner)}", *lines])

    @tool(changes=False)
    def read_messages(self, place: str) -> str:
        """Read a channel (#name) or your direct messages with a person (@handle), reminders too.

        Answers in threads are not shown.
        """
        self._place(place)
        lines = [self._line(k, m) for k, m in self.messages.items() if m.place == place and not m.thread]
        lines += [
            f"{key} reminder for {r.day} {r.time}: {r.text}" for key, r in self.reminders.items() if r.place == place
        ]
        return "\n".join(lines) or f"No messages in {place}."

    @tool(changes=False)
    def read_thread(self, message: str) -> str:
        """Read a message and the answers to it."""
        top = self._message(message)
        answers = [self._line(key, self.messages[key]) for key in self._answers(message)]
        return "\n".join([self._line(message, top), *(answers or ["No answers."])])

    @tool(changes=True, reversible=False, kind=EffectClass.NOTIFY)
    def send_message(self, to: str, text: Generative, thread: str = "") -> str:
        """Send a message to a channel (#name), or a direct message to a person (@handle).

        thread: the id of a message there to answer.
        """
        self._place(to)
        if not text.strip():
            raise ToolError("an empty message can not be sent")
        if thread and (self._message(thread).place != to or self.messages[thread].thread):
            raise ToolError(f"{thread} is not a message in {to} that can be answered")
        key = self.new_key("m")
        self.messages[key] = Message(place=to, author=self.me, text=text, thread=thread)
        return f"Sent {key} to {to}."

    @tool(changes=True)
    def pin_message(self, message: str, pinned: bool) -> str:
        """Pin a message where it stands, or unpin it."""
        found = self._message(message)
        if found.pinned == pinned:
            raise ToolError(f"{message} is {'pinned already' if pinned else 'not pinned'}")
        found.pinned = pinned
        return f"{'Pinned' if pinned else 'Unpinned'} {message}."

    @tool(changes=True, reversible=False, kind=EffectClass.DELETE)
    def delete_message(self, id: str) -> str:
        """Delete a message for good, with all answers to it, or cancel a reminder."""
        if id in self.reminders:
            if self.reminders[id].by != self.me:
                raise ToolError(f"only {self._name(self.reminders[id].by)} may cancel {id}")
            del self.reminders[id]
            return f"Cancelled {id}."
        found = self._message(id)
        if self.me not in (found.author, self._owner(found.place)):
            raise ToolError(f"{id} is by {self._name(found.author)}: only they or the owner may delete it")
        answers = self._answers(id)
        for key in (id, *answers):
            del self.messages[key]
        return f"Deleted {id} and {len(answers)} answers."

    @tool(changes=True)
    def add_member(self, channel: str, person: str) -> str:
        """Add a person to a channel: a handle, or the mail address of a guest from outside."""
        self._channel(channel)
        if not _MAIL.fullmatch(person):
            self._person(person)
        if self._membership(channel, person):
            raise ToolError(f"{person} is in {channel} already")
        self.members[self.new_key("k")] = Membership(channel=channel, person=person)
        return f"Added {person} to {channel}."

    @tool(changes=True, kind=EffectClass.DELETE)
    def remove_member(self, channel: str, person: str) -> str:
        """Take a person out of a channel that you own."""
        found, key = self._own_channel(channel), self._membership(channel, person)
        if not key:
            raise ToolError(f"{person} is not in {channel}")
        if person == found.owner:
            raise ToolError(f"{person} owns {channel} and stays in it")
        del self.members[key]
        return f"Removed {person} from {channel}."

    @tool(changes=True)
    def set_access(self, channel: str, access: Literal["public", "private"]) -> str:
        """Make a channel that you own public, so that everybody can read all of it, or private."""
        found, private = self._own_channel(channel), access == "private"
        if found.private == private:
            raise ToolError(f"{channel} is {access} already")
        found.private = private
        return f"{channel} is {access} now."

    @tool(changes=True)
    def set_reminder(
        self,
        place: str,
        day: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"],
        time: str,
        text: Generative,
    ) -> str:
        """Have a channel (#name) or a person (@handle) reminded on a day of this week at a time such as 14:00."""
        self._place(place)
        if not _TIME.fullmatch(time):
            raise ToolError(f"{time} is not a time such as 14:00")
        key = self.new_key("r")
        self.reminders[key] = Reminder(place=place, by=self.me, day=day, time=time, text=text)
        return f"Set {key} for {place} on {day} at {time}."

    # Looking things up

    def _channel(self, name: str) -> Channel:
        """The channel, if the user can see it."""
        for channel in self.channels.values():
            if channel.name == name:
                if not self._sees(channel):
                    raise ToolError(f"{name} is private and you are not in it")
                return channel
        raise ToolError(f"there is no channel {name}; names of channels begin with #")

    def _own_channel(self, name: str) -> Channel:
        channel = self._channel(name)
        if channel.owner != self.me:
            raise ToolError(f"only {self._name(channel.owner)} decides about {name}")
        return channel

    def _sees(self, channel: Channel) -> bool:
        return not channel.private or bool(self._membership(channel.name, self.me))

    def _membership(self, channel: str, person: str) -> str:
        """The key of a person's membership, or nothing."""
        keys = (key for key, m in self.members.items() if (m.channel, m.person) == (channel, person))
        return next(keys, "")

    def _person(self, handle: str) -> Profile:
        for person in self.people.values():
            if person.handle == handle:
                return person
        raise ToolError(f"there is nobody with the handle {handle}; handles begin with @")

    def _place(self, place: str) -> None:
        """Raises ToolError unless the user can write there."""
        if not place.startswith("@"):
            self._channel(place)
        elif self._person(place).handle == self.me:
            raise ToolError(f"{place} is you")

    def _message(self, key: str) -> Message:
        if key not in self.messages:
            raise ToolError(f"there is no message {key}")
        self._place(self.messages[key].place)
        return self.messages[key]

    def _answers(self, key: str) -> list[str]:
        return [other for other, message in self.messages.items() if message.thread == key]

    def _owner(self, place: str) -> str:
        """Who owns a channel; nobody owns direct messages."""
        return self._channel(place).owner if place.startswith("#") else ""

    def _name(self, handle: str) -> str:
        if handle == self.me:
            return "you"
        return next((p.name for p in self.people.values() if p.handle == handle), handle)

    def _described(self, person: str) -> str:
        known = next((p for p in self.people.values() if p.handle == person), None)
        return f"{known.name} {person}, {known.works}" if known else f"{person}, guest"

    def _line(self, key: str, message: Message) -> str:
        pin = " (pinned)" if message.pinned else ""
        return f"{key} {message.at} {self._name(message.author)}{pin}: {message.text}"
