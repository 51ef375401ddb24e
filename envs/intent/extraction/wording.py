"""The words of a query and of tools, made comparable: clauses, stems, and which tools a clause calls for.

English with simple inflection; Chinese is glossed word by word (`lexicon.yaml`) and read in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from math import fsum, log
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import regex
import yaml

from demur.envs.tool import Tool

Kind = Literal["request", "question", "limit", "context", "reason"]
NEAR: Final = 0.95
"""Tools that reach this share of the best score fit as well as the best."""

_SENTENCE: Final = regex.compile(r"(?<=[.!?;:])\s+|(?<=[。！？；：])|\n+")
_PIECE: Final = regex.compile(r",\s+|，|、")
_WORD: Final = regex.compile(r"[a-z]+(?:'[a-z]+)?|\d+")
_QUOTED: Final = regex.compile(r'"[^"]*"|“[^”]*”|「[^」]*」')
_CHINESE: Final = regex.compile(r"\p{Han}")
_OPENER: Final = regex.compile(
    r"^(?:please|hello|hi|today|one more thing|two things|also|next|then|now|and|so|but|first|after that|afterwards|"
    r"kindly|go ahead and|let's|just)\b[\s,:!.]*"
)
_WISH: Final = regex.compile(
    r"^(?:(?:can|could|would|will) you|you (?:may|can|should)|"
    r"(?:i|we)(?:'d| would)? (?:want|need|like|count on|ask)(?: you)? to|i(?:'d| would)? like you to)\b[\s,:!.]*"
)
_REASON: Final = regex.compile(
    r"^(?:so that|so the|because|since|seeing that|given that|in order to|as (?:he|she|they|we|it|i|the|my)|to be|"
    r"for context|the thing is|the matter is|you see|they|he|she|it|this|that|these|there|no \w+ (?:has|have|is)|"
    r"thanks|here is|i say)\b"
)
_OWN: Final = regex.compile(r"^(?:i|we|my|our|i'm|i've|we've)\b")
_ASKS: Final = regex.compile(
    r"\b(?:should|must|ha(?:s|ve) to|needs?|wants?|would like|i'd like|gets?|becomes?|please|let)\b"
)
_TO_ME: Final = regex.compile(r"^(?:(?:tell|give|show|inform|let|send|name|remind)\s+(?:me|us)\b|have a look)")
_AND: Final = regex.compile(r"\s+(?:and|then|but)\s+(?=(?:(?:then|please|also|never|do not|don't)\s+)*(\w+))")
LIMIT: Final = regex.compile(
    r"^(?:(?:you|this|it|the \w+) )?(?:do not|don't|never|must not|mustn't|may not|avoid|read only|"
    r"only (?:read|look)|just (?:read|look))\b|\bwithout (?!me\b)\w+ing\b"
)


class Clause(NamedTuple):
    """A part of a query: as it was written, in small English words, and the stems of its verbs."""

    text: str
    words: str
    kind: Kind
    verbs: frozenset[str] = frozenset()

    @property
    def stems(self) -> frozenset[str]:
        return stems(self.words)


class Choice(NamedTuple):
    """The tools a clause calls for; several if they fit alike. by_action: whether a verb says so."""

    tools: tuple[Tool, ...]
    by_action: bool


class _Words(NamedTuple):
    """What may name a tool: verb stems and actions, stems of its name, stems of all else."""

    tool: Tool
    verbs: frozenset[str]
    actions: frozenset[str]
    name: frozenset[str]
    rest: frozenset[str]


def clauses(query: str) -> list[Clause]:
    """The clauses of a query, each with what kind it is."""
    found = []
    chinese = bool(_CHINESE.search(query))
    for sentence in _SENTENCE.split(_without_quotes(query)):
        for at, piece in enumerate(_pieces(sentence)):
            words = regex.sub(r"\s+", " ", _gloss(piece)).strip(" ,:.!?，。：；！？")
            if words:
                question = piece.rstrip().endswith(("?", "？"))
                verbs = _verbs(words, chinese)
                states = bool(verbs) if chinese else at == 0 and bool(_ASKS.search(words))
                found.append(Clause(piece.strip(), words, _kind(words, at == 0, states, question), verbs))
    return found


def stems(words: str) -> frozenset[str]:
    return frozenset(stem(word) for word in _WORD.findall(words.casefold())) - _lexicon().stop


def stem(word: str) -> str:
    """A word without its ending: `deletes`, `deleted` and `deleting` are one."""
    word = word.removesuffix("'s")
    for ending in ("ings", "ing", "ies", "ied", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)] + ("y" if ending in ("ies", "ied") else "")
            break
    word = word.removesuffix("e") if len(word) > 3 else word
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word[:-1] + "i" if len(word) > 3 and word[-1] == "y" else word


class Matcher:
    """Finds the tools that a clause calls for."""

    def __init__(self, tools: Mapping[str, Tool]) -> None:
        self._all = [_words_of(tool) for tool in tools.values()]
        seen = [word for one in self._all for word in one.name | one.rest]
        self._weight = {word: log(1 + len(self._all) / seen.count(word)) for word in set(seen)}

    def changing(self, clause: Clause, context: frozenset[str]) -> Choice | None:
        """The changing tools that fit best; None if none does. context: stems of the query's other clauses."""
        changing = [one for one in self._all if one.tool.changes]
        by_action = [(one, acts) for one in changing if (acts := self._acts(one, clause))]
        if by_action:
            scored = [(one, acts + self._names(one, clause, context)) for one, acts in by_action]
            return Choice(self._best(scored), True)
        named = [(one, self._names(one, clause, context)) for one in changing]
        if not _ASKS.search(clause.words) or max((score for _, score in named), default=0) < 2:
            return None
        return Choice(self._best(named), False)

    def reading(self, clause: Clause) -> Tool | None:
        """The one reading tool that fits best; None if none does, or several alike."""
        scored = [(one, self._names(one, clause, frozenset())) for one in self._all if not one.tool.changes]
        best = self._best([(one, score) for one, score in scored if score > 0])
        return best[0] if len(best) == 1 else None

    def knows(self, clause: Clause) -> bool:
        """Whether any word of the clause is one of a tool."""
        return any(clause.stems & (one.name | one.rest | one.verbs) for one in self._all)

    def _acts(self, one: _Words, clause: Clause) -> float:
        if one.verbs & clause.verbs:
            return 2.5
        actions = _lexicon().actions
        return 1.0 if any(clause.verbs & actions[action] for action in one.actions) else 0.0

    def _names(self, one: _Words, clause: Clause, context: frozenset[str]) -> float:
        def weight(words: Iterable[str]) -> float:
            return fsum(self._weight[word] for word in words)  # the same in any order

        own = 1.5 * weight(clause.stems & one.name) + 0.8 * weight(clause.stems & one.rest - one.name)
        return own + 0.3 * weight((context - clause.stems) & (one.name | one.rest))

    def _best(self, scored: list[tuple[_Words, float]]) -> tuple[Tool, ...]:
        top = max((score for _, score in scored), default=0.0)
        return tuple(one.tool for one, score in scored if score >= NEAR * top)


class _Lexicon(NamedTuple):
    actions: dict[str, frozenset[str]]
    reading: frozenset[str]
    stop: frozenset[str]
    chinese: dict[str, str]
    phrases: dict[str, str]
    verbs: frozenset[str]
    light: frozenset[str]


@cache
def _lexicon() -> _Lexicon:
    text = Path(__file__).with_name("lexicon.yaml").read_text(encoding="utf-8")
    found: Any = yaml.load(text, yaml.BaseLoader)  # texts only: `on` is no boolean here
    actions = {action: frozenset(map(stem, words)) for action, words in found["actions"].items()}
    return _Lexicon(
        actions=actions,
        verbs=frozenset[str]().union(*actions.values()),
        light=frozenset(map(stem, found["light"])),
        phrases=found["phrases"],
        reading=frozenset(found["reading"]),
        stop=frozenset(map(stem, found["stop"])) | frozenset(found["stop"]),
        chinese=dict(sorted(found["chinese"].items(), key=lambda pair: -len(pair[0]))),
    )


def _words_of(tool: Tool) -> _Words:
    verb, *nouns = tool.name.split("_")
    described = _WORD.findall(tool.description.casefold())
    verbs = {stem(verb), stem(described[0])} if described else {stem(verb)}
    values = [str(v) for p in tool.parameters for v in p.schema.get("enum", ())]
    return _Words(
        tool=tool,
        verbs=frozenset(verbs - _lexicon().light),
        actions=frozenset(a for a in _lexicon().actions if stem(a) in verbs or a == tool.effect),
        name=stems(" ".join(nouns)),
        rest=stems(" ".join([tool.description, *values, *(p.name for p in tool.parameters)])),
    )


def _verbs(words: str, anywhere: bool) -> frozenset[str]:
    """Stems of the verbs: the first word where that is one, else all; in Chinese all."""
    found = [word for w in _WORD.findall(_bare(words)) if (word := stem(w)) in _lexicon().verbs]
    imperative = _starts_with_verb(words) and not anywhere
    return frozenset(found[:1] if imperative else found)


def _starts_with_verb(words: str) -> bool:
    first = _WORD.match(_bare(words))
    return first is not None and stem(first[0]) in _lexicon().verbs


def _bare(words: str) -> str:
    """Without greetings and wishes before it."""
    while (shorter := _WISH.sub("", _OPENER.sub("", words))) != words:
        words = shorter
    return words


def _without_quotes(text: str) -> str:
    """Quoted texts are content, and no part of what is asked."""
    return _QUOTED.sub('""', text)


def _pieces(sentence: str) -> Iterable[str]:
    for piece in _PIECE.split(sentence):
        start = 0
        for found in _AND.finditer(piece):
            if stem(found[1].casefold()) in _lexicon().verbs or found[1] in _lexicon().reading:
                yield piece[start : found.start()]
                start = found.end()
        yield piece[start:]


def _gloss(piece: str) -> str:
    text = piece.casefold()
    if _CHINESE.search(text):
        for chinese, english in _lexicon().chinese.items():
            text = text.replace(chinese, f" {english} ")
        text = _CHINESE.sub(" ", text)
    for phrase, word in _lexicon().phrases.items():
        text = regex.sub(phrase, word, text)
    return text


def _kind(words: str, leads: bool, states: bool, question: bool) -> Kind:
    """leads: it is the first part of its sentence. states: it may ask by a statement, not by an imperative alone."""
    bare = _bare(words)
    if LIMIT.search(bare) or LIMIT.search(words):
        return "limit"
    first = bare.split(" ")[0]
    if _TO_ME.match(bare) or (first in _lexicon().reading and stem(first) not in _lexicon().verbs):
        return "question"
    if _REASON.match(bare) or (not leads and _OWN.match(words)):
        return "reason"
    if _starts_with_verb(words) or states:
        return "request"
    return "question" if question else "context"
