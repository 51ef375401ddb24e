"""Calls written as Python, as benchmarks keep their ground truths. They are parsed; nothing is evaluated."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Final

from demur.envs.trace import ToolCall

LONGEST_LITERAL: Final = 100_000
"""Characters of arguments that are read as a Python literal: the parser is no place for more."""


def keyword_call(text: str, order: Mapping[str, Sequence[str]] | None = None) -> ToolCall | None:
    """`domain.tool.func(a="x", b=2)` as a call of `domain.tool`; None if it is not one with literal keywords.

    order: by tool, the names of its parameters, where arguments may stand without a keyword.
    """
    if len(text) > LONGEST_LITERAL:
        return None
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, ast.Call) or any(k.arg is None for k in node.keywords):
            return None
        name = ast.unparse(node.func).removesuffix(".func")
        names = (order or {}).get(name, ())
        if len(node.args) > len(names):
            return None
        arguments = {key: plain(ast.literal_eval(value)) for key, value in zip(names, node.args, strict=False)}
        arguments |= {str(k.arg): plain(ast.literal_eval(k.value)) for k in node.keywords}
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return ToolCall(name=name, arguments=arguments)


def literal(text: str) -> object:
    """A Python literal in the way JSON has it; None if it is none."""
    if len(text) > LONGEST_LITERAL:
        return None
    try:
        return plain(ast.literal_eval(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def plain(value: object) -> object:
    """Tuples and sets as lists, the way JSON has it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
