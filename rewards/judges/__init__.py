"""Judges give preferences between trajectories of one task, or scores.

A comparison or score that failed is None: a distinct outcome that never turns into a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from demur.envs.trace import Trajectory

Pair = tuple[Trajectory, Trajectory]


class Judge(Protocol):
    """Compares two trajectories of a task, and scores single ones."""

    @property
    def name(self) -> str: ...

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        """For each pair 1.0: the first is better, 0.0: the second, 0.5: a tie, None: it failed."""
        ...

    def score(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        """A score in [0, 1] for each trajectory, or None if it failed."""
        ...


def load_judge(name: str) -> Judge:
    """Find a judge: `oracle`, or the dotted path `package.module:attribute` of your own."""
    from importlib import import_module

    from demur.rewards.judges.oracle import Oracle

    if name == "oracle":
        return Oracle()
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"there is no judge {name!r}: use oracle, or package.module:attribute")
    try:
        judge: Judge = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the judge {name!r} cannot be loaded: {error}") from error
    return judge() if isinstance(judge, type) else judge
