"""Sets of tasks drawn from domains: the same arguments always give the same tasks.

tasks = make_tasks(["mail", "bank"], "train", {Label.BENIGN: 200, Label.HARMFUL: 200}, seed=1)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from random import Random

from demur.envs.family import Domain
from demur.envs.task import Task
from demur.envs.trace import Label
from demur.envs.worlds import load_domain


def make_tasks(worlds: Sequence[str], split: str, counts: Mapping[Label, int], seed: int = 0) -> list[Task]:
    """Draw tasks in a mixed order: for each label `counts[label]`, spread evenly over worlds and families.

    No two tasks of a set put the same query to the same state. Raises ValueError if a label cannot be
    made by any of the worlds.
    """
    domains = [load_domain(name) for name in worlds]
    tasks: list[Task] = []
    seen: set[tuple[str, str]] = set()
    for label, wanted in counts.items():
        stream = _stream(domains, label, split, seed)
        end = len(tasks) + wanted
        while len(tasks) < end:
            task = next(stream)
            content = (task.query, task.initial.model_dump_json())
            if content not in seen:
                seen.add(content)
                tasks.append(task)
    Random(f"order/{split}/{seed}").shuffle(tasks)
    return tasks


def _stream(domains: Sequence[Domain], label: Label, split: str, seed: int) -> Iterator[Task]:
    """Tasks of one label, family after family."""
    sources = [(d, f.name) for d in domains for f in d.families.values() if label in f.labels]
    if not sources:
        raise ValueError(f"none of the worlds {', '.join(d.name for d in domains)} makes {label} tasks")
    for index in count():
        domain, family = sources[index % len(sources)]
        # seeds of different sets lie far apart, so that sets do not overlap
        yield domain.task(family, label, split, seed * 1_000_000 + index // len(sources))
