"""A simulated judge with set faults, to practise on: it knows the truth and tells it badly.

Its errors are drawn from hashes of what it is asked about, so that a repeated run gets the same verdicts, in
whatever order it asks.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Sequence
from statistics import NormalDist
from typing import Literal

from demur.envs.trace import Trajectory
from demur.rewards.judges import Failure, Pair, Usage
from demur.rewards.judges.oracle import ROWS, Rank, rank
from demur.rewards.judges.rendering import view_key
from demur.rewards.judges.steps import times_before

_NORMAL = NormalDist()
_ROW = 1 / (ROWS - 1)  # between two neighbouring rows of the oracle, on the scale of scores
_USUAL_LENGTH = 1000  # characters; a score's length bias is relative to it


class NoisyJudge:
    """The oracle's order, seen through noise. It always decides: a tie comes from two orders that disagree.

    accuracy: share of right verdicts on pairs that differ, over both orders, whatever the difference; in [0, 1].
    position_bias: share of verdicts for the first of two equals, in (0, 1); 0.6 is MOSAIC's 60/40.
    length_bias: added for each doubling of the length, in deviations of the noise; failure_rate: share of calls
    that give nothing. shared: share of the noise's variance that belongs to a trajectory rather than to a call. It
    is one draw for comparisons and scores, so that the simulation does not choose which of both does better; a score
    has the noise at which scores of neighbouring rows of the oracle come in the right order with `accuracy`, and is
    a multiple of 0.1.

    Questions about the same rollouts that are repeated within one call get answers of their own.
    Raises ValueError for a share out of its range.
    """

    name = "noisy"
    stop_reason: str | None = None

    def __init__(
        self,
        accuracy: float = 0.8,
        position_bias: float = 0.6,
        length_bias: float = 0.0,
        failure_rate: float = 0.0,
        seed: int = 0,
        shared: float = 0.5,
    ) -> None:
        for name, share in (("accuracy", accuracy), ("failure_rate", failure_rate), ("shared", shared)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} is a share from 0 to 1, not {share}")
        if not 0 < position_bias < 1:
            raise ValueError(f"position_bias lies between 0 and 1 (0.5 is none), not at {position_bias}")
        self.seed = seed
        self.settings: dict[str, str | float] = {
            "accuracy": accuracy,
            "position_bias": position_bias,
            "length_bias": length_bias,
            "failure_rate": failure_rate,
            "seed": seed,
            "shared": shared,
        }
        self._failure_rate, self._length_bias, self._shared = failure_rate, length_bias, shared
        self._position = _NORMAL.inv_cdf(position_bias)
        self._edge = _edge_for(accuracy, self._position)
        self._score_noise = _score_noise_for(accuracy)
        self._usage, self._failures = Usage(), list[Failure]()

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        times = _Repeats()
        return [self._compare(first, second, times.of(first, second)) for first, second in pairs]

    def score(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        times = _Repeats()
        return [self._score(trajectory, view_key(trajectory), times.of(trajectory)) for trajectory in trajectories]

    def pop_usage(self) -> Usage:
        usage, self._usage = self._usage, Usage()
        return usage

    def pop_failures(self) -> list[Failure]:
        failures, self._failures = self._failures, []
        return failures

    def _compare(self, first: Trajectory, second: Trajectory, repeat: int) -> float | None:
        one, other = view_key(first), view_key(second)
        keys = [one, other, *_as_key(repeat)]
        if self._fails("compare", first, *keys, samples=(first.sample, second.sample), repeat=repeat):
            return None
        ranks = rank(first), rank(second)
        edge = self._edge * ((ranks[0] > ranks[1]) - (ranks[0] < ranks[1]))
        own = (self._draw("trajectory", one) - self._draw("trajectory", other)) / math.sqrt(2)
        noise = math.sqrt(self._shared) * own + math.sqrt(1 - self._shared) * self._draw("compare", *keys)
        length = self._length_bias * math.log2(_length(first) / _length(second))
        return float(edge + noise + length + self._position > 0)

    def _score(self, trajectory: Trajectory, key: str, repeat: int) -> float | None:
        keys = [key, *_as_key(repeat)]
        if self._fails("score", trajectory, *keys, samples=(trajectory.sample,), repeat=repeat):
            return None
        own, call = self._draw("trajectory", key), self._draw("score", *keys)
        noise = math.sqrt(self._shared) * own + math.sqrt(1 - self._shared) * call
        noise += self._length_bias * math.log2(_length(trajectory) / _USUAL_LENGTH)
        score = _value(rank(trajectory)) + self._score_noise * noise
        return round(10 * min(max(score, 0.0), 1.0)) / 10

    def _fails(
        self,
        kind: Literal["compare", "score"],
        trajectory: Trajectory,
        *keys: str,
        samples: tuple[int, ...],
        repeat: int,
    ) -> bool:
        fails = self._uniform("fails", kind, *keys) < self._failure_rate
        self._usage += Usage(calls=1, failed=int(fails))
        if fails:
            self._failures.append(
                Failure(
                    kind=kind, task_id=trajectory.task_id, samples=samples, repeat=repeat, error="simulated failure"
                )
            )
        return fails

    def _draw(self, *keys: str) -> float:
        return _NORMAL.inv_cdf(self._uniform(*keys))

    def _uniform(self, *keys: str) -> float:
        """In (0, 1), from a hash."""
        digest = hashlib.sha256("\0".join((str(self.seed), *keys)).encode()).digest()
        return (int.from_bytes(digest[:6], "big") + 0.5) / 2**48


class _Repeats:
    """Counts how often a question came before within one call; by rollout, so that what else is asked plays no part."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[tuple[str, str, int], ...]] = Counter()

    def of(self, *trajectories: Trajectory) -> int:
        question = tuple((view_key(one), one.task_id, one.sample) for one in trajectories)
        self._seen[question] += 1
        return times_before() + self._seen[question] - 1


def _as_key(repeat: int) -> tuple[str, ...]:
    """Nothing for the first time, then "1", "2" and so on."""
    return (str(repeat),) if repeat else ()


def _edge_for(accuracy: float, position: float) -> float:
    """How far the better trajectory is ahead, in deviations, for that accuracy over both orders."""
    low, high = -10.0, 10.0  # beyond, a normal draw from 48 bits never reaches
    for _ in range(60):
        middle = (low + high) / 2
        found = (_NORMAL.cdf(middle + position) + _NORMAL.cdf(middle - position)) / 2
        low, high = (middle, high) if found < accuracy else (low, middle)
    return high


def _score_noise_for(accuracy: float) -> float:
    """Deviation of a score's noise; two scores differ by √2 of it."""
    edge = _edge_for(accuracy, 0.0)
    return _ROW / (math.sqrt(2) * max(edge, 0.01))


def _value(where: Rank) -> float:
    """The oracle's rank on [0, 1]: its row, less half a row for a malformed ending; tie-breaks move it slightly."""
    within = _ROW / 4 * math.tanh(where.tie_break / 4)
    return 1 + _ROW * (where.row - 0.5 * (not where.ended_well)) + within


def _length(trajectory: Trajectory) -> int:
    """Characters that the policy wrote."""
    return max(1, sum(len(turn.raw) for turn in trajectory.turns))
