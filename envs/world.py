"""Worlds: a seeded state with tools, and what changed between two states.

A world is a pydantic model. Its fields are the state, its marked methods the tools::

    class Bank(World):
        balance: float
        payments: dict[str, Payment] = {}

        @tool(changes=True, reversible=False)
        def transfer(self, to: str, amount: float) -> str: ...

One instance is one state; an episode works on a deep copy. `effects` compares two states record by
record, so that goals, harm and damage are facts of the state and not of the words used to get there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, PrivateAttr

from demur.envs.tool import Tool, ToolError, tools_of
from demur.envs.trace import ToolCall

Effect = str
"""One change of a state, spelled so that equal changes are equal texts."""


RATE_LIMIT = "rate limit reached, try again"


class Entry(BaseModel):
    """One record of a state. Fields named in `free` are generative: `effects` does not compare them."""

    model_config = ConfigDict(extra="forbid")
    free: ClassVar[tuple[str, ...]] = ()


class World(BaseModel):
    """Base of all worlds."""

    model_config = ConfigDict(extra="forbid")
    domain: ClassVar[str]
    briefing: ClassVar[str] = ""
    """What a policy is told of the world besides its tools, such as the date."""
    clock: ClassVar[datetime | None] = None
    """The world's time, where it has one."""
    waits: ClassVar[bool] = False
    """A call takes its time, such as that of a model: an engine must not hold up other episodes for it."""
    busy: tuple[str, ...] = ()
    """Tools that are rate limited: the first call of each fails."""
    _last_key: int = PrivateAttr(default=0)
    _tried: set[str] = PrivateAttr(default_factory=set)
    _shown_as: dict[str, str] | None = PrivateAttr(default=None)

    @classmethod
    @cache
    def tools(cls) -> dict[str, Tool]:
        """All tools of the world, by name."""
        return tools_of(cls)

    def offer(self, shown_as: Mapping[str, str]) -> None:
        """Offer these tools only, in this order: the name a policy sees, and the tool behind it."""
        self._shown_as = dict(shown_as)

    def shown_as(self) -> dict[str, str] | None:
        """What `offer` was told; None if all tools are on offer under their own names."""
        return self._shown_as

    def offered(self) -> dict[str, Tool]:
        """The tools on offer, by the names a policy sees; all of them unless `offer` said otherwise."""
        if self._shown_as is None:
            return self.tools()
        return {shown: replace(self.tools()[name], name=shown) for shown, name in self._shown_as.items()}

    def run(self, call: ToolCall) -> str:
        """Carry out a call and return its result.

        Raises ToolError, with a sentence for the policy, if the call does not fit or cannot be done.
        """
        name = call.name if self._shown_as is None else self._shown_as.get(call.name, "")
        tool = self.tools().get(name)
        if tool is None:
            raise ToolError(f"there is no tool {call.name!r}")
        if fault := tool.fault(call.arguments):
            raise ToolError(fault)
        if name in self.busy and name not in self._tried:
            self._tried.add(name)
            raise ToolError(RATE_LIMIT)
        result: str = getattr(self, name)(**call.arguments)
        return result

    def next_message(self) -> str | None:
        """What the user says once the policy has answered, or asked what no fact answers; None if nothing more."""
        return None

    def new_key(self, letter: str) -> str:
        """A key for a new record, such as `e7`, that no record of this state has or had."""
        self._last_key = (self._last_key or self._highest_key()) + 1
        return f"{letter}{self._last_key}"

    def __eq__(self, other: object) -> bool:
        """Equal states hold equal records; which keys were used up does not count."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def copy_state(self) -> World:
        """A deep copy to play on. Record keys are a letter and a number; new ones count on from the highest."""
        copy = self.model_copy()
        for name in type(self).model_fields:
            copy.__dict__[name] = _copied(getattr(self, name))
        copy._tried, copy._last_key = set(), self._highest_key()
        return copy

    def _highest_key(self) -> int:
        records = (value for name in type(self).model_fields if isinstance(value := getattr(self, name), dict))
        return max((int(key[1:]) for record in records for key in record if key[1:].isdecimal()), default=0)


def _copied(value: Any) -> Any:
    """A deep copy of state; several times faster than `copy.deepcopy`, which episodes would feel."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list | set):
        return type(value)(map(_copied, value))
    if isinstance(value, BaseModel):
        copy = value.model_copy()
        for name, item in copy.__dict__.items():
            if isinstance(item, dict | list | set | BaseModel):
                copy.__dict__[name] = _copied(item)
        return copy
    return value


def effects(before: World, after: World) -> Counter[Effect]:
    """The changes from one state to another: records added, removed and altered, plain fields set.

    The key of an added record does not count (it depends on the order of creation), nor do free fields.
    """
    found: Counter[Effect] = Counter()
    for field in type(before).model_fields:
        old, new = getattr(before, field), getattr(after, field)
        if old == new:
            continue
        if isinstance(old, dict):
            found.update(_record_effects(field, old, new))
        else:
            found[f"{field} = {new!r}"] += 1
    return found


def new_texts(before: World, after: World) -> list[str]:
    """The free texts in records that were added or altered: what left through a world's tools."""
    texts = []
    for field in type(before).model_fields:
        old, new = getattr(before, field), getattr(after, field)
        if isinstance(old, dict):
            changed = (entry for key, entry in new.items() if old.get(key) != entry)
            texts += [str(getattr(entry, name)) for entry in changed for name in entry.free]
    return texts


def short_texts(world: World) -> set[str]:
    """The texts of up to four words in a state: names, ids, titles, amounts."""
    records = (value for field in type(world).model_fields if isinstance(value := getattr(world, field), dict))
    entries = (entry for record in records for entry in record.values())
    values = (str(getattr(entry, field)) for entry in entries for field in type(entry).model_fields)
    return {value for value in values if value and value.count(" ") < 4}


def _record_effects(field: str, old: dict[str, Entry], new: dict[str, Entry]) -> Counter[Effect]:
    found: Counter[Effect] = Counter()
    for key in old.keys() - new.keys():
        found[f"{field} - {key}"] += 1
    for key in new.keys() - old.keys():
        found[f"{field} + {_spell(new[key])}"] += 1
    for key in old.keys() & new.keys():
        if old[key] is new[key]:
            continue
        was, now = _compared(old[key]), _compared(new[key])
        for name in was:
            if was[name] != now[name]:
                found[f"{field} {key}.{name} = {now[name]!r}"] += 1
    return found


def _compared(entry: Entry) -> dict[str, Any]:
    return {name: getattr(entry, name) for name in type(entry).model_fields if name not in entry.free}


def _spell(entry: Entry) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in _compared(entry).items())
