"""The released cases: `released_data.json` and `environment_tools.json`, read from where they lie."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from demur.envs.suites.naming import only_reads
from demur.envs.tool import Parameter, Tool

RELEASED, DOCUMENTATION = FILES = ("released_data.json", "environment_tools.json")
FAILURE_MODES: Final = range(1, 11)
INCOMPLETE: Final = 2
"""The failure mode of an agent that calls tools on incomplete information."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case. tools: on offer, by name. state: by environment, for the simulator alone.

    fulfillable: it can be done safely, with care; otherwise it should not be done as it is asked.
    """

    id: int
    query: str
    tools: Mapping[str, Tool]
    state: Mapping[str, Any] = field(hash=False)
    failure_modes: frozenset[int]
    fulfillable: bool


class _Environment(BaseModel):
    name: str
    tools: list[str]
    parameters: dict[str, Any] | None = None


class _Released(BaseModel):
    id: int
    instruction: str = Field(min_length=1)
    environments: list[_Environment]
    failure_modes: str = Field(pattern=r"^\d+(,\d+)*$")
    fulfillable: Literal[0, 1]
    dialog: list[Any] | None = None


class _Schema(BaseModel):
    properties: dict[str, dict[str, Any]] = {}
    required: list[str] = []


class _Documented(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str
    description: str
    parameters: _Schema


_RELEASED: Final = TypeAdapter(list[_Released])
_TOOLS: Final = TypeAdapter(dict[str, list[_Documented]])


def read_cases(folder: Path, failure_modes: Collection[int] = (INCOMPLETE,)) -> list[Case]:
    """The cases that have one of these failure modes (1 to 10), in the order of the file.

    Left out are cases without a tool, and those that go on from a dialog. Raises ValueError, naming the file, for one
    that is missing, cut or of another form, for a tool that is not documented, and if there is no case.
    """
    if wrong := sorted(set(failure_modes) - set(FAILURE_MODES)):
        raise ValueError(f"there is no failure mode {wrong[0]}: use 1 to 10")
    documented = {
        environment: {tool.name: _tool(tool) for tool in tools}
        for environment, tools in _read(folder / DOCUMENTATION, _TOOLS).items()
    }
    path, cases = folder / RELEASED, {}
    for released in _read(path, _RELEASED):
        modes = frozenset(map(int, released.failure_modes.split(",")))
        if not modes & set(failure_modes) or released.dialog or not any(e.tools for e in released.environments):
            continue
        if released.id in cases:
            raise ValueError(f"{path} holds the case {released.id} twice")
        try:
            cases[released.id] = _case(released, modes, documented)
        except ValueError as error:
            raise ValueError(f"{path}: the case {released.id} {error}") from None
    if not cases:
        raise ValueError(f"{path} holds no case of failure mode {', '.join(map(str, failure_modes))}")
    return list(cases.values())


def _case(released: _Released, modes: frozenset[int], documented: Mapping[str, Mapping[str, Tool]]) -> Case:
    tools: dict[str, Tool] = {}
    for environment in released.environments:
        for name in environment.tools:
            tool = documented.get(environment.name, {}).get(name)
            if tool is None:
                raise ValueError(f"offers {name!r} of {environment.name!r}, which {DOCUMENTATION} lacks")
            if name in tools:
                raise ValueError(f"offers two tools named {name!r}")
            tools[name] = tool
    return Case(
        id=released.id,
        query=released.instruction,
        tools=tools,
        state={environment.name: environment.parameters or {} for environment in released.environments},
        failure_modes=modes,
        fulfillable=bool(released.fulfillable),
    )


def _tool(documented: _Documented) -> Tool:
    parameters = documented.parameters
    return Tool(
        name=documented.name,
        description=documented.description,
        parameters=tuple(
            Parameter(name=name, schema=schema, required=name in parameters.required, source=None)
            for name, schema in parameters.properties.items()
        ),
        changes=not only_reads(documented.name, documented.description),
    )


def _read(path: Path, form: TypeAdapter[T]) -> T:
    try:
        return form.validate_json(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} can not be read: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{path} is not of Agent-SafetyBench: {where + ': ' if where else ''}{first['msg']}") from None
