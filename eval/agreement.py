"""Agreement between raters beyond chance, with 95% intervals from a bootstrap over tasks.

    cohen_kappa([2, 0, 1], [2, 0, 0], tasks=["a", "a", "b"], categories=3)
    krippendorff_alpha([[2, 2, None], [0, 1, 0]], tasks=["a", "b"], categories=3, level="ordinal")

Ratings are 0 … categories - 1, in their natural order. Several pairs of one task depend on each other, so tasks are
resampled, not pairs. Both coefficients are functions of a matrix that is a sum over units, which is what is resampled.

Sources: J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20 (1960);
K. Krippendorff, "Computing Krippendorff's alpha-reliability" (2011), sections C and D.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from demur.eval.stats import Estimate, Floats, percentiles, resampled_sums, wilson

Level = Literal["nominal", "ordinal"]


def cohen_kappa(
    first: Sequence[int], second: Sequence[int], *, tasks: Sequence[str], categories: int, seed: int = 0
) -> Estimate | None:
    """Kappa of two raters, in [-1, 1]; None without units, or if chance alone would agree always.

    first, second, tasks: [units]. n of the result counts tasks.
    """
    cells = np.zeros((len(tasks), categories, categories))
    for unit, (one, other) in enumerate(zip(first, second, strict=True)):
        cells[unit, one, other] = 1
    return _agreement(cells, tasks, lambda table: 1 - _disagreement(table) / _kappa_chance(table), _kappa_chance, seed)


def krippendorff_alpha(
    ratings: Sequence[Sequence[int | None]],
    *,
    tasks: Sequence[str],
    categories: int,
    level: Level,
    seed: int = 0,
) -> Estimate | None:
    """Alpha of any number of raters, at most 1; None without a unit rated twice, or if all ratings are the same.

    ratings: [units][raters], None where a rater gave none. A unit with fewer than two ratings does not count.
    """
    rated = [(unit, task) for unit, task in zip(ratings, tasks, strict=True) if sum(r is not None for r in unit) > 1]
    cells = np.zeros((len(rated), categories, categories))
    for at, (unit, _) in enumerate(rated):
        counts = np.bincount([r for r in unit if r is not None], minlength=categories).astype(np.float64)
        cells[at] = (np.outer(counts, counts) - np.diag(counts)) / (counts.sum() - 1)

    def alpha(table: Floats) -> Floats:
        distance = _distances(table, level)
        totals = table.sum(2)
        chance = np.einsum("rc,rk,rck->r", totals, totals, distance)
        value: Floats = 1 - (totals.sum(1) - 1) * (table * distance).sum((1, 2)) / chance
        return value

    return _agreement(cells, [task for _, task in rated], alpha, _alpha_chance, seed)


def bootstrap(
    rows: Floats, tasks: Sequence[str], figure: Callable[[Floats], Floats], *, seed: int = 0
) -> Estimate | None:
    """A figure of the column sums over all units, with a percentile interval over tasks.

    rows: [units, columns]. figure: sums [draws, columns] -> [draws], NaN where it is not defined; such draws are
    left out, and the estimate is None if it is not defined on the units themselves.
    """
    if not len(rows):
        return None
    at: dict[str, int] = {}
    places = np.array([at.setdefault(task, len(at)) for task in tasks])
    sums = np.zeros((len(at), rows.shape[1]))
    np.add.at(sums, places, rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(figure(sums.sum(0, keepdims=True))[0])
        drawn = figure(resampled_sums(sums, seed))
    if not np.isfinite(value):
        return None
    return Estimate(value, len(at), *percentiles(drawn[np.isfinite(drawn)], value))


# Tables: [draws, categories, categories] -> [draws]


def _agreement(
    cells: Floats,
    tasks: Sequence[str],
    coefficient: Callable[[Floats], Floats],
    chance: Callable[[Floats], Floats],
    seed: int,
) -> Estimate | None:
    size = cells.shape[1]
    flat = cells.reshape(len(cells), size * size)
    found = bootstrap(flat, tasks, lambda sums: coefficient(sums.reshape(-1, size, size)), seed=seed)
    if found is None or found.ci_low < 1:
        return found
    # no disagreement was seen: resampling sees no spread, but n tasks do not prove that there is none
    unseen = wilson(0, found.n)
    assert unseen is not None
    return found._replace(ci_low=max(-1.0, 1 - unseen.ci_high / float(chance(cells.sum(0)[None])[0])))


def _disagreement(table: Floats) -> Floats:
    """The share off the diagonal."""
    share: Floats = 1 - np.trace(table, axis1=1, axis2=2) / table.sum((1, 2))
    return share


def _kappa_chance(table: Floats) -> Floats:
    """How often two raters with these shares would differ by chance; 0 becomes NaN, as nothing follows from it."""
    total = table.sum((1, 2))
    chance = 1 - (table.sum(1) * table.sum(2)).sum(1) / total**2
    kept: Floats = np.where(chance > 1e-12, chance, np.nan)
    return kept


def _alpha_chance(table: Floats) -> Floats:
    totals = table.sum(2)
    n = totals.sum(1)
    chance: Floats = 1 - (totals * (totals - 1)).sum(1) / (n * (n - 1))
    return chance


def _distances(table: Floats, level: Level) -> Floats:
    """Squared distances between categories, [draws, categories, categories]."""
    size = table.shape[1]
    if level == "nominal":
        return np.broadcast_to(1 - np.eye(size), table.shape).astype(np.float64)
    totals = table.sum(2)
    below = np.cumsum(totals, axis=1) - totals / 2  # the mid-rank of each category
    squared: Floats = (below[:, :, None] - below[:, None, :]) ** 2
    return squared
