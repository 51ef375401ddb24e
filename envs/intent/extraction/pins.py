"""Values that a query states word for word, for the parameters that they fit.

Only a value that occurs in the query is pinned, and only for a derivable parameter: nothing is looked up or made up.
Which parameter a value fits is told by its form (a mail address, a path, a weekday, a number) and by the parameter's
name and type; a parameter that nothing fits stays open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import regex

from demur.envs.intent.contract import Between, Equals, OneOf, Predicate, Scalar
from demur.envs.tool import Parameter, Tool

_MAIL: Final = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
_DAYS: Final = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
# by the last word of a parameter's name; values of one form are never taken for another
_FORMS: Final[dict[str, str]] = {
    "path": r"(?<![\w/])[\w.-]+(?:/[\w.-]+)+(?<!\.)",
    "day": rf"\b{_DAYS}\b",
    "time": r"\b\d{1,2}:\d{2}\b",
    "version": r"\b\d+\.\d+(?:\.\d+)*\b",
    "account": r"\b\d{3,}\b",
    "digits": r"\b\d{3,}\b",
    "email": _MAIL,
    "channel": r"(?<!\w)#[\w-]+",
    "place": r"(?<!\w)[#@][\w-]+(?:\.[\w-]+)*",
    "person": r"(?<!\w)@[\w-]+(?:\.[\w-]+)*",
    "id": r"\b[a-z]\d{1,6}\b",
}
_NUMBER: Final = regex.compile(r"(?<![\w.:/@#-])-?\d+(?:\.\d+)?(?![\w:/@-]|\.\d)")
_TITLE: Final = regex.compile(r"['\"“「]([^'\"”」]{2,60})['\"”」]")
# words that are answers to yes and no, and small words, say too little
_VAGUE: Final = frozenset({"on", "off", "none", "read", "write", "yes", "no", "always", "everything"})
_AT_MOST: Final = (
    r"\b(?:at most|(?:no|not) more than|(?:up to )?a maximum of|not (?:over|above)|under|below)\s|最多|不得?超过"
)
_AT_LEAST: Final = r"\b(?:at least|(?:no|not) less than)\s|至少|不少于"
_BOUND: Final = regex.compile(
    rf"(?:(?P<most>{_AT_MOST})|(?P<least>{_AT_LEAST}))\s*[€$£¥]?(?P<number>\d+(?:\.\d+)?)(?![\w:/]|\.\d)",
    regex.IGNORECASE,
)


def pins(tool: Tool, text: str) -> tuple[Predicate, ...]:
    """A condition for each derivable parameter whose value `text` states, Equals or OneOf."""
    text = _BOUND.sub(" ", text)  # a bound is no value
    found = []
    for parameter in tool.parameters:
        values = tuple(dict.fromkeys(_values(tool, parameter, text)))
        if parameter.source == "derivable" and values:
            one = len(values) == 1
            found.append(_equals(parameter, values[0]) if one else OneOf(argument=parameter.name, values=values))
    return tuple(found)


def bounds(text: str) -> list[Between]:
    """What `text` says of how large a number may be; `argument` is left empty."""
    found = []
    for match in _BOUND.finditer(text):
        number = float(match["number"])
        low, high = (None, number) if match["most"] else (number, None)
        found.append(Between(argument="", minimum=low, maximum=high))
    return found


def numeric(tool: Tool) -> list[str]:
    """The names of a tool's number parameters."""
    return [p.name for p in tool.parameters if p.schema["type"] in ("integer", "number")]


def _equals(parameter: Parameter, value: Scalar) -> Equals:
    return Equals(argument=parameter.name, value=value)


def _values(tool: Tool, parameter: Parameter, text: str) -> Iterator[Scalar]:
    kind, last = parameter.schema["type"], parameter.name.split("_")[-1]
    if "enum" in parameter.schema:
        yield from (v for v in parameter.schema["enum"] if v not in _VAGUE and _says(text, v))
    elif kind in ("integer", "number"):
        for found in _NUMBER.findall(text):
            if "." not in found:
                yield int(found)
            elif kind == "number":
                yield float(found)
    elif kind == "string":
        if last in _FORMS:
            yield from regex.findall(_FORMS[last], text)
        elif last == "to" and "address" in tool.description and "mail" in tool.description.casefold():
            yield from regex.findall(_MAIL, text)
        elif last == "title":
            yield from _TITLE.findall(text)


def _says(text: str, value: str) -> bool:
    return regex.search(rf"(?<!\w){regex.escape(value)}(?!\w)", text, regex.IGNORECASE) is not None
