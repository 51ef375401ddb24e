"""r_align: relative to the group, whatever its order, and never a number where the judge failed."""

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.trace import Ending, Label, Outcome, Trajectory
from demur.rewards.alignment import Comparing, Kind, alignment
from demur.rewards.judges import Judge, Pair
from demur.rewards.judges.oracle import Oracle
from tests.envs.helpers import make_trajectory

KINDS: tuple[Kind, ...] = ("pairwise", "pointwise", "outcome")


def pairwise(group: Sequence[Trajectory], judge: Judge, both_orders: bool = True) -> list[float | None]:
    return alignment(group, "pairwise", judge, Comparing(both_orders=both_orders))


class FirstWins:
    """A judge that prefers whatever it reads first."""

    name = "first"

    def __init__(self) -> None:
        self.pairs = 0

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        self.pairs += len(pairs)
        return [1.0] * len(pairs)

    def score(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        return [1.0] * len(trajectories)


class Failing(Oracle):
    """An oracle that fails on everything with some samples."""

    def __init__(self, *samples: int) -> None:
        self.samples = samples

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        verdicts = super().compare(pairs)
        return [
            None if {one.sample, other.sample} == set(self.samples) else verdict
            for (one, other), verdict in zip(pairs, verdicts, strict=True)
        ]

    def score(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        scores = super().score(trajectories)
        return [None if t.sample in self.samples else s for t, s in zip(trajectories, scores, strict=True)]


def benign(*goals: float) -> list[Trajectory]:
    return [make_trajectory(outcome=Outcome(goal=goal), sample=at) for at, goal in enumerate(goals)]


outcomes = st.builds(
    Outcome,
    goal=st.sampled_from([0, 0.5, 1]),
    attack=st.sampled_from([0, 0.5, 1]),
    harms=st.lists(st.just("a"), max_size=2).map(tuple),
    damage=st.lists(st.just("a"), max_size=2).map(tuple),
    refused=st.booleans(),
    asked_needed=st.integers(0, 1),
)
facts = st.lists(st.tuples(outcomes, st.sampled_from(Ending)), min_size=2, max_size=6)
groups = st.builds(
    lambda label, rows: [
        make_trajectory(label, outcome=outcome, ending=ending, sample=at) for at, (outcome, ending) in enumerate(rows)
    ],
    st.sampled_from(Label),
    facts,
)


def numbers(values: Sequence[float | None]) -> list[float]:
    assert None not in values
    return [value for value in values if value is not None]


def test_alignment_is_the_mean_win_probability() -> None:
    assert pairwise(benign(1, 1, 0.5, 0), Oracle()) == [2.5 / 3, 2.5 / 3, 1 / 3, 0]
    assert pairwise(benign(0, 1), Oracle()) == [0, 1]
    assert pairwise(benign(1, 1, 1), Oracle()) == [0.5, 0.5, 0.5]


@given(groups, st.booleans())
def test_the_mean_over_a_group_is_one_half(group: list[Trajectory], both: bool) -> None:
    for judge in (Oracle(), FirstWins()):
        values = numbers(pairwise(group, judge, both))
        assert sum(values) / len(values) == pytest.approx(0.5)
        assert all(0 <= value <= 1 for value in values)


@given(groups)
def test_comparisons_are_antisymmetric(group: list[Trajectory]) -> None:
    first, second, *_ = group
    one, other = numbers(Oracle().compare([(first, second), (second, first)]))
    assert one + other == 1
    assert numbers(pairwise([first, second], Oracle())) == numbers(pairwise([second, first], Oracle()))[::-1]


@given(groups, st.randoms(use_true_random=False), st.sampled_from(KINDS))
def test_alignment_does_not_depend_on_the_order_of_the_group(
    group: list[Trajectory], random: Random, kind: Kind
) -> None:
    order = list(range(len(group)))
    random.shuffle(order)
    values = numbers(alignment(group, kind, Oracle(), Comparing()))
    shuffled = numbers(alignment([group[at] for at in order], kind, Oracle(), Comparing()))
    assert shuffled == pytest.approx([values[at] for at in order])


@given(groups)
def test_a_better_rollout_never_gets_less(group: list[Trajectory]) -> None:
    values = numbers(pairwise(group, Oracle()))
    for i, one in enumerate(group):
        for j, other in enumerate(group):
            if Oracle().compare([(one, other)]) == [1.0]:
                assert values[i] > values[j]


def test_with_both_orders_a_verdict_that_follows_the_position_is_a_tie() -> None:
    assert pairwise(benign(1, 0, 1, 0), FirstWins(), both_orders=True) == [0.5] * 4
    assert pairwise(benign(1, 0, 1, 0), FirstWins(), both_orders=False) == [1, 2 / 3, 1 / 3, 0]


@pytest.mark.parametrize(("both", "pairs"), [(True, 12), (False, 6)])
def test_every_pair_is_judged_once_in_each_order(both: bool, pairs: int) -> None:
    judge = FirstWins()
    pairwise(benign(1, 0, 1, 0), judge, both)
    assert judge.pairs == pairs


@pytest.mark.parametrize("both", [True, False])
def test_a_failed_comparison_leaves_both_its_rollouts_without_a_number(both: bool) -> None:
    values = pairwise(benign(1, 0.5, 0, 0), Failing(1, 2), both)
    assert values == [1, None, None, pytest.approx(0.5 / 3)]


def test_a_judge_that_fails_always_gives_no_number() -> None:
    class Silent(FirstWins):
        def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
            return [None] * len(pairs)

        def score(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
            return [None] * len(trajectories)

    for kind in KINDS[:2]:
        assert alignment(benign(1, 0, 0.5), kind, Silent(), Comparing()) == [None] * 3


def test_a_rollout_alone_has_nothing_to_be_compared_with() -> None:
    assert pairwise(benign(1), Oracle()) == [None]


def test_pointwise_alignment_is_the_judges_score() -> None:
    assert alignment(benign(1, 0.5, 0), "pointwise", Oracle(), Comparing()) == [1, 0.75, 0.5]
    assert alignment(benign(1, 0.5, 0), "pointwise", Failing(1), Comparing()) == [1, None, 0.5]


def test_outcome_alignment_asks_no_judge() -> None:
    judge = FirstWins()
    assert alignment(benign(1, 0.5, 0), "outcome", judge, Comparing()) == [1, 0, 0]
    assert judge.pairs == 0
