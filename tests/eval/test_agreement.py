"""Kappa and alpha agree with the reference packages; their intervals are over tasks."""

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from demur.eval.agreement import Level, bootstrap, cohen_kappa, krippendorff_alpha

RATING = st.integers(0, 2)
# Krippendorff (2011), section C: 12 units, 4 observers, values 1 to 5
PUBLISHED = """
1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 .
"""


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(RATING, RATING), min_size=2, max_size=40))
def test_kappa_is_that_of_scikit_learn(units: list[tuple[int, int]]) -> None:
    first, second = [a for a, _ in units], [b for _, b in units]
    ours = cohen_kappa(first, second, tasks=[str(i) for i in range(len(units))], categories=3)
    if len({*first, *second}) == 1:
        assert ours is None, "one category only: nothing can be said"
        return
    assert ours is not None
    assert ours.value == pytest.approx(cohen_kappa_score(first, second))
    assert ours.ci_low <= ours.value <= ours.ci_high


@settings(max_examples=15, deadline=None)
@given(
    units=st.lists(st.lists(st.none() | RATING, min_size=3, max_size=3), min_size=2, max_size=30),
    level=st.sampled_from(["nominal", "ordinal"]),
)
def test_alpha_is_that_of_the_reference_package(units: list[list[int | None]], level: Level) -> None:
    ours = krippendorff_alpha(units, tasks=[str(i) for i in range(len(units))], categories=3, level=level)
    kept = [unit for unit in units if sum(r is not None for r in unit) > 1]
    if len({r for unit in kept for r in unit if r is not None}) < 2:
        assert ours is None
        return
    table = np.array([[np.nan if r is None else r for r in unit] for unit in kept]).T
    theirs = krippendorff.alpha(reliability_data=table, value_domain=[0, 1, 2], level_of_measurement=level)
    assert ours is not None
    assert ours.value == pytest.approx(theirs)


@pytest.mark.parametrize(("level", "alpha"), [("nominal", 0.743), ("ordinal", 0.815)])
def test_alpha_of_the_published_example(level: Level, alpha: float) -> None:
    rows = [line.split() for line in PUBLISHED.strip().splitlines()]
    units = [[None if r == "." else int(r) - 1 for r in unit] for unit in zip(*rows, strict=True)]
    found = krippendorff_alpha(units, tasks=[str(i) for i in range(12)], categories=5, level=level)
    assert found is not None and found.value == pytest.approx(alpha, abs=5e-4)


def test_pairs_of_one_task_count_as_one() -> None:
    first, second = [0, 2, 0, 2] * 10, [0, 2, 2, 2] * 10
    apart = cohen_kappa(first, second, tasks=[str(i) for i in range(40)], categories=3)
    together = cohen_kappa(first, second, tasks=[str(i // 8) for i in range(40)], categories=3)
    assert apart is not None and together is not None
    assert (apart.value, apart.n, together.n) == (together.value, 40, 5)


def test_perfect_agreement_on_few_tasks_is_not_certainty() -> None:
    few, many = (
        cohen_kappa([0, 2] * n, [0, 2] * n, tasks=[str(i) for i in range(2 * n)], categories=3) for n in (3, 100)
    )
    assert few is not None and many is not None
    assert few.value == many.value == 1
    assert few.ci_low < 0.5 < 0.9 < many.ci_low


def test_without_units_there_is_no_figure() -> None:
    assert cohen_kappa([], [], tasks=[], categories=3) is None
    assert krippendorff_alpha([[1, None]], tasks=["a"], categories=3, level="nominal") is None
    assert bootstrap(np.zeros((0, 2)), [], lambda sums: sums[:, 0]) is None
