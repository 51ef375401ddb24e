"""Which parameters of a tool are derivable: their values must come from somewhere. The others are free text.

A tool's annotations say it. Where they do not, it is inferred from the documentation, once a tool.
"""

from __future__ import annotations

import asyncio
import re
from typing import Protocol
from weakref import WeakKeyDictionary

from demur.envs.tool import Parameter, Tool

_KEPT = 1024
_FREE_TEXT = frozenset(
    "answer body caption code comment content contents description message note notes post reason remark reply "
    "summary text".split()
)
"""Last words of a parameter's name that say that the model composes it."""


class Parameters(Protocol):
    """Names the derivable parameters of a tool, from its documentation only."""

    async def derivable(self, tool: Tool) -> frozenset[str]: ...


class FromNames:
    """Without a model: a text parameter called `body`, `note` and the like is generative, any other is derivable."""

    async def derivable(self, tool: Tool) -> frozenset[str]:
        return frozenset(p.name for p in tool.parameters if not is_free_text(p))


class FromAnnotations:
    """What the annotations say; `infer` is asked about a tool that leaves a parameter open."""

    def __init__(self, infer: Parameters) -> None:
        self._infer = Once(infer)

    async def derivable(self, tool: Tool) -> frozenset[str]:
        unknown = {p.name for p in tool.parameters if p.source is None}
        if not unknown:
            return tool.derivable
        return (tool.derivable - unknown) | (unknown & await self._infer.derivable(tool))


class Once:
    """Asks another once a tool, also if many calls of it are checked at the same time. A failure is not kept."""

    def __init__(self, infer: Parameters) -> None:
        self._infer = infer
        self._known: dict[Tool, frozenset[str]] = {}
        # a task belongs to the event loop that made it, and a guard serves several
        self._asking: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Tool, asyncio.Task[frozenset[str]]]]
        self._asking = WeakKeyDictionary()

    async def derivable(self, tool: Tool) -> frozenset[str]:
        if tool in self._known:
            return self._known[tool]
        asking = self._asking.setdefault(asyncio.get_running_loop(), {})
        if tool not in asking:
            asking[tool] = asyncio.ensure_future(self._infer.derivable(tool))
            asking[tool].add_done_callback(lambda _: asking.pop(tool, None))
        # one that gives up must not take the answer from the others
        names = await asyncio.shield(asking[tool])
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[tool] = names
        return names


def is_free_text(parameter: Parameter) -> bool:
    """Whether the model composes its value, as far as the name tells."""
    words = re.findall(r"[A-Z]?[a-z]+", parameter.name)
    is_text = parameter.schema.get("type") == "string" and "enum" not in parameter.schema
    return is_text and bool(words) and words[-1].casefold() in _FREE_TEXT
