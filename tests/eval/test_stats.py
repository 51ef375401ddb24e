"""Intervals: they hold the estimate, stay in range, shrink with data, and match known values."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from demur.eval.stats import (
    estimate,
    estimate_clustered,
    mean,
    paired_difference,
    paired_difference_clustered,
    wilson,
)

counts = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
values = st.floats(-1e6, 1e6)
rows = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40)


@given(counts)
def test_wilson_holds_the_share_and_stays_in_range(count: tuple[int, int]) -> None:
    hits, n = count
    found = wilson(hits, n)
    assert found is not None
    assert 0 <= found.ci_low <= found.value == hits / n <= found.ci_high <= 1
    assert found.ci_low < found.ci_high, "an interval from few tasks has a width, even at 0 of n and n of n"


@given(counts, st.integers(2, 50))
def test_wilson_shrinks_with_more_tasks_of_the_same_share(count: tuple[int, int], times: int) -> None:
    few, many = wilson(*count), wilson(count[0] * times, count[1] * times)
    assert few and many
    assert many.ci_high - many.ci_low < few.ci_high - few.ci_low


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    # Agresti and Coull (1998) give the formula; the values follow from solving its quadratic by hand
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_wilson_gives_the_published_values(hits: int, n: int, low: float, high: float) -> None:
    found = wilson(hits, n)
    assert found is not None
    assert (found.ci_low, found.ci_high) == pytest.approx((low, high), abs=5e-5)


def test_no_tasks_give_no_estimate() -> None:
    assert wilson(0, 0) is None
    assert estimate([], [], share=True) is None
    assert mean([]) is None
    assert estimate([0, 0], [0, 0], share=True) is None, "tasks without turns say nothing about turns"
    assert paired_difference(([], []), ([], []), share=True) is None
    assert paired_difference(([1], [1]), ([0], [0]), share=True) is None


@given(st.lists(values, min_size=1, max_size=50))
def test_the_interval_of_a_mean_holds_it_and_stays_within_the_data(data: list[float]) -> None:
    found = mean(data)
    assert found is not None
    slack = 1e-9 * max(1.0, *(abs(value) for value in data))
    assert found.n == len(data)
    assert found.ci_low <= found.value <= found.ci_high
    assert min(data) - slack <= found.ci_low
    assert found.ci_high <= max(data) + slack


@given(rows)
def test_shares_of_turns_stay_in_range(data: list[tuple[int, int]]) -> None:
    parts, wholes = [min(pair) for pair in data], [max(pair) for pair in data]
    found = estimate(parts, wholes, share=True)
    if found is None:
        assert not any(wholes)
        return
    assert 0 <= found.ci_low <= found.value <= found.ci_high <= 1
    assert found.value == pytest.approx(sum(parts) / sum(wholes))
    assert found.n == sum(whole > 0 for whole in wholes)


def test_a_mean_that_happens_to_be_0_or_1_is_no_share() -> None:
    assert mean([0.0, 0.0]) == (0.0, 2, 0.0, 0.0)


def test_hits_and_misses_get_wilsons_interval() -> None:
    assert estimate([1, 0, 1, 1], [1, 1, 1, 1], share=True) == wilson(3, 4)


def test_turns_that_are_all_valid_keep_a_width() -> None:
    found = estimate([3, 5, 2], [3, 5, 2], share=True)
    assert found == wilson(3, 3), "3 tasks without a bad turn do not prove that there is none"


def test_the_bootstrap_agrees_with_theory_and_shrinks() -> None:
    data = np.random.default_rng(5).normal(10, 2, 1600)
    many, few = mean(data), mean(data[:100])
    assert many and few
    assert many.ci_high - many.ci_low == pytest.approx(2 * 1.96 * data.std() / math.sqrt(1600), rel=0.1)
    assert few.ci_high - few.ci_low == pytest.approx(2 * 1.96 * data[:100].std() / math.sqrt(100), rel=0.1)


def test_counting_equal_rows_together_changes_nothing() -> None:
    rng = np.random.default_rng(7)
    wholes = rng.integers(1, 6, 300)
    parts = rng.binomial(wholes, 0.8)
    draws = rng.integers(0, 300, (20_000, 300))  # row by row
    shares = parts[draws].sum(1) / wholes[draws].sum(1)
    found = estimate(parts, wholes, share=True)
    assert found is not None
    assert (found.ci_low, found.ci_high) == pytest.approx(np.percentile(shares, [2.5, 97.5]), abs=0.003)


def test_a_seed_gives_the_same_interval_again() -> None:
    data = np.random.default_rng(2).normal(0, 1, 30)
    assert mean(data, seed=3) == mean(data, seed=3)
    assert mean(data, seed=3) != mean(data, seed=4)


ones = np.ones(200)


def test_a_paired_difference_holds_its_value_and_finds_a_clear_change() -> None:
    before, after = np.arange(200) < 80, np.arange(200) < 190
    found = paired_difference((before, ones), (after, ones), share=True)
    assert found is not None
    assert found.value == pytest.approx(0.55)
    assert found.n == 200
    assert found.ci_low < 0.55 < found.ci_high
    assert found.excludes_zero
    assert (found.ci_low, found.ci_high) == pytest.approx((0.48, 0.62), abs=0.01)


def test_pairing_removes_what_differs_between_tasks() -> None:
    tokens = np.random.default_rng(1).normal(300, 90, 200)
    paired = paired_difference((tokens, ones), (tokens + 5, ones), share=False)
    shuffled = paired_difference((tokens, ones), (np.roll(tokens, 7) + 5, ones), share=False)
    assert paired and shuffled
    assert paired.excludes_zero
    assert not shuffled.excludes_zero


def test_no_changed_task_is_not_proof_of_no_change() -> None:
    same = (np.arange(200) < 190, ones)
    found, unseen = paired_difference(same, same, share=True), wilson(0, 200)
    assert found and unseen
    assert (found.value, found.ci_low, found.ci_high) == (0, -unseen.ci_high, unseen.ci_high)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_differences_of_shares_stay_in_range(pairs: list[tuple[bool, bool]]) -> None:
    before, after = zip(*pairs, strict=True)
    whole = [1] * len(pairs)
    found = paired_difference((before, whole), (after, whole), share=True)
    assert found is not None
    assert -1 <= found.ci_low <= found.value <= found.ci_high <= 1
    assert found.value == pytest.approx((sum(after) - sum(before)) / len(pairs))


def test_clusters_are_drawn_whole_as_scipy_draws_them() -> None:
    rng = np.random.default_rng(4)
    clusters = np.repeat(np.arange(30), 10)
    hits = (rng.random(300) < np.repeat(rng.random(30), 10)).astype(float)
    found = estimate_clustered(hits, np.ones(300), clusters, share=True)
    means = hits.reshape(30, 10).mean(axis=1)
    wanted = bootstrap((means,), np.mean, method="percentile", n_resamples=5000, rng=2).confidence_interval
    assert found is not None and found.n == 300 and found.value == pytest.approx(hits.mean())
    assert (found.ci_low, found.ci_high) == pytest.approx((wanted.low, wanted.high), abs=0.02)
    alone = estimate(hits, np.ones(300), share=True)
    assert alone is not None and found.ci_high - found.ci_low > alone.ci_high - alone.ci_low


def test_clusters_that_agree_in_everything_still_leave_doubt() -> None:
    found = estimate_clustered(np.ones(100), np.ones(100), np.repeat(np.arange(10), 10), share=True)
    assert found is not None and found == (1.0, 100, wilson(10, 10).ci_low, 1.0)  # type: ignore[union-attr]
    ones = (np.ones(100), np.ones(100))
    same = paired_difference_clustered(ones, ones, np.repeat(np.arange(10), 10), share=True)
    assert same is not None and same.n == 100 and same.ci_high == -same.ci_low == wilson(0, 10).ci_high  # type: ignore[union-attr]


def test_a_cluster_for_each_task_is_the_difference_of_tasks() -> None:
    rng = np.random.default_rng(0)
    before, after = rng.random(50), rng.random(50)
    sides = ((before, np.ones(50)), (after, np.ones(50)))
    assert paired_difference_clustered(*sides, np.arange(50), share=False) == paired_difference(*sides, share=False)
    assert paired_difference_clustered(*sides, np.zeros(50), share=False) == paired_difference(*sides, share=False)
    nothing = (np.zeros(50), np.zeros(50))
    assert paired_difference_clustered(sides[0], nothing, np.arange(50), share=False) is None
