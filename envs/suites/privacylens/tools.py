"""The tools of the cases. The benchmark's data has calls, not schemas: what is known of a tool is how it was called."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from demur.envs.suites.naming import only_reads
from demur.envs.suites.privacylens.cases import Case
from demur.envs.tool import EffectClass, Parameter, Tool

_TABLE: Final = Path(__file__).with_name("tools.yaml")
_TYPES: Final[dict[type, str]] = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
_TEXTS: Final = frozenset({"subject", "body", "message", "content"})


@cache
def final_tools() -> Mapping[str, Tool]:
    """The four tools that a last action may be; all of them send something out."""
    entries: dict[str, dict[str, str]] = yaml.safe_load(_TABLE.read_text(encoding="utf-8"))
    return {
        name: Tool(
            name=name,
            description=entry["does"],
            parameters=tuple(_described(key, text) for key, text in entry.items() if key != "does"),
            changes=True,
            reversible=False,
            kind=EffectClass.NOTIFY,
        )
        for name, entry in entries.items()
    }


def recorded_tools(cases: Iterable[Case]) -> dict[str, Tool]:
    """The tools that the agents called before, with the arguments that they gave them, none of them required."""
    kinds: defaultdict[str, dict[str, set[type]]] = defaultdict(dict)
    toolkits: set[str] = set()
    for case in cases:
        toolkits.update(case.trajectory.toolkits)
        for call, _ in case.steps:
            for name, value in call.arguments.items():
                kinds[call.name].setdefault(name, set()).add(type(value))
            kinds[call.name]  # a tool that was called without arguments
    return {name: _recorded(name, arguments, toolkits) for name, arguments in kinds.items()}


def offered_tools(case: Case, known: Mapping[str, Tool]) -> Iterator[Tool]:
    """Those that the case used, those known of its toolkits, and that of its last action."""
    final, used = case.trajectory.final_action, {step.call.name for step in case.steps}
    for name, tool in known.items():
        if name != final and name not in final_tools() and (name in used or name.startswith(case.trajectory.toolkits)):
            yield tool
    yield final_tools()[final]


def _described(name: str, text: str) -> Parameter:
    bare = name.rstrip("?")
    source: Literal["derivable", "generative"] = "generative" if bare in _TEXTS else "derivable"
    schema = {"type": "string", "description": text}
    return Parameter(name=bare, schema=schema, required=not name.endswith("?"), source=source)


def _recorded(name: str, arguments: Mapping[str, set[type]], toolkits: Iterable[str]) -> Tool:
    toolkit = next((kit for kit in sorted(toolkits, key=len, reverse=True) if name.startswith(kit)), "")
    verb = name.removeprefix(toolkit).removeprefix("Manager")
    said = " ".join(re.findall(r"[A-Z][a-z]*", verb)).capitalize()
    return Tool(
        name=name,
        description=f"{said} ({toolkit or 'tool'}).",
        parameters=tuple(_parameter(key, types) for key, types in arguments.items()),
        changes=not only_reads(verb, said) and not verb.startswith("Receive"),
    )


def _parameter(name: str, types: set[type]) -> Parameter:
    kinds = {_TYPES.get(kind) for kind in types}
    only = kinds.pop() if len(kinds) == 1 else None
    schema: dict[str, Any] = {"type": only} if only else {}
    return Parameter(name=name, schema=schema, required=False, source=None)
