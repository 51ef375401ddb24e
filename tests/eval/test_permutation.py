"""Sign flips and Holm's correction, against scipy and by hand."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, permutation_test

from demur.eval.permutation import (
    FLIPS,
    detectable_difference,
    holm,
    mcnemar_p,
    mcnemar_power,
    one_sided_p,
    sign_flip_p,
)


@pytest.mark.parametrize("shift", [0.0, 0.3, 0.6])
def test_agrees_with_scipys_permutation_test_of_paired_samples(shift: float) -> None:
    rng = np.random.default_rng(3)
    before, after = rng.normal(size=12), rng.normal(shift, size=12)
    reference = permutation_test(
        (after, before), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", vectorized=True,
        n_resamples=np.inf,
    )  # fmt: skip
    found = sign_flip_p((before, np.ones(12)), (after, np.ones(12)))
    assert found == pytest.approx(reference.pvalue, abs=4 * np.sqrt(0.25 / FLIPS))


def test_equal_sides_prove_nothing_and_clear_ones_do() -> None:
    ones, zeros = np.ones(40), np.zeros(40)
    assert sign_flip_p((ones, ones), (ones, ones)) == 1.0
    assert sign_flip_p((zeros, ones), (ones, ones)) == pytest.approx(1 / (FLIPS + 1))
    assert sign_flip_p((ones, zeros), (ones, ones)) is None


def test_false_alarms_are_as_rare_as_the_level_says() -> None:
    rng = np.random.default_rng(0)
    ps = [sign_flip_p((rng.random(20), np.ones(20)), (rng.random(20), np.ones(20)), seed=i) for i in range(100)]
    assert sum(p is not None and p <= 0.1 for p in ps) <= 20


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_lies_between_p_and_bonferroni(ps: list[float]) -> None:
    found = holm(ps)
    assert all(p <= q <= min(1.0, len(ps) * p) + 1e-12 for p, q in zip(ps, found, strict=True))
    assert sorted(range(len(ps)), key=lambda i: (ps[i], found[i])) == sorted(range(len(ps)), key=lambda i: ps[i])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.6, -0.2, 0.0, 0.2, 0.4, 1.0]), min_size=1, max_size=9))
def test_the_one_sided_test_agrees_with_all_sign_flips(apart: list[float]) -> None:
    means = [np.mean(np.array(signs) * np.abs(apart)) for signs in product((-1, 1), repeat=len(apart))]
    exact = np.mean(np.array(means) <= np.mean(apart) + 1e-12)
    assert one_sided_p(apart) == pytest.approx(exact, abs=4.5 * np.sqrt(0.25 / 10_000))


@pytest.mark.parametrize("shift", [-0.5, 0.0, 0.4])
def test_the_one_sided_test_agrees_with_scipy(shift: float) -> None:
    rng = np.random.default_rng(5)
    ours, theirs = rng.integers(0, 6, 30) / 5 + shift, rng.integers(0, 6, 30) / 5
    reference = permutation_test(
        (ours, theirs), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", vectorized=True,
        n_resamples=20_000, alternative="less", rng=1,
    )  # fmt: skip
    assert one_sided_p(ours - theirs) == pytest.approx(reference.pvalue, abs=0.025)
    lower, higher = one_sided_p(ours - theirs), one_sided_p(theirs - ours)
    assert lower is not None and higher is not None and lower + higher >= 1


def test_a_clear_difference_has_the_smallest_one_sided_p_and_no_difference_none() -> None:
    assert one_sided_p(-np.ones(40)) == pytest.approx(1 / 10_001)
    assert one_sided_p(np.ones(40)) == one_sided_p(np.zeros(40)) == 1.0
    assert one_sided_p([]) is None


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (7, 2), (12, 12), (40, 61), (700, 610), (2600, 2400)])
def test_mcnemar_agrees_with_scipys_exact_binomial_test(gained: int, lost: int) -> None:
    wanted = binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert mcnemar_p(gained, lost) == pytest.approx(wanted, rel=1e-6)
    assert mcnemar_p(gained, lost) == mcnemar_p(lost, gained)


@pytest.mark.parametrize(("difference", "discordant", "n"), [(0.1, 0.2, 100), (0.1, 0.3, 300), (0.05, 0.1, 400)])
def test_the_power_of_mcnemar_is_how_often_simulated_pairs_show_the_difference(
    difference: float, discordant: float, n: int
) -> None:
    rng = np.random.default_rng(1)
    shares = [(discordant + difference) / 2, (discordant - difference) / 2, 1 - discordant]
    gained, lost, _ = rng.multinomial(n, shares, size=20_000).T
    shown = (gained - lost) ** 2 / np.maximum(gained + lost, 1) > 1.959964**2
    assert mcnemar_power(difference, discordant, n) == pytest.approx(shown.mean(), abs=0.03)


def test_the_detectable_difference_has_a_power_of_80_percent_and_shrinks_with_n() -> None:
    found = [detectable_difference(0.2, n) for n in (100, 400, 1600)]
    assert all(d is not None for d in found) and found == sorted(found, key=lambda d: -(d or 0))
    assert mcnemar_power(found[1] or 0, 0.2, 400) == pytest.approx(0.8, abs=1e-3)
    assert detectable_difference(0.01, 20) is None and detectable_difference(0.0, 100) is None
