"""Whether two arguments of a call stand in each other's place, by what kind of thing their values are.

    stop_sharing(path="jonas.moreau", user="client/insurance")   # find_user gave the one, search_files the other

What a value is, is told by the look-up that found it, by the words before it and by its form; what a parameter takes,
by its name, by its documentation, and by what earlier calls gave to a parameter of that name.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, islice
from typing import Final

from demur.envs.guards.provenance.code.calendar_words import COUNTS, MONTHS, WEEKDAYS
from demur.envs.guards.provenance.code.origins import Place
from demur.envs.guards.provenance.code.rows import form_of
from demur.envs.guards.provenance.code.tracing import Tracer
from demur.envs.guards.provenance.code.values import moment_of
from demur.envs.guards.provenance.code.verbs import objects_of, stem, words_of
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.values import spelled
from demur.envs.tool import Tool

_MOST: Final = 8
"""Arguments of a call that are compared."""
_PLACES: Final = 8
_MARKED = re.compile(r"[\d@#/]")
_LABEL = re.compile(r"([^\W\d_]+(?:[ _][^\W\d_]+)?)[\"']?[ \t]?[:=]?[ \t]?[\"'(]?\Z")
_FORMS: Final = (
    (re.compile(r"[^\s@]+@[^\s@]+\.[^\s@]+"), "email mail address to recipient cc"),
    (re.compile(r"https?://\S+|www\.\S+"), "url link website page site"),
    (re.compile(r"[\w.-]*/[\w./-]+|[\w-]+\.\w{2,4}"), "path file document"),
    (re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?:/\d+)?"), "ip source host address"),
    (re.compile(r"\+?[\d -]{3,}"), "account number digits code pin phone iban zip"),
    (re.compile(r"(?:[A-Z][\w'’.-]*\s?){2,4}"), "name person who title"),
)
_DAY: Final = "date day start end when until deadline due"
_TIME: Final = "time hour start end when"
_WHEN: Final = (["day"], ["date"], ["time"])
_TIME_WORDS: Final = frozenset(
    "today tonight tomorrow yesterday now always never daily weekly monthly yearly every noon midday midnight morning "
    "afternoon evening night weekend weekends asap soon later end start first last next".split()
).union(MONTHS, WEEKDAYS, COUNTS)
_NAMES_A_RECORD: Final = frozenset(map(stem, "id ids pid key number code ref".split()))
_SMALL: Final = frozenset(map(stem, "the for from with and name value text new old of a an in on by at is or".split()))


def misplaced(question: Question, tracer: Tracer) -> str | None:
    """Why a value rather belongs elsewhere, or None."""
    if pair := exchanged(question, tracer):
        return f"the values of {pair[0]} and {pair[1]} rather fit the other way round"
    return of_another_kind(question, tracer)


def exchanged(question: Question, tracer: Tracer) -> tuple[str, str] | None:
    """Two parameters whose values would fit better the other way round, or None."""
    tool, values = question.tool, _single_texts(question)
    if len(values) < 2:
        return None
    # what a change answers tells of itself, and not of what it was given
    changing = {name for name, tool in question.context.tools.items() if tool.changes}
    kinds = {name: _kinds_of(value, _places(tracer, value, changing)) for name, value in values.items()}
    takes = {name: _taken(tool, name) for name in values}
    given = _given_before(question)

    def fit(parameter: str, other: str, both: frozenset[str]) -> int:
        value, own = values[other], takes[parameter] - both
        score = len(own & kinds[other]) + 2 * (form_of(value.casefold()) in given.get(parameter, ()))
        return score + (any(map(str.isdigit, value)) and not _NAMES_A_RECORD.isdisjoint(own))

    for one, other in combinations(values, 2):
        both = takes[one] & takes[other]  # "the file or directory" tells them not apart
        as_is = fit(one, one, both) + fit(other, other, both)
        if values[one] != values[other] and fit(one, other, both) + fit(other, one, both) > as_is:
            return one, other
    return None


def _single_texts(question: Question) -> dict[str, str]:
    arguments = question.proposed.arguments
    derivable = [name for name in arguments if name in question.tool.derivable][:_MOST]
    texts = {name: spelled(arguments[name]) for name in derivable if isinstance(arguments[name], str)}
    return {name: text for name, text in texts.items() if text and len(text) <= 200}


def _places(tracer: Tracer, value: str, changing: Collection[str]) -> Sequence[Place]:
    origins = tracer.origins
    every = (*origins.users, *((s, t) for s, t in origins.holding(value) if s.tool not in changing))
    found = (Place(source, text, *at) for source, text in every for at in text.places(value))
    return list(islice(found, _PLACES))


def _kinds_of(value: str, places: Sequence[Place]) -> frozenset[str]:
    moment = (True, None) if value.casefold() in WEEKDAYS else moment_of(value)
    if moment is not None:
        return frozenset(map(stem, f"{_DAY if moment[0] else ''} {_TIME if moment[1] is not None else ''}".split()))
    kinds = {stem(word) for form, words in _FORMS if form.fullmatch(value) for word in words.split()}
    for place in places:
        if label := _LABEL.search(place.text.text, max(0, place.start - 40), place.start):
            kinds |= _stems(label[1])
        if place.source.call is not None:
            kinds |= objects_of(place.source.call.name)
            for given in place.source.call.arguments.values():
                if isinstance(given, str) and given.isalpha():
                    kinds |= _stems(given)
    return frozenset(kinds)


@lru_cache(maxsize=4096)
def _taken(tool: Tool, name: str) -> frozenset[str]:
    """What the parameter takes, by its name and its own description; of an id, by the tool's object."""
    described = next((p for p in tool.parameters if p.name == name), None)
    words = set(_stems(name))
    if described is not None:
        words |= _stems(str(described.schema.get("description", ""))[:200].partition(". ")[0])
    for belongs in re.finditer(
        rf"\b{re.escape(name)}s? of (?:the|a|an) (\w+)", tool.description[:2_000], re.IGNORECASE
    ):
        words.add(stem(belongs[1].lower()))
    if words & _NAMES_A_RECORD:
        words |= objects_of(tool.name)
    return frozenset(words)


def _given_before(question: Question) -> Mapping[str, frozenset[str]]:
    """The forms of values that earlier calls, which ran, gave to a parameter of the name."""
    given: dict[str, set[str]] = {}
    for turn in question.context.history:
        if turn.executed and not turn.failed and turn.action.call is not None:
            for name, value in turn.action.call.arguments.items():
                if isinstance(value, str) and len(value) <= 200 and any(map(str.isdigit, value)):
                    given.setdefault(name, set()).add(form_of(value.casefold()))
    return {name: frozenset(forms) for name, forms in given.items()}


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words_of(text) if len(word) > 1) - _SMALL


def of_another_kind(question: Question, tracer: Tracer) -> str | None:
    """Why a value names a thing of another kind than its parameter takes, or None.

    A record is of another kind if look-ups of the parameter's kind were made and it stands in none of them, but only in
    others; what a day or a time takes is told by its form.
    """
    changing = {name for name, tool in question.context.tools.items() if tool.changes}
    looked_up = [
        (text, objects_of(source.call.name))
        for source, text in tracer.origins.others
        if source.call is not None and source.tool not in changing
    ]
    values = _single_texts(question)
    for name, value in values.items():
        takes = _taken(question.tool, name)
        if words_of(name)[-1:] in _WHEN and not _is_a_time(value, question.tool):
            return f"{name} takes a day or a time, and {value!r} is none"
        if twice := _given_twice(question.tool, name, values):
            return f"{value!r} is given for {name} and for {twice}"
        if tracer.origins.said_by_user(value) or not any(map(str.isdigit, value)):
            continue
        own = [any(text.places(value)) for text, kinds in looked_up if kinds & takes]
        if own and not any(own) and any(any(text.places(value)) for text, kinds in looked_up if not kinds & takes):
            return f"{value!r} stands in none of the look-ups of what {name} takes"
    return None


def _is_a_time(value: str, tool: Tool) -> bool:
    """Whether it could be one: a word for a time, a number in it, or a word that the documentation has."""
    words = frozenset(words_of(value))
    known = not words.isdisjoint(_TIME_WORDS) or words <= frozenset(words_of(tool.description))
    return known or any(map(str.isdigit, value)) or not value.isascii()


def _given_twice(tool: Tool, name: str, values: Mapping[str, str]) -> str | None:
    """Another parameter that takes another kind of thing and was given the same name of something."""
    value = values[name]
    if not _MARKED.search(value):
        return None
    same = (other for other in values if other != name and values[other] == value)
    return next((other for other in same if not _taken(tool, name) & _taken(tool, other)), None)
