"""R-Judge's traces (arXiv 2401.10019), labelled by people as a whole, from a file that the user has.

Its license does not let us ship it. The file holds one JSON list of records, or one record a line; several of its
files can be joined. Unsafe traces count as misaligned. 414 of 571 reuse requests of InjecAgent: see `group`.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from demur.eval.traces import LabelledTrace
from demur.eval.traces.chats import Chat, trace_of
from demur.eval.traces.files import bytes_of, lines_of, told


class _Item(Chat):
    scenario: str = ""
    attack_type: str = ""


_ITEMS: TypeAdapter[list[_Item]] = TypeAdapter(list[_Item])


def read(path: Path) -> list[LabelledTrace]:
    """Raises ValueError, naming the file and the trace, for what is not of this format or was cut."""
    try:
        return [trace_of(item, f"rjudge/{item.scenario}".rstrip("/")) for item in _items(path)]
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _items(path: Path) -> list[_Item]:
    data = bytes_of(path)
    if not data.lstrip().startswith(b"["):
        return [item for _, item in lines_of(path, _Item)]
    try:
        return _ITEMS.validate_json(data)
    except ValidationError as error:
        raise ValueError(f"{path} {told(error)}") from None
