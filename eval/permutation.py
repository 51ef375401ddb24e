"""Tests for paired differences over tasks: sign flips, and Holm's correction for many of them.

Sources: P. Good, "Permutation, Parametric, and Bootstrap Tests of Hypotheses" (2005), section 3.4 (matched
pairs); B. Phipson and G. K. Smyth (2010) for counting the observed labelling among the drawn ones; S. Holm, "A simple
sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6 (1979).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

FLIPS = 20_000


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
