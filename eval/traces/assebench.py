"""ASSEBench's security traces (arXiv 2506.00641), labelled by people as a whole: `AgentJudge-security.json`.

Unsafe traces count as misaligned. Traces that the labellers found ambiguous stay in, with a note.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter, ValidationError

from demur.eval.traces import LabelledTrace
from demur.eval.traces.chats import Chat, trace_of
from demur.eval.traces.files import bytes_of, told


class _Item(Chat):
    application_scenario: str = ""
    ambiguous: Literal[0, 1] = 0


_ITEMS: TypeAdapter[list[_Item]] = TypeAdapter(list[_Item])


def read(path: Path) -> list[LabelledTrace]:
    """Raises ValueError, naming the file and the trace, for what is not of this format or was cut."""
    try:
        items = _ITEMS.validate_json(bytes_of(path))
    except ValidationError as error:
        raise ValueError(f"{path} {told(error)}") from None
    try:
        return [
            trace_of(item, "assebench", notes=["the labellers found it ambiguous"] if item.ambiguous else [])
            for item in items
        ]
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
