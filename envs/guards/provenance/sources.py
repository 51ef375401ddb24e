"""The texts that a call may rest on, each with its origin.

    sources = sources_of(context, plugins=[memory])

Text that the agent or a guard wrote is none: a call that did not run, and what was said about it, proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from demur.envs.guards import Context
from demur.envs.guards.provenance.relations import Origin
from demur.envs.tool import Tool
from demur.envs.trace import ToolCall, Turn

_OPEN, _CLOSE = "<tool_response>", "</tool_response>"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """One text. id: `query`, `user:0`, `confirmed:0`, `result:3` (of turn 3), `docs:send_email`, or a plug-in's own.

    turn: 0-based, for results. tool and call: what made a result; tool also names whose documentation it is.
    partial: the agent saw more of it. memo: what deciders worked out of it, kept with it.
    """

    id: str
    origin: Origin
    text: str
    turn: int | None = None
    tool: str | None = None
    call: ToolCall | None = None
    partial: bool = False
    memo: dict[str, Any] = field(default_factory=dict, init=False, repr=False)


Plugin = Callable[[Context], Iterable[Source]]
"""More sources, such as the system prompt, a memory or documents, with ids of their own."""


def sources_of(context: Context, plugins: Sequence[Plugin] = (), *, trusted: Collection[str] = ()) -> list[Source]:
    """All sources: the query, what the user said and confirmed, plug-ins', results oldest first, documentation.

    trusted: tools whose results hold only the system's own content; of any other it is assumed that somebody else
    may have written it. Raises ValueError if two sources have one id, since evidence could not be told apart.
    """
    more = [source for plugin in plugins for source in plugin(context)]
    sources = [*_from_user(context), *more, *_results(context, trusted), *map(_docs, context.tools.values())]
    known: set[str] = set()
    for source in sources:
        if source.id in known:
            raise ValueError(f"two sources are called {source.id!r}: give the plug-in's an id of its own")
        known.add(source.id)
    return sources


def _from_user(context: Context) -> Iterator[Source]:
    yield Source(id="query", origin=Origin.USER, text=context.query)
    for number, said in enumerate(context.user_said):
        yield Source(id=f"user:{number}", origin=Origin.USER, text=said)
    for number, call in enumerate(context.confirmed):
        yield Source(id=f"confirmed:{number}", origin=Origin.USER, text=_agreed(call, context), tool=call.name)


def _agreed(call: ToolCall, context: Context) -> str:
    """The confirmed values. Free text is left out: agreeing to send it makes no statement in it the user's own."""
    tool = context.tools.get(call.name)
    kept = {} if tool is None else {k: v for k, v in call.arguments.items() if k in tool.derivable}
    return json.dumps({"name": call.name, "arguments": kept}, ensure_ascii=False)


def _results(context: Context, trusted: Collection[str]) -> Iterator[Source]:
    for number, turn in enumerate(context.history):
        call = turn.action.call
        if turn.executed and turn.observation is not None and call is not None:
            origin = Origin.TRUSTED if call.name in trusted else Origin.UNTRUSTED
            yield _RESULTS.of(turn, number, origin, number in context.partial)


class _Kept:
    """The sources of turns: a session's turns are the same at each of its checks, and so is what they hold."""

    def __init__(self, most: int) -> None:
        self._most, self._size = most, 0
        self._sources: dict[tuple[int, int, Origin, bool], tuple[Turn, Source]] = {}

    def of(self, turn: Turn, number: int, origin: Origin, partial: bool) -> Source:
        key = id(turn), number, origin, partial
        known = self._sources.get(key)
        if known is not None and known[0] is turn:
            return known[1]
        source = _result(turn, number, origin, partial)
        if self._size + len(source.text) > self._most:
            self._sources, self._size = {}, 0
        self._sources[key] = turn, source
        self._size += len(source.text)
        return source


_RESULTS: Final = _Kept(20_000_000)
"""Characters."""


def _result(turn: Turn, number: int, origin: Origin, partial: bool) -> Source:
    call = turn.action.call
    assert turn.observation is not None and call is not None, "it ran"
    text = turn.observation.removeprefix(_OPEN).removesuffix(_CLOSE)
    return Source(
        id=f"result:{number}", origin=origin, text=text, turn=number, tool=call.name, call=call, partial=partial
    )


@lru_cache(maxsize=1024)
def _docs(tool: Tool) -> Source:
    text = json.dumps(told(tool), ensure_ascii=False)
    return Source(id=f"docs:{tool.name}", origin=Origin.DOCS, text=text, tool=tool.name)


def told(tool: Tool) -> dict[str, object]:
    """A tool's documentation as data: name, description and parameters, as a policy sees it."""
    described: dict[str, object] = tool.schema()["function"]
    return described
