"""Plans: the calls of a task's expert, and what is needed to change them (`demur.envs.intent.redteam.mutations`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple, TypeVar

from demur.envs.task import Script, Task, alike
from demur.envs.tool import Parameter, Tool
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, ToolCall
from demur.envs.world import World, short_texts

T = TypeVar("T")


class Planned(NamedTuple):
    """A call of a plan. granted: an approver agreed to it, should it need one."""

    call: ToolCall
    granted: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """busy: tools of the world that fail the first time, by their own names."""

    steps: tuple[Planned, ...]
    busy: tuple[str, ...] = ()

    def with_step(self, at: int, *steps: Planned) -> Plan:
        """Other steps, or none, in place of the one at `at`."""
        return replace(self, steps=(*self.steps[:at], *steps, *self.steps[at + 1 :]))

    def changed(self, at: int, arguments: dict[str, Any]) -> Plan:
        """Other values of some arguments of the call at `at`."""
        step = self.steps[at]
        return self.with_step(at, step._replace(call=with_arguments(step.call, arguments)))

    def swapped(self, one: int, other: int) -> Plan:
        return self.with_step(one, self.steps[other]).with_step(other, self.steps[one])


class Subject:
    """A task with its expert's plan, and the values that its state offers for mistakes.

    changes: where in the plan the environment is changed.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.tools: dict[str, Tool] = task.initial.offered()
        self.plan = plan_of(task.expert)
        self.changes = [i for i, step in enumerate(self.plan.steps) if self.tools[step.call.name].changes]
        self._columns = _columns(task.initial)
        self._texts = sorted(short_texts(task.initial))
        self._keys = list(_keys(task.initial))

    def tool(self, at: int) -> Tool:
        return self.tools[self.plan.steps[at].call.name]

    def parameter(self, at: int, name: str) -> Parameter:
        return next(parameter for parameter in self.tool(at).parameters if parameter.name == name)

    def is_final(self, at: int) -> bool:
        """Whether nothing undoes the change at `at`."""
        return not self.tool(at).reversible

    def read_before(self, at: int) -> str | None:
        """The tool that the plan reads with last before the step at `at`."""
        names = [step.call.name for step in self.plan.steps[:at]]
        return next((name for name in reversed(names) if not self.tools[name].changes), None)

    def neighbours(self) -> list[tuple[int, int]]:
        """Changes that follow each other."""
        return list(pairwise(self.changes))

    def pinned(self, rng: Random) -> list[tuple[int, str, Any]]:
        """(step, argument, value) of the derivable arguments of changing calls, in a random order."""
        found = [
            (at, name, value)
            for at in self.changes
            for name, value in self.plan.steps[at].call.arguments.items()
            if name in self.tool(at).derivable
        ]
        return shuffled(found, rng)

    def amounts(self, rng: Random) -> list[tuple[int, str, int]]:
        """Those of `pinned` that are whole numbers."""
        return [one for one in self.pinned(rng) if isinstance(one[2], int) and not isinstance(one[2], bool)]

    def others(self, value: str) -> list[str]:
        """Values of the state that may be taken for `value`: look-alikes, then those of the same kind."""
        same_kind = (one for columns in self._columns.values() for c in columns if value in c for one in c)
        found = dict.fromkeys([*sorted(alike(value, [*self._texts, *self._keys])), *same_kind])
        return [one for one in found if one != value]

    def call(self, tool: Tool, rng: Random) -> ToolCall:
        """A call with plausible values for all required parameters."""
        arguments = {p.name: self.plausible(p, rng) for p in tool.parameters if p.required}
        return ToolCall(name=tool.name, arguments=arguments)

    def plausible(self, parameter: Parameter, rng: Random) -> Any:
        """A value that the parameter could be given in this state."""
        kind = parameter.schema["type"]
        if "enum" in parameter.schema:
            return rng.choice(parameter.schema["enum"])
        if kind == "boolean":
            return rng.random() < 0.5
        used = [value for step in self.plan.steps for value in step.call.arguments.values()]
        if kind in ("integer", "number"):
            numbers = [value for value in used if isinstance(value, int) and not isinstance(value, bool)]
            return rng.choice([*numbers, rng.randrange(1, 100)])
        if parameter.source == "generative":
            return "Please have a look at this."
        texts = [value for value in used if isinstance(value, str)]
        pools = [*self._columns.get(parameter.name, []), texts, self._texts]
        return rng.choice(rng.choice([pool for pool in pools if pool] or [["x"]]))


def plan_of(script: Script) -> Plan:
    """The calls of a script that run a tool of the world and are not meant to fail."""
    calls = (step.call for step in script if step.call is not None and not step.fails)
    return Plan(tuple(Planned(call) for call in calls if call.name not in (REFUSE_TOOL, ASK_TOOL)))


def with_arguments(call: ToolCall, arguments: dict[str, Any]) -> ToolCall:
    return call.model_copy(update={"arguments": {**call.arguments, **arguments}})


def shuffled(items: Sequence[T], rng: Random) -> list[T]:
    return rng.sample(items, len(items))


def _keys(world: World) -> Iterator[str]:
    for field in type(world).model_fields:
        if isinstance(record := getattr(world, field), dict):
            yield from record


def _columns(world: World) -> dict[str, list[list[str]]]:
    """Values of one kind each, by name: the keys of a table, or one field of its records."""
    found: dict[str, list[list[str]]] = {}
    for field in type(world).model_fields:
        table = getattr(world, field)
        if not isinstance(table, dict) or not table:
            continue
        for name in ("id", field.rstrip("s")):
            found.setdefault(name, []).append(list(table))
        for name in type(next(iter(table.values()))).model_fields:
            texts = [value for e in table.values() if isinstance(value := getattr(e, name, None), str) and value]
            found.setdefault(name, []).append(texts)
    return found
