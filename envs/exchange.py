"""Tasks to and from plain rows: JSONL files and `datasets` Datasets, each task with a fingerprint.

    write_tasks(Path("tasks.jsonl"), make_tasks(["mail"], "test", {Label.HARMFUL: 100}))
    tasks = read_tasks(Path("tasks.jsonl"))
    dataset = to_dataset(tasks)

A row holds everything: query, state, tools on offer, scripts, contract. Rows say which world they belong to by
name only; the code comes from the worlds that the reader names, never from the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter

from demur.envs.intent.contract import IntentContract
from demur.envs.task import HiddenFact, Script, Step, Task
from demur.envs.trace import Label, write_lines
from demur.envs.worlds import SHIPPED, load_domain

if TYPE_CHECKING:
    from datasets import Dataset

SCHEMA: Final = 1


class TaskRow(BaseModel):
    """One task as plain values; nested ones are JSON texts, so that a table has columns of one type."""

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA
    fingerprint: str
    id: str
    world: str
    family: str
    label: Label
    split: str
    seed: int
    level: int
    query: str
    state: str
    offered: str
    tools: str
    expert: str
    act: str
    contract: str
    facts: str
    must_say: list[str]
    secrets: list[str]
    hidden: bool
    twin: str | None
    turn_limit: int
    offers_refusal: bool
    offers_asking: bool


_STEPS: TypeAdapter[tuple[Step, ...]] = TypeAdapter(tuple[Step, ...])
_FACTS: TypeAdapter[tuple[HiddenFact, ...]] = TypeAdapter(tuple[HiddenFact, ...])


def to_row(task: Task) -> TaskRow:
    """A task as plain values."""
    content: dict[str, Any] = {
        "id": task.id,
        "world": task.world,
        "family": task.family,
        "label": task.label,
        "split": task.split,
        "seed": task.seed,
        "level": task.level,
        "query": task.query,
        "state": _text(task.initial.model_dump(mode="json")),
        "offered": _text(task.initial.shown_as()),
        "tools": _text([tool.schema() for tool in task.tools.values()]),
        "expert": _text(_script(task.expert)),
        "act": _text(_script(task.act)),
        "contract": _text(task.contract.model_dump(mode="json")),
        "facts": _text([asdict(fact) for fact in task.facts]),
        "must_say": list(task.must_say),
        "secrets": list(task.secrets),
        "hidden": task.hidden,
        "twin": task.twin,
        "turn_limit": task.turn_limit,
        "offers_refusal": task.offers_refusal,
        "offers_asking": task.offers_asking,
    }
    return TaskRow(fingerprint=hashlib.sha256(_text(content).encode()).hexdigest(), **content)


def from_row(row: TaskRow, worlds: Sequence[str] = SHIPPED) -> Task:
    """The task of a row. `worlds`: names or dotted paths of the domains that rows may belong to.

    Raises ValueError for a world that is not among them, for a row of a newer version, and for a row that was
    changed after it was written.
    """
    if row.schema_version > SCHEMA:
        raise ValueError(f"the row is of version {row.schema_version}; this demur reads up to {SCHEMA}")
    domains = {domain.name: domain for domain in map(load_domain, worlds)}
    if row.world not in domains:
        raise ValueError(f"the row belongs to the world {row.world!r}; pass it in `worlds` (now {', '.join(domains)})")
    world = domains[row.world].world.model_validate_json(row.state)
    if (offered := json.loads(row.offered)) is not None:
        world.offer(offered)
    task = Task(
        id=row.id,
        family=row.family,
        label=row.label,
        split=row.split,
        seed=row.seed,
        query=row.query,
        initial=world,
        expert=_STEPS.validate_json(row.expert),
        act=_STEPS.validate_json(row.act),
        contract=IntentContract.model_validate_json(row.contract),
        facts=_FACTS.validate_json(row.facts),
        must_say=tuple(row.must_say),
        secrets=tuple(row.secrets),
        hidden=row.hidden,
        twin=row.twin,
        turn_limit=row.turn_limit,
        offers_refusal=row.offers_refusal,
        offers_asking=row.offers_asking,
    )
    if to_row(task).fingerprint != row.fingerprint:
        raise ValueError(f"task {row.id} does not fit its fingerprint: the row, or the world's tools, have changed")
    return task


def fingerprint(tasks: Iterable[Task]) -> str:
    """SHA-256 over tasks in order; any change of wording, state, tools or scripts shows."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(to_row(task).fingerprint.encode())
    return digest.hexdigest()


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    """Write tasks, one a line; the file appears whole or not at all."""
    write_lines(path, (to_row(task).model_dump_json() for task in tasks))


def read_tasks(path: Path, worlds: Sequence[str] = SHIPPED) -> Iterator[Task]:
    """Read tasks; a line that is not one raises ValueError naming file and line."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                yield from_row(TaskRow.model_validate_json(line), worlds)
            except ValueError as error:
                raise ValueError(f"{path}:{number} is not a task: {error}") from error


def to_dataset(tasks: Iterable[Task]) -> Dataset:
    """A `datasets` Dataset, a row a task. Needs the package `datasets`."""
    from datasets import Dataset

    return Dataset.from_list([to_row(task).model_dump(mode="json") for task in tasks])


def from_dataset(dataset: Dataset, worlds: Sequence[str] = SHIPPED) -> list[Task]:
    """The tasks of a Dataset that `to_dataset` made."""
    return [from_row(TaskRow.model_validate(row), worlds) for row in dataset]


def _script(script: Script) -> list[Any]:
    return list(_STEPS.dump_python(script, mode="json"))


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=False, ensure_ascii=False)
