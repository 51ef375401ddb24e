"""Reads the files of a run that its report is made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from demur.envs.trace import Trajectory, read_jsonl
from demur.eval.intent_evaluation import IntentEvaluation, read_intent
from demur.eval.manifest import Manifest
from demur.eval.summary import Summary, read_summary


class StepRecord(BaseModel):
    """One line of `metrics.jsonl`; further keys are allowed. None: nothing to measure in that step.

    Reward parts are unweighted means over the step's rollouts, rates are shares in [0, 1] of the step's
    tasks of that label, judge_failures are rollouts without a reward, model_share is the policy's share of the step's
    time, seconds are those of the step.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    step: int
    loss: float | None = None
    reward: float | None = None
    r_align: float | None = None
    r_fmt: float | None = None
    p_len: float | None = None
    r_int: float | None = None
    harmful_refusal: float | None = None
    benign_completion: float | None = None
    attack_success: float | None = None
    wrong_guess: float | None = None
    judge_failures: int | None = None
    tokens_per_second: float | None = None
    model_share: float | None = None
    seconds: float | None = None


class JudgedStep(StepRecord):
    """With what only some judges and rewards have."""

    judge_calls: int | None = None
    judge_tokens: int | None = None
    judge_cost: float | None = None
    judge_flip_rate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFiles:
    """A run as it lies on disk. steps: by step, empty if nothing was trained. intent: None if it was not read."""

    name: str
    config: dict[str, Any]
    manifest: Manifest
    steps: list[JudgedStep]
    summary: Summary
    trajectories: list[Trajectory]
    intent: IntentEvaluation | None


def read_run(run_dir: Path) -> RunFiles:
    """Raises ValueError, with what to do, if the folder is not a run that was evaluated."""
    if not run_dir.is_dir():
        raise ValueError(f"there is no folder {run_dir}; name a run, such as runs/quickstart")
    if not (run_dir / "config.yaml").is_file():
        raise ValueError(f"{run_dir} is not a run: it holds no config.yaml")
    final = run_dir / "eval" / "final"
    for path in (run_dir / "manifest.json", final / "summary.json", final / "trajectories.jsonl"):
        if not path.is_file():
            raise ValueError(f"{run_dir} is not finished: {path.relative_to(run_dir)} is missing; go on with --resume")
    return RunFiles(
        name=run_dir.resolve().name,
        config=_read_config(run_dir / "config.yaml"),
        manifest=_read_manifest(run_dir / "manifest.json"),
        steps=_read_steps(run_dir / "metrics.jsonl"),
        summary=read_summary(final / "summary.json"),
        trajectories=list(read_jsonl(final / "trajectories.jsonl")),
        intent=read_intent(final / "intent.json"),
    )


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} must hold keys and values")
    return {str(key): value for key, value in config.items()}


def _read_manifest(path: Path) -> Manifest:
    try:
        return Manifest.model_validate_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a manifest: {error}") from error


def _read_steps(path: Path) -> list[JudgedStep]:
    """A step that was done again after a resume counts once, as it was done last."""
    if not path.is_file():
        return []
    steps: dict[int, JudgedStep] = {}
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                record = JudgedStep.model_validate_json(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number} is not a training step: {error}") from error
            steps[record.step] = record
    return [steps[step] for step in sorted(steps)]
