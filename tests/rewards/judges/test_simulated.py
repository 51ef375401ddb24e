"""The simulated judge has the faults it was given, and the same ones whenever it is asked again."""

from collections.abc import Sequence
from itertools import permutations
from statistics import fmean

import pytest

from demur.envs.trace import Action, ActionKind, Outcome, Trajectory, Turn
from demur.rewards.alignment import Comparing, alignments, judge_groups, judge_stats
from demur.rewards.judges import MeteredJudge
from demur.rewards.judges.simulated import NoisyJudge
from tests.envs.helpers import make_trajectory


def group(at: int, *goals: float) -> list[Trajectory]:
    """Rollouts whose texts differ."""
    return [
        make_trajectory(query=f"task {at}, text {sample}", outcome=Outcome(goal=goal), sample=sample)
        for sample, goal in enumerate(goals)
    ]


GROUPS = [group(at, 1, 0.5, 0.25, 0) for at in range(150)]
EQUALS = [group(at, 1, 1) for at in range(700)]


def ordered(groups: Sequence[Sequence[Trajectory]]) -> list[tuple[Trajectory, Trajectory]]:
    return [pair for group in groups for pair in permutations(group, 2)]


@pytest.mark.parametrize("shared", [0.0, 0.5, 1.0])
def test_accuracy_and_position_bias_are_as_set(shared: float) -> None:
    judge = NoisyJudge(accuracy=0.8, position_bias=0.6, shared=shared)
    pairs = ordered(GROUPS)
    right = [v == (a.outcome.goal > b.outcome.goal) for v, (a, b) in zip(judge.compare(pairs), pairs, strict=True)]
    assert fmean(right) == pytest.approx(0.8, abs=0.045)
    first = [verdict for verdict in judge.compare(ordered(EQUALS)) if verdict is not None]
    assert fmean(first) == pytest.approx(0.6, abs=0.045)


def test_verdicts_depend_on_the_seed_and_not_on_the_order_of_calls() -> None:
    pairs = ordered(GROUPS[:20])
    verdicts = NoisyJudge(seed=1).compare(pairs)
    again = NoisyJudge(seed=1)
    assert [again.compare([pair])[0] for pair in reversed(pairs)] == verdicts[::-1]
    assert NoisyJudge(seed=2).compare(pairs) != verdicts


def test_an_accuracy_of_one_without_bias_is_the_oracles_order() -> None:
    judge, comparing = NoisyJudge(accuracy=1.0, position_bias=0.5), Comparing()
    for values in alignments(
        GROUPS[:20], judge_groups(GROUPS[:20], "pairwise", judge, comparing), "pairwise", comparing
    ):
        assert values == [1, 2 / 3, 1 / 3, 0]


def test_failures_are_none_counted_and_listed_once() -> None:
    judge = NoisyJudge(failure_rate=0.1)
    assert isinstance(judge, MeteredJudge)
    verdicts = judge.compare(ordered(GROUPS[:60])) + judge.score(GROUPS[0])
    usage, failures = judge.pop_usage(), judge.pop_failures()
    assert (usage.calls, usage.failed) == (len(verdicts), verdicts.count(None)) and len(failures) == usage.failed
    assert usage.failed / usage.calls == pytest.approx(0.1, abs=0.05)
    assert judge.pop_usage().calls == 0 and judge.pop_failures() == []


def test_scores_are_tenths_that_repeats_make_better() -> None:
    judge = NoisyJudge(shared=0.0)

    def error(repeats: int) -> float:
        values = alignments(
            GROUPS, judge_groups(GROUPS, "pointwise", judge, Comparing(repeats=repeats)), "pointwise", Comparing()
        )
        return fmean((v - 0.75) ** 2 for row in values for v in row[1:3] if v is not None)

    assert {round(10 * s, 9) % 1 for s in judge.score(GROUPS[0]) if s is not None} == {0}
    assert error(8) < error(1) / 2


def test_the_longer_text_wins_with_a_length_bias() -> None:
    short = make_trajectory(outcome=Outcome(goal=1))
    turn = Turn(action=Action(kind=ActionKind.ANSWER))
    pairs = [
        (
            short.model_copy(update={"query": f"{at}", "turns": (turn.model_copy(update={"raw": "x" * 10}),)}),
            short.model_copy(update={"query": f"{at}", "turns": (turn.model_copy(update={"raw": "x" * 40}),)}),
        )
        for at in range(60)
    ]
    assert fmean(v for v in NoisyJudge(length_bias=1.0).compare(pairs) if v is not None) < 0.2


def test_what_looks_the_same_is_tied_without_a_call() -> None:
    twins = [*group(0, 1, 0), *group(0, 1, 0)]
    judge = NoisyJudge()
    (judgement,) = judge_groups([twins], "pairwise", judge, Comparing())
    assert judge.pop_usage().calls == 8 and judgement.same == {(0, 2), (1, 3)}
    assert {game.verdict for game in judgement.games if not judgement.asked(game)} == {0.5}
    assert judge_stats([judgement])["tie_rate"] == 0


def test_a_biased_judge_shows_in_its_stats() -> None:
    fair = judge_stats(judge_groups(GROUPS, "pairwise", NoisyJudge(position_bias=0.5), Comparing()))
    sided = judge_stats(judge_groups(GROUPS, "pairwise", NoisyJudge(position_bias=0.9), Comparing()))
    assert abs(fair["position_term"]) < 0.25 < 1 < sided["position_term"]
    assert sided["flip_rate"] > fair["flip_rate"] and fair["transitivity_violations"] < 0.25
    assert sided["failed_rate"] == 0


@pytest.mark.parametrize(
    "faults", [{"accuracy": 1.2}, {"position_bias": 0.0}, {"failure_rate": -1.0}, {"shared": float("nan")}]
)
def test_a_share_out_of_its_range_is_named(faults: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(faults))):
        NoisyJudge(**faults)


def test_repeated_comparisons_have_errors_of_their_own_that_other_questions_do_not_change() -> None:
    pairs = [(group[0], group[1]) for group in GROUPS]
    once = NoisyJudge(seed=3).compare(pairs)
    twice = NoisyJudge(seed=3).compare([pair for pair in pairs for _ in range(2)])
    assert twice[::2] == once and twice[1::2] != once


def test_repeats_make_comparisons_better() -> None:
    def right(repeats: int) -> float:
        judge = NoisyJudge(accuracy=0.7, position_bias=0.5, shared=0.0)
        comparing = Comparing(both_orders=False, repeats=repeats)
        judged = judge_groups([group[:2] for group in GROUPS], "pairwise", judge, comparing)
        return fmean(judgement.games[0].verdict > 0.5 for judgement in judged)  # the first is the better one

    assert right(9) > right(1) + 0.05
