"""Paired comparisons within a matrix: each policy with the first one, each guard with the first one.

    found = comparisons(table)        # table: Measures by (policy, guard, suite)

Both sides played the same tasks. The p that counts swaps the sides of whole task families (sign flips); McNemar's, for
shares, stands beside it and takes tasks as independent. Holm's correction is over all comparisons of a suite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from demur.envs.trace import Record
from demur.eval.matrix.measures import Measures, is_share, ordered
from demur.eval.metrics import ALL, METRICS
from demur.eval.permutation import ALPHA, detectable_difference, holm, mcnemar_p, mcnemar_power, sign_flip_p
from demur.eval.stats import Floats, cluster_sums, paired_difference_clustered

Columns = tuple[Floats, Floats]
"""Parts and wholes, [n] each."""
Place = tuple[str, str, str]
"""Policy, guard and suite."""


class Comparison(Record):
    """after − before on the `n` tasks that both were measured on, with a 95% interval that draws whole families.

    between: what differs, `before` to `after`; policy or guard: what both have in common. p_holm: the sign-flip p,
    corrected over the suite. p_mcnemar, power, detectable: for shares of tasks alone. power: that so many tasks show
    the difference seen, detectable: the smallest one that they show with 80%, in points of the share; None if none.
    """

    between: Literal["policies", "guards"]
    suite: str
    policy: str | None
    guard: str | None
    before: str
    after: str
    label: str
    metric: str
    value_before: float
    value_after: float
    difference: float
    n: int
    families: int
    ci_low: float
    ci_high: float
    p: float
    p_holm: float
    p_mcnemar: float | None = None
    power: float | None = None
    detectable: float | None = None

    @property
    def verdict(self) -> Literal["better", "worse", "changed", "unclear"]:
        """Unclear above Holm's level; changed if the metric has no better side."""
        if self.p_holm > ALPHA:
            return "unclear"
        better = METRICS[self.metric].better if self.metric in METRICS else None
        if better is None:
            return "changed"
        return "better" if (self.difference > 0) is (better == "higher") else "worse"


def comparisons(table: Mapping[Place, Measures]) -> list[Comparison]:
    """Suite by suite. Cells that are missing have none."""
    found = [*_between(table, "policies", 0), *_between(table, "guards", 1)]
    corrected: list[Comparison] = []
    for suite in dict.fromkeys(c.suite for c in found):
        own = [c for c in found if c.suite == suite]
        adjusted = holm([c.p for c in own])
        corrected += [c.model_copy(update={"p_holm": p}) for c, p in zip(own, adjusted, strict=True)]
    return corrected


def _between(
    table: Mapping[Place, Measures], between: Literal["policies", "guards"], which: int
) -> Iterator[Comparison]:
    """which: of a place, what differs."""
    for second in table:
        policy, guard, suite = second
        reference = next(place[which] for place in table)
        first = (reference, guard, suite) if which == 0 else (policy, reference, suite)
        if second[which] == reference or first not in table:
            continue
        told = {"policy": None if which == 0 else policy, "guard": None if which == 1 else guard}
        for numbers in _compared(table[first], table[second]):
            yield Comparison.model_validate(
                {"between": between, "suite": suite, "before": reference, "after": second[which], **told, **numbers}
            )


def _compared(old: Measures, new: Measures) -> Iterator[dict[str, object]]:
    """What is measured on every label is compared over all tasks only."""
    families = np.array(old.families)
    for metric in ordered(old.columns.keys() & new.columns.keys()):
        if metric in METRICS and METRICS[metric].better is None and metric != "tokens_per_task":
            continue  # a description; every comparison makes Holm's correction of the others harder
        for label in _labels(old, metric):
            before, after = old.select(metric, label), new.select(metric, label)
            numbers = _numbers(metric, before, after, families)
            if numbers is not None:
                yield {"label": label, "metric": metric, **numbers}


def _labels(measures: Measures, metric: str) -> Sequence[str]:
    labels = measures.labels_of(metric)
    return [ALL] if ALL in labels else labels


def _numbers(metric: str, before: Columns, after: Columns, families: NDArray[np.int_]) -> dict[str, object] | None:
    kept = (before[1] > 0) & (after[1] > 0)
    if not kept.any():
        return None
    old, new = (tuple(column[kept] for column in side) for side in (before, after))
    groups = families[kept]
    found = paired_difference_clustered((old[0], old[1]), (new[0], new[1]), groups, share=is_share(metric))
    sums = cluster_sums(np.column_stack([*old, *new]), groups)
    p = sign_flip_p((sums[:, 0], sums[:, 1]), (sums[:, 2], sums[:, 3]))
    assert found is not None and p is not None, "some tasks count on both sides"
    start = float(old[0].sum() / old[1].sum())
    return {
        "value_before": start,
        "value_after": start + found.value,
        "difference": found.value,
        "n": found.n,
        "families": len(sums),
        "ci_low": found.ci_low,
        "ci_high": found.ci_high,
        "p": p,
        "p_holm": p,
        **(_of_hits(old, new) if is_share(metric) and _hits(old) and _hits(new) else {}),
    }


def _hits(side: tuple[Floats, ...]) -> bool:
    """Whether each task is a hit or a miss."""
    return bool(np.all(side[1] == 1) and np.all((side[0] == 0) | (side[0] == 1)))


def _of_hits(old: tuple[Floats, ...], new: tuple[Floats, ...]) -> dict[str, object]:
    change, n = new[0] - old[0], len(old[0])
    gained, lost = int((change > 0).sum()), int((change < 0).sum())
    discordant = (gained + lost) / n
    return {
        "p_mcnemar": mcnemar_p(gained, lost),
        "power": mcnemar_power((gained - lost) / n, discordant, n),
        "detectable": detectable_difference(discordant, n),
    }
