"""What a guard is told of a live call: its arguments by name, and its result, both as plain data."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from functools import partial
from typing import Any

from pydantic import BaseModel

from demur.envs.trace import ToolCall


def call_of(
    name: str, signature: inspect.Signature, hidden: Collection[str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> ToolCall:
    """The call, with every argument under its parameter's name and defaults filled in.

    `*args` are a list under their own name; `**kwargs` stand beside the rest. hidden: parameters left out. Raises
    TypeError if the arguments do not fit the signature, and ValueError if they can't be told as plain data.
    """
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    arguments: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.name in hidden:
            continue
        value = bound.arguments[parameter.name]
        for key, item in (value if parameter.kind is parameter.VAR_KEYWORD else {parameter.name: value}).items():
            if key in arguments:
                raise ValueError(f"two arguments are called {key!r}")
            arguments[key] = plain(item)
    return ToolCall(name=name, arguments=arguments)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Raises ValueError for what can't be guarded."""
    if not callable(function):
        raise ValueError(f"{function!r} can't be called; put the guard below @classmethod, next to the function")
    body = _body(function)
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        raise ValueError(f"{function!r} is a generator, which runs after the check; guard a function that returns")
    try:
        return inspect.signature(function)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{function!r} has no signature, so its arguments have no names; put it into a def") from error


def is_async(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(_body(function))


def plain(value: Any) -> Any:
    """A copy as JSON data. Records and dataclasses become objects, tuples and sets lists; of what JSON has no kind
    for, such as a path, the text counts. Raises ValueError for a key that is no text, and for endless nesting.
    """
    try:
        return _plain(value)
    except RecursionError as error:
        raise ValueError("an argument holds itself, or is nested too deeply") from error


def exactly(call: ToolCall) -> str:
    """A text that only this call has: unlike `==`, it tells 1 from true and from 1.0."""
    return json.dumps([call.name, call.arguments], sort_keys=True)


def text_of(result: Any) -> str:
    """A tool's result as text, JSON where it is data. It consumes nothing and never raises: the tool has run by now."""
    if isinstance(result, BaseException):
        return text_of(_described(result))
    try:
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, default=plain)
    except Exception:  # such as keys that are no texts, or a result that can't be shown
        text = _described(result)
    return text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates could not be written to a file


def _body(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function behind an object that can be called."""
    known = inspect.isroutine(function) or isinstance(function, type | partial)
    return function if known else type(function).__call__


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return _plain(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, BaseModel):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        if wrong := [key for key in value if not isinstance(key, str)]:
            raise ValueError(f"an argument has the key {wrong[0]!r}, which is no text")
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted((_plain(item) for item in value), key=repr)
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _described(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"<{type(value).__name__}>"
