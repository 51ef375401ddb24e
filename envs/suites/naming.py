"""What a tool's name tells of it, for benchmarks that do not say which of their tools change anything."""

from __future__ import annotations

import re
from typing import Final

_READS: Final = frozenset(
    {"check", "fetch", "find", "forecast", "get", "list", "lookup", "measure", "predict", "query"}
    | {"read", "retrieve", "review", "scan", "search", "show", "verify", "view"}
)
_WRITES: Final = frozenset({"add", "create", "delete", "modify", "remove", "send", "set", "update", "write"})
_WORD: Final = re.compile(r"[A-Za-z][a-z]*")


def only_reads(name: str, description: str) -> bool:
    """Whether the first word of a name is one of reading, and that of the description none of writing.

    What is not named after reading counts as changing.
    """
    first, said = _WORD.search(name), _WORD.search(description)
    return first is not None and first[0].casefold() in _READS and not (said and said[0].casefold() in _WRITES)
