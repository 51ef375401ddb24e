"""Parameters whose value the request leaves open, though results and documentation offer some to choose from.

A value that the user did not write is a guess where the last thing that they said names the kind of the thing and no
more ("another folder", "several lines"), where it is one of many documented names of which they wrote none, where it is
a new number and they wrote no number, and where it is an entry of a list of names of which they wrote none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import regex

from demur.envs.guards.provenance.code.conditions import Request, read_request
from demur.envs.guards.provenance.code.lookups import LookUps
from demur.envs.guards.provenance.code.missing import Missing, described
from demur.envs.guards.provenance.code.rows import form_of, singular, words_in
from demur.envs.guards.provenance.code.values import READ, read_values
from demur.envs.guards.provenance.code.verbs import stem, words_of
from demur.envs.guards.provenance.parameters import is_free_text
from demur.envs.guards.provenance.values import spelled, stretch_of, values_in
from demur.envs.tool import Parameter, Tool
from demur.envs.trace import ToolCall

_MOST_VALUES: Final = 20
_MOST_CHARS: Final = 50_000
_MOST_NODES: Final = 5_000
_ALIKE: Final = tuple(
    frozenset(words.split())
    for words in (
        "folder directory",
        "file document",
        "stock share company symbol ticker",
        "person contact user recipient receiver friend colleague companion guest",
        "city place location town",
        "amount sum price figure",
        "role access permission",
    )
)
_NAMES_NOTHING: Final = frozenset("a all copy for if in list name new number of or other option the to type".split())
_END: Final = (
    r"(?=\s*[.,;:!?)]|\s*$|\s+(?:and|or|to|on|onto|into|for|at|so|now|today|please|as|instead|that (?:i|we)|this|by|"
    r"around|away|here|there)\b)"
)
_ONE: Final = regex.compile(
    r"(?<!\b(?:is|are|be|was|were|as|like|longer|not|become|became) )"
    r"\b(?:a(?: new| better| different| certain| fitting| suitable)?|another|an(?: other| available)?|"
    r"(?:some|any)(?: other| different| better)?|one of (?:my|our|the|their)) (?P<what>\p{L}{3,})\b" + _END,
    regex.IGNORECASE,
)
_FEW: Final = regex.compile(
    r"\b(?:several|some|a few|a couple of|a number of|a handful of|many|a bit of|a certain number of) "
    r"(?P<what>\p{L}{3,}(?: \p{L}{3,})?)\b",
    regex.IGNORECASE,
)
_VALUE: Final = regex.compile(r"[\p{N}'\"‘“«#@/]|\p{Lu}|\b(?:called|named|titled|namely)\b")
"""What may tell which, behind the words for the kind, up to the end of the clause."""
_CLAUSE: Final = regex.compile(r"[^.;?!,]*+(?:[.,][^\s][^.;?!,]*+)*+(?:, (?!\p{Ll})[^.;?!,]*+)?")
_NEW: Final = regex.compile(
    r"\b(?:new|chang(?:e|ed|ing)|switch(?:ed)?|adjust(?:ed)?|different|other|rais(?:e|ed)|lower(?:ed)?|updated?)\b",
    regex.IGNORECASE,
)
_ELSEWHERE: Final = regex.compile(
    r"\b(?:says?|said|states?|stated|according|as in|listed|match(?:es|ing)?|same|per|recommend\w*|suggest\w*|back|"
    r"total|full|fully|half|double|all|maximum|minimum|highest|lowest|average|remaining|rest|default|one|two|three|"
    r"four|five|six|seven|eight|nine|ten|twice|zero)\b",
    regex.IGNORECASE,
)
_OF: Final = regex.compile(r"^(?:the |a |an )?(?:[\p{L}\p{N}]+ )?(?:number|name|id|list|amount|code) of (?:the |an? )?")
_TAIL: Final = regex.compile(r"[.;:,(\[]|\b(?:to|at|in|of|from|for|that|which|on|with|where|by|is|are)\b")
_LISTED: Final = regex.compile(
    r"(?:\[enum\]|\boptions?(?: are)?|\bone of|\bchoices?(?: are)?)\s*:?\s*(?P<list>.+)", regex.IGNORECASE
)
_QUOTED: Final = regex.compile(r"(?<!\w)'[^'\n]{1,500}'(?!\w)|\"[^\"\n]{1,500}\"|[“‘][^”’\n]{1,500}[”’]")
_PROPER: Final = regex.compile(r"(?<=[\p{L}\p{N},;:][ \t])(?!I\b)\p{Lu}|[@#]\w|\p{N}")
_IDENTIFIER: Final = frozenset("id ids code key name number no ref pin iban account phone token".split())


def left_open(call: ToolCall, tool: Tool, last: str, request: Request, lookups: LookUps) -> Missing | None:
    """The first derivable parameter whose value is a guess. last: what the user said last; an answer to the question is
    said later, and ends it. request: all that the user said."""
    last = last[:READ]
    for parameter in tool.parameters:
        if parameter.name not in call.arguments or _is_composed(parameter):
            continue
        values = list(islice(filter(None, map(spelled, values_in(call.arguments[parameter.name]))), _MOST_VALUES))
        unsaid = [value for value in values if stretch_of(value, request.text) is None]
        if not unsaid or unsaid[0].casefold() == str(parameter.schema.get("default", "")).casefold():
            continue
        why = _only_its_kind(parameter, last)
        if not why and not _is_said(unsaid[0], request.text):
            why = (
                _none_of_the_names(parameter, unsaid[0], call, request, lookups)
                or _no_new_number(parameter, last)
                or _unnamed_entry(unsaid[0], _kinds(parameter), last, request, lookups)
            )
        if why:
            return Missing(
                parameter.name,
                why,
                f"Which {described(call, tool, parameter.name)} do you mean? {why[:1].upper()}{why[1:]}.",
            )
    return None


def _is_composed(parameter: Parameter) -> bool:
    return parameter.source == "generative" or (parameter.source is None and is_free_text(parameter))


def _is_said(value: str, said: str) -> bool:
    """In any form: a number in words, a name with another ending."""
    if stretch_of(value, said) is not None:
        return True
    theirs = {stem(word) for word in words_of(said[:READ])}
    stems = {stem(word) for word in words_of(value)}
    return bool(stems) and stems <= theirs


@lru_cache(maxsize=1024)
def _kinds_of(name: str, description: str) -> frozenset[str]:
    """Words for what a parameter is: the head of its name, and of what its description begins with."""
    parts = [singular(word) for word in words_of(name)]
    own = [part for part in parts if part not in _IDENTIFIER]
    first = _OF.sub("", description[:200].casefold())
    head = words_in(_TAIL.split(first, maxsplit=1)[0])
    words = frozenset((*own[-1:], *(singular(word) for word in head))) - _NAMES_NOTHING - _IDENTIFIER
    return words.union(*(group for group in _ALIKE if group & words))


def _kinds(parameter: Parameter) -> frozenset[str]:
    return _kinds_of(parameter.name, str(parameter.schema.get("description") or ""))


def _only_its_kind(parameter: Parameter, last: str) -> str | None:
    """Whether the request names the kind, as one of several, and nothing that tells which."""
    kinds = _kinds(parameter)
    patterns = (_FEW,) if parameter.schema.get("type") in ("integer", "number") else (_ONE,)
    for pattern in patterns:
        for found in pattern.finditer(last):
            clause = _CLAUSE.match(last, found.end(), found.end() + 40)
            told = pattern is _ONE and clause is not None and _VALUE.search(clause[0])
            if not told and not kinds.isdisjoint(map(singular, words_in(found["what"]))):
                return f"the request says {' '.join(found[0].split())!r} and not which"
    return None


def _none_of_the_names(
    parameter: Parameter, value: str, call: ToolCall, request: Request, lookups: LookUps
) -> str | None:
    """Whether it is one of the documented names, such as currencies, of which the user wrote none for it."""
    names = _documented(parameter)
    if len(names) < 3 or value not in names or not all(name[:1].isupper() for name in names):
        return None
    if lookups.holds(value.casefold()):
        return None
    others = {str(one) for name, one in call.arguments.items() if name != parameter.name}
    if any(_is_said(name, request.text) for name in names if name not in others):
        return None
    return f"the request names none of {', '.join(names[:10])}{' for it' if others & set(names) else ''}"


def _documented(parameter: Parameter) -> list[str]:
    options = parameter.schema.get("enum")
    if isinstance(options, list):
        return [str(option) for option in options[:200]]
    found = _LISTED.search(str(parameter.schema.get("description") or "")[:2_000])
    return [part.strip(" \"'[].") for part in found["list"].split(",")] if found else []


def _no_new_number(parameter: Parameter, last: str) -> str | None:
    """Whether a number is to be another, and the request holds none."""
    words = words_of(parameter.name)
    if parameter.schema.get("type") not in ("integer", "number") or (words and words[-1] in _IDENTIFIER):
        return None
    if not _NEW.search(last) or _ELSEWHERE.search(last) or read_values(last, None).numbers:
        return None
    return f"the request wants another {' '.join(words)} and gives no number"


def _unnamed_entry(value: str, kinds: frozenset[str], last: str, request: Request, lookups: LookUps) -> str | None:
    """Whether results list it under a name, beside others of its form, and the request holds no word of its entry."""
    if read_request(last, request.now).is_open(kinds) or _PROPER.search(_QUOTED.sub("", last)):
        return None  # a name may be that of an entry which does not say it
    if any(word.startswith(value.casefold()) for word in words_in(request.text)):
        return None  # short for it
    found = [entry for one in lookups.all for entry in _entries(one.source.text[:_MOST_CHARS]) if entry[0] == value]
    if not found or any(words is None or words & request.words for _, words in found):
        return None
    return f"{value} is one of several, and the request names none of them"


@lru_cache(maxsize=256)
def _entries(text: str) -> tuple[tuple[str, frozenset[str] | None], ...]:
    """Each single value and key of JSON; with the words of its entry where it belongs to a map whose values, or keys,
    are ids of one form, else None."""
    if text.lstrip()[:1] not in ("[", "{"):
        return ()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    found: list[tuple[str, frozenset[str] | None]] = []
    stack = [data]
    while stack and len(found) < _MOST_NODES:
        node = stack.pop()
        held = list(node.values()) if isinstance(node, dict) else node
        if isinstance(node, dict):
            found += _of_map(node)
        else:
            found += [(single, None) for one in held if not isinstance(one, (dict, list)) and (single := spelled(one))]
        stack += [one for one in held if isinstance(one, (dict, list))]
    return tuple(found)


def _of_map(node: dict[str, Any]) -> Iterator[tuple[str, frozenset[str] | None]]:
    ids = [one for one in node.values() if isinstance(one, str) and regex.search(r"\p{N}", one)]
    named = len(ids) == len(node) > 1 and len({form_of(one) for one in ids}) == 1
    keyed = len(node) > 1 and all(isinstance(one, dict) for one in node.values())
    for key, one in node.items():
        if isinstance(one, dict):
            held = " ".join(str(v) for v in one.values() if isinstance(v, str))
            yield key, _words(f"{key} {held}") if keyed else None
        elif not isinstance(one, list) and (text := spelled(one)):
            yield text, _words(key) if named else None


def _words(text: str) -> frozenset[str]:
    return frozenset(singular(word) for word in words_in(text))
