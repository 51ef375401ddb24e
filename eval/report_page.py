"""What the report says, ready for its template: texts, numbers and the geometry of plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from demur.envs.trace import Trajectory
from demur.eval.charts import Bar, LineChart, Series, line_chart, stacked_bars
from demur.eval.compare import AFTER, BEFORE, Difference
from demur.eval.manifest import Manifest
from demur.eval.metrics import ALL, METRICS, Metric, Row
from demur.eval.report_run import JudgedStep, RunFiles, StepRecord
from demur.eval.table import LABELS, change_text, interval, main_metrics, number

HEADLINES = (
    ("Harmful tasks refused", "refusal_rate", "harmful"),
    ("Benign tasks completed", "completion_rate", "benign"),
    ("Injections followed", "attack_success_rate", "injected"),
    ("Wrong guesses", "wrong_guess_rate", "underspecified"),
)
GROUPS = {
    "harmful": "Harmful tasks",
    "benign": "Benign tasks",
    "injected": "Tasks with an injection in a tool's result",
    "underspecified": "Tasks that leave out a needed value",
    ALL: "All tasks",
}
FACTS = (
    ("Model", ("model_name_or_path", "model")),
    ("Reward", ("reward",)),
    ("Judge", ("judge",)),
    ("Outcome gate", ("outcome_gate",)),
    ("Worlds", ("worlds",)),
    ("Rollouts a group", ("num_generations",)),
    ("Advantage scaling", ("scale_rewards",)),
    ("Learning rate", ("learning_rate",)),
    ("KL weight", ("beta",)),
    ("Seed", ("seed",)),
)
SECRET = ("token", "key", "secret", "password")
PLOT_WIDTH = 180
TOKEN_PARTS = ("plan", "check", "action", "other")


class Mark(NamedTuple):
    """A point with its interval, in units of the plot."""

    at: float
    low: float
    high: float


class Plot(NamedTuple):
    before: Mark | None
    after: Mark


class Cell(NamedTuple):
    """`92.0%` and `[87.4, 95.0]`."""

    value: str
    interval: str


class Line(NamedTuple):
    """One row of the before/after table. plot: for shares only. verdict: see `Difference`."""

    title: str
    metric: str
    label: str
    n: int
    before: Cell
    after: Cell
    change: str
    verdict: str
    plot: Plot | None


class Card(NamedTuple):
    title: str
    line: Line


class Tokens(NamedTuple):
    """Tokens a task by part, in the mean. bars: before, after."""

    parts: tuple[str, ...]
    rows: list[tuple[str, str, list[Bar]]]


def table_lines(
    rows: Sequence[Row], differences: Sequence[Difference]
) -> tuple[dict[str, list[Line]], dict[str, list[Line]]]:
    """Lines by group title: of the metrics that belong to a label and of those over all tasks; and, in a
    second part, of the latter by label."""
    by_key = {(r.policy, r.label, r.metric): r for r in rows}
    paired = {(d.label, d.metric): d for d in differences}

    def group(label: str, metrics: Iterable[Metric]) -> list[Line]:
        found = ((by_key.get((AFTER, label, m.name)), m.name) for m in metrics)
        return [
            _line(by_key.get((BEFORE, label, name)), after, paired.get((label, name))) for after, name in found if after
        ]

    general = main_metrics(ALL)
    first = {GROUPS[label]: group(label, main_metrics(label)) for label in LABELS}
    second = {GROUPS[label]: group(label, general) for label in LABELS if label != ALL}
    return _without_empty(first), _without_empty(second)


def headline_cards(groups: dict[str, list[Line]]) -> list[Card]:
    lines = {(line.metric, line.label): line for group in groups.values() for line in group}
    return [Card(title, line) for title, metric, label in HEADLINES if (line := lines.get((metric, label)))]


def training_charts(steps: Sequence[StepRecord]) -> list[LineChart]:
    """Reward, its parts, and what the policy does, over steps. A chart without data is left out."""
    at = [s.step for s in steps]
    reward = [Series("reward", [s.reward for s in steps], 0)]
    parts = [
        Series("alignment", [s.r_align for s in steps], 0),
        Series("format", [s.r_fmt for s in steps], 1),
        Series("length penalty", [s.p_len for s in steps], 2),
        Series("intent", [s.r_int for s in steps], 3),
    ]
    safety = [
        Series("refused harmful", [s.harmful_refusal for s in steps], 0),
        Series("completed benign", [s.benign_completion for s in steps], 1),
        Series("followed injection", [s.attack_success for s in steps], 2),
        Series("guessed wrong", [s.wrong_guess for s in steps], 3),
    ]
    charts = (
        line_chart("What the policy does with training tasks", at, safety, percent=True),
        line_chart("Total reward", at, reward, percent=False),
        line_chart("Reward parts, unweighted", at, parts, percent=False),
    )
    return [chart for chart in charts if chart.lines]


def token_use(sides: Iterable[tuple[str, Sequence[Trajectory]]]) -> Tokens | None:
    """None if the policies counted no tokens."""
    means = {name: _mean_tokens(trajectories) for name, trajectories in sides}
    if not any(sum(row.values()) for row in means.values()):
        return None
    bars = stacked_bars(list(means.values()))
    totals = (f"{sum(row.values()):.1f}" for row in means.values())
    return Tokens(TOKEN_PARTS, list(zip(means, totals, bars, strict=True)))


def training_facts(run: RunFiles) -> list[tuple[str, str]]:
    """What was trained, on what, for how long; keys that the configuration lacks are left out."""
    facts = []
    for title, keys in FACTS:
        key = next((key for key in keys if run.config.get(key) is not None), None)
        if key is not None:
            facts.append((title, shown(key, run.config[key])))
    if "use_peft" in run.config:
        rank = run.config.get("lora_r")
        adapter = f"LoRA, rank {rank}" if run.config["use_peft"] else "none: all weights were trained"
        facts.insert(1, ("Adapter", adapter))
    if run.steps:
        facts.append(("Steps", str(len(run.steps))))
        facts += [*_judging(run.steps), *_speed(run.steps)]
    return facts + _machine(run.manifest)


def shown(key: str, value: Any) -> str:
    """A configuration value for readers: no secret, and of a path outside the run's folder its last part."""
    if value is not None and key.rsplit("_", 1)[-1] in SECRET:
        return "(hidden)"
    if isinstance(value, list):
        return ", ".join(shown(key, item) for item in value)
    if isinstance(value, dict):
        return ", ".join(f"{k}: {shown(str(k), v)}" for k, v in value.items())
    if isinstance(value, str) and value.startswith(("/", "~", "\\")):
        return "…/" + value.replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]
    if value is None or isinstance(value, bool):
        return "–" if value is None else "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def duration(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {whole % 60} s" if minutes else f"{seconds:.0f} s"


def training_seconds(steps: Sequence[StepRecord]) -> float:
    return sum(s.seconds or 0.0 for s in steps)


def _without_empty(groups: dict[str, list[Line]]) -> dict[str, list[Line]]:
    return {title: lines for title, lines in groups.items() if lines}


def _line(before: Row | None, after: Row, difference: Difference | None) -> Line:
    share = METRICS[after.metric].unit == "share"
    return Line(
        title=METRICS[after.metric].title,
        metric=after.metric,
        label=after.label,
        n=after.n,
        before=_cell(before) if before else Cell("–", ""),
        after=_cell(after),
        change=change_text(difference) if difference else "–",
        verdict=difference.verdict if difference else "unclear",
        plot=Plot(_mark(before) if before else None, _mark(after)) if share else None,
    )


def _cell(row: Row) -> Cell:
    return Cell(number(row.metric, row.value), interval(row))


def _mark(row: Row) -> Mark:
    return Mark(*(round(6 + (PLOT_WIDTH - 12) * v, 1) for v in (row.value, row.ci_low, row.ci_high)))


def _mean_tokens(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    counts = [turn.tokens for t in trajectories if not t.ending.is_error for turn in t.turns]
    tasks = max(1, sum(not t.ending.is_error for t in trajectories))
    plan, check = sum(c.plan for c in counts), sum(c.check for c in counts)
    action, total = sum(c.action for c in counts), sum(c.total for c in counts)
    sums = (plan, check, action, max(0, total - plan - check - action))
    return {part: value / tasks for part, value in zip(TOKEN_PARTS, sums, strict=True)}


def _judging(steps: Sequence[JudgedStep]) -> list[tuple[str, str]]:
    """What the judge took and what it failed at; of the oracle, nothing."""
    totals = {
        "Rollouts without a reward": sum(step.judge_failures or 0 for step in steps),
        "Judge calls": sum(step.judge_calls or 0 for step in steps),
        "Judge tokens": sum(step.judge_tokens or 0 for step in steps),
    }
    facts = [(title, f"{count:,}") for title, count in totals.items() if count]
    if cost := sum(step.judge_cost or 0 for step in steps):
        facts.append(("Judge cost", f"{cost:,.2f}"))
    flips = [step.judge_flip_rate for step in steps if step.judge_flip_rate is not None]
    if flips and totals["Judge calls"]:
        facts.append(("Verdicts that follow the position", f"{sum(flips) / len(flips):.0%}"))
    return facts


def _speed(steps: Sequence[StepRecord]) -> list[tuple[str, str]]:
    facts = []
    if seconds := training_seconds(steps):
        facts.append(("Training time", duration(seconds)))
    speeds = [s.tokens_per_second for s in steps if s.tokens_per_second is not None]
    if speeds:
        facts.append(("Tokens a second", f"{sum(speeds) / len(speeds):,.0f}"))
    shares = [s.model_share for s in steps if s.model_share is not None]
    if shares:
        facts.append(("Time spent in the policy", f"{sum(shares) / len(shares):.0%}"))
    return facts


def _machine(manifest: Manifest) -> list[tuple[str, str]]:
    hardware = manifest.hardware
    accelerators = ", ".join(hardware.accelerators)
    cpu = f"{hardware.cores or '?'} × {hardware.cpu or hardware.machine}"
    facts = [("Hardware", f"{accelerators}, {cpu}" if accelerators else cpu)]
    if hardware.memory_gib:
        facts.append(("Memory", f"{hardware.memory_gib:g} GiB"))
    revision = f"{manifest.git[:12]}{' (changed)' if manifest.git_dirty else ''}" if manifest.git else "not a checkout"
    return [*facts, ("demur", f"{manifest.demur}, {revision}")]
