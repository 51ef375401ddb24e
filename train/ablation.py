"""What an ablation runs: cells, each a configuration of `train/grpo.py`, out of one file.

base: ../quickstart.yaml     # keys that every cell shares; beside this file, or an absolute path
run: runs/my-ablation        # its folder; each cell is a run in it
seeds: [1, 2, 3]
factors:                     # a cell for each combination and seed, unless `cells` lists them
  scoring:
    pairwise: {reward: pairwise}
    pointwise: {reward: pointwise, judge_repeats: 6}
  thoughts:
    with: {safety_thoughts: true}
    without: {safety_thoughts: false}
cells:                       # optional
  - {scoring: pairwise, thoughts: with}
max_steps: 30                # any other key is one of the runs
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from demur.train.arguments import parse
from demur.train.grpo import ARGUMENTS

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Cell(NamedTuple):
    """keys: what its configuration file holds. config: resolved, as the run's config.yaml will hold it."""

    name: str
    arm: str
    settings: dict[str, str]
    seed: int
    keys: dict[str, Any]
    config: dict[str, Any]


class Plan(NamedTuple):
    """overrides: flags of the command line that every cell gets."""

    run: Path
    cells: list[Cell]
    overrides: list[str]


class _File(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    run: str
    factors: dict[str, dict[str, dict[str, Any]]]
    seeds: list[int]
    base: str | None = None
    cells: list[dict[str, str]] | None = None


def load_plan(path: Path, overrides: Sequence[str] = (), *, run: str | None = None, seeds: Sequence[int] = ()) -> Plan:
    """Read an ablation and resolve each cell. Raises ValueError, naming the file or cell, for what is wrong."""
    file = _read(path)
    shared = _base(path, file.base) | (file.model_extra or {})
    _check_overrides(path, file.factors, overrides)
    cells = []
    for settings in _combinations(path, file):
        changes: dict[str, Any] = {}
        for factor, setting in settings.items():
            changes |= file.factors[factor][setting]
        arm = "-".join(settings.values())
        for seed in seeds or file.seeds:
            keys = shared | changes | {"seed": seed}
            name = f"{arm}-seed{seed}"
            cells.append(Cell(name, arm, settings, seed, keys, _resolved(name, keys, overrides)))
    if double := next((c.name for at, c in enumerate(cells) if c.name in {d.name for d in cells[:at]}), None):
        raise ValueError(f"{path}: two cells are named {double}; name the settings and seeds so that they differ")
    return Plan(Path(run or file.run), cells, list(overrides))


def as_dry_run(plan: Plan) -> str:
    """YAML: what all cells share, and of each what it does not share."""
    configs = [cell.config for cell in plan.cells]
    common = {key: value for key, value in configs[0].items() if all(key in c and c[key] == value for c in configs)}
    cells = {cell.name: {key: value for key, value in cell.config.items() if key not in common} for cell in plan.cells}
    shown = {"run": str(plan.run), "shared": common, "cells": cells}
    return yaml.safe_dump(shown, sort_keys=False, allow_unicode=True)


def _read(path: Path) -> _File:
    content = _mapping(path)
    try:
        file = _File.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"{path}: {where}: {first['msg']}; names of settings that YAML reads as numbers or as true want quotes"
        ) from error
    if not file.factors or not all(file.factors.values()) or not file.seeds:
        raise ValueError(f"{path}: there is nothing to run: name at least one factor with a setting, and one seed")
    for name in (name for settings in file.factors.values() for name in settings):
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{path}: the setting {name!r} becomes part of a folder's name: use letters, digits, - _ ."
            )
    return file


def _mapping(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"there is no configuration file {path}")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold keys and values, one a line")
    return content


def _base(path: Path, base: str | None) -> dict[str, Any]:
    """The keys of the base configuration but for its folder and seed, which each cell has of its own."""
    if base is None:
        return {}
    keys = _mapping(path.parent / base)
    return {key: value for key, value in keys.items() if key not in ("run", "seed")}


def _combinations(path: Path, file: _File) -> list[dict[str, str]]:
    if file.cells is None:
        return [dict(zip(file.factors, names, strict=True)) for names in product(*file.factors.values())]
    for cell in file.cells:
        if cell.keys() != file.factors.keys():
            raise ValueError(f"{path}: the cell {cell} must name a setting of each factor: {', '.join(file.factors)}")
        for factor, setting in cell.items():
            if setting not in file.factors[factor]:
                known = ", ".join(file.factors[factor])
                raise ValueError(f"{path}: {factor} has no setting {setting!r}; it has {known}")
    if not file.cells:
        raise ValueError(f"{path}: cells is empty: list some, or leave it out for all combinations")
    return [{factor: cell[factor] for factor in file.factors} for cell in file.cells]


def _check_overrides(path: Path, factors: Mapping[str, Any], overrides: Sequence[str]) -> None:
    """A flag wins over the file, so that one for a factor's key would make all cells alike."""
    given = {word[2:].partition("=")[0] for word in overrides if word.startswith("--")}
    varied = {key for settings in factors.values() for keys in settings.values() for key in keys}
    if clash := sorted(given & varied):
        raise ValueError(f"--{clash[0]} is what a factor of {path} changes: leave the flag out, or edit the factor")
    if clash := sorted(given & {"seed", "resume", "overwrite"}):
        instead = {
            "seed": "use --seeds",
            "resume": "cells go on by themselves",
            "overwrite": "delete the cell's folder",
        }
        raise ValueError(f"--{clash[0]} is set for each cell: {instead[clash[0]]}")


def _resolved(name: str, keys: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The cell's configuration, checked by the trainer's own parser; a dry run needs no GPU."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_keys(Path(folder), name, keys)
        try:
            *_, config = parse(ARGUMENTS, ["--config", str(file), *overrides, "--dry_run"])
        except ValueError as error:
            raise ValueError(f"cell {name}: {str(error).replace(f'{file}: ', '')}") from error
    resolved: dict[str, Any] = config
    return resolved


def write_keys(folder: Path, name: str, keys: Mapping[str, Any]) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(dict(keys), allow_unicode=True), encoding="utf-8")
    return path
