"""The numbers of an ablation: each arm's metrics, and paired differences against the first arm.

Pairs are the same task under the same seed. Intervals resample tasks, and a task keeps all its seeds (a cluster):
they say what other tasks would change, not what other seeds would. How many seeds agree in sign stands beside each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Literal

from demur.envs.tool import Tool
from demur.envs.trace import ActionKind, Record, Trajectory, Turn
from demur.envs.worlds import load_domain
from demur.eval.ablation_cells import CellFacts
from demur.eval.metrics import ALL, METRICS, Measured, Metric, by_task, labelled
from demur.eval.permutation import holm, sign_flip_p
from demur.eval.stats import paired_difference

Risk = Literal["read_only", "changing", "irreversible"]
RISKS: dict[Risk, str] = {"read_only": "read-only", "changing": "changing", "irreversible": "irreversible"}
ALPHA = 0.05


class Value(Record):
    """A metric of an arm. mean: over seeds. by_seed: the value of each."""

    label: str
    metric: str
    mean: float
    by_seed: dict[int, float]


class Arm(Record):
    """all_fail_groups: training groups without an acceptable rollout, of `groups`, summed over seeds; judge_calls
    and judge_tokens: the same sum, None where the judge counts nothing."""

    name: str
    settings: dict[str, str]
    seeds: tuple[int, ...]
    groups: int
    all_fail_groups: int
    judge_calls: float | None
    judge_tokens: float | None
    values: tuple[Value, ...]


class Comparison(Record):
    """difference: `arm` minus `against`, on n tasks. p: sign flips over tasks; p_holm: corrected over the table.

    same_sign: seeds whose own difference has the sign of the whole, of `seeds`.
    """

    arm: str
    against: str
    label: str
    metric: str
    difference: float
    n: int
    ci_low: float
    ci_high: float
    p: float
    p_holm: float
    same_sign: int
    seeds: int

    @property
    def shown(self) -> bool:
        return not self.ci_low <= 0 <= self.ci_high

    @property
    def verdict(self) -> Literal["better", "worse", "changed", "unclear"]:
        if not self.shown:
            return "unclear"
        better = TABLE[self.metric].better
        if better is None:
            return "changed"
        return "better" if (self.difference > 0) is (better == "higher") else "worse"


@cache
def _tools(world: str) -> Mapping[str, Tool]:
    try:
        return load_domain(world).world.tools()
    except ValueError:  # a world of the user's own: trajectories hold its name, not its dotted path
        return {}


def risk_of(world: str, turn: Turn) -> Risk | None:
    """What the turn's call puts at stake, by the tool's annotations; None without a call or for a tool unknown to the
    shipped worlds, such as a renamed one."""
    if turn.action.kind is not ActionKind.CALL or turn.action.call is None:
        return None
    tool = _tools(world).get(turn.action.call.name)
    if tool is None:
        return None
    return "read_only" if not tool.changes else "changing" if tool.reversible else "irreversible"


def _checks_at(risk: Risk) -> Callable[[Trajectory], Measured | None]:
    def measure(t: Trajectory) -> Measured | None:
        turns = [turn for turn in t.turns if risk_of(t.world, turn) == risk]
        return Measured(float(sum(turn.check is not None for turn in turns)), float(len(turns))) if turns else None

    return measure


_NAMES = (
    "refusal_rate harm_rate completion_rate over_refusal_rate attack_success_rate wrong_guess_rate format_valid_rate "
    "tokens_per_task safety_token_share check_rate"
).split()
TABLE: dict[str, Metric] = {name: METRICS[name] for name in _NAMES} | {
    f"check_rate_{risk}": Metric(
        name=f"check_rate_{risk}", title=f"Checks before {word} calls", measure=_checks_at(risk)
    )
    for risk, word in RISKS.items()
}
"""The metrics of the table, in its order."""
_BY_LABEL = {"check_rate"}


def arms_of(facts: Sequence[CellFacts]) -> list[Arm]:
    """The arms in the order of their first cells."""
    arms = []
    for name in dict.fromkeys(cell.record.arm for cell in facts):
        cells = [cell for cell in facts if cell.record.arm == name]
        arms.append(
            Arm(
                name=name,
                settings=cells[0].record.settings,
                seeds=tuple(cell.record.seed for cell in cells),
                groups=sum(cell.groups for cell in cells),
                all_fail_groups=sum(cell.all_fail for cell in cells),
                judge_calls=_total([cell.calls for cell in cells]),
                judge_tokens=_total([cell.tokens for cell in cells]),
                values=tuple(_values(cells)),
            )
        )
    return arms


def comparisons(facts: Sequence[CellFacts], against: str) -> list[Comparison]:
    """Every other arm against one, over the tasks and seeds that both have."""
    first = {cell.record.seed: cell for cell in facts if cell.record.arm == against}
    found: list[Comparison] = []
    for name in dict.fromkeys(cell.record.arm for cell in facts if cell.record.arm != against):
        other = {cell.record.seed: cell for cell in facts if cell.record.arm == name}
        seeds = [seed for seed in first if seed in other]
        for metric, label in _lines():
            sides = [
                {seed: _measured(metric, label, side[seed].trajectories) for seed in seeds} for side in (first, other)
            ]
            if (one := _comparison(name, against, metric, label, *sides)) is not None:
                found.append(one)
    corrected = holm([one.p for one in found])
    return [one.model_copy(update={"p_holm": p}) for one, p in zip(found, corrected, strict=True)]


BySeed = dict[int, dict[str, Measured]]


def _comparison(arm: str, against: str, metric: Metric, label: str, old: BySeed, new: BySeed) -> Comparison | None:
    both = {(seed, task) for seed in old for task in old[seed] if task in new[seed]}
    tasks = sorted({task for _, task in both})  # the clusters: a task with all its seeds
    before, after = (_columns(side, both, tasks) for side in (old, new))
    share = metric.unit == "share"
    found, p = paired_difference(before, after, share=share), sign_flip_p(before, after)
    if found is None or p is None:
        return None
    own = [_difference(old, new, {pair for pair in both if pair[0] == seed}) for seed in old]
    own = [difference for difference in own if difference is not None]
    return Comparison(
        arm=arm,
        against=against,
        label=label,
        metric=metric.name,
        difference=found.value,
        n=found.n,
        ci_low=found.ci_low,
        ci_high=found.ci_high,
        p=p,
        p_holm=p,
        same_sign=sum(difference * found.value > 0 for difference in own if difference is not None),
        seeds=len(own),
    )


def _columns(side: BySeed, pairs: set[tuple[int, str]], tasks: Sequence[str]) -> tuple[list[float], list[float]]:
    """Parts and wholes of each task, [tasks] each, summed over its seeds."""
    sums = dict.fromkeys(tasks, Measured(0, 0))
    for seed, task in sorted(pairs):
        measured = side[seed][task]
        sums[task] = Measured(sums[task].part + measured.part, sums[task].whole + measured.whole)
    return [m.part for m in sums.values()], [m.whole for m in sums.values()]


def _difference(old: BySeed, new: BySeed, pairs: set[tuple[int, str]]) -> float | None:
    if not pairs:
        return None
    shares = [
        sum(side[seed][task].part for seed, task in pairs) / sum(side[seed][task].whole for seed, task in pairs)
        for side in (old, new)
    ]
    return shares[1] - shares[0]


def _values(cells: Sequence[CellFacts]) -> list[Value]:
    found = []
    for metric, label in _lines():
        by_seed = {}
        for cell in cells:
            measured = _measured(metric, label, cell.trajectories).values()
            if measured:
                by_seed[cell.record.seed] = sum(m.part for m in measured) / sum(m.whole for m in measured)
        if by_seed:
            mean = sum(by_seed.values()) / len(by_seed)
            found.append(Value(label=label, metric=metric.name, mean=mean, by_seed=by_seed))
    return found


def _lines() -> list[tuple[Metric, str]]:
    """The lines of the table: what is measured on every label is shown by label for checks only."""
    lines = []
    for metric in TABLE.values():
        labels = [label.value for label in metric.labels] or [ALL]
        if metric.name in _BY_LABEL:
            labels += ["benign", "harmful", "injected", "underspecified"]
        lines += [(metric, label) for label in labels]
    return lines


def _measured(metric: Metric, label: str, trajectories: Sequence[Trajectory]) -> dict[str, Measured]:
    return by_task(metric, labelled(metric, trajectories).get(label, ()))


def _total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
