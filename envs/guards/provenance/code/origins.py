"""What may drive a call: who wrote the text that a value stands in, and whether the user pointed to it.

A value that stands in the request, or in a field of a result that the agent looked up for it, may. One that stands only

- inside an order to the reader (`commands`), unless the user asked for what that says,
- inside prose of a source that the request does not name, or
- in a result whose own call was driven by such an order

may not: it has no other origin than somebody else's words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

from demur.envs.guards.provenance.code.commands import Command, covering
from demur.envs.guards.provenance.code.texts import Text, Texts
from demur.envs.guards.provenance.code.values import moment_of, to_number
from demur.envs.guards.provenance.code.verbs import effects_in, effects_of_word, stem, words_of
from demur.envs.guards.provenance.relations import Origin, Span
from demur.envs.guards.provenance.sources import Source
from demur.envs.guards.provenance.values import spelled, values_in

_DEEPEST: Final = 12
"""Look-ups that a look-up's argument is followed through; beyond it counts as driven by somebody else."""
_ARGUMENTS: Final = 50
_PROSE = 8
"""Words beside the value that make a field prose."""
_EDGE = re.compile(r"[\"“”\n{}\[\]|;]|(?<!\w)'|'(?!\w)|\\n|: ")
_ERRANDS = (
    r"(?:instruct\w*|tasks?|actions?|to-?dos?|steps?|requests?|directions?|errands?|orders?|list|checklist|"
    r"\w*aufgaben?|anweisung\w*|consignes?|tareas?|istruzioni)"
)
_CARRY_OUT = re.compile(
    r"\b(?:do|perform|carry out|follow|execute|complete|take care of|handle|work through|go through|implement|act "
    r"on|finish|"
    r"accomplish|obey|process|comply with|erledige|befolge|suis|fais|exécute|sigue|haz|ejecuta|esegui|segui)\b(?:"
    rf"(?! the following)[^.?!\n]{{0,40}}?\b{_ERRANDS}\b[^.?!\n]{{0,40}}?\b(?:in|from|at|on|of|by|assigned"
    rf"|specified|listed|given|"
    r"described|mentioned|contained|written|aus|von|im|dans|du|de|en|nel|da)\b"
    r"|[^.?!\n]{0,60}?\b(?:says?|said|asks?|asked|wants?|tells?|requests?|requires?|steht|dit|dice|pide)\b)"
    r"|(?:按照|按).{0,20}(?:说|指示|要求)|执行.{0,20}(?:任务|指示)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}")
_SENTENCE_END = re.compile(r"[.?!](?=\s)|\n")
_SELF_SERVING = re.compile(r"\bthe (?:current |human )?user\b", re.IGNORECASE)


class Place(NamedTuple):
    """A stretch of a source."""

    source: Source
    text: Text
    start: int
    end: int

    @property
    def span(self) -> Span:
        start, end = self.start, self.end
        source = self.source
        return Span(source=source.id, start=start, end=end, text=source.text[start:end], origin=source.origin)


class Origins:
    """Rules on the places of one context's sources."""

    def __init__(self, sources: Sequence[Source], texts: Texts, now: datetime | None) -> None:
        self.users = [(s, texts.of(s.text, now)) for s in sources if s.origin is Origin.USER]
        self.docs = {s.tool: (s, texts.of(s.text, now)) for s in sources if s.origin is Origin.DOCS and s.tool}
        theirs = (Origin.TRUSTED, Origin.UNTRUSTED)
        self.others = [(s, texts.of(s.text, now)) for s in sources if s.origin in theirs]
        self._number = {source.id: at for at, (source, _) in enumerate(self.others)}
        self._holding: dict[str, list[tuple[Source, Text]]] = {}
        self._driven: dict[str, bool] = {}
        self._pointed: dict[str, bool] = {}

    @cached_property
    def said(self) -> str:
        """What the user asked for; what was confirmed is not part of it."""
        return "\n".join(source.text for source, _ in self.users if not source.id.startswith("confirmed:"))

    @cached_property
    def effects(self) -> frozenset[str]:
        """What the request asks to be done."""
        return effects_in(self.said)

    @cached_property
    def said_stems(self) -> frozenset[str]:
        return frozenset(stem for _, text in self.users for stem in text.stems)

    @cached_property
    def carries_out(self) -> str:
        """The sentences in which the user asks to do what some text says."""
        said = self.said[:20_000]
        found = []
        for match in _CARRY_OUT.finditer(said):
            starts = [end.end() for end in _SENTENCE_END.finditer(said, 0, match.start())]
            ending = _SENTENCE_END.search(said, match.end())
            found.append(said[starts[-1] if starts else 0 : ending.start() if ending else len(said)])
        return "\n".join(dict.fromkeys(found))

    def against(self, place: Place, depth: int = 0, *, named: bool = False) -> str | None:
        """Why a value that stands here may not drive a call, or None. named: the request names what the value is, such
        as an address."""
        source = place.source
        if source.origin is not Origin.UNTRUSTED:
            return None
        if order := covering(place.text.commands, place.start, place.end):
            told = named and not order.strong and self.pointed(source, depth) and not self.driven(source, depth)
            if not (told or self._asked_for(order, source, place.text, depth)) or self._addressed_elsewhere(place):
                return f"it stands in an order to the reader inside {source.id}, which the user did not write"
            return None
        if self.driven(source, depth):
            return f"{source.id} was fetched for an order that the user did not write"
        if _is_prose(place) and not self.pointed(source, depth):
            return f"it stands in the text of {source.id}, which the request does not name"
        return None

    def _asked_for(self, order: Command, source: Source, text: Text, depth: int) -> bool:
        if order.override or not self.pointed(source, depth) or self.driven(source, depth):
            return False
        if self.carries_out and self._is_named_in(Text(self.carries_out), source):
            return not _SELF_SERVING.search(text.text, order.start, order.end)
        if order.strong:
            return False
        if order.effects <= {"run", "read"}:  # "visit the website", for who asked what the websites say
            stems = set(map(stem, words_of(text.text[order.start : order.end])))
            return "read" in self.effects and any(len(word) > 3 for word in stems & self.said_stems)
        return bool(order.effects & self.effects - {"read"})

    def _addressed_elsewhere(self, place: Place) -> bool:
        """An address out of an order, where the request names one itself and does not ask to do what the text says."""
        value = place.text.text[place.start : place.end]
        return not self.carries_out and bool(_ADDRESS.fullmatch(value)) and bool(_ADDRESS.search(self.said[:20_000]))

    def pointed(self, source: Source, depth: int = 0) -> bool:
        """Whether the request names it: by an argument of the call that fetched it, the kind of thing that the tool
        reads, or through an earlier result that it names.
        """
        if source.id not in self._pointed:
            self._pointed[source.id] = depth <= _DEEPEST and self._is_pointed(source, depth)
        return self._pointed[source.id]

    def _is_pointed(self, source: Source, depth: int) -> bool:
        if _nouns(source) & self.said_stems:
            return True
        given = _given(source)
        return any(self.said_by_user(value) for value in given) or any(
            self.against(place, depth + 1) is None and self.pointed(place.source, depth + 1)
            for value in given
            for place in self._earlier(value, source)
        )

    def _is_named_in(self, text: Text, source: Source) -> bool:
        return bool(_nouns(source) & text.stems) or any(True for value in _given(source) for _ in text.places(value))

    def driven(self, source: Source, depth: int = 0) -> bool:
        """Whether an argument of the call that fetched it stands only where it may drive nothing."""
        if source.id not in self._driven:
            self._driven[source.id] = depth > _DEEPEST or self._is_driven(source, depth)
        return self._driven[source.id]

    def _is_driven(self, source: Source, depth: int) -> bool:
        for value in _given(source):
            if self.said_by_user(value):
                continue
            reasons = [self.against(place, depth + 1) for place in self._earlier(value, source)]
            if reasons and None not in reasons:
                return True
        return False

    def _earlier(self, value: str, source: Source) -> list[Place]:
        until = self._number.get(source.id, 0)
        return [
            place
            for other, text in self.holding(value)
            if self._number[other.id] < until
            and (places := list(islice(text.places(value), 10)))
            and not repeats(other, value)
            for place in (Place(other, text, *stretch) for stretch in places)
        ]

    def documents(self, value: str) -> bool:
        """Whether some tool's documentation has a value as it is written."""
        return any(value in source.text for source, _ in self.docs.values())

    def holding(self, value: str) -> list[tuple[Source, Text]]:
        """The results that could hold a value: those with its longest word. It is the quick part of a search."""
        word = max(value.lower().split(), key=len, default="")
        if "'" in word:
            return self.others
        if word not in self._holding:
            self._holding[word] = [one for one in self.others if word in one[1].lower]
        return self._holding[word]

    def said_by_user(self, value: str) -> bool:
        """Whether the user wrote a value, in any of its forms."""
        if any(True for _, text in self.users for _ in text.places(value)):
            return True
        number = to_number(value)
        if number is not None and any(number in text.values.numbers for _, text in self.users):
            return True
        moment = moment_of(value)
        day = moment[0] if moment else None
        return day is not None and any(text.values.stretch_of_day(day) for _, text in self.users)

    def only_ordered(self, value: str) -> Place | None:
        """A place in a strong order, if the value stands in results only inside such."""
        first: Place | None = None
        for source, text in self.holding(value):
            if repeats(source, value):
                continue
            for start, end in text.places(value):
                order = covering(text.commands, start, end)
                if order is None or not order.strong or self._asked_for(order, source, text, 0):
                    return None
                first = first or Place(source, text, start, end)
        return first

    def strong_orders(self) -> list[tuple[Source, str, Command]]:
        """Orders of results that the user did not ask for."""
        return [
            (source, text.text[order.start : order.end], order)
            for source, text in self.others
            if source.origin is Origin.UNTRUSTED
            for order in text.commands
            if order.strong and not self._asked_for(order, source, text, 0)
        ]


def repeats(source: Source, value: str) -> bool:
    """A result that repeats what its call was given is no evidence for it."""
    wanted = value.lower()
    return any(wanted in given.lower() and any(True for _ in Text(given).places(value)) for given in _given(source, 1))


def _nouns(source: Source) -> set[str]:
    """Stems of what the tool reads."""
    name = source.id if source.tool is None else source.tool
    return {stem(word) for word in words_of(name) if len(word) > 2 and "read" not in effects_of_word(word)}


def _given(source: Source, shortest: int = 2) -> list[str]:
    if source.call is None:
        return []
    texts = (spelled(value) for value in values_in(source.call.arguments))
    return list(islice((text for text in texts if text and shortest <= len(text) < 2_000), _ARGUMENTS))


def _is_prose(place: Place) -> bool:
    text, start, end = place.text.text, place.start, place.end
    before = text[max(0, start - 200) : start]
    after = text[end : end + 200]
    edges = [match.end() for match in _EDGE.finditer(before)]
    before = before[edges[-1] :] if edges else before
    edge = _EDGE.search(after)
    after = after[: edge.start()] if edge else after
    return len(before.split()) + len(after.split()) > _PROSE
