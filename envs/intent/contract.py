"""The intent contract: which calls serve what the user asked for.

Least privilege: a tool that is not listed is not allowed, and an empty list allows nothing.
"""

from __future__ import annotations

from demur.envs.trace import Record, ToolCall


class AllowedCall(Record):
    """A tool that may be called; `arguments` pins the values of some of its parameters."""

    tool: str
    arguments: dict[str, str | int | float | bool] = {}

    def covers(self, call: ToolCall) -> bool:
        return call.name == self.tool and all(
            call.arguments.get(name) == value for name, value in self.arguments.items()
        )


class IntentContract(Record):
    """The goal in words and the calls that may be made for it."""

    goal: str
    allowed: tuple[AllowedCall, ...] = ()

    def allows(self, call: ToolCall) -> bool:
        return any(rule.covers(call) for rule in self.allowed)
