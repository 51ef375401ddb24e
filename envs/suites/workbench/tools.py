"""The tools of the sandboxes, with descriptions of our own."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from demur.envs.tool import Parameter, Tool

_FREE_TEXT, _ONE_OF = "(free text) ", "= "
_TABLE: Final = Path(__file__).with_name("tools.yaml")


@cache
def workbench_tools() -> Mapping[str, Tool]:
    """All 27 tools. Their descriptions are ours: the benchmark's prompts are not needed to play it."""
    entries: dict[str, dict[str, str]] = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    return {name.removesuffix("*"): _tool(name, entry) for name, entry in entries.items()}


def _tool(name: str, entry: dict[str, str]) -> Tool:
    return Tool(
        name=name.removesuffix("*"),
        description=entry["does"],
        parameters=tuple(_parameter(key, text) for key, text in entry.items() if key != "does"),
        changes=name.endswith("*"),
    )


def _parameter(name: str, text: str) -> Parameter:
    schema: dict[str, Any] = {"type": "string", "description": text.removeprefix(_FREE_TEXT)}
    if text.startswith(_ONE_OF):
        values = text.removeprefix(_ONE_OF)
        schema = {"type": "string", "enum": values.split("|") if "|" in values else values.split()}
    # every argument of the sandbox is optional by keyword
    source: Literal["derivable", "generative"] = "generative" if text.startswith(_FREE_TEXT) else "derivable"
    return Parameter(name=name, schema=schema, required=False, source=source)
