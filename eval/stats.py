"""Point estimates with 95% intervals: shares, means, ratios, and paired differences over tasks.

The unit that is counted and resampled is the task, never the turn or the token, since the turns of one
episode depend on each other. What was measured on a task is a part of a whole (1 of 1 for a task that
was completed, 3 of 4 valid turns, 120 tokens of 1 task), so that every metric is one sum over another::

    estimate([1, 0, 1, 1], [1, 1, 1, 1], share=True)  # Estimate(0.75, n=4, ci_low=0.30, ci_high=0.95)

Tasks of one family resemble each other, so that they say less than as many unrelated ones: `estimate_clustered` and
`paired_difference_clustered` resample whole families.

Sources: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22
(1927), equation for the score interval; B. Efron and R. J. Tibshirani, "An Introduction to the
Bootstrap" (1993), chapter 13 (percentile interval); A. C. Cameron, J. B. Gelbach and D. L. Miller, "Bootstrap-based
improvements for inference with clustered errors", Review of Economics and Statistics 90 (2008) (clusters are
drawn whole); E. Miller, "Adding Error Bars to Evals" (arXiv 2411.00640), for clusters of test questions.
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


def estimate_clustered(
    parts: ArrayLike, wholes: ArrayLike, clusters: ArrayLike, *, share: bool, seed: int = 0
) -> Estimate | None:
    """`estimate` with an interval that draws whole clusters; `n` still counts tasks.

    clusters: [n], equal for tasks of one cluster. Where every task is a hit, or none, the interval is Wilson's as if
    each cluster were one task, since nothing tells how much its tasks differ. Tasks of a single cluster are drawn
    one by one. The interval is too narrow for fewer than about ten clusters.
    """
    pairs = _columns(parts, wholes)
    kept = pairs[:, 1] > 0
    pairs, groups = pairs[kept], np.asarray(clusters)[kept]
    sums = cluster_sums(pairs, groups)
    if len(sums) < 2:
        return estimate(*pairs.T, share=share, seed=seed)
    total = sums.sum(axis=0)
    value = float(total[0] / total[1])
    drawn = resampled_sums(sums, seed)
    low, high = percentiles(drawn[:, 0] / drawn[:, 1], value)
    if share and low == high and value in (0.0, 1.0):
        bound = wilson(value * len(sums), len(sums))
        assert bound is not None
        low, high = bound.ci_low, bound.ci_high
    return Estimate(value, len(pairs), low, high)


def paired_difference_clustered(
    before: tuple[ArrayLike, ArrayLike],
    after: tuple[ArrayLike, ArrayLike],
    clusters: ArrayLike,
    *,
    share: bool,
    seed: int = 0,
) -> Estimate | None:
    """`paired_difference` with an interval that draws whole clusters; `n` still counts tasks."""
    pairs = np.hstack([_columns(*before), _columns(*after)])
    kept = (pairs[:, 1] > 0) & (pairs[:, 3] > 0)
    sums = cluster_sums(pairs[kept], np.asarray(clusters)[kept])
    if len(sums) < 2:
        rows = pairs[kept].T
        return paired_difference((rows[0], rows[1]), (rows[2], rows[3]), share=share, seed=seed)
    found = paired_difference((sums[:, 0], sums[:, 1]), (sums[:, 2], sums[:, 3]), share=share, seed=seed)
    return found and found._replace(n=int(kept.sum()))


def cluster_sums(rows: Floats, clusters: NDArray[np.generic]) -> Floats:
    """The sum of the rows of each cluster, [clusters, columns], in the order of the clusters' names."""
    names, at = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(names), rows.shape[1]))
    np.add.at(sums, at, rows)
    return sums


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
