"""How well does r_align rank rollouts under a noisy judge, and what do the judge's calls cost in time?

    python benchmarks/judges.py [--quick]

Against the simulated judge: right in 0.8 of its calls, 60/40 for the first place between equals, groups of 4 rollouts
in a strict order, turned from task to task so that every rank stands in every slot equally often. Kendall's τ is taken
against that order in each group and averaged; a tied pair counts as 0. Prints one flat JSON object on its last line:

slot_bias_one, slot_bias_both      largest minus smallest mean r_align over the slots of a group, as a share of its
                                   range [0, 1], with one order and with both
tau_one, tau_both                  τ with one order and with both, all pairs, mean
tau_mean, tau_bt                   τ with both orders where 20% of the verdicts are missing: mean of the known ones and
                                   Bradley–Terry
tau_circular_mean, tau_circular_bt the same on the circular schedule, none missing
adaptive_tau_share_n4, _n8         τ of the adaptive schedule over that of all pairs in both orders, Bradley–Terry
adaptive_calls_share_n4, _n8       its calls over those of all pairs in both orders
random_tau_share_n4, _n8           τ share of as many calls drawn at random
concurrency_efficiency             ideal over measured seconds of calls of 200 ms, 16 at once, to a server in a process
                                   of its own
rows_failed_share                  rows without r_align where 10% of the calls fail for good, all pairs in both orders
hang_seconds_over                  seconds that a step takes beyond its time-out where the server never answers
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from demur.envs.trace import Action, ActionKind, Ending, Label, Outcome, Trajectory, Turn
from demur.eval.stats import Estimate, mean
from demur.rewards.alignment import Comparing, Judgement, alignments, judge_groups
from demur.rewards.judges.aggregation import mean_of_wins
from demur.rewards.judges.calls import CallOptions, Calls
from demur.rewards.judges.llm import LLMJudge
from demur.rewards.judges.simulated import NoisyJudge

ROOT = Path(__file__).resolve().parents[1]
STEP = 32
"""Groups that share one position term, as in a training step."""
MISSING = 0.2
SHARES = {4: 0.6, 8: 0.4}
"""Calls that the adaptive schedule may make, by group size."""
CONCURRENCY, LATENCY, HANG = 16, 0.2, 3.0

Floats = NDArray[np.float64]
Group = list[Trajectory]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer groups and calls: under a minute")
    quick = parser.parse_args(argv).quick
    found = orders(2560 if quick else 51200)
    for size, count in ((4, 1280 if quick else 6400), (8, 160 if quick else 1600)):
        found |= schedules(size, count)
    found |= served(calls=320 if quick else 960)
    print(json.dumps({name: round(value, 4) for name, value in found.items()}))


def orders(count: int) -> dict[str, float]:
    """Slot bias, one order against both, missing verdicts and the circular schedule."""
    groups = strict_groups(4, count)
    one = judged(groups, Comparing(both_orders=False))
    both = judged(groups, Comparing())
    lossy = [with_missing(judgement, Random(at)) for at, judgement in enumerate(both)]
    circular = judged(groups, Comparing(schedule="circular"))
    values = {
        "one": aligned(groups, one, Comparing(both_orders=False)),
        "both": aligned(groups, both, Comparing()),
        "mean": [mean_of_wins(4, judgement.games, known_only=True) for judgement in lossy],
        "bt": aligned(groups, lossy, Comparing(aggregate="bradley_terry")),
        "circular_mean": aligned(groups, circular, Comparing(schedule="circular")),
        "circular_bt": aligned(groups, circular, Comparing(schedule="circular", aggregate="bradley_terry")),
    }
    taus = {name: np.array(list(map(tau, groups, rows))) for name, rows in values.items()}
    for before, after in (("one", "both"), ("mean", "bt"), ("circular_mean", "circular_bt")):
        show(f"τ {after} minus {before}", mean(taus[after] - taus[before]))
    found = {f"slot_bias_{name}": slot_bias(values[name]) for name in ("one", "both")}
    found |= {f"tau_{name}": float(rows.mean()) for name, rows in taus.items()}
    for name, rows in values.items():
        print(f"τ-b {name}: {np.mean(list(map(tau_b, groups, rows))):.3f}")
    for name, value in found.items():
        print(f"{name}: {value:.3f} over {count} groups of 4")
    return found


def schedules(size: int, count: int) -> dict[str, float]:
    """The adaptive schedule and a random one with as many calls, against all pairs in both orders."""
    groups = strict_groups(size, count)
    comparing = Comparing(aggregate="bradley_terry")
    few = Comparing(schedule="adaptive", aggregate="bradley_terry", share=SHARES[size])
    full, adaptive = judged(groups, comparing), judged(groups, few)
    calls = [len(judgement.games) for judgement in adaptive]
    random = [some_of(judgement, n, Random(at)) for at, (judgement, n) in enumerate(zip(full, calls, strict=True))]
    taus = {}
    for name, judgements in (("all", full), ("adaptive", adaptive), ("random", random)):
        taus[name] = np.array(list(map(tau, groups, aligned(groups, judgements, comparing))))
        print(f"n = {size}, {name}: τ {taus[name].mean():.3f} over {count} groups")
    show(f"n = {size}, τ adaptive minus random", mean(taus["adaptive"] - taus["random"]))
    return {
        f"adaptive_tau_share_n{size}": float(taus["adaptive"].mean() / taus["all"].mean()),
        f"adaptive_calls_share_n{size}": sum(calls) / sum(len(judgement.games) for judgement in full),
        f"random_tau_share_n{size}": float(taus["random"].mean() / taus["all"].mean()),
    }


def strict_groups(size: int, count: int) -> list[Group]:
    """Groups of one task each, whose rollouts the oracle puts in a strict order."""
    rng = Random(size)
    groups = []
    for block in range(count // size):
        ranks = rng.sample(range(size), size)
        for turn in range(size):
            groups.append(make_group(block * size + turn, ranks[turn:] + ranks[:turn]))
    return groups


def make_group(task: int, ranks: Sequence[int]) -> Group:
    """Rollouts that reached the more of the goal, the higher their rank."""
    return [
        Trajectory(
            task_id=f"task-{task}",
            world="none",
            family="none",
            label=Label.BENIGN,
            split="train",
            query=f"Task {task}.",
            turns=(Turn(action=Action(kind=ActionKind.ANSWER), raw=f"Rollout of rank {rank}."),),
            ending=Ending.ANSWER,
            outcome=Outcome(goal=(rank + 1) / (len(ranks) + 1)),
            turn_limit=8,
            sample=sample,
        )
        for sample, rank in enumerate(ranks)
    ]


def judged(groups: Sequence[Group], comparing: Comparing) -> list[Judgement]:
    return judge_groups(groups, "pairwise", NoisyJudge(accuracy=0.8, position_bias=0.6), comparing)


def aligned(groups: Sequence[Group], judgements: Sequence[Judgement], comparing: Comparing) -> list[list[float | None]]:
    """r_align, with one position term for each step's groups."""
    rows = []
    for at in range(0, len(groups), STEP):
        rows += alignments(groups[at : at + STEP], judgements[at : at + STEP], "pairwise", comparing)
    return rows


def with_missing(judgement: Judgement, rng: Random) -> Judgement:
    games = [game._replace(verdict=None) if rng.random() < MISSING else game for game in judgement.games]
    return replace(judgement, games=tuple(games))


def some_of(judgement: Judgement, count: int, rng: Random) -> Judgement:
    return replace(judgement, games=tuple(rng.sample(judgement.games, count)))


def tau(group: Group, values: Sequence[float | None]) -> float:
    """Kendall's τ against the strict truth: pairs in the right order less those in the wrong one, over all pairs.

    A pair that is tied, or a row without a value, is neither: it tells a policy nothing. (τ-b would leave tied pairs
    out of the denominator as well, so that an aggregate gains by tying what it is unsure of.)
    """
    rows = [(t.outcome.goal, value) for t, value in zip(group, values, strict=True)]
    signs = [
        np.sign((a - b) * (round(x, 9) - round(y, 9)))
        for (a, x), (b, y) in combinations(rows, 2)
        if x is not None and y is not None
    ]
    return float(sum(signs)) / math.comb(len(rows), 2)


def tau_b(group: Group, values: Sequence[float | None]) -> float:
    """Kendall's τ-b over the rows that have a value; 0 where it says nothing."""
    known = [(t.outcome.goal, round(value, 9)) for t, value in zip(group, values, strict=True) if value is not None]
    if len({value for _, value in known}) < 2:
        return 0.0
    return float(kendalltau(*zip(*known, strict=True)).statistic)


def slot_bias(rows: Sequence[Sequence[float | None]]) -> float:
    """r_align lies in [0, 1], so the difference is its own share."""
    means = np.array(rows, dtype=np.float64).mean(axis=0)
    return float(means.max() - means.min())


def served(calls: int) -> dict[str, float]:
    """Speed, failures and time-outs of `LLMJudge` against a server in a process of its own."""
    found = {"concurrency_efficiency": efficiency(calls)}
    found["rows_failed_share"] = failing(calls // 16)
    found["hang_seconds_over"] = hanging()
    return found


def efficiency(calls: int) -> float:
    """Ideal over measured seconds; connections are open already, as after a run's first step."""
    pairs = [(group[0], group[1]) for group in strict_groups(2, calls + CONCURRENCY)]
    with server("--latency", str(LATENCY)) as url:
        judge = llm_judge(url)
        judge.compare(pairs[:CONCURRENCY])
        start = time.perf_counter()
        verdicts = judge.compare(pairs[CONCURRENCY:])
        seconds = time.perf_counter() - start
    assert None not in verdicts, judge.pop_failures()
    ideal = calls / CONCURRENCY * LATENCY
    print(f"{calls} calls of {LATENCY:g} s, {CONCURRENCY} at once: {seconds:.2f} s, ideal {ideal:.2f} s")
    return ideal / seconds


def failing(count: int) -> float:
    """The share of rows without r_align where 10% of the calls fail for good; the others are what they were."""
    groups = strict_groups(4, count)
    with server() as url:
        whole = judge_groups(groups, "pairwise", llm_judge(url), Comparing())
    with server("--errors", "0.1") as url:
        judge = llm_judge(url, retries=0)
        judgements = judge_groups(groups, "pairwise", judge, Comparing())
    failures = judge.pop_failures()
    games = [game for judgement in judgements for game in judgement.games]
    assert len(failures) == sum(game.verdict is None for game in games) > 0, "a failed call is not counted"
    rows = list(zip(aligned(groups, whole, Comparing()), aligned(groups, judgements, Comparing()), strict=True))
    values = [pair for before, after in rows for pair in zip(before, after, strict=True)]
    for (before, after), hit in zip(values, hit_rows(judgements, 4), strict=True):
        assert after == (None if hit else before), "a row got a value that no verdict gave it"
    without = sum(after is None for _, after in values)
    print(
        f"{len(failures)} of {len(games)} calls failed for good: {without} of {len(values)} rows have no r_align, "
        "the others the same as without failures"
    )
    return without / len(values)


def hit_rows(judgements: Sequence[Judgement], size: int) -> list[bool]:
    """Of each row, group after group: whether one of its comparisons failed."""
    hit = []
    for judgement in judgements:
        failed = {slot for game in judgement.games if game.verdict is None for slot in (game.first, game.second)}
        hit += [slot in failed for slot in range(size)]
    return hit


def hanging() -> float:
    """Seconds that a step takes beyond its time-out where the server never answers."""
    pairs = [(group[0], group[1]) for group in strict_groups(2, 4 * CONCURRENCY)]
    with server("--hanging", "1") as url:
        judge = llm_judge(url, step_timeout=HANG)
        start = time.perf_counter()
        verdicts = judge.compare(pairs)
        seconds = time.perf_counter() - start
    assert set(verdicts) == {None}, "a server that hangs gave a verdict"
    print(f"the server hangs: a step with a time-out of {HANG:g} s ends after {seconds:.2f} s")
    return seconds - HANG


def llm_judge(url: str, **options: Any) -> LLMJudge:
    return LLMJudge(Calls("noisy", base_url=url, options=CallOptions(concurrency=CONCURRENCY, **options)))


@contextmanager
def server(*options: str) -> Iterator[str]:
    """The address of the noisy server, in a process of its own so that it takes no time from the client's."""
    command = [sys.executable, "-m", "tests.tools.noisy_server", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert " on http" in line, f"the noisy server did not start: {line!r}"
            yield line.split()[-1]
        finally:
            process.terminate()


def show(what: str, found: Estimate | None) -> None:
    assert found is not None
    print(f"{what}: {found.value:+.4f}, 95% interval {found.ci_low:+.4f} to {found.ci_high:+.4f}")


if __name__ == "__main__":
    main()
