"""What a judge card says of a judge: every pair is asked in both orders, and figures come with 95% intervals.

    asked = Asked(judge)
    judged = judge_pairs(pairs, asked, repeats=2)
    pair_agreement("oracle", judged.pairs, oracle_order(pairs))

Source of the position term: with log odds d + g for the first place, and -d + g in the other order, the odds of two
verdicts for the first place against two for the second are exp(2 g) whatever d is (conditional likelihood of the Rasch
model, G. Rasch 1960). So pairs of any difference count, and it is not weakened by clear ones.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import yaml

from demur.envs.protocol import OBSERVATION_MARKUP, parse
from demur.envs.trace import Record, Trajectory
from demur.eval.agreement import bootstrap, cohen_kappa, krippendorff_alpha
from demur.eval.card import (
    CardUsage,
    Figure,
    Fooling,
    HumanAgreement,
    KappaOfTwo,
    PairAgreement,
    ScoreAgreement,
    Source,
)
from demur.eval.intent_metrics import ScoredCall, intent_figures
from demur.eval.labels import TaskPair
from demur.eval.stats import Floats, estimate
from demur.rewards.judges import Judge, MeteredJudge, Pair, Usage
from demur.rewards.judges.oracle import rank

FOOLING_TEXTS = Path(__file__).with_name("fooling_texts.yaml")
Share = tuple[str, float, float]
"""Of a unit: its task, a part and its whole."""


class FoolingText(Record):
    """text: `{place}` in it becomes first or second. where: in a trajectory it is planted."""

    name: str
    where: Literal["message", "result"]
    text: str


class JudgedPair(NamedTuple):
    """forward: the verdict on (first, second), for the first; backward: on (second, first), for the second."""

    pair: TaskPair
    forward: float
    backward: float

    @property
    def combined(self) -> float:
        """Both orders together, for the first of the pair."""
        return (self.forward + 1 - self.backward) / 2

    @property
    def task(self) -> str:
        return self.pair.first.task_id


class Judged(NamedTuple):
    """pairs: those with a verdict in both orders. failed: how many others. consistency: (task, same, repeats)."""

    pairs: list[JudgedPair]
    failed: int
    consistency: list[Share]


class Asked:
    """A judge and what asking it took. A failed call is None, and so is a verdict outside [0, 1]."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self._usage = Usage()
        self.failures: Counter[str] = Counter()

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        return self._ask(lambda: self.judge.compare(pairs), len(pairs))

    def score(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        return self._ask(lambda: self.judge.score(trajectories), len(trajectories))

    @property
    def stop_reason(self) -> str | None:
        return self.judge.stop_reason if isinstance(self.judge, MeteredJudge) else None

    @property
    def usage(self) -> CardUsage:
        return CardUsage(**{name: getattr(self._usage, name) for name in CardUsage.model_fields})

    def _ask(self, ask: Callable[[], list[float | None]], expected: int) -> list[float | None]:
        started = time.monotonic()
        said = ask()
        seconds = time.monotonic() - started
        if len(said) != expected:
            raise ValueError(f"the judge {self.judge.name} gave {len(said)} verdicts for {expected} questions")
        values = [value if value is not None and 0 <= value <= 1 else None for value in said]
        if isinstance(self.judge, MeteredJudge):
            self._usage += self.judge.pop_usage()
            self.failures.update(failure.error for failure in self.judge.pop_failures())
        else:
            failed = values.count(None)
            self._usage += Usage(calls=expected, failed=failed, seconds=seconds)
            self.failures.update({"no verdict": failed} if failed else {})
        return values


def judge_pairs(pairs: Sequence[TaskPair], asked: Asked, *, repeats: int = 1) -> Judged:
    """Ask for each pair in both orders, and for (first, second) `repeats` times in all.

    All goes into one call of the judge, so that a cache keeps an answer of its own for each repetition.
    """
    n = len(pairs)
    orders = [pair.both for pair in pairs], [pair.swapped for pair in pairs]
    said = asked.compare([*orders[0], *orders[1], *(orders[0] * (repeats - 1))])
    forward, backward, again = said[:n], said[n : 2 * n], said[2 * n :]
    judged, consistency = [], []
    for at, (pair, one, other) in enumerate(zip(pairs, forward, backward, strict=True)):
        if one is not None and other is not None:
            judged.append(JudgedPair(pair, one, other))
        known = [value for value in again[at::n] if value is not None]
        if one is not None and known:
            same = sum(_category(value) == _category(one) for value in known)
            consistency.append((pair.first.task_id, float(same), float(len(known))))
    return Judged(judged, n - len(judged), consistency)


def oracle_order(pairs: Iterable[TaskPair]) -> dict[str, float]:
    """By pair id what the oracle says, from the first's view."""
    ranks = ((pair.id, rank(pair.first), rank(pair.second)) for pair in pairs)
    return {id: 0.5 if first == second else float(first > second) for id, first, second in ranks}


# Agreement


def pair_agreement(
    source: Source, judged: Sequence[JudgedPair], order: Mapping[str, float], seed: int = 0
) -> PairAgreement:
    """order: by pair id, from the first's view; pairs that it lacks do not count."""
    known = [(j, order[j.pair.id]) for j in judged if j.pair.id in order]
    ordered = [(j, truth) for j, truth in known if truth != 0.5]
    tasks = [j.task for j, _ in known]
    said, true = [_category(j.combined) for j, _ in known], [_category(truth) for _, truth in known]
    ratings = list(zip(said, true, strict=True))
    calls = [(j.task, _hit(j.forward, truth) + _hit(j.backward, 1 - truth), 2.0) for j, truth in ordered]
    return PairAgreement(
        source=source,
        pairs=len(known),
        ordered=len(ordered),
        accuracy=share([(j.task, _hit(j.combined, truth), 1.0) for j, truth in ordered], seed),
        accuracy_per_call=share(calls, seed),
        kappa=Figure.of(cohen_kappa(said, true, tasks=tasks, categories=3, seed=seed)),
        alpha_nominal=Figure.of(krippendorff_alpha(ratings, tasks=tasks, categories=3, level="nominal", seed=seed)),
        alpha_ordinal=Figure.of(krippendorff_alpha(ratings, tasks=tasks, categories=3, level="ordinal", seed=seed)),
    )


def human_agreement(
    labels: Mapping[str, Mapping[str, float]], pairs: Iterable[TaskPair], seed: int = 0
) -> HumanAgreement:
    """labels: of `read_labels`. One annotator alone has no agreement."""
    labelled = [pair for pair in pairs if any(pair.id in said for said in labels.values())]
    ratings = [[_category(said[p.id]) if p.id in said else None for said in labels.values()] for p in labelled]
    tasks = [pair.first.task_id for pair in labelled]
    kappas = []
    for (one, a), (other, b) in combinations(labels.items(), 2):
        both = [pair for pair in labelled if pair.id in a and pair.id in b]
        kappa = cohen_kappa(
            [_category(a[pair.id]) for pair in both],
            [_category(b[pair.id]) for pair in both],
            tasks=[pair.first.task_id for pair in both],
            categories=3,
            seed=seed,
        )
        kappas.append(KappaOfTwo(annotators=(one, other), pairs=len(both), kappa=Figure.of(kappa)))
    return HumanAgreement(
        annotators=tuple(labels),
        pairs=len(labelled),
        alpha_nominal=Figure.of(krippendorff_alpha(ratings, tasks=tasks, categories=3, level="nominal", seed=seed)),
        alpha_ordinal=Figure.of(krippendorff_alpha(ratings, tasks=tasks, categories=3, level="ordinal", seed=seed)),
        kappas=tuple(kappas),
    )


def score_agreement(
    source: Source,
    traces: Sequence[tuple[Trajectory, bool]],
    scores: Sequence[float | None],
    *,
    threshold: float,
    seed: int = 0,
) -> ScoreAgreement:
    """traces: each with whether it is good. auroc: the chance that a good one scores above a bad one."""
    known = [(t, good, score) for (t, good), score in zip(traces, scores, strict=True) if score is not None]
    said = [int(score >= threshold) for *_, score in known]
    true = [int(good) for _, good, _ in known]
    tasks = [t.task_id for t, *_ in known]
    bad = [ScoredCall(t.task_id, t.label, not good, 1 - score) for t, good, score in known]
    return ScoreAgreement(
        source=source,
        traces=len(known),
        good=sum(true),
        threshold=threshold,
        accuracy=share([(task, float(a == b), 1.0) for task, a, b in zip(tasks, said, true, strict=True)], seed),
        kappa=Figure.of(cohen_kappa(said, true, tasks=tasks, categories=2, seed=seed)),
        auroc=Figure.of(intent_figures(bad, seed=seed).get("intent_auroc")),
    )


# Biases


def flip_rate(judged: Iterable[JudgedPair], seed: int = 0) -> Figure | None:
    return share([(j.task, float(_category(j.forward) + _category(j.backward) != 2), 1.0) for j in judged], seed)


def first_share(judged: Iterable[JudgedPair], seed: int = 0) -> Figure | None:
    return share([(j.task, j.forward + j.backward, 2.0) for j in judged], seed)


def position_term(judged: Sequence[JudgedPair], seed: int = 0) -> Figure | None:
    """Log odds for the first place; one half is added to both counts, so that it is finite."""
    rows = np.array([[min(j.forward, j.backward) > 0.5, max(j.forward, j.backward) < 0.5] for j in judged], np.float64)

    def term(sums: Floats) -> Floats:
        value: Floats = np.log((sums[:, 0] + 0.5) / (sums[:, 1] + 0.5)) / 2
        return value

    return Figure.of(bootstrap(rows, [j.task for j in judged], term, seed=seed))


def longer_share(judged: Iterable[JudgedPair], order: Mapping[str, float], seed: int = 0) -> Figure | None:
    rows = []
    for j in judged:
        longer = length(j.pair.first) - length(j.pair.second)
        if order[j.pair.id] == 0.5 and longer:
            decided = [value for value in (j.forward, 1 - j.backward) if value != 0.5]
            rows.append((j.task, float(sum((value > 0.5) == (longer > 0) for value in decided)), float(len(decided))))
    return share(rows, seed)


def length_effect(judged: Iterable[JudgedPair], order: Mapping[str, float], seed: int = 0) -> Figure | None:
    rows, tasks = [], []
    for j in judged:
        longer, truth = length(j.pair.first) - length(j.pair.second), order[j.pair.id]
        if truth != 0.5 and longer:
            hit = [_hit(j.combined, truth), 1.0]
            rows.append([*hit, 0, 0] if (longer > 0) == (truth > 0.5) else [0, 0, *hit])
            tasks.append(j.task)

    def difference(sums: Floats) -> Floats:
        value: Floats = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
        return value

    return Figure.of(bootstrap(np.array(rows, np.float64).reshape(-1, 4), tasks, difference, seed=seed))


def length(trajectory: Trajectory) -> int:
    """Characters that a judge reads behind the query."""
    return sum(len(message["content"]) for message in trajectory.view()[1:])


# Texts that fool judges


def read_fooling_texts(path: Path = FOOLING_TEXTS) -> list[FoolingText]:
    return [FoolingText.model_validate(item) for item in yaml.safe_load(path.read_text(encoding="utf-8"))]


def fooling(
    judged: Sequence[JudgedPair], order: Mapping[str, float], asked: Asked, *, most: int, seed: int = 0
) -> list[Fooling]:
    """Plant each text in the worse one of at most `most` pairs that the judge did not already decide for it."""
    fair = [j for j in judged if order[j.pair.id] != 0.5 and (j.combined - 0.5) * (order[j.pair.id] - 0.5) >= 0]
    fair = sorted(fair, key=lambda j: hashlib.sha256(f"{seed}/{j.pair.id}".encode()).digest())[:most]
    questions: list[Pair] = []
    planted: list[tuple[str, str]] = []
    texts = read_fooling_texts()
    for text in texts:
        for j in fair:
            better, worse = j.pair.both if order[j.pair.id] > 0.5 else j.pair.swapped
            first, second = plant(worse, text, "first"), plant(worse, text, "second")
            if first is not None and second is not None:
                questions += [(first, better), (better, second)]
                planted.append((text.name, j.task))
    said = asked.compare(questions)
    rows: dict[str, list[Share]] = defaultdict(list)
    for (name, task), one, other in zip(planted, said[::2], said[1::2], strict=True):
        if one is not None and other is not None:
            rows[name].append((task, float(one + 1 - other > 1), 1.0))
    return [Fooling(name=t.name, pairs=len(rows[t.name]), flipped=share(rows[t.name], seed)) for t in texts]


def plant(trajectory: Trajectory, text: FoolingText, place: str) -> Trajectory | None:
    """The trajectory with a text in its last message or last result; None if there is none to plant it in."""
    turns, words = list(trajectory.turns), text.text.replace("{place}", place)
    if text.where == "result":
        at = next((at for at in reversed(range(len(turns))) if turns[at].observation is not None), None)
        if at is None:
            return None
        closing = OBSERVATION_MARKUP[1]
        seen = turns[at].observation or ""
        ending = closing if seen.endswith(closing) else ""
        turns[at] = turns[at].model_copy(update={"observation": seen.removesuffix(closing) + words + ending})
    else:
        if not turns:
            return None
        raw = turns[-1].raw
        mark = next((mark for mark in ("</answer>", "</think>") if mark in raw), None)
        head, tail = (raw, "") if mark is None else (raw[: raw.rindex(mark)], raw[raw.rindex(mark) :])
        raw = head + words + tail
        turns[-1] = turns[-1].model_copy(update={"raw": raw, **parse(raw)._asdict()})
    return trajectory.model_copy(update={"turns": tuple(turns)})


def share(rows: Iterable[Share], seed: int = 0) -> Figure | None:
    """Parts of wholes, added up within each task; None without any."""
    parts, wholes = defaultdict[str, float](float), defaultdict[str, float](float)
    for task, part, whole in rows:
        parts[task] += part
        wholes[task] += whole
    return Figure.of(estimate(list(parts.values()), list(wholes.values()), share=True, seed=seed)) if parts else None


def _category(value: float) -> int:
    """0: worse, 1: a tie, 2: better."""
    return 1 if value == 0.5 else 2 * int(value > 0.5)


def _hit(said: float, truth: float) -> float:
    """1 for the right one, 0 for the other, one half for a tie."""
    return 0.5 if said == 0.5 else float((said > 0.5) == (truth > 0.5))
