"""The run's folder: who may write into it, where its parts lie, and from where a run goes on.

runs/<name>/  config.yaml  manifest.json  metrics.jsonl  rollouts/  checkpoints/  adapter/ or model/
              eval/<name>/summary.json, trajectories.jsonl  report.html
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml

from demur.eval.summary import write_whole

COMPLETE = "complete"
"""A file in a checkpoint that is written last: a checkpoint without it was cut off."""


class RunFolder:
    """Paths of a run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.manifest = self.path / "manifest.json"
        self.metrics = self.path / "metrics.jsonl"
        self.rollouts = self.path / "rollouts"
        self.judge_failures = self.path / "judge" / "failures.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.adapter = self.path / "adapter"
        self.model = self.path / "model"
        self.before = self.path / "eval" / "before" / "trajectories.jsonl"
        self.final = self.path / "eval" / "final"
        self.report = self.path / "report.html"

    @property
    def finished(self) -> bool:
        return self.report.is_file()

    def stored_config(self) -> dict[str, Any] | None:
        """The configuration of the run that the folder holds, or None if it holds none.

        Raises ValueError if its config.yaml is not one of ours, so that nobody's files are taken for a run.
        """
        if not self.config.is_file():
            return None
        try:
            stored = yaml.safe_load(self.config.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError):
            stored = None
        if not isinstance(stored, dict) or "worlds" not in stored:
            raise ValueError(f"{self.config} is not the configuration of a run; choose another folder with --run")
        return stored

    def claim(self, config: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
        """Make the folder ready for this run. Raises ValueError if it holds something else.

        Resuming needs the same configuration, but for the number of steps and the limits of the judge.
        """
        if resume and overwrite:
            raise ValueError("--resume goes on with a run and --overwrite deletes it: leave one of them out")
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} is a file; choose a folder with --run")
        if overwrite and self.stored_config() is not None:
            shutil.rmtree(self.path)
        stored = self.stored_config()
        if stored is None:
            if resume:
                raise ValueError(f"{self.path} holds no run to resume; leave --resume out to start one")
            if self.path.is_dir() and any(self.path.iterdir()):
                raise ValueError(f"{self.path} holds files but no run; choose another folder with --run")
        elif not resume:
            state = "a finished run" if self.finished else "an unfinished run"
            raise ValueError(
                f"{self.path} holds {state}: --resume goes on with it, --overwrite deletes it, --run names another"
            )
        elif other := _differences(stored, config):
            raise ValueError(f"{self.path} was started with another configuration ({other}); --run names another")
        self.path.mkdir(parents=True, exist_ok=True)
        write_whole(self.config, yaml.safe_dump(config, sort_keys=True, allow_unicode=True))

    def discard(self) -> None:
        """Give the folder back: nothing was trained in it."""
        shutil.rmtree(self.path)

    def last_checkpoint(self) -> Path | None:
        """The newest checkpoint that was written to its end."""
        found = [folder for folder in self.checkpoints.glob("checkpoint-*") if (folder / COMPLETE).is_file()]
        return max(found, key=lambda folder: int(folder.name.rpartition("-")[2]), default=None)

    def forget_after(self, step: int) -> None:
        """Drop what was recorded behind the checkpoint that a run goes on from; it will come again."""
        for path in filter(Path.is_file, (self.metrics, self.judge_failures)):
            lines = path.read_text(encoding="utf-8").splitlines()
            kept = [line for line in lines if _step_of(line) <= step]
            write_whole(path, "".join(line + "\n" for line in kept))
        for folder in self.checkpoints.glob("checkpoint-*"):
            if int(folder.name.rpartition("-")[2]) > step:
                shutil.rmtree(folder)


def _step_of(line: str) -> int:
    """The step of a line of metrics; a line that was cut off counts as behind every checkpoint."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return 2**62


_MAY_CHANGE = {
    *("max_steps", "num_train_epochs", "save_steps", "save_total_limit", "wandb"),
    *("judge_url", "judge_key_variable", "judge_concurrency", "judge_timeout", "judge_step_timeout", "judge_retries"),
    *("judge_max_calls", "judge_max_tokens", "judge_max_cost", "judge_max_failures"),
}


def _differences(stored: dict[str, Any], config: dict[str, Any]) -> str:
    keys = (stored.keys() | config.keys()) - _MAY_CHANGE
    changed = sorted(key for key in keys if stored.get(key) != config.get(key))
    return ", ".join(f"{key}: {stored.get(key)!r} there, {config.get(key)!r} now" for key in changed[:4])
