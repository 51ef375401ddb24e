"""Run an ablation: a training run for each combination of settings and seed, and a table that compares them.

    accelerate launch train/ablate.py --config configs/ablations/pairwise-vs-pointwise.yaml

Every key of a run is a flag as well and reaches all cells: `--max_steps 30`. `--only NAME` runs one cell or arm,
`--seeds 1 2` other seeds, `--dry_run` prints the cells. Called again, it skips what is finished and goes on with the
rest from its checkpoints; the table has the finished cells of all seeds so far, and says which are missing. A
cell that fails is recorded in cells.jsonl and the others go on; the status is 1 then.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from demur.envs.trace import write_lines
from demur.eval.ablation import write_ablation
from demur.eval.ablation_cells import CellRecord, cell_folder, cells_file, read_cells
from demur.eval.arguments import Parser
from demur.train.ablation import Cell, Plan, as_dry_run, load_plan, write_keys
from demur.train.cells import Ranks
from demur.train.checks import one_line_errors
from demur.train.folder import RunFolder


def main(argv: Sequence[str] | None = None) -> int:
    launched = dict(os.environ)
    options, overrides = _Parser().parse_known_args(sys.argv[1:] if argv is None else argv)
    plan = load_plan(options.config, overrides, run=options.run, seeds=options.seeds)
    chosen = _chosen(plan, options.only)
    if options.dry_run:
        print(as_dry_run(plan._replace(cells=chosen)), end="")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cell's process ends with this one

    ranks = Ranks(launched)
    records = _known(plan)
    ranks.meet("start")  # nobody looks at the cells' folders once the first of them is running
    for number, cell in enumerate(chosen, 1):
        if records[cell.name].state != "finished":
            _say(ranks, f"cell {number} of {len(chosen)}: {cell.name}")
            start = time.monotonic()
            error = _run(plan, cell, ranks)
            state = f"failed: {error}" if error else "finished"
            _say(ranks, f"  {state}, {time.monotonic() - start:.0f} s")
            records[cell.name] = _record(cell, "failed" if error else "finished", error)
        else:
            _say(ranks, f"cell {number} of {len(chosen)}: {cell.name} is finished already")
        if ranks.rank == 0:
            write_lines(cells_file(plan.run), (record.model_dump_json() for record in records.values()))

    if ranks.rank == 0 and any(record.state == "finished" for record in records.values()):
        print("\n".join(write_ablation(plan.run).sentences))
        print(f"table: {plan.run / 'ablation.html'}")
    return int(any(records[cell.name].state == "failed" for cell in chosen))


class _Parser(Parser):
    """Our own flags; the rest belongs to the runs."""

    def __init__(self) -> None:
        super().__init__(description="Run an ablation.")
        self.add_argument("--config", type=Path, required=True, help="the ablation, such as configs/ablations/…")
        self.add_argument("--run", help="its folder, in place of the file's")
        self.add_argument("--seeds", type=int, nargs="+", default=[], help="seeds, in place of the file's")
        self.add_argument("--only", action="append", default=[], help="a cell or an arm; may be repeated")
        self.add_argument("--dry_run", action="store_true", help="print the cells and stop")


def _chosen(plan: Plan, only: Sequence[str]) -> list[Cell]:
    for name in only:
        if not any(name in (cell.name, cell.arm) for cell in plan.cells):
            arms = ", ".join(dict.fromkeys(cell.arm for cell in plan.cells))
            raise ValueError(f"--only {name} is no cell and no arm of the ablation; its arms are {arms}")
    return [cell for cell in plan.cells if not only or cell.name in only or cell.arm in only]


def _known(plan: Plan) -> dict[str, CellRecord]:
    """Each cell as the folder has it: finished only if its run is of the same configuration.

    Cells of other seeds that the folder has for the plan's arms stay in the list, and so in the table.
    """
    if plan.run.exists() and not plan.run.is_dir():
        raise ValueError(f"{plan.run} is a file; choose a folder with --run")
    before = {}
    if cells_file(plan.run).is_file():
        before = {record.name: record for record in read_cells(plan.run)}
        _check_same(plan, before.values())
    elif plan.run.is_dir() and any(plan.run.iterdir()):
        raise ValueError(f"{plan.run} holds files but no ablation; choose another folder with --run")
    records = {}
    for cell in plan.cells:
        folder = RunFolder(cell_folder(plan.run, cell.name))
        done = (folder.final / "summary.json").is_file() and folder.stored_config() == cell.config
        old = before.get(cell.name)
        failed = old is not None and old.state == "failed"
        records[cell.name] = _record(
            cell, "finished" if done else "failed" if failed else "open", old.error if old and not done else None
        )
    records |= _of_other_seeds(plan, [record for name, record in before.items() if name not in records])
    arms = list(dict.fromkeys(cell.arm for cell in plan.cells))
    return dict(sorted(records.items(), key=lambda item: arms.index(item[1].arm)))


def _of_other_seeds(plan: Plan, records: Iterable[CellRecord]) -> dict[str, CellRecord]:
    arms = {cell.arm: {**cell.config, "seed": None} for cell in plan.cells}
    found = {}
    for record in records:
        if record.arm not in arms:
            continue
        config = RunFolder(cell_folder(plan.run, record.name)).stored_config()
        if record.state == "finished" and {**(config or {}), "seed": None} != arms[record.arm]:
            changes: dict[str, object] = {"state": "open", "error": "its configuration was another one than today's"}
            record = record.model_copy(update=changes)
        found[record.name] = record
    return found


def _check_same(plan: Plan, before: Iterable[CellRecord]) -> None:
    """With other seeds or cells it is the same ablation; the list of another one would be lost."""
    if before and not {cell.arm for cell in plan.cells} & {record.arm for record in before}:
        raise ValueError(f"{plan.run} holds another ablation; choose another folder with --run")


def _record(cell: Cell, state: str, error: str | None) -> CellRecord:
    return CellRecord.model_validate(
        {
            "name": cell.name,
            "arm": cell.arm,
            "settings": cell.settings,
            "seed": cell.seed,
            "state": state,
            "error": error,
        }
    )


def _run(plan: Plan, cell: Cell, ranks: Ranks) -> str | None:
    """Start the cell, or go on with it if its folder holds a run. Returns why it failed, or None."""
    folder = cell_folder(plan.run, cell.name)
    resume = ["--resume"] if RunFolder(folder).config.is_file() else []
    ranks.meet(f"{cell.name}/looked")  # rank 0 is about to make that very folder
    logs = plan.run / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    if not cells_file(plan.run).is_file() and ranks.rank == 0:
        write_lines(cells_file(plan.run), [])
    with tempfile.TemporaryDirectory() as own:
        file = write_keys(Path(own), cell.name, cell.keys)
        arguments = ["--config", str(file), *plan.overrides, "--run", str(folder), *resume]
        return ranks.run(cell.name, arguments, logs / f"{cell.name}-rank{ranks.rank}.log")


def _say(ranks: Ranks, text: str) -> None:
    if ranks.rank == 0:
        print(text, flush=True)


if __name__ == "__main__":
    with one_line_errors():
        sys.exit(main())
