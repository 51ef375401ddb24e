"""Point estimates with 95% intervals: shares, means, ratios, and paired differences over tasks.

The unit that is counted and resampled is the task, never the turn or the token, since the turns of one
episode depend on each other. What was measured on a task is a part of a whole (1 of 1 for a task that
was completed, 3 of 4 valid turns, 120 tokens of 1 task), so that every metric is one sum over another::

    estimate([1, 0, 1, 1], [1, 1, 1, 1], share=True)  # Estimate(0.75, n=4, ci_low=0.30, ci_high=0.95)

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22
(1927), equation for the score interval; B. Efron and R. J. Tibshirani, "An Introduction to the
Bootstrap" (1993), chapter 13 (percentile interval).
"""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Z95 = NormalDist().inv_cdf(0.975)
RESAMPLES = 2000
_BLOCK = 4_000_000  # resampled counts held at once

Floats = NDArray[np.float64]


class Estimate(NamedTuple):
    """A value measured on `n` tasks and its 95% interval; `ci_low <= value <= ci_high`."""

    value: float
    n: int
    ci_low: float
    ci_high: float

    @property
    def excludes_zero(self) -> bool:
        return self.ci_low > 0 or self.ci_high < 0


def wilson(hits: float, n: int) -> Estimate | None:
    """Wilson's 95% score interval for `hits` of `n`; None for n = 0.

    Unlike the normal approximation it stays inside [0, 1] and keeps a width at 0 of n and n of n.
    """
    if n == 0:
        return None
    assert 0 <= hits <= n, "there cannot be more hits than tries"
    share = hits / n
    centre = (share + Z95**2 / (2 * n)) / (1 + Z95**2 / n)
    half = Z95 / (1 + Z95**2 / n) * sqrt(share * (1 - share) / n + Z95**2 / (4 * n * n))
    # rounding may push a bound past the share itself at 0 and 1
    return Estimate(share, n, max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))


def estimate(parts: ArrayLike, wholes: ArrayLike, *, share: bool, seed: int = 0) -> Estimate | None:
    """`sum(parts) / sum(wholes)` over tasks, [n] each; tasks whose whole is 0 do not count.

    share: each part lies between 0 and its whole. Shares get Wilson's interval where each task is a hit or
    a miss, everything else a percentile bootstrap over tasks. None without tasks. The same seed gives the
    same interval.
    """
    pairs = _columns(parts, wholes)
    pairs = pairs[pairs[:, 1] > 0]
    part, whole = pairs.T
    if not len(pairs):
        return None
    assert not share or np.all((part >= 0) & (part <= whole)), "a share is a part of its whole"
    if share and np.all(whole == 1) and np.all((part == 0) | (part == 1)):
        return wilson(float(part.sum()), len(pairs))
    value = float(part.sum() / whole.sum())
    sums = resampled_sums(pairs, seed)
    low, high = percentiles(sums[:, 0] / sums[:, 1], value)
    if share and low == high and value in (0.0, 1.0):
        # all or nothing on every task: resampling sees no spread, but n tasks do not prove a constant
        return wilson(value * len(pairs), len(pairs))
    return Estimate(value, len(pairs), low, high)


def mean(values: ArrayLike, *, seed: int = 0) -> Estimate | None:
    """The mean of `values`, [n], with a percentile bootstrap interval; None for n = 0."""
    column = np.asarray(values, dtype=np.float64)
    return estimate(column, np.ones_like(column), share=False, seed=seed)


def paired_difference(
    before: tuple[ArrayLike, ArrayLike], after: tuple[ArrayLike, ArrayLike], *, share: bool, seed: int = 0
) -> Estimate | None:
    """The value after minus the value before, over the same tasks, with a bootstrap over tasks.

    before, after: (parts, wholes), [n] each, in the same order of tasks. A task counts only if its whole
    is not 0 on both sides; None without such tasks. share: as in `estimate`; where no task changed, the
    interval of a difference of shares is that of 0 changed tasks in n, in both directions.
    """
    pairs = np.hstack([_columns(*before), _columns(*after)])
    pairs = pairs[(pairs[:, 1] > 0) & (pairs[:, 3] > 0)]
    n = len(pairs)
    if not n:
        return None
    total = pairs.sum(axis=0)
    value = float(total[2] / total[3] - total[0] / total[1])
    sums = resampled_sums(pairs, seed)
    low, high = percentiles(sums[:, 2] / sums[:, 3] - sums[:, 0] / sums[:, 1], value)
    if share and low == high == 0.0:
        unseen = wilson(0, n)
        assert unseen is not None
        return Estimate(value, n, -unseen.ci_high, unseen.ci_high)
    return Estimate(value, n, low, high)


def _columns(parts: ArrayLike, wholes: ArrayLike) -> Floats:
    """[n, 2]"""
    return np.column_stack([np.asarray(parts, np.float64), np.asarray(wholes, np.float64)])


def resampled_sums(rows: Floats, seed: int) -> Floats:
    """Column sums of `RESAMPLES` draws of n rows with replacement, [RESAMPLES, columns].

    Equal rows are counted together: how often each occurs in a draw is multinomial, which is the same
    distribution as drawing row by row, and needs far less memory where rows repeat.
    """
    rng = np.random.default_rng(seed)
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    chances = counts / counts.sum()
    step = max(1, _BLOCK // len(distinct))
    blocks = []
    for start in range(0, RESAMPLES, step):
        draws = rng.multinomial(len(rows), chances, size=min(step, RESAMPLES - start))
        blocks.append(draws @ distinct)
    return np.concatenate(blocks)


def percentiles(values: Floats, value: float) -> tuple[float, float]:
    """The middle 95%, widened to the estimate itself should it lie outside."""
    low, high = np.percentile(values, [2.5, 97.5])
    return min(float(low), value), max(float(high), value)
