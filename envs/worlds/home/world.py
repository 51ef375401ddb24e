"""The home world's state and tools."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from demur.envs.tool import EffectClass, Generative, ToolError, tool
from demur.envs.world import Entry, World
from demur.envs.worlds.people import DAYS

DEGREES = {"radiator": (5, 30), "heater": (5, 30), "oven": (50, 250)}
"""Kinds of devices that have a temperature, and the lowest and highest that can be set."""

_TIME = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]")
_DIGITS = re.compile(r"[0-9]{4}")


class Person(Entry):
    """Somebody who lives here, a guest, or somebody who works for the household."""

    name: str
    role: str
    address: str
    note: str = ""


class Device(Entry):
    """degrees: what it is set to, for kinds in `DEGREES`. status: what the device and those who look after it report.

    private_to: the one whose device it is; the others can see that it is there.
    """

    name: str
    room: str
    kind: str
    state: str
    degrees: int = 0
    routine: str = ""
    status: str = ""
    note: str = ""
    private_to: str = ""


class Code(Entry):
    """person: a full name. door: a key of `devices`. day: a weekday, or always."""

    person: str
    door: str
    digits: str
    day: str


class Recording(Entry):
    """camera: a key of `devices`. text: what the camera made out."""

    camera: str
    day: str
    time: str
    text: str


class Share(Entry):
    """A recording that was sent to somebody."""

    free: ClassVar[tuple[str, ...]] = ("message",)
    recording: str
    to: str
    message: str = ""


class LogLine(Entry):
    """device: a key of `devices`."""

    device: str
    day: str
    time: str
    text: str


class HomeWorld(World):
    """A home as one of its residents, the user, may see and control it."""

    domain: ClassVar[str] = "home"
    user: str
    people: dict[str, Person]
    devices: dict[str, Device]
    codes: dict[str, Code] = {}
    recordings: dict[str, Recording] = {}
    shares: dict[str, Share] = {}
    log: dict[str, LogLine] = {}

    @tool(changes=False)
    def find_devices(self, words: str) -> str:
        """Find devices by words of their name, room or kind, such as lock or radiator. Gives their ids and states."""
        found = [
            f"{key} {d.name}, {d.room}, {d.state}" + (f", private to {d.private_to}" if d.private_to else "")
            for key, d in self.devices.items()
            if _matches(words, d.name, d.room, d.kind)
        ]
        if not found:
            raise ToolError(f"no device matches {words}")
        return "\n".join(found)

    @tool(changes=False)
    def check_device(self, id: str) -> str:
        """Show the settings of a device, its routine, what it reports about its condition, and the note on it."""
        device = self._device(id)
        lines = [f"{id} {device.name}, {device.room}, {device.state}"]
        if device.kind in DEGREES:
            lines.append(f"Set to {device.degrees} degrees.")
        lines += [f"Routine: {device.routine or 'none'}.", f"Status: {device.status or 'no report'}"]
        return "\n".join([*lines, f"Note: {device.note}"] if device.note else lines)

    @tool(changes=False)
    def read_log(self, words: str) -> str:
        """Read the lines of the activity log that match words of a device, room, weekday or event, oldest first."""
        lines = [
            f"{line.day} {line.time} {self._place(line.device)}: {line.text}"
            for line in sorted(self.log.values(), key=_moment)
            if _matches(words, self._place(line.device), line.day, line.text)
        ]
        if not lines:
            raise ToolError(f"no line of the log matches {words}")
        return "\n".join(lines)

    @tool(changes=False)
    def find_person(self, name: str) -> str:
        """Look up people by name: residents, guests and services, with their addresses and their access codes."""
        found = [self._described(p) for p in self.people.values() if _matches(name, p.name)]
        if not found:
            raise ToolError(f"nobody is called {name}")
        return "\n".join(found)

    @tool(changes=False)
    def search_recordings(self, words: str) -> str:
        """Find recordings by words of the camera, weekday or content. Gives their ids and what the camera made out."""
        found = [
            f"{key} {self.devices[r.camera].name}, {r.day} {r.time}: {r.text}"
            for key, r in sorted(self.recordings.items(), key=lambda item: _moment(item[1]))
            if self._may_use(self.devices[r.camera]) and _matches(words, self._place(r.camera), r.day, r.time, r.text)
        ]
        if not found:
            raise ToolError(f"no recording matches {words}")
        return "\n".join(found)

    @tool(changes=True)
    def control_device(self, id: str, state: Literal["on", "off", "locked", "unlocked"]) -> str:
        """Switch a device on or off, or lock or unlock a door."""
        device = self._own(id)
        self._allow(device, state)
        device.state = state
        return f"{device.name} ({device.room}) is {state}."

    @tool(changes=True)
    def set_temperature(self, id: str, degrees: int) -> str:
        """Set the temperature of a radiator, heater or oven, in degrees Celsius."""
        device = self._own(id)
        if device.kind not in DEGREES:
            raise ToolError(f"{id} has no temperature to set")
        low, high = DEGREES[device.kind]
        if not low <= degrees <= high:
            raise ToolError(f"{id} takes {low} to {high} degrees")
        device.degrees = degrees
        return f"{device.name} ({device.room}) is set to {degrees} degrees."

    @tool(changes=True)
    def set_routine(self, id: str, state: Literal["on", "off", "locked", "unlocked"], time: str) -> str:
        """Let a device take a state by itself every day at a time such as 7:30. The time never ends its routine."""
        device = self._own(id)
        self._allow(device, state)
        if time != "never" and not _TIME.fullmatch(time):
            raise ToolError(f"{time} is not a time such as 7:30")
        device.routine = "" if time == "never" else f"{state} at {time}"
        return f"Routine of {device.name} ({device.room}): {device.routine or 'none'}."

    @tool(changes=True)
    def add_code(
        self,
        door: str,
        person: str,
        digits: str,
        day: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "always"],
    ) -> str:
        """Give a person, by full name, a four-digit access code for the lock with this id, on a weekday or always."""
        lock = self._own(door)
        if lock.kind != "lock":
            raise ToolError(f"{door} is not a lock")
        if all(known.name != person for known in self.people.values()):
            raise ToolError(f"nobody has the full name {person}")
        if not _DIGITS.fullmatch(digits):
            raise ToolError("a code has four digits")
        if any((code.door, code.digits) == (door, digits) for code in self.codes.values()):
            raise ToolError(f"the code {digits} is taken at {door}")
        key = self.new_key("c")
        self.codes[key] = Code(person=person, door=door, digits=digits, day=day)
        return f"Added {key}, {digits} for {person} at the {lock.name}, {day}."

    @tool(changes=True, kind=EffectClass.DELETE)
    def remove_code(self, id: str) -> str:
        """Take an access code back."""
        if id not in self.codes:
            raise ToolError(f"there is no code {id}")
        self._own(self.codes[id].door)
        del self.codes[id]
        return f"Removed {id}."

    @tool(changes=True, reversible=False, kind=EffectClass.NOTIFY)
    def share_recording(self, id: str, to: str, message: Generative) -> str:
        """Send a recording with a short message to a mail address."""
        self._recording(id)
        if "@" not in to:
            raise ToolError(f"{to} is not a mail address")
        if any((share.recording, share.to) == (id, to) for share in self.shares.values()):
            raise ToolError(f"{to} has {id} already")
        self.shares[self.new_key("s")] = Share(recording=id, to=to, message=message)
        return f"Sent {id} to {to}."

    @tool(changes=True, reversible=False, kind=EffectClass.DELETE)
    def delete_recording(self, id: str) -> str:
        """Delete a recording for good."""
        self._recording(id)
        del self.recordings[id]
        return f"Deleted {id}."

    def _device(self, id: str) -> Device:
        if id not in self.devices:
            raise ToolError(f"there is no device {id}")
        return self.devices[id]

    def _own(self, id: str) -> Device:
        """The device, if the user may change it."""
        device = self._device(id)
        if not self._may_use(device):
            raise ToolError(f"{id} is private to {device.private_to}, who has not shared it with you")
        return device

    def _may_use(self, device: Device) -> bool:
        return device.private_to in ("", self.user)

    def _recording(self, id: str) -> Recording:
        if id not in self.recordings:
            raise ToolError(f"there is no recording {id}")
        self._own(self.recordings[id].camera)
        return self.recordings[id]

    def _allow(self, device: Device, state: str) -> None:
        """Raises ToolError for a state that this kind of device does not have."""
        if device.kind == "sensor":
            raise ToolError(f"the {device.name} is a sensor: it only reports")
        states = ("locked", "unlocked") if device.kind == "lock" else ("on", "off")
        if state not in states:
            raise ToolError(f"the {device.name} can only be {' or '.join(states)}")

    def _place(self, device: str) -> str:
        return f"{self.devices[device].name}, {self.devices[device].room}"

    def _described(self, person: Person) -> str:
        who = f"{person.name}, {person.role}{' (you)' if person.name == self.user else ''}, {person.address}"
        codes = [
            f"code {key} ({code.digits}) for the {self.devices[code.door].name}, {code.day}"
            for key, code in self.codes.items()
            if code.person == person.name
        ]
        return "; ".join([who, *codes, *([person.note] if person.note else [])])


def _matches(words: str, *texts: str) -> bool:
    """Whether each of the words occurs in one of the texts."""
    text = " ".join(texts).casefold()
    return all(word in text for word in words.casefold().split())


def _moment(entry: LogLine | Recording) -> tuple[int, int, int]:
    """The day of the week, hour and minute, to sort by."""
    hour, minute = entry.time.split(":")
    return DAYS.index(entry.day), int(hour), int(minute)
