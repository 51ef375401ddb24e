"""What every benchmark looks like from here: tasks that any policy can play, and its own score of how that went.

suite: Suite = WorkBench.read(Path("workbench"))
played = run_batched([Episode(task) for task in suite.tasks()], policy)
scores = [suite.score(trajectory) for trajectory in played]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from demur.envs.task import Task
from demur.envs.trace import Trajectory


class Suite(Protocol):
    """One benchmark, read from a user's folder.

    version: of the benchmark, as its makers name it. fingerprint: SHA-256 over the files that were read.
    size: tasks that the whole benchmark has; one with fewer was sampled.
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def fingerprint(self) -> str: ...

    @property
    def size(self) -> int: ...

    def tasks(self) -> Sequence[Task]: ...

    def score(self, trajectory: Trajectory) -> Mapping[str, float]:
        """The benchmark's own measures of one episode, each in [0, 1]; their means over the tasks are its figures."""
        ...
