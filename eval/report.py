"""Write `report.html` of a run: one file that opens without a server or a network.

    python eval/report.py --run runs/quickstart

Exit status 2, with one line that says why, if the folder is not a run that was evaluated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from demur.eval.charts import LineChart
from demur.eval.compare import AFTER, BEFORE, compare
from demur.eval.pages import render_page
from demur.eval.report_browser import browser_data, choose, pairs_of, script_json
from demur.eval.report_intent import intent_section
from demur.eval.report_page import (
    duration,
    headline_cards,
    shown,
    table_lines,
    token_use,
    training_charts,
    training_facts,
    training_seconds,
)
from demur.eval.report_run import RunFiles, read_run
from demur.eval.summary import write_whole

MOST_PAIRS = 240


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write report.html of a run.")
    parser.add_argument("--run", type=Path, required=True, help="the run's folder, such as runs/quickstart")
    options = parser.parse_args(arguments)
    try:
        print(write_report(options.run))
    except ValueError as error:
        print(" ".join(str(error).split())[:500], file=sys.stderr)
        return 2
    return 0


def write_report(run_dir: Path) -> Path:
    """Build the report of the run in `run_dir` and return its path.

    Raises ValueError, saying what is missing, if the folder is not a run that was evaluated before and
    after training.
    """
    path = run_dir / "report.html"
    write_whole(path, render(read_run(run_dir)))
    return path


def render(run: RunFiles) -> str:
    """The page. Where trajectories were evaluated behind several guards, it shows the first of them."""
    guard = run.trajectories[0].guard if run.trajectories else "none"
    kept = [t for t in run.trajectories if t.guard == guard]
    before = [t for t in kept if t.policy == BEFORE]
    after = [t for t in kept if t.policy == AFTER]
    differences = compare(kept)
    pairs = pairs_of(before, after)
    chosen = choose(pairs, MOST_PAIRS)
    groups, by_label = table_lines([row for row in run.summary.rows if row.guard == guard], differences)
    charts = training_charts(run.steps)
    intent = intent_section(run.intent)
    every_chart = [*charts, *(intent.charts if intent else [])]  # the script finds each by its number
    seconds = training_seconds(run.steps)
    return render_page(
        "report.html.j2",
        styles=["report.css"],
        script="report.js",
        name=run.name,
        guard=guard,
        tasks=len(pairs),
        embedded=len(chosen),
        seconds=duration(seconds) if seconds else "",
        steps=len(run.steps),
        same_checks=run.config.get("judge", "oracle") == "oracle",
        cards=headline_cards(groups),
        groups=groups,
        by_label=by_label,
        charts=charts,
        intent=intent,
        tokens=token_use([(BEFORE, before), (AFTER, after)]),
        facts=training_facts(run),
        config=[(key, shown(key, value)) for key, value in run.config.items()],
        manifest=run.manifest,
        worlds=sorted({pair.before.world for pair in chosen}),
        labels=list(dict.fromkeys(pair.before.label.value for pair in chosen)),
        data=script_json({"pairs": browser_data(chosen), "charts": [_readout(chart) for chart in every_chart]}),
    )


def _readout(chart: LineChart) -> dict[str, Any]:
    """What the script shows while a pointer or a key moves along a chart."""
    return {"steps": chart.steps, "xs": chart.xs, "texts": [line.texts for line in chart.lines]}


if __name__ == "__main__":
    sys.exit(main())
