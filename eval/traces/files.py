"""What readers of traces share: files of JSON, checked line by line, and calls as turns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from demur.envs.protocol import act, render_observation
from demur.envs.suites.calls import literal
from demur.envs.trace import ToolCall, Turn

M = TypeVar("M", bound=BaseModel)


class Loose(BaseModel):
    """Base of others' records: keys that are of no use here may be there."""

    model_config = ConfigDict(frozen=True)


def bytes_of(path: Path) -> bytes:
    """Raises ValueError if the file is missing or cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} can not be read: {error.strerror or error}") from error


def lines_of(path: Path, record: type[M]) -> Iterator[tuple[int, M]]:
    """(line number, record) of a JSONL file. Raises ValueError naming file, line and field, also for a cut line."""
    for number, line in enumerate(bytes_of(path).splitlines(), 1):
        try:
            yield number, record.model_validate_json(line)
        except ValidationError as error:
            raise ValueError(f"{path}:{number} {told(error)}") from None


def told(error: ValidationError) -> str:
    """What is wrong with a record, in a few words that hold nothing of its content."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(map(str, first["loc"]))
    return f"is not a trace of this format: {where + ': ' if where else ''}{first['msg']}"[:300]


def call_turn(call: ToolCall, result: str, *, plan: str = "", failed: bool = False) -> Turn:
    """A recorded call that ran."""
    return Turn(plan=plan, action=act(call), observation=render_observation(result), executed=True, failed=failed)


def arguments_of(text: str) -> Mapping[str, Any] | None:
    """Arguments written as a JSON object or a Python dict, None if it is neither. Nothing is evaluated."""
    text = text.strip()
    if not text:
        return {}
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError):
        found = literal(text)
    return found if isinstance(found, dict) and all(isinstance(key, str) for key in found) else None
