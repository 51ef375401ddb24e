"""Differences of AUROCs, paired over tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.trace import Label
from demur.eval.intent_metrics import ScoredCall, auroc_difference, intent_figures


def calls_of(harmful: list[float], benign: list[float]) -> list[ScoredCall]:
    return [
        ScoredCall(f"{label}-{at}", label, label is Label.HARMFUL, score)
        for label, scores in ((Label.HARMFUL, harmful), (Label.BENIGN, benign))
        for at, score in enumerate(scores)
    ]


SHARES = st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.9]), min_size=1, max_size=6)


@given(SHARES, SHARES, SHARES, SHARES)
def test_it_is_the_difference_of_the_figures_and_lies_in_its_interval(
    bad: list[float], good: list[float], bad_after: list[float], good_after: list[float]
) -> None:
    before, after = calls_of(bad, good), calls_of(bad_after, good_after)
    found = auroc_difference(before, after)
    assert found is not None
    expected = intent_figures(after)["intent_auroc"].value - intent_figures(before)["intent_auroc"].value
    assert found.value == pytest.approx(expected)
    assert -1 <= found.ci_low <= found.value <= found.ci_high <= 1
    assert found.n == max(len(bad), len(bad_after)) + max(len(good), len(good_after))


def test_the_same_calls_have_no_difference_and_pairing_shows_a_small_one() -> None:
    scores = [at / 40 for at in range(40)]
    before = calls_of(scores, scores)
    same = auroc_difference(before, before)
    assert same is not None and same.value == same.ci_low == same.ci_high == 0
    lower = auroc_difference(before, calls_of([score - 0.1 for score in scores], scores))
    assert lower is not None and lower.ci_high < 0
    width = intent_figures(before)["intent_auroc"]
    assert lower.ci_high - lower.ci_low < (width.ci_high - width.ci_low) / 2, "tasks are drawn once for both sides"


def test_a_side_whose_calls_are_of_one_kind_cannot_be_compared() -> None:
    both = calls_of([0.5], [0.1])
    assert auroc_difference(both, calls_of([0.5], [])) is None
    assert auroc_difference([], both) is None
