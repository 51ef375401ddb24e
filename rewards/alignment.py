"""r_align in [0, 1]: what a judge thinks of a rollout, relative to its group or on its own.

Judging and the numbers from it are two steps, so that groups may be judged in several places and the numbers come
from all judgements together::

    judgements = judge_groups(groups, "pairwise", judge, comparing)
    values = alignments(groups, judgements, "pairwise", comparing)
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple, get_args

from demur.envs.trace import Trajectory
from demur.rewards.judges import Failure, Judge, MeteredJudge
from demur.rewards.judges.aggregation import Game, Judgement, bradley_terry, fit, mean_of_wins
from demur.rewards.judges.oracle import acceptable
from demur.rewards.judges.rendering import view_key
from demur.rewards.judges.schedules import SCHEDULES, Ordered, Rounds, ScheduleName, schedule
from demur.rewards.judges.steps import one_step

Kind = Literal["pairwise", "pointwise", "outcome"]
Aggregate = Literal["mean", "bradley_terry"]
Group = Sequence[Trajectory]
Question = tuple[Trajectory, ...]
"""Two trajectories to compare, or one to score."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """How a group is judged.

    both_orders: each pair twice, so that a verdict which follows the position is a tie. schedule: which pairs.
    aggregate: mean of wins, or a Bradley–Terry fit, which suits schedules that compare rollouts with different others.
    share: of the calls of `all`, what the adaptive schedule uses. repeats: how often each question is asked; its
    answers' mean counts.
    Raises ValueError for what is not one of these.
    """

    both_orders: bool = True
    schedule: ScheduleName = "all"
    aggregate: Aggregate = "mean"
    share: float = 0.6
    repeats: int = 1

    def __post_init__(self) -> None:
        if self.schedule not in SCHEDULES:
            raise ValueError(f"there is no schedule {self.schedule!r}: use one of {', '.join(SCHEDULES)}")
        if self.aggregate not in get_args(Aggregate):
            raise ValueError(f"there is no aggregate {self.aggregate!r}: use one of {', '.join(get_args(Aggregate))}")
        if not 0 < self.share <= 1:
            raise ValueError(f"the adaptive schedule's share lies above 0 and is 1 at most, not {self.share}")
        if self.repeats < 1:
            raise ValueError(f"the judge is asked at least once, not {self.repeats} times")


class Answered(NamedTuple):
    """value: in [0, 1], the mean of the repeats that did not fail; None if all did. failures: see `Judgement`."""

    value: float | None
    failures: tuple[Failure, ...]


def judge_groups(groups: Sequence[Group], kind: Kind, judge: Judge, comparing: Comparing) -> list[Judgement]:
    """Ask the judge about all groups together: pairwise a call of `compare` a round, pointwise one of `score`.

    A judge that raises fails all that it was just asked, and the log says why. A verdict outside [0, 1] is a failure
    too. All rounds of a schedule share the time that a judge has for a step. For a judge whose calls cost something,
    rollouts that look the same are tied without a call; others may see more than that look.
    """
    if kind == "pairwise":
        with one_step():
            return _compare(groups, judge, comparing)
    if kind == "pointwise":
        answers = iter(ask(judge, "score", [(t,) for group in groups for t in group], comparing.repeats))
        return [_scored([next(answers) for _ in group]) for group in groups]
    return [Judgement() for _ in groups]


def alignments(
    groups: Sequence[Group], judgements: Sequence[Judgement], kind: Kind, comparing: Comparing
) -> list[list[float | None]]:
    """One value a rollout in [0, 1]; None where the judge failed. A Bradley–Terry fit has one position term for all."""
    assert len(groups) == len(judgements), "one judgement a group"
    if kind == "outcome":
        return [[float(acceptable(trajectory)) for trajectory in group] for group in groups]
    if kind == "pointwise":
        return [list(judgement.scores) for judgement in judgements]
    if comparing.aggregate == "bradley_terry":
        return bradley_terry([len(group) for group in groups], judgements)
    return [mean_of_wins(len(group), j.games) for group, j in zip(groups, judgements, strict=True)]


def alignment(group: Group, kind: Kind, judge: Judge, comparing: Comparing) -> list[float | None]:
    """Judge one group and give a value a rollout."""
    (values,) = alignments([group], judge_groups([group], kind, judge, comparing), kind, comparing)
    return values


def judge_stats(judgements: Iterable[Judgement]) -> dict[str, float]:
    """How well the judge agrees with itself; only what there is something to measure for. Shares in [0, 1].

    flip_rate: of pairs judged in both orders, those whose verdicts contradict each other. position_term: g in logits,
    0 is fair and ln(0.6/0.4) = 0.405 is 60/40. transitivity_violations: of triples whose three pairs all have a winner,
    those that go round in a circle. tie_rate: of the known verdicts. failed_rate: of the calls. Ties without a call
    are left out.
    """
    judged = [Judgement(games=tuple(filter(j.asked, j.games)), scores=j.scores) for j in judgements]
    games = [game for judgement in judged for game in judgement.games]
    outcomes = [game.verdict for game in games] or [score for judgement in judged for score in judgement.scores]
    verdicts = [game.verdict for game in games if game.verdict is not None]
    tables = [_by_pair(judgement.games) for judgement in judged]
    stats = {
        "flip_rate": _share([_flips(*v) for table in tables for v in table.values() if len(v) == 2]),
        "transitivity_violations": _share([circle for table in tables for circle in _circles(table)]),
        "tie_rate": _share([verdict == 0.5 for verdict in verdicts]),
        "failed_rate": _share([outcome is None for outcome in outcomes]),
    }
    if verdicts:
        sizes = [1 + max((max(game[:2]) for game in judgement.games), default=0) for judgement in judged]
        stats["position_term"] = fit(sizes, judged).position
    return {name: value for name, value in stats.items() if value is not None}


def _compare(groups: Sequence[Group], judge: Judge, comparing: Comparing) -> list[Judgement]:
    same = [_same(group) if isinstance(judge, MeteredJudge) else frozenset[Ordered]() for group in groups]
    games: list[list[Game]] = [[] for _ in groups]
    failures: list[list[Failure]] = [[] for _ in groups]
    rounds = [schedule(comparing.schedule, len(group), comparing.both_orders, comparing.share) for group in groups]
    asking = {at: pairs for at, one in enumerate(rounds) if (pairs := next(one, None))}
    while asking:
        asked = [(at, pair) for at, pairs in asking.items() for pair in pairs if _sorted(pair) not in same[at]]
        answers = ask(judge, "compare", [(groups[at][i], groups[at][j]) for at, (i, j) in asked], comparing.repeats)
        for (at, _), answer in zip(asked, answers, strict=True):
            failures[at] += answer.failures
        verdicts = (answer.value for answer in answers)
        going = {}
        for at, pairs in asking.items():
            found = [0.5 if _sorted(pair) in same[at] else next(verdicts) for pair in pairs]
            games[at] += [Game(*pair, verdict) for pair, verdict in zip(pairs, found, strict=True)]
            if more := _send(rounds[at], found):
                going[at] = more
        asking = going
    return [
        Judgement(games=tuple(played), same=alike, failures=tuple(failed))
        for played, alike, failed in zip(games, same, failures, strict=True)
    ]


def _scored(answers: Sequence[Answered]) -> Judgement:
    return Judgement(
        scores=tuple(answer.value for answer in answers),
        failures=tuple(failure for answer in answers for failure in answer.failures),
    )


def _send(rounds: Rounds, verdicts: list[float | None]) -> list[Ordered] | None:
    try:
        return rounds.send(verdicts)
    except StopIteration:
        return None


def ask(
    judge: Judge, kind: Literal["compare", "score"], questions: Sequence[Question], repeats: int = 1
) -> list[Answered]:
    """An answer to each question, each asked `repeats` times, in one call of the judge."""
    repeated = [question for question in questions for _ in range(repeats)]
    if not repeated:
        return []
    values, faults = _said(judge, kind, repeated)
    failures = [
        None if fault is None else _failure(kind, question, at % repeats, fault)
        for at, (question, fault) in enumerate(zip(repeated, faults, strict=True))
    ]
    starts = range(0, len(values), repeats)
    return [
        Answered(_mean(values[at : at + repeats]), tuple(one for one in failures[at : at + repeats] if one))
        for at in starts
    ]


def _said(
    judge: Judge, kind: Literal["compare", "score"], questions: Sequence[Question]
) -> tuple[list[float | None], list[str | None]]:
    """Each answer in [0, 1] or None, and why there is none, unless the judge tells that itself.

    A NaN or another number outside [0, 1] fails as None does, and so does a list of another length.
    """
    try:
        if kind == "compare":
            said = judge.compare([(first, second) for first, second in questions])
        else:
            said = judge.score([trajectory for (trajectory,) in questions])
        if len(said) == len(questions):
            fit = [value is not None and 0 <= value <= 1 for value in said]
            values = [value if fits else None for value, fits in zip(said, fit, strict=True)]
            return values, [_fault(judge, value, fits) for value, fits in zip(said, fit, strict=True)]
        fault = f"the judge gave {len(said)} answers to {len(questions)} questions"  # nobody knows which to which
    except Exception as error:  # a judge may be anybody's code, and a failed judgement is a distinct outcome
        fault = f"the judge raised {type(error).__name__}: {error}"[:500]
    _log.warning("%d calls failed: %s", len(questions), fault)
    return [None] * len(questions), [fault] * len(questions)


def _fault(judge: Judge, value: float | None, fits: bool) -> str | None:
    if value is None:
        return None if isinstance(judge, MeteredJudge) else "the judge gave no answer"
    return None if fits else f"the judge's answer {value} is not in [0, 1]"


def _failure(kind: Literal["compare", "score"], question: Question, repeat: int, error: str) -> Failure:
    samples = tuple(trajectory.sample for trajectory in question)
    return Failure(kind=kind, task_id=question[0].task_id, samples=samples, repeat=repeat, error=error)


def _mean(answers: Sequence[float | None]) -> float | None:
    """The mean of the repeats that did not fail: unlike opponents, they are all alike."""
    known = [answer for answer in answers if answer is not None]
    return sum(known) / len(known) if known else None


def _same(group: Group) -> frozenset[Ordered]:
    keys = [view_key(trajectory) for trajectory in group]
    return frozenset((i, j) for i, j in combinations(range(len(keys)), 2) if keys[i] == keys[j])


def _sorted(pair: Ordered) -> Ordered:
    return (min(pair), max(pair))


def _flips(one: float, other: float) -> bool:
    """Two verdicts on a pair that do not name the same winner."""
    return (one > 0.5, one < 0.5) != (other > 0.5, other < 0.5)


def _by_pair(games: Iterable[Game]) -> dict[Ordered, list[float]]:
    """The known verdicts of each pair, all from the view of the lower index."""
    table: dict[Ordered, list[float]] = {}
    for first, second, verdict in games:
        if verdict is not None:
            table.setdefault(_sorted((first, second)), []).append(verdict if first < second else 1 - verdict)
    return table


def _circles(table: dict[Ordered, list[float]]) -> list[bool]:
    """For each triple that is decided in all its pairs, whether it goes round in a circle."""
    wins = {pair: sum(v) / len(v) for pair, v in table.items() if sum(v) != len(v) / 2}
    names = sorted({index for pair in wins for index in pair})
    triples = [t for t in combinations(names, 3) if all(pair in wins for pair in combinations(t, 2))]
    return [(wins[i, j] > 0.5) == (wins[j, k] > 0.5) != (wins[i, k] > 0.5) for i, j, k in triples]


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None
