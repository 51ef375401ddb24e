"""Do contracts catch plans that deviate, and let others be?

    python benchmarks/intent_redteam.py [--quick] [--tasks 600] [--seed 11]

Prints what was caught by operator, how well contracts are read, and, on its last line, one flat JSON object:

redteam_coverage            share of the held-out deviations that the tasks' own contracts catch
redteam_false_interception  share of the plans with the expert's effects to which these contracts object
extracted_coverage          the same for contracts that rules read from the query alone
extracted_false_interception
extracted_usable_coverage   the first of these on the tasks whose extracted contract lets the expert's plan through: a
                            contract that allows nothing catches everything
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from demur.envs.intent.contract import IntentContract
from demur.envs.intent.extraction import extract
from demur.envs.intent.redteam import RedTeamResult, attack
from demur.envs.task import Task
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label
from demur.envs.worlds import SHIPPED
from demur.eval.contracts import by_operator, caught, reading_rows, usable
from demur.eval.stats import Estimate

LABELS = (Label.BENIGN, Label.INJECTED, Label.UNDERSPECIFIED)
CONSOLE = Console(highlight=False, width=120)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="90 tasks")
    parser.add_argument("--tasks", type=int, help="tasks to attack, by default 600")
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args(argv)
    figures = redteam_figures(options.quick, tasks=options.tasks, seed=options.seed)
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


def redteam_figures(quick: bool, *, tasks: int | None = None, seed: int = 11) -> dict[str, float]:
    """The figures, over held-out tasks of all worlds that ship."""
    count = tasks or (90 if quick else 600)
    drawn = make_tasks(SHIPPED, "test", dict.fromkeys(LABELS, max(1, count // len(LABELS))), seed=seed)
    true, read = attack(drawn, lambda task: task.contract), attack(drawn, _extracted)
    CONSOLE.print(_operators(true, read, len(drawn)))
    CONSOLE.print(_readings(drawn))
    figures: dict[str, float] = {}
    for name, result in (("redteam", true), ("extracted", read)):
        coverage, falsely = caught(result.deviations(held_out=True)), caught(result.aligned())
        assert coverage is not None and falsely is not None, "there are plans of both kinds"
        CONSOLE.print(
            f"{name}: held-out deviations caught {_spelled(coverage)}, false interception {_spelled(falsely)}"
        )
        figures |= {f"{name}_coverage": coverage.value, f"{name}_false_interception": falsely.value}
    through = caught(usable(read).deviations(held_out=True))
    if through is not None:
        CONSOLE.print(f"extracted, on {through.n} tasks that the expert gets through: {_spelled(through)}")
        figures["extracted_usable_coverage"] = through.value
    return figures


def _extracted(task: Task) -> IntentContract:
    return extract(task.query, task.tools)


def _operators(true: RedTeamResult, read: RedTeamResult, count: int) -> Table:
    table = Table("", "plans", "true contracts", "extracted", title=f"Objected to, {count} tasks", box=None)
    others = by_operator(read.attempts)
    sets = {a.operator.name: ("held out" if a.operator.held_out else "") for a in true.attempts}
    plans = {name: sum(a.operator.name == name for a in true.attempts) for name in sets}
    for name, found in by_operator(true.attempts).items():
        table.add_row(f"{name} {sets[name]}", str(plans[name]), _spelled(found), _spelled(others[name]))
    return table


def _readings(tasks: Sequence[Task]) -> Table:
    table = Table("", "label", "value", "tasks", title="Rules against the true contracts, all worlds", box=None)
    for row in reading_rows(tasks, _extracted, policy="rules"):
        if row.suite == "worlds":
            table.add_row(row.metric, row.label, f"{row.value:.2f} [{row.ci_low:.2f}, {row.ci_high:.2f}]", str(row.n))
    return table


def _spelled(found: Estimate) -> str:
    return f"{found.value:.3f} [{found.ci_low:.3f}, {found.ci_high:.3f}]"


if __name__ == "__main__":
    main()
