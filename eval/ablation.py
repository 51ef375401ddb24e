"""The table of an ablation: `ablation.json` and `ablation.html`, which opens without a server or a network.

    python eval/ablation.py --run runs/pairwise-vs-pointwise

`train/ablate.py` calls it at its end; by hand it makes both again from the cells that are finished. Exit status 2,
with one line that says why, if the folder is not an ablation with a finished cell.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, Field

from demur.envs.trace import Record
from demur.eval.ablation_cells import CellFacts, CellRecord, read_cells, read_facts
from demur.eval.ablation_compare import ALPHA, TABLE, Arm, Comparison, arms_of, comparisons
from demur.eval.arguments import Parser, bad_input
from demur.eval.charts import LineChart, Series, line_chart
from demur.eval.metrics import ALL
from demur.eval.pages import render_page
from demur.eval.report_page import shown
from demur.eval.summary import write_whole

MAIN = (
    ("refusal_rate", "harmful"),
    ("completion_rate", "benign"),
    ("attack_success_rate", "injected"),
    ("wrong_guess_rate", "underspecified"),
)
"""What the verdict speaks of."""
CURVES = {
    "harmful_refusal": "Harmful training tasks refused",
    "benign_completion": "Benign training tasks completed",
    "attack_success": "Injections followed",
    "wrong_guess": "Guessed wrong",
}
_LINES = 4  # a chart tells so many lines apart


class Ablation(Record):
    """`ablation.json`. verdicts: a sentence an arm, made from its comparisons with the first arm."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    name: str
    suite: str
    split: str
    model: str
    seeds: tuple[int, ...]
    arms: tuple[Arm, ...]
    comparisons: tuple[Comparison, ...]
    verdicts: tuple[str, ...]
    unfinished: tuple[CellRecord, ...]

    @property
    def sentences(self) -> list[str]:
        """The verdicts, and which cells the table lacks."""
        missing = ", ".join(cell.name for cell in self.unfinished)
        return [*self.verdicts, *([f"not finished, so not in the table: {missing}"] if missing else [])]


class Line(NamedTuple):
    """A line of the table: a cell an arm, its difference from the first arm below the value."""

    title: str
    label: str
    cells: list[tuple[str, Comparison | None, str]]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(description="Write ablation.json and ablation.html of an ablation.")
    parser.add_argument("--run", type=Path, required=True, help="the folder of the ablation")
    try:
        options = parser.parse_args(arguments)
        result = write_ablation(options.run)
    except ValueError as error:
        return bad_input(error)
    print("\n".join([*result.sentences, str(options.run / "ablation.html")]))
    return 0


def write_ablation(folder: Path) -> Ablation:
    """Write both files from the finished cells. Raises ValueError if there is none."""
    records = read_cells(folder)
    facts = [read_facts(folder, record) for record in records if record.state == "finished"]
    if not facts:
        raise ValueError(f"no cell of {folder} is finished; run train/ablate.py with its configuration again")
    result = ablation_of(folder.resolve().name, facts, [record for record in records if record.state != "finished"])
    write_whole(folder / "ablation.json", result.model_dump_json(by_alias=True, indent=1) + "\n")
    write_whole(folder / "ablation.html", render(result, facts))
    return result


def ablation_of(name: str, facts: Sequence[CellFacts], unfinished: Sequence[CellRecord] = ()) -> Ablation:
    arms = arms_of(facts)
    compared = comparisons(facts, arms[0].name)
    rows = facts[0].run.summary.rows
    suite, split = (rows[0].suite, rows[0].split) if rows else ("worlds", "test")
    model = ", ".join(dict.fromkeys(_model(cell) for cell in facts))
    where = f"{suite}, {split} split, {model}"
    verdicts = [verdict_sentence(arm, arms[0], compared, where) for arm in arms[1:]]
    return Ablation(
        name=name,
        arms=tuple(arms),
        comparisons=tuple(compared),
        verdicts=tuple(verdicts) or ("One arm is finished: there is nothing to compare it with.",),
        unfinished=tuple(unfinished),
        suite=suite,
        split=split,
        model=model,
        seeds=tuple(dict.fromkeys(cell.record.seed for cell in facts)),
    )


def verdict_sentence(arm: Arm, first: Arm, compared: Sequence[Comparison], where: str) -> str:
    """What the numbers say of one arm against the first; "no difference shown" wherever the interval holds 0."""
    seeds = [str(seed) for seed in first.seeds if seed in arm.seeds]
    found = {(c.metric, c.label): c for c in compared if c.arm == arm.name}
    main = [found[line] for line in MAIN if line in found]
    intro = f"{arm.name} against {first.name} ({where}, {'seed' if len(seeds) == 1 else 'seeds'} {', '.join(seeds)}): "
    if not main:
        return f"{intro}nothing was measured on tasks and seeds that both have."
    parts = [_clause(c) for c in main if c.shown]
    if same := [c.metric for c in main if not c.shown]:
        parts.append(f"no difference shown in {', '.join(same)}")
    return f"{intro}{'; '.join(parts)}."


def _clause(c: Comparison) -> str:
    low, high = (_number(c.metric, bound, signed=True) for bound in (c.ci_low, c.ci_high))
    text = (
        f"{c.metric} {_number(c.metric, c.difference, signed=True)} points [{low}, {high}], "
        f"p {_p(c.p_holm)}, {c.same_sign} of {c.seeds} seeds"
    )
    return text if c.p_holm < ALPHA else f"{text} (not significant once corrected over the table)"


def render(result: Ablation, facts: Sequence[CellFacts]) -> str:
    return render_page(
        "ablation.html.j2", styles=["report.css"], ablation=result, lines=_lines(result), charts=_charts(result, facts)
    )


def _lines(result: Ablation) -> list[Line]:
    compared = {(c.arm, c.metric, c.label): c for c in result.comparisons}
    values = {(arm.name, v.metric, v.label): v for arm in result.arms for v in arm.values}
    keys = dict.fromkeys((metric, label) for _, metric, label in values)
    order = list(TABLE)
    lines = []
    for metric, label in sorted(keys, key=lambda key: order.index(key[0])):
        cells: list[tuple[str, Comparison | None, str]] = []
        for arm in result.arms:
            value = values.get((arm.name, metric, label))
            c = compared.get((arm.name, metric, label))
            text = "–" if value is None else _number(metric, value.mean)
            cells.append((text, c, _change(c) if c else ""))
        lines.append(Line(TABLE[metric].title, "all tasks" if label == ALL else label, cells))
    return lines


def _change(c: Comparison) -> str:
    value, low, high = (_number(c.metric, x, signed=True) for x in (c.difference, c.ci_low, c.ci_high))
    return f"{value} [{low}, {high}], p {_p(c.p_holm)}, {c.same_sign}/{c.seeds} seeds"


def _charts(result: Ablation, facts: Sequence[CellFacts]) -> list[LineChart]:
    """Means over seeds by step; each chart holds the first arm and up to three others."""
    first, *others = [arm.name for arm in result.arms]
    parts = [[first, *others[at : at + _LINES - 1]] for at in range(0, max(1, len(others)), _LINES - 1)]
    steps = sorted({step.step for cell in facts for step in cell.run.steps})
    charts = []
    for key, title in CURVES.items():
        for part in parts:
            series = [Series(name, _curve(facts, name, key, steps), style) for style, name in enumerate(part)]
            charts.append(line_chart(title, steps, series, percent=True))
    return [chart for chart in charts if chart.lines]


def _curve(facts: Sequence[CellFacts], arm: str, key: str, steps: Sequence[int]) -> list[float | None]:
    at: dict[int, list[float]] = {}
    for cell in facts:
        if cell.record.arm == arm:
            for step in cell.run.steps:
                if (value := getattr(step, key)) is not None:
                    at.setdefault(step.step, []).append(value)
    return [sum(at[step]) / len(at[step]) if step in at else None for step in steps]


def _number(metric: str, value: float, *, signed: bool = False) -> str:
    share = TABLE[metric].unit == "share"
    text = f"{100 * value if share else value:{'+' if signed else ''}.1f}"
    return text + ("%" if share and not signed else "")


def _p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _model(cell: CellFacts) -> str:
    """The name of the policy that was trained, without the folders of a path."""
    named: Any = cell.run.config.get("model_name_or_path")
    return shown("model_name_or_path", named).rpartition("/")[2] or "unnamed"


if __name__ == "__main__":
    sys.exit(main())
