"""What the runs of an ablation left behind: its list of cells, and the facts of each that was finished.

An ablation is a folder: `cells.jsonl`, a cell a line, `cells/<name>/`, a run of `train/grpo.py` each, and
`logs/`, what each printed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from demur.envs.trace import Record, Trajectory, read_jsonl
from demur.eval.compare import AFTER
from demur.eval.report_run import RunFiles, read_run
from demur.rewards.judges.oracle import acceptable


class CellRecord(Record):
    """A cell: one arm with one seed. settings: by factor. error: why it failed."""

    name: str
    arm: str
    settings: dict[str, str]
    seed: int
    state: Literal["open", "finished", "failed"] = "open"
    error: str | None = None


class JudgeUse(BaseModel):
    """What a line of `metrics.jsonl` says about judging; None where the judge counts nothing."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    step: int
    judge_calls: float | None = None
    judge_tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CellFacts:
    """A finished cell. trajectories: of the policy after training. all_fail: training groups without an acceptable
    rollout, of `groups`. calls, tokens: of the judge over the whole run, None if they were not counted."""

    record: CellRecord
    run: RunFiles
    trajectories: list[Trajectory]
    groups: int
    all_fail: int
    calls: float | None
    tokens: float | None


def cells_file(folder: Path) -> Path:
    return folder / "cells.jsonl"


def cell_folder(folder: Path, name: str) -> Path:
    return folder / "cells" / name


def read_cells(folder: Path) -> list[CellRecord]:
    """Raises ValueError if the folder is not an ablation."""
    path = cells_file(folder)
    if not path.is_file():
        raise ValueError(f"{folder} is not an ablation: it holds no cells.jsonl; name the run of train/ablate.py")
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            found.append(CellRecord.model_validate_json(line))
        except ValueError as error:
            raise ValueError(f"{path}:{number} is not a cell: {error}") from error
    return found


def read_facts(folder: Path, record: CellRecord) -> CellFacts:
    """Raises ValueError if the cell's run is not finished."""
    path = cell_folder(folder, record.name)
    run = read_run(path)
    groups, all_fail = _groups(path / "rollouts", last=run.steps[-1].step if run.steps else 0)
    uses = _judge_uses(path / "metrics.jsonl")
    return CellFacts(
        record=record,
        run=run,
        trajectories=[t for t in run.trajectories if t.policy == AFTER],
        groups=groups,
        all_fail=all_fail,
        calls=_sum([use.judge_calls for use in uses]),
        tokens=_sum([use.judge_tokens for use in uses]),
    )


def _groups(folder: Path, last: int) -> tuple[int, int]:
    """How many groups were rolled out until step `last`, and how many of them had no acceptable rollout."""
    every = failed = 0
    for path in sorted(folder.glob("step-*.jsonl")):
        if int(path.stem.rpartition("-")[2]) > last:
            continue  # rolled out, but not trained on before the run stopped
        # the rollouts of a group stand together, numbered from 0
        for _, rollouts in groupby(_numbered(path), key=lambda pair: pair[0]):
            every += 1
            failed += not any(acceptable(t) for _, t in rollouts)
    return every, failed


def _numbered(path: Path) -> list[tuple[int, Trajectory]]:
    group, numbered = -1, []
    for t in read_jsonl(path):
        group += t.sample == 0
        numbered.append((group, t))
    return numbered


def _judge_uses(path: Path) -> list[JudgeUse]:
    """A step that was done again after a resume counts once, as it was done last."""
    if not path.is_file():
        return []
    lines = (JudgeUse.model_validate_json(line) for line in path.read_text(encoding="utf-8").splitlines())
    return list({use.step: use for use in lines}.values())


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
