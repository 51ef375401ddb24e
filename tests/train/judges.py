"""Judges for tests, named in configurations by dotted path."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from accelerate.state import PartialState

from demur.envs.trace import Trajectory
from demur.rewards.judges import Pair
from demur.rewards.judges.oracle import Oracle


class Texts(Oracle):
    """Scores by the very letters that were written, so that rollouts of a random policy differ."""

    name = "texts"

    def score(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        return [self._score("".join(turn.raw for turn in t.turns)) for t in trajectories]

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        return [float(a >= b) for a, b in (self.score(pair) for pair in pairs) if a is not None and b is not None]

    def _score(self, text: str) -> float:
        return hashlib.sha256(text.encode()).digest()[0] / 255


class FailsOnLastRank(Oracle):
    """Raises wherever the last of several ranks judges."""

    name = "fails on the last rank"

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        if PartialState().is_last_process:
            raise ConnectionError("the judge is gone")
        return super().compare(pairs)
