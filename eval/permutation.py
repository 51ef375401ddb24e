"""Tests for paired differences over tasks: sign flips, McNemar's, its power, and Holm's correction for many of them.

Sources: P. Good, "Permutation, Parametric, and Bootstrap Tests of Hypotheses" (2005), section 3.4 (matched
pairs); B. Phipson and G. K. Smyth (2010) for counting the observed labelling among the drawn ones; S. Holm, "A simple
sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979); Q. McNemar, "Note on the
sampling error of the difference between correlated proportions or percentages", Psychometrika 12 (1947); R. J. Connor,
"Sample size for testing differences in proportions for the paired-sample design", Biometrics 43 (1987), for its power.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb, exp, lgamma, log, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

FLIPS = 20_000
ALPHA, POWER = 0.05, 0.8
_NORMAL = NormalDist()
_EXACT = 1000  # up to so many discordant pairs the probabilities are exact fractions


def sign_flip_p(
    before: tuple[ArrayLike, ArrayLike], after: tuple[ArrayLike, ArrayLike], *, seed: int = 0
) -> float | None:
    """Two-sided p of `sum(parts) / sum(wholes)` after minus before, if the sides of each task could be swapped.

    before, after: (parts, wholes), [n] each, in the same order of tasks. With wholes of 1 it is the sign-flip test of
    the mean difference. A task counts only if its whole is not 0 on both sides; None without such tasks. The
    smallest p is 1 / (FLIPS + 1).
    """
    rows = np.column_stack([np.asarray(column, np.float64) for column in (*before, *after)])
    rows = rows[(rows[:, 1] > 0) & (rows[:, 3] > 0)]
    if not len(rows):
        return None
    if np.array_equal(rows[:, :2], rows[:, 2:]):
        return 1.0  # swapping changes nothing
    # how often each distinct row is swapped is binomial: the same as swapping row by row, with less memory
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    swapped = np.random.default_rng(seed).binomial(counts, 0.5, size=(FLIPS, len(counts)))
    total = rows.sum(axis=0)
    sums = total + swapped @ (distinct[:, [2, 3, 0, 1]] - distinct)
    drawn = np.abs(sums[:, 2] / sums[:, 3] - sums[:, 0] / sums[:, 1])
    seen = abs(total[2] / total[3] - total[0] / total[1])
    as_far = int((drawn >= seen - 1e-12 * max(1.0, seen)).sum())  # sums in another order differ in the last digit
    return (as_far + 1) / (FLIPS + 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Holm's adjusted p for each of `ps`, in their order: rejecting those ≤ α keeps the family's error at α."""
    adjusted, highest = [0.0] * len(ps), 0.0
    for done, at in enumerate(sorted(range(len(ps)), key=lambda i: ps[i])):
        highest = max(highest, min(1.0, (len(ps) - done) * ps[at]))
        adjusted[at] = highest
    return adjusted


def one_sided_p(differences: ArrayLike, *, flips: int = 10_000, seed: int = 0) -> float | None:
    """p that the mean of paired `differences`, [n], is below 0: the share of sign flips with a mean as low or lower.

    The test of ProvenanceGuard (arXiv 2607.01236): case-level scores, a guard's minus its comparator's; for the other
    direction give the negated differences. The observed signs count among the flips, so the smallest p is
    1 / (flips + 1). None without differences.
    """
    column = np.asarray(differences, np.float64)
    if not len(column):
        return None
    sizes, counts = np.unique(np.abs(column), return_counts=True)
    # of `count` equal sizes, how many come out positive is binomial: the same as a sign each, with less memory
    positive = np.random.default_rng(seed).binomial(counts, 0.5, size=(flips, len(counts)))
    drawn = (2 * positive - counts) @ sizes
    as_low = int((drawn <= column.sum() + 1e-12 * max(1.0, float(sizes.sum()))).sum())
    return (as_low + 1) / (flips + 1)


def mcnemar_p(gained: int, lost: int) -> float:
    """Exact two-sided p of McNemar's test: `gained` tasks are hits only after, `lost` only before.

    Under no difference the gains are binomial with 1/2 among both; it takes tasks as independent.
    """
    n, low = gained + lost, min(gained, lost)
    if n == 0:
        return 1.0
    if n <= _EXACT:
        tail: float = sum(comb(n, k) for k in range(low + 1)) / 2**n
    else:
        whole = lgamma(n + 1) - n * log(2)
        tail = sum(exp(whole - lgamma(k + 1) - lgamma(n - k + 1)) for k in range(low + 1))
    return min(1.0, 2 * tail)


def mcnemar_power(difference: float, discordant: float, n: int) -> float:
    """How likely n pairs show a difference of shares at the two-sided level ALPHA, in [0, 1].

    discordant: share of the pairs that differ, at least |difference|. By Connor's normal approximation.
    """
    assert 0 <= abs(difference) <= discordant <= 1, "a difference comes of pairs that differ"
    if discordant == 0:
        return ALPHA
    critical = _NORMAL.inv_cdf(1 - ALPHA / 2) * sqrt(discordant)
    spread = sqrt(max(discordant - difference**2, 1e-12))
    shift = abs(difference) * sqrt(n)
    return _NORMAL.cdf((shift - critical) / spread) + _NORMAL.cdf((-shift - critical) / spread)


def detectable_difference(discordant: float, n: int) -> float | None:
    """The smallest difference that n pairs show with probability POWER; None if not even the largest possible one.

    discordant: share of the pairs that differ. No difference can be larger.
    """
    if mcnemar_power(discordant, discordant, n) < POWER:
        return None
    low, high = 0.0, discordant
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if mcnemar_power(middle, discordant, n) >= POWER else (middle, high)
    return high
