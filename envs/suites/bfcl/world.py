"""A conversation as a world: the backends' tools, and a user who speaks again when the policy has answered."""

from __future__ import annotations

import json
from typing import ClassVar, Final

from pydantic import PrivateAttr

from demur.envs.suites.bfcl.backends import Backends
from demur.envs.suites.bfcl.entries import Entry
from demur.envs.tool import Tool
from demur.envs.trace import ToolCall
from demur.envs.world import World

MORE_TOOLS: Final = "I have updated some more functions you can choose from. What about now?"
"""What the benchmark says, behind the tools' schemas, where tools are added."""


class BFCLWorld(World):
    """made: what was called so far, by the user's turn; what failed is among it."""

    domain: ClassVar[str] = "bfcl"
    briefing: ClassVar[str] = (
        "The user may have more to say after each answer. Once you have done what the user asked last, as far as your "
        "tools allow, answer. If none of your tools can do it, say so."
    )
    _entry: Entry = PrivateAttr()
    _backends: Backends | None = PrivateAttr(default=None)
    _made: list[list[ToolCall]] = PrivateAttr()

    @classmethod
    def of(cls, entry: Entry) -> BFCLWorld:
        world = cls()
        world._entry, world._made = entry, [[]]
        return world

    @property
    def entry(self) -> Entry:
        return self._entry

    @property
    def made(self) -> tuple[tuple[ToolCall, ...], ...]:
        return tuple(map(tuple, self._made))

    @property
    def turn(self) -> int:
        """Which of the user's messages is worked on, 0-based."""
        return len(self._made) - 1

    @property
    def backends(self) -> Backends:
        """Started when they are first needed: some hold a lot.

        Raises ValueError, with what to install, if the package is not there.
        """
        if self._backends is None:
            self._backends = Backends(self._entry)
        return self._backends

    def offered(self) -> dict[str, Tool]:
        return self._entry.tools_at(self.turn)

    def run(self, call: ToolCall) -> str:
        """A tool that is not on offer yet runs all the same, as upstream: one ground truth has such a call."""
        self._made[-1].append(call)
        return self.backends.run(call)

    def next_message(self) -> str | None:
        if self.turn + 1 == len(self._entry.messages):
            return None
        self._made.append([])
        return self._said()

    def _said(self) -> str:
        added = [self._entry.tools[name] for name, turn in self._entry.later.items() if turn == self.turn]
        schemas = [json.dumps(tool.schema(), ensure_ascii=False) for tool in added]
        message = self._entry.messages[self.turn]
        return "\n".join([*schemas, message or MORE_TOOLS])

    def copy_state(self) -> World:
        other = self.of(self._entry)
        other._made = [list(calls) for calls in self._made]
        other._backends = self._backends and self._backends.copied()
        return other
