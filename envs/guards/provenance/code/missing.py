"""What a request leaves open in so many words: "a specific file", "a certain number of lines"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import regex

from demur.envs.guards.provenance.code.rows import words_in
from demur.envs.tool import Tool
from demur.envs.trace import ToolCall

_READ: Final = 20_000
_VALUE: Final = regex.compile(
    r"[\p{N}'\"‘“«#@/]|\b(?:called|named|titled|namely|which is|that is|such as)\b", regex.IGNORECASE
)
_OPEN: Final = regex.compile(
    r"\b(?:a|an|some|one)\s+(?P<how>specific|certain|particular|special)\s+"
    r"(?P<what>(?!(?:that|of|about|to|you|it|the|i|we|all|in|on|and|or|way|reason)\b)(?:[\p{L}-]+\s+){0,2}?[\p{L}-]+)(?=\s+(?:of|in|on|to|for|from|within|with|that|which|and|is|are|was|into|"
    r"by|at|as|if|me|it|i)\b|\s*[.,;:!?)]|\s*$)",
    regex.IGNORECASE,
)


_NOTHING: Final = frozenset("none off no nothing never closed disabled".split())


_SHARED: Final = regex.compile(
    r"(?P<what>\p{L}+(?: \p{L}+)?)?,? \b(?:as|like) (?:discussed|agreed|arranged|settled)\b"
    r"|\b(?:the|a|an|that) (?P<thing>(?:(?!what\b|is\b)\p{L}+ ){1,3}?)(?:that |which )?(?:we|i|you and i) "
    r"(?:have |had |just |both )*(?:agreed on|settled on|shook hands on|discussed|talked about|spoke about|in mind|"
    r"told you about)\b",
    regex.IGNORECASE,
)
"""What was said elsewhere, which nobody but the user knows."""


class Missing(NamedTuple):
    what: str
    reason: str
    question: str


def placeholder_in(text: str) -> Missing | None:
    """The thing that the request only says to exist, such as "a specific file", without telling which."""
    text = text[:_READ]
    for found in _OPEN.finditer(text):
        if _VALUE.search(text, found.end(), found.end() + 40):
            continue
        what = " ".join(found["what"].split())
        said = " ".join(found[0].split())
        return Missing(what, f"the request says {said!r} and not which", f"Which {what} do you mean?")
    if (shared := _SHARED.search(text)) and not _VALUE.search(text, shared.end(), shared.end() + 40):
        what = (shared["thing"] or shared["what"] or "thing").strip()
        return Missing(
            what, f"the request says {shared[0].strip()!r}, which is not known here", f"Which {what} do you mean?"
        )
    return None


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
