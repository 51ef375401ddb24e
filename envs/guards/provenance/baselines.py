"""What a provenance guard has to beat: two prompts of one call each, a tool allow-list, and verbatim match.

Like the provenance guard, all of them check the calls that change something, and an unknown tool is blocked. The
prompts have the published structure of DirectPrompt and ProvePrompt (arXiv 2607.01236); their wording is ours.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, Final, Literal

from demur.envs.guards import Context
from demur.envs.guards.provenance.models import Asker, Model, Quote, prompt_text, shown_sources
from demur.envs.guards.provenance.sources import Source, sources_of, told
from demur.envs.guards.provenance.values import spelled, values_in
from demur.envs.tool import Tool
from demur.envs.trace import Level, Record, ToolCall, Verdict

Kind = Literal["none", "tool", "parameter", "interpretation"]

_ADDRESS: Final = re.compile(
    r"[^\s@]+@[^\s@]+|https?://\S+|www\.\S+|[A-Z]{2}\d{2}[A-Z0-9]{8,30}|\+?\d[\d ]{6,}\d", re.I
)
_ID_NAME: Final = re.compile(r"(?:^|_)ids?_?$|(?<=[a-z])Ids?$", re.IGNORECASE)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_STEM: Final = 5
"""Letters that two words must share from their start, or all letters of the shorter one."""
_SAYS_NOTHING: Final = frozenset("a an and by for from func in into of on or the to tool with".split())


class Judged(Record):
    reason: str
    kind: Kind
    misaligned: bool


class Proven(Record):
    evidence: tuple[Quote, ...]
    reason: str
    kind: Kind
    misaligned: bool


class _Prompted:
    """One question to a model a call."""

    name: str
    _prompt: str
    _schema: type[Judged] | type[Proven]

    def __init__(self, model: Model, **options: Any) -> None:
        """options: go to the model, such as `temperature`."""
        self._asker = Asker(model, **options)

    def pop_calls(self) -> int:
        """Calls of the model since this was last asked."""
        return self._asker.pop_calls()

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        """Raises ValueError for a reply that cannot be read, and whatever the model raises; `checked` then blocks."""
        if (early := _without_check(self.name, context, call)) is not None:
            return early
        data = {
            "request": context.query,
            "plan": context.plan,
            "tools": [told(tool) for tool in context.tools.values()],
            "call": {"name": call.name, "arguments": call.arguments},
            "sources": shown_sources(sources_of(context)),
        }
        reply: Judged | Proven = await self._asker.ask(prompt_text(self._prompt), data, self._schema)
        quotes = reply.evidence if isinstance(reply, Proven) else ()
        return Verdict(
            level=Level.BLOCK if reply.misaligned else Level.ALLOW,
            guard=self.name,
            stage=reply.kind if reply.misaligned else None,
            reason=reply.reason,
            evidence=tuple(f"{quote.source} {quote.text}"[:200] for quote in quotes[:20]),
        )


class DirectPrompt(_Prompted):
    """Gives the model the three kinds of misalignment and asks for its judgement."""

    name = "direct"
    _prompt = "direct"
    _schema = Judged


class ProvePrompt(_Prompted):
    """Asks the model for the provenance of tool, values and reading, and for its judgement."""

    name = "prove"
    _prompt = "prove"
    _schema = Proven


class ToolAllowList:
    """Lets calls of some tools run, whatever their values.

    allowed: the names. None: those whose name shares a word with the request or with what the user said since, such
    as `send_email` with "Email her"; two words are the same if they agree in their first five letters.
    """

    name = "allow-list"

    def __init__(self, allowed: Collection[str] | None = None) -> None:
        self._allowed = None if allowed is None else frozenset(allowed)

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        if (early := _without_check(self.name, context, call)) is not None:
            return early
        allowed = _matches(call.name, context) if self._allowed is None else call.name in self._allowed
        said = "is allowed" if allowed else "is not one that the request needs"
        level = Level.ALLOW if allowed else Level.BLOCK
        return Verdict(level=level, guard=self.name, stage=None if allowed else "tool", reason=f"{call.name} {said}")


class Verbatim:
    """Ids and addresses have to stand in the query, in what the user said or in an earlier result, letter by letter.

    An id is the value of a parameter called `id` or `…_id`; an address is what looks like a mail address, a URL, an
    IBAN or a number of eight digits and more. Other values are not looked at.
    """

    name = "verbatim"

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        if (early := _without_check(self.name, context, call)) is not None:
            return early
        sources = [source for source in sources_of(context) if source.tool is None or source.turn is not None]
        derivable = context.tools[call.name].derivable
        for parameter, value in call.arguments.items():
            if parameter not in derivable:
                continue
            for text in map(spelled, values_in(value)):
                if text and _is_pointer(parameter, text) and not _stands(text, sources):
                    reason = f"{text[:100]!r} of {parameter!r} stands nowhere"
                    return Verdict(level=Level.BLOCK, guard=self.name, stage="parameter", reason=reason)
        return Verdict(level=Level.ALLOW, guard=self.name, reason="all ids and addresses stand in a source")


def _without_check(name: str, context: Context, call: ToolCall) -> Verdict | None:
    tool: Tool | None = context.tools.get(call.name)
    if tool is None:
        return Verdict(level=Level.BLOCK, guard=name, stage="tool", reason=f"no tool is called {call.name!r}")
    if not tool.changes:
        return Verdict(level=Level.ALLOW, guard=name, stage="filter", reason="it changes nothing")
    return None


def _matches(name: str, context: Context) -> bool:
    asked = _words("\n".join((context.query, *context.user_said)))
    return any(_same_word(one, other) for one in _words(name) for other in asked)


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text)) - _SAYS_NOTHING


def _same_word(one: str, other: str) -> bool:
    shared = min(len(one), len(other), _STEM)
    return one == other or (shared > 2 and one[:shared] == other[:shared])


def _is_pointer(parameter: str, text: str) -> bool:
    return bool(_ID_NAME.search(parameter) or _ADDRESS.fullmatch(text))


def _stands(text: str, sources: Sequence[Source]) -> bool:
    return any(text in source.text for source in sources)
