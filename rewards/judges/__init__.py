"""Judges give preferences between trajectories of one task, or scores.

A comparison or score that failed is None: a distinct outcome that never turns into a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from demur.envs.trace import Record, Trajectory

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What judging took. calls: sent to the model, without those found in the cache. cost: in the prices' money."""

    calls: int = 0
    cached: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Failure(Record):
    """A call that gave nothing. samples: of the one or two trajectories, within their group.

    repeat: how often the same question was asked before it in one call of the judge; its reply in a cache has that
    number.
    """

    kind: Literal["compare", "score"]
    task_id: str
    samples: tuple[int, ...]
    repeat: int = 0
    error: str


@runtime_checkable
class MeteredJudge(Judge, Protocol):
    """A judge whose calls cost something. stop_reason: why it makes no more calls, such as a budget used up."""

    @property
    def stop_reason(self) -> str | None: ...

    def pop_usage(self) -> Usage:
        """What was used since the last call of this."""
        ...

    def pop_failures(self) -> list[Failure]:
        """Which calls failed since the last call of this; a judge that cannot tell has them told by who asks it."""
        ...


def load_judge(name: str) -> Judge:
    """Find a judge: `oracle`, or the dotted path `package.module:attribute` of your own."""
    from importlib import import_module

    from demur.rewards.judges.oracle import Oracle

    if name == "oracle":
        return Oracle()
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ValueError(f"there is no judge {name!r}: use oracle, noisy, llm or package.module:attribute")
    try:
        judge: Judge = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the judge {name!r} cannot be loaded: {error}") from error
    return judge() if isinstance(judge, type) else judge
