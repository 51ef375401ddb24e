"""Where tasks come from: our worlds, as a stream, or a benchmark from a user's folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Protocol

from demur.envs.suites.suite import Suite
from demur.envs.task import Task
from demur.envs.taskset import stream_tasks
from demur.envs.trace import Trajectory
from demur.envs.verify import verify
from demur.envs.worlds import load_domain
from demur.eval.matrix.options import WORLDS, Options

SUITES = {
    "agentharm": "demur.envs.suites.agentharm:AgentHarm",
    "asb": "demur.envs.suites.asb:ASB",
    "bfcl": "demur.envs.suites.bfcl:BFCL",
    "injecagent": "demur.envs.suites.injecagent:InjecAgent",
    "privacylens": "demur.envs.suites.privacylens.actions:PrivacyActions",
    "workbench": "demur.envs.suites.workbench:WorkBench",
}
"""Classes with `read(folder, *settings)`; a suite is named by its key, with settings behind slashes."""


class Source(Protocol):
    """size: tasks of one seed. notes: what is to be printed of it, such as its version."""

    @property
    def size(self) -> int: ...

    @property
    def settings(self) -> dict[str, Any]:
        """What its tasks depend on, seed aside."""
        ...

    @property
    def notes(self) -> dict[str, str | int | bool]: ...

    def tasks(self, seed: int) -> Iterator[Task]: ...

    def check(self, task: Task) -> None:
        """Raise ValueError for a task that does not hold together. Called before one is played."""
        ...

    def sample(self, seed: int) -> int:
        """Which sample of its task an episode is."""
        ...

    def score(self, trajectory: Trajectory) -> Mapping[str, float]:
        """Measures of its own, each in [0, 1]."""
        ...


class WorldTasks:
    """Held-out tasks of our worlds, other ones for each seed."""

    def __init__(self, options: Options) -> None:
        for name in options.worlds:
            load_domain(name)
        self._worlds, self._counts = options.worlds, options.counts
        self.size = sum(self._counts.values())
        self.settings = {"worlds": list(self._worlds), "split": "test"} | {
            label.value: count for label, count in self._counts.items()
        }
        self.notes: dict[str, str | int | bool] = {}

    def tasks(self, seed: int) -> Iterator[Task]:
        return stream_tasks(self._worlds, "test", self._counts, seed)

    def check(self, task: Task) -> None:
        verify(task)

    def sample(self, seed: int) -> int:
        return 0

    def score(self, trajectory: Trajectory) -> Mapping[str, float]:
        return {}


@dataclass(frozen=True)
class SuiteTasks:
    """The same tasks for each seed, all or `cases` of them."""

    suite: Suite
    cases: int | None

    @property
    def size(self) -> int:
        return len(self._chosen())

    @property
    def settings(self) -> dict[str, Any]:
        return {"version": self.suite.version, "fingerprint": self.suite.fingerprint, "cases": self.cases}

    @property
    def notes(self) -> dict[str, str | int | bool]:
        told: dict[str, str | int | bool] = {"version": self.suite.version, "fingerprint": self.suite.fingerprint}
        return told | {"tasks": self.size, "of": self.suite.size, "sampled": self.size < self.suite.size}

    def tasks(self, seed: int) -> Iterator[Task]:
        return iter(self._chosen())

    def check(self, task: Task) -> None:
        """A benchmark's files were held against their fingerprints."""

    def sample(self, seed: int) -> int:
        return seed

    def score(self, trajectory: Trajectory) -> Mapping[str, float]:
        return self.suite.score(trajectory)

    @cached_property
    def _all(self) -> list[Task]:
        return list(self.suite.tasks())

    def _chosen(self) -> list[Task]:
        tasks = self._all
        if self.cases is None or self.cases >= len(tasks):
            return tasks
        chosen = Random("cases").sample(range(len(tasks)), self.cases)
        return [tasks[at] for at in sorted(chosen)]


def load_source(name: str, options: Options) -> Source:
    """Raises ValueError for a name that is none, and for files that are missing or altered."""
    if name == WORLDS:
        return WorldTasks(options)
    key, *settings = name.split("/")
    if key not in SUITES:
        raise ValueError(f"there is no suite {name!r}; there are {', '.join((WORLDS, *SUITES))}")
    if options.data is None:
        raise ValueError(f"the suite {name!r} is read from files: name the folder that holds {key}/ with --data")
    folder = Path(options.data) / key
    if not folder.is_dir():
        raise ValueError(f"the suite {name!r} needs the folder {folder}: put its files there, or name another --data")
    module, _, attribute = SUITES[key].partition(":")
    try:
        suite = getattr(import_module(module), attribute).read(folder, *settings)
    except (KeyError, TypeError) as error:  # a setting that its `read` does not know
        raise ValueError(f"the suite {name!r} cannot be read: {type(error).__name__}: {error}") from error
    return SuiteTasks(suite, options.cases)
