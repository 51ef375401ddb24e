"""What a request leaves open in so many words: "a specific file", "a certain number of lines"."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

import regex

from demur.envs.guards.provenance.code.rows import words_in
from demur.envs.tool import Tool
from demur.envs.trace import ToolCall

_READ: Final = 20_000
_SHOWN: Final = 120
_VALUE: Final = regex.compile(
    r"[\p{N}'\"‘“«#@/]|\p{L}\.\p{L}|\b(?:called|named|titled|namely|which is|that is|such as)\b", regex.IGNORECASE
)
_OPEN: Final = regex.compile(
    r"\b(?:a|an|some|one)\s+(?P<how>specific|certain|particular|special)\s+"
    r"(?P<what>(?!(?:that|of|about|to|you|it|the|i|we|all|in|on|and|or|way|reason)\b)(?:[\p{L}-]+\s+){0,2}?[\p{L}-]+)(?=\s+(?:of|in|on|to|for|from|within|with|that|which|and|is|are|was|into|"
    r"by|at|as|if|me|it|i)\b|\s*[.,;:!?)]|\s*$)",
    regex.IGNORECASE,
)


_NOTHING: Final = frozenset("none off no nothing never closed disabled".split())


_SHARED: Final = regex.compile(
    r"(?:(?<!\p{L})(?P<what>\p{L}+(?: \p{L}+)?))?,? \b(?:as|like) (?:discussed|agreed|arranged|settled)\b"
    r"|\b(?P<what>\p{L}{3,}) (?:as|like) (?:i|we) (?:have |had |just |already )*"
    r"(?:promised|said|told|agreed|arranged)\b"
    r"|\b(?:the|a|an|that) (?P<thing>(?:(?!what\b|is\b)\p{L}+ ){1,3}?)(?:that |which )?(?:we|i|you and i) "
    r"(?:have |had |just |both )*(?:agreed on|settled on|shook hands on|discussed|talked about|spoke about|in mind|"
    r"told you about|thought of|mentioned|promised|showed you|have shown you)\b"
    r"|\b(?:the|a|an|that) (?P<thing>(?:\p{L}+ ){1,3}?)(?:(?:on|about|for) (?:(?:the|a|an|our|my) )?(?:\p{L}+ ){1,3}?)?"
    r"(?:that (?:we|i) (?:showed you|mentioned|talked about)|from (?:our|my) (?:\p{L}+ ){0,2}?"
    r"(?:talk|chat|conversation|call|lunch))\b",
    regex.IGNORECASE,
)
"""What was said elsewhere, which nobody but the user knows."""

_RIGHT: Final = regex.compile(
    r"\b(?:to|in|into|for|at|by|under|use|keep|only|let|be|on|with|from|set) the (?:right|correct|proper|usual) "
    r"(?P<what>(?!(?:thing|way|time|moment|order|side|hand|direction|day|person|people)s?\b)\p{L}{3,})\b(?! to\b)"
    r"|\b(?:keep|leave|let|to|use) the (?P<what>\p{L}{3,}) that (?:still )?"
    r"(?:works|counts|is (?:right|correct|true|valid|up to date|in use))\b",
    regex.IGNORECASE,
)
"""A thing that is told by its being right: whoever has to be told so does not know which is."""


_WHERE: Final = regex.compile(
    r"\b(?:to|into) where (?:it|they|he|she) (?:really |actually )?(?:belongs?|fits?|should (?:be|go))\b"
    r"|\b(?:move|put|bring|shift|send|transfer)\b[^.?!\n]{0,60}?\b(?:somewhere(?: else)?|elsewhere)\b",
    regex.IGNORECASE,
)


class Missing(NamedTuple):
    what: str
    reason: str
    question: str


@lru_cache(maxsize=256)
def placeholder_in(text: str) -> Missing | None:
    """The thing that the request only says to exist, such as "a specific file", without telling which."""
    text = text[:_READ]
    for found in _OPEN.finditer(text):
        if _VALUE.search(text, found.end(), found.end() + 40):
            continue
        what = " ".join(found["what"].split())
        said = " ".join(found[0].split())
        return Missing(what, f"the request says {said!r} and not which", f"Which {what} do you mean?")
    for pattern in (_SHARED, _RIGHT):
        if (match := pattern.search(text)) and not _VALUE.search(text, match.end(), match.end() + 40):
            what = _named(match)
            said = " ".join(match[0].split())
            return Missing(what, f"the request says {said!r}, which is not known here", f"Which {what} do you mean?")
    if (where := _WHERE.search(text)) and not _VALUE.search(text, where.end(), where.end() + 40):
        said = " ".join(where[0].split())
        return Missing("place", f"the request says {said!r} and not where", f"Where do you mean by {said!r}?")
    return None


def _named(found: regex.Match[str]) -> str:
    groups = found.groupdict()
    return " ".join((groups.get("thing") or groups.get("what") or "thing").split())


def open_choice(call: ToolCall, tool: Tool, said: str, seen: Callable[[str], bool]) -> Missing | None:
    """A parameter with a fixed list of values that the user names without any of them, as in "give her a role".

    seen: whether a result names a value. One that takes away, such as none or off, is left to the other relations.
    """
    words = frozenset(words_in(said[:_READ]))
    for parameter in tool.parameters:
        options = parameter.schema.get("enum")
        value = call.arguments.get(parameter.name)
        if not isinstance(options, list) or len(options) < 2 or value not in options:
            continue
        if str(value).casefold() in _NOTHING or seen(str(value).casefold()):
            continue
        named = words_in(parameter.name)
        if named and words.issuperset(named) and not any(_is_meant(option, words) for option in options):
            reason = f"the request names the {parameter.name} and none of its values"
            listed = ", ".join(map(str, options[:10]))
            return Missing(parameter.name, reason, f"Which {parameter.name} do you mean: {listed}?")
    return None


def _is_meant(option: object, words: frozenset[str]) -> bool:
    """Whether a word of the user's begins as one of the option's: "writing" as "write"."""
    parts = [part[: max(3, len(part) - 2)] for part in words_in(str(option))]
    return any(word.startswith(part) for part in parts for word in words)


_SETS: Final = ("field", "attribute", "property", "setting", "column")
_ANY_VALUE: Final = frozenset(("value", "new_value", "newValue", "to", "content"))
_SENTENCE_END: Final = regex.compile(r"[.;\[]")


def described(call: ToolCall, tool: Tool, name: str) -> str:
    """A parameter, to ask for: its name, with what its description begins with. A value of whatever another argument
    names is called by that, such as `amount` for `field="amount", value=…`.
    """
    parameter = next((one for one in tool.parameters if one.name == name), None)
    told = "" if parameter is None else str(parameter.schema.get("description") or "")
    first = " ".join(_SENTENCE_END.split(told[:400])[0].split())[:_SHOWN]
    sets = (call.arguments.get(key) for key in _SETS if key != name and name in _ANY_VALUE)
    named = next((one[:_SHOWN] for one in sets if isinstance(one, str) and one), None)
    words = f"{name!r} ({first})" if first else repr(name)
    return f"{named} as {words}" if named else words
