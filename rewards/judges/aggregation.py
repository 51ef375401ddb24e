"""From the verdicts within groups to one number a rollout, in [0, 1]: the mean of wins, or a Bradley–Terry fit.

The fit gives each rollout a strength b and the judge one position term g, shared by all groups::

    logit P(first beats second) = b_first − b_second + g

with a ridge, so that it is closed and finite for any verdicts; a tie is half a win. r_align of a rollout is then
the mean of sigmoid(b_i − b_j) over the others (SPEC, section 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from demur.rewards.judges import Failure

Floats = NDArray[np.float64]

RIDGE = 1.0
"""Weight of b²/2: as if each rollout had played a few games against an average one."""
POSITION_RIDGE = 0.1
"""Weight of g²/2; weaker, since the verdicts of all groups speak about it."""


class Game(NamedTuple):
    """One comparison. first, second: indices within the group. verdict: in [0, 1], of the first; None: it failed."""

    first: int
    second: int
    verdict: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a judge said about one group.

    games: pairwise, in the order they were judged. scores: pointwise, one a rollout in [0, 1] or None; else empty.
    same: index pairs (lower first) that look the same to a judge; their games are ties that nobody was asked about.
    failures: calls without an answer, but for those that a `MeteredJudge` tells of itself.
    """

    games: tuple[Game, ...] = ()
    scores: tuple[float | None, ...] = ()
    same: frozenset[tuple[int, int]] = frozenset()
    failures: tuple[Failure, ...] = ()

    def asked(self, game: Game) -> bool:
        return (min(game[:2]), max(game[:2])) not in self.same


class Fit(NamedTuple):
    """A Bradley–Terry fit. strengths: [groups, rollouts], 0 for what has no verdict. position: g."""

    strengths: Floats
    position: float


def mean_of_wins(size: int, games: Iterable[Game], *, known_only: bool = False) -> list[float | None]:
    """The mean verdict of each rollout of a group of that size.

    A rollout with a failed comparison gets None: the mean over the rest would compare it with an easier or a harder
    field than the others had. known_only takes that mean all the same, for measurements. None without any verdict.
    """
    wins: list[list[float | None]] = [[] for _ in range(size)]
    for first, second, verdict in games:
        wins[first].append(verdict)
        wins[second].append(None if verdict is None else 1 - verdict)
    return [_mean(row, known_only) for row in wins]


def bradley_terry(sizes: Sequence[int], judgements: Sequence[Judgement]) -> list[list[float | None]]:
    """Each rollout's mean win probability against the others of its group, from one fit over all groups.

    sizes: rollouts a group. None for a rollout that no known verdict connects, directly or through others, to the
    largest connected part of its group (of two equally large ones, that with the lowest index); the means are over
    that part.
    """
    strengths = fit(sizes, judgements).strengths
    return [
        _win_probabilities(strengths[at, :size], _largest_part(size, judgement.games))
        for at, (size, judgement) in enumerate(zip(sizes, judgements, strict=True))
    ]


def fit(
    sizes: Sequence[int],
    judgements: Sequence[Judgement],
    *,
    ridge: float = RIDGE,
    position_ridge: float = POSITION_RIDGE,
) -> Fit:
    """Maximise the penalised likelihood of all known verdicts by Newton's method with step halving.

    Ties without a call say nothing about the position, so g has no part in them.
    """
    data = _Data.of(sizes, judgements)
    strengths, position = np.zeros((len(sizes), max(sizes, default=0))), 0.0
    loss = data.loss(strengths, position, ridge, position_ridge)
    for _ in range(100):
        d_strengths, d_position, decrement = data.newton_step(strengths, position, ridge, position_ridge)
        if decrement < 1e-18:
            return Fit(strengths, position)
        scale = 1.0
        while True:
            new = strengths - scale * d_strengths, position - scale * d_position
            new_loss = data.loss(*new, ridge, position_ridge)
            if new_loss <= loss or scale < 1e-6:  # at the optimum rounding alone decides
                break
            scale /= 2
        (strengths, position), loss = new, new_loss
    raise AssertionError("a strictly convex problem has an optimum that Newton's method finds")


def posterior(size: int, games: Sequence[Game], ridge: float, position_ridge: float) -> tuple[Floats, Floats]:
    """Strengths of one group and their covariance, [size] and [size, size]: the fit and its curvature there."""
    judgement = Judgement(games=tuple(games))
    strengths, position = fit([size], [judgement], ridge=ridge, position_ridge=position_ridge)
    blocks, border, g_curve = _Data.of([size], [judgement]).curvature(strengths, position, ridge, position_ridge)
    return strengths[0], np.linalg.inv(blocks[0] - np.outer(border[0], border[0]) / g_curve)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Data:
    """All known verdicts as columns. asked: 1, or 0 where the position has no part."""

    group: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    verdict: Floats
    asked: Floats

    @classmethod
    def of(cls, sizes: Sequence[int], judgements: Sequence[Judgement]) -> _Data:
        assert len(sizes) == len(judgements), "one judgement a group"
        rows = [
            (at, game.first, game.second, game.verdict, judgement.asked(game))
            for at, judgement in enumerate(judgements)
            for game in judgement.games
            if game.verdict is not None
        ]
        columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T
        group, first, second = columns[:3].astype(np.intp)
        return cls(group=group, first=first, second=second, verdict=columns[3], asked=columns[4])

    def logits(self, strengths: Floats, position: float) -> Floats:
        difference = strengths[self.group, self.first] - strengths[self.group, self.second]
        logits: Floats = difference + position * self.asked
        return logits

    def loss(self, strengths: Floats, position: float, ridge: float, position_ridge: float) -> float:
        x = self.logits(strengths, position)
        penalty = ridge * float(np.sum(strengths**2)) + position_ridge * position**2
        return float(np.sum(np.logaddexp(0, x) - self.verdict * x)) + penalty / 2

    def newton_step(
        self, strengths: Floats, position: float, ridge: float, position_ridge: float
    ) -> tuple[Floats, float, float]:
        """H⁻¹·gradient for b and g, and the Newton decrement, by way of the arrow that H is."""
        error = sigmoid(self.logits(strengths, position)) - self.verdict
        slope = ridge * strengths
        np.add.at(slope, (self.group, self.first), error)
        np.add.at(slope, (self.group, self.second), -error)
        g_slope = position_ridge * position + float(np.sum(error * self.asked))
        blocks, border, g_curve = self.curvature(strengths, position, ridge, position_ridge)
        solved = np.linalg.solve(blocks, np.stack([slope, border], axis=-1))
        g_step = (g_slope - float(np.sum(border * solved[..., 0]))) / (g_curve - float(np.sum(border * solved[..., 1])))
        step = solved[..., 0] - g_step * solved[..., 1]
        return step, g_step, float(np.sum(step * slope)) + g_step * g_slope

    def curvature(
        self, strengths: Floats, position: float, ridge: float, position_ridge: float
    ) -> tuple[Floats, Floats, float]:
        """The Hessian of the loss, an arrow: a block a group [groups, n, n], its border with g [groups, n], and g's."""
        p = sigmoid(self.logits(strengths, position))
        weight = p * (1 - p)
        groups, size = strengths.shape
        blocks = np.zeros((groups, size, size)) + ridge * np.eye(size)
        border = np.zeros((groups, size))
        for one, other in ((self.first, self.second), (self.second, self.first)):
            np.add.at(blocks, (self.group, one, one), weight)
            np.add.at(blocks, (self.group, one, other), -weight)
        np.add.at(border, (self.group, self.first), weight * self.asked)
        np.add.at(border, (self.group, self.second), -weight * self.asked)
        return blocks, border, position_ridge + float(np.sum(weight * self.asked))


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + exp(−x)), without overflow."""
    value: Floats = np.exp(-np.logaddexp(0, -x))
    return value


def _mean(row: list[float | None], known_only: bool) -> float | None:
    known = [value for value in row if value is not None]
    return sum(known) / len(known) if known and (known_only or len(known) == len(row)) else None


def _largest_part(size: int, games: Iterable[Game]) -> list[int]:
    """Rollouts that known verdicts connect; empty if there is no such verdict."""
    part = list(range(size))  # the lowest index of each rollout's part
    for first, second, verdict in games:
        if verdict is not None:
            low, high = sorted((part[first], part[second]))
            part = [low if at == high else at for at in part]
    largest = max(sorted(set(part)), key=part.count, default=0)
    members = [at for at in range(size) if part[at] == largest]
    return members if len(members) > 1 else []


def _win_probabilities(strengths: Floats, members: list[int]) -> list[float | None]:
    values: list[float | None] = [None] * len(strengths)
    for at in members:
        others = [j for j in members if j != at]
        values[at] = float(np.mean(sigmoid(strengths[at] - strengths[others])))
    return values
