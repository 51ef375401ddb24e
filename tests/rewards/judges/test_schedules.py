"""Schedules: which pairs, how many calls, and what the adaptive one gains."""

from random import Random
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.rewards.judges.aggregation import Game, Judgement, bradley_terry
from demur.rewards.judges.schedules import SCHEDULES, Ordered, ScheduleName, calls_of, schedule
from tests.rewards.judges.test_aggregation import noisy_games, tau


def play(name: ScheduleName, n: int, both: bool, share: float, rng: Random, worth: list[int]) -> list[Game]:
    games: list[Game] = []
    rounds = schedule(name, n, both, share)
    pairs = next(rounds, None)
    while pairs:
        found = noisy_games(rng, pairs, worth)
        games += found
        try:
            pairs = rounds.send([game.verdict for game in found])
        except StopIteration:
            break
    return games


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(SCHEDULES), st.integers(0, 6), st.booleans(), st.sampled_from([0.05, 0.4, 0.6, 1.0]), st.integers()
)
def test_a_schedule_asks_each_question_once_and_as_often_as_it_says(
    name: ScheduleName, n: int, both: bool, share: float, seed: int
) -> None:
    rng = Random(seed)
    games = play(name, n, both, share, rng, rng.sample(range(n), n))
    asked = [game[:2] for game in games]
    assert len(asked) == calls_of(name, n, both, share) and all(i != j for i, j in asked)
    questions = asked if both else [tuple(sorted(pair)) for pair in asked]
    assert len(set(questions)) == len(questions)
    assert n < 2 or None not in bradley_terry([n], [Judgement(games=tuple(games))])[0], "connected"


def test_the_fixed_schedules() -> None:
    def only(name: ScheduleName, both: bool) -> list[Ordered]:
        (pairs,) = schedule(name, 4, both)
        return pairs

    assert only("all", False) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert only("circular", False) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert only("anchor", True) == [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)]


def test_of_two_rollouts_neither_is_always_read_first() -> None:
    assert next(schedule("adaptive", 2, True, 0.6)) == [(0, 1), (1, 0)]
    assert next(schedule("adaptive", 2, False, 0.6)) == [(0, 1)]


def test_failed_calls_do_not_keep_the_adaptive_schedule_from_its_end() -> None:
    rounds = schedule("adaptive", 4, True, 0.6)
    calls, pairs = 0, next(rounds, None)
    while pairs:
        calls += len(pairs)
        try:
            pairs = rounds.send([None] * len(pairs))
        except StopIteration:
            break
    assert calls == 7


@pytest.mark.slow
@pytest.mark.parametrize(("n", "share", "groups"), [(4, 0.6, 250), (8, 0.4, 60)])
def test_the_adaptive_schedule_orders_better_than_as_many_random_calls(n: int, share: float, groups: int) -> None:
    rng = Random(2)
    gains = []
    for _ in range(groups):
        worth = rng.sample(range(n), n)
        chosen = play("adaptive", n, True, share, rng, worth)
        pairs = rng.sample([(i, j) for i in range(n) for j in range(n) if i != j], len(chosen))
        both = (tuple(chosen), noisy_games(rng, pairs, worth))
        values, others = bradley_terry([n] * 2, [Judgement(games=games) for games in both])
        gains.append(tau(values, worth) - tau(others, worth))
    assert fmean(gains) - 1.96 * stdev(gains) / len(gains) ** 0.5 > 0
