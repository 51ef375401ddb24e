"""Means and Bradley–Terry fits, against reference packages and against the truth of simulated groups."""

from random import Random
from statistics import fmean, stdev

import choix
import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.rewards.judges.aggregation import Game, Judgement, bradley_terry, fit, mean_of_wins

verdicts = st.sampled_from([0.0, 0.5, 1.0, None])
GAMES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4), verdicts).filter(lambda g: g[0] != g[1]).map(lambda g: Game(*g)),
    max_size=25,
)


@settings(max_examples=40, deadline=None)
@given(GAMES)
def test_values_are_probabilities_whose_mean_over_the_connected_part_is_one_half(games: list[Game]) -> None:
    (values,) = bradley_terry([5], [Judgement(games=tuple(games))])
    known = [value for value in values if value is not None]
    assert all(0 <= value <= 1 for value in known)
    assert not known or fmean(known) == pytest.approx(0.5)
    assert bool(known) is any(game.verdict is not None for game in games)


@settings(max_examples=30, deadline=None)
@given(GAMES, st.permutations(range(5)))
def test_the_numbering_of_the_rollouts_does_not_matter(games: list[Game], order: list[int]) -> None:
    games = [*games, *(Game(at, at + 1, 1.0) for at in range(4))]  # in one part
    renamed = [Game(order[i], order[j], verdict) for i, j, verdict in games]
    (values,), (others,) = (bradley_terry([5], [Judgement(games=tuple(g))]) for g in (games, renamed))
    assert [others[order[at]] for at in range(5)] == pytest.approx(values)


def test_without_a_position_term_the_fit_is_choix_s() -> None:
    rng = Random(0)
    games = [Game(i, j, float(rng.random() < 0.5)) for i in range(5) for j in range(5) if i != j]
    won = [(i, j) if verdict else (j, i) for i, j, verdict in games]
    # its penalty is alpha·b², ours ridge·b²/2
    expected = choix.opt_pairwise(5, won, alpha=0.15, method="Newton-CG", tol=1e-10)
    found = fit([5], [Judgement(games=tuple(games))], ridge=0.3, position_ridge=1e12)
    assert found.position == pytest.approx(0, abs=1e-9)
    assert found.strengths[0] == pytest.approx(expected, abs=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.lists(GAMES, min_size=1, max_size=3))
def test_with_a_position_term_the_fit_is_the_optimum_of_the_penalised_likelihood(groups: list[list[Game]]) -> None:
    def loss(x: np.ndarray) -> float:
        total = 0.3 * np.sum(x[:-1] ** 2) / 2 + 0.1 * x[-1] ** 2 / 2
        for at, games in enumerate(groups):
            for i, j, verdict in games:
                if verdict is not None:
                    z = x[5 * at + i] - x[5 * at + j] + x[-1]
                    total += np.logaddexp(0, z) - verdict * z
        return float(total)

    found = fit([5] * len(groups), [Judgement(games=tuple(g)) for g in groups], ridge=0.3, position_ridge=0.1)
    ours = np.append(found.strengths.ravel(), found.position)
    best = scipy.optimize.minimize(loss, ours + 0.1, method="BFGS", options={"gtol": 1e-7})
    assert ours == pytest.approx(best.x, abs=1e-4)


def test_the_position_term_is_the_judges_not_the_groups() -> None:
    sided = [Judgement(games=tuple(Game(i, j, v) for i, j in ((0, 1), (1, 0)) for v in (1, 1, 1, 0, 0)))] * 40
    assert fit([2] * 40, sided).position == pytest.approx(np.log(0.6 / 0.4), abs=0.01)


def test_ties_without_a_call_say_nothing_about_the_position() -> None:
    asked = [Judgement(games=(Game(0, 1, 1.0), Game(1, 0, 1.0)))] * 10
    free = [Judgement(games=(Game(0, 1, 0.5), Game(1, 0, 0.5)), same=frozenset({(0, 1)}))] * 10
    assert fit([2] * 20, asked + free).position == pytest.approx(fit([2] * 10, asked).position)


def test_what_no_verdict_connects_to_the_largest_part_has_no_value() -> None:
    games = (Game(0, 1, 1.0), Game(2, 3, 1.0), Game(3, 4, 1.0), Game(1, 2, None))
    (values,) = bradley_terry([6], [Judgement(games=games)])
    assert [value is None for value in values] == [True, True, False, False, False, True]
    assert bradley_terry([2, 1], [Judgement(games=(Game(0, 1, None),)), Judgement()]) == [[None, None], [None]]


def test_the_mean_needs_every_verdict_unless_told_otherwise() -> None:
    games = [Game(0, 1, 1.0), Game(0, 2, None), Game(1, 2, 0.5)]
    assert mean_of_wins(3, games) == [None, 0.25, None]
    assert mean_of_wins(4, games, known_only=True) == [1, 0.25, 0.5, None]


def noisy_games(rng: Random, pairs: list[tuple[int, int]], worth: list[int]) -> tuple[Game, ...]:
    """Verdicts that are right in 80%, and lean to the first."""
    right = {True: 0.88, False: 0.72}
    return tuple(
        Game(i, j, float((worth[i] > worth[j]) == (rng.random() < right[worth[i] > worth[j]]))) for i, j in pairs
    )


CIRCLE = [(0, 1), (1, 2), (2, 3), (3, 0), (1, 0), (2, 1), (3, 2), (0, 3)]


def test_on_a_circle_the_fit_orders_better_than_the_mean() -> None:
    rng = Random(1)
    worths = [rng.sample(range(4), 4) for _ in range(1500)]
    judgements = [Judgement(games=noisy_games(rng, CIRCLE, worth)) for worth in worths]
    fitted = bradley_terry([4] * len(worths), judgements)
    gains = [
        tau(values, worth) - tau(mean_of_wins(4, judgement.games), worth)
        for values, judgement, worth in zip(fitted, judgements, worths, strict=True)
    ]
    assert fmean(gains) - 1.96 * stdev(gains) / len(gains) ** 0.5 > 0


def tau(values: list[float | None], worth: list[int]) -> float:
    """Kendall's τ-a against a strict order; a rollout without a value ties with all."""
    signs = [
        float(np.sign(round(x - y, 9)) * np.sign(worth[i] - worth[j])) if x is not None and y is not None else 0.0
        for i, x in enumerate(values)
        for j, y in enumerate(values)
        if i < j
    ]
    return sum(signs) / len(signs)
