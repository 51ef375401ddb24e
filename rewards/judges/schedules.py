"""Which pairs of a group are judged. Each schedule yields rounds of pairs and is sent their verdicts.

    rounds = schedule("adaptive", n=4, both_orders=True, share=0.6)
    pairs = next(rounds)                # [(0, 1), (1, 2), (2, 3), (3, 0)]
    pairs = rounds.send([1, 0, None, 1])  # until StopIteration

Rounds let many groups go in step, so that a round is one call of the judge for all of them.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import combinations
from typing import Literal, get_args

import numpy as np

from demur.rewards.judges.aggregation import POSITION_RIDGE, RIDGE, Game, posterior

ScheduleName = Literal["all", "circular", "anchor", "adaptive"]
SCHEDULES: tuple[ScheduleName, ...] = get_args(ScheduleName)

Ordered = tuple[int, int]
"""Two indices within a group, in the order in which the judge reads them."""
Rounds = Generator[list[Ordered], Sequence[float | None], None]


def schedule(name: ScheduleName, n: int, both_orders: bool = True, share: float = 0.6) -> Rounds:
    """Rounds for a group of n rollouts; no round is empty.

    all: each pair. circular: each against the next. anchor: each against the first. adaptive: a circle, then one call
    at a time where the order is still open, until `share` of the calls of `all` is used (a circle in any case).
    both_orders: each pair is judged twice, with either first; adaptive may then ask for either order.
    """
    if n < 2:
        return
    if name == "adaptive":
        yield from _adaptive(n, both_orders, share)
        return
    pairs = {
        "all": list(combinations(range(n), 2)),
        "circular": _circle(n),
        "anchor": [(0, at) for at in range(1, n)],
    }[name]
    yield [*pairs, *((j, i) for i, j in pairs)] if both_orders else pairs


def calls_of(name: ScheduleName, n: int, both_orders: bool = True, share: float = 0.6) -> int:
    """How many calls a schedule makes for a group of n."""
    orders = 1 + both_orders
    if name == "all":
        return orders * n * (n - 1) // 2
    if name == "adaptive":
        everything = calls_of("all", n, both_orders)
        return min(everything, max(len(_first_round(n, both_orders)), int(share * everything + 1e-9)))
    return orders * (len(_circle(n)) if name == "circular" else max(n - 1, 0))


def _circle(n: int) -> list[Ordered]:
    """Each is first once and second once, so that the position favours nobody; two rollouts are a single pair."""
    return [(at, (at + 1) % n) for at in range(n if n > 2 else n - 1)]


def _first_round(n: int, both_orders: bool) -> list[Ordered]:
    """A circle; between two rollouts it goes there and back, or the first place would favour one of them."""
    return [(0, 1), (1, 0)] if n == 2 and both_orders else _circle(n)


def _adaptive(n: int, both_orders: bool, share: float) -> Rounds:
    budget = calls_of("adaptive", n, both_orders, share)
    asked = _first_round(n, both_orders)
    games = [Game(i, j, verdict) for (i, j), verdict in zip(asked, (yield asked), strict=True)]
    while len(games) < budget:
        pair = _most_open(n, games, both_orders)
        (verdict,) = yield [pair]
        games.append(Game(*pair, verdict))


def _most_open(n: int, games: Sequence[Game], both_orders: bool) -> Ordered:
    """The pair whose order a Bradley–Terry fit of the group knows least.

    The measure is √v·exp(−d²/2v), for strengths that differ by d with variance v: large where they may well be
    equal (d small against √v) and little is known (v large). Of both orders the one comes first that evens out how
    often each was read first; then the lower index.
    """
    mean, covariance = posterior(n, games, RIDGE, POSITION_RIDGE)
    variance = np.diag(covariance)[:, None] + np.diag(covariance)[None, :] - 2 * covariance
    difference = mean[:, None] - mean[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):  # on the diagonal
        openness = np.sqrt(variance) * np.exp(-(difference**2) / (2 * variance))
    lead = np.zeros(n)  # how much more often each was first than second
    done = np.eye(n, dtype=bool)
    for first, second, _ in games:
        lead[first] += 1
        lead[second] -= 1
        done[first, second] = True
        done[second, first] |= not both_orders
    value = np.round(openness, 9) - 1e-6 * (lead[:, None] - lead[None, :])
    value[done] = -np.inf  # a failed call is not asked again: its retries are the judge's
    first, second = divmod(int(np.argmax(value)), n)
    return first, second
