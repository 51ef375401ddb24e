"""Small training runs for tests: configurations, scripted rollouts, and what a run leaves behind."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
import yaml

from demur.envs.episode import Episode, PromptOptions
from demur.envs.policies.tokens import Sampled
from demur.envs.protocol import render
from demur.envs.task import Step, Task
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label
from demur.train.checks import one_line_errors
from demur.train.demonstrations import choose_scripts, texts_of
from demur.train.rollout import TrainerPolicy
from demur.train.scratch import Scratch, fit_tokenizer, new_model

ROOT = Path(__file__).resolve().parents[2]
COMPACT = PromptOptions(style="compact")
LABELS = tuple(label.value for label in Label)
BASE: dict[str, Any] = {
    "prompt": "compact",
    "max_turn_tokens": 16,
    "turn_limit": 2,
    **dict.fromkeys((f"train_{label}" for label in LABELS), 5),
    **dict.fromkeys((f"eval_{label}" for label in LABELS), 4),
    "min_valid_turns": 0.0,
    "min_completion": 0.0,
    "num_generations": 4,
    "per_device_train_batch_size": 8,
    "max_steps": 2,
    "learning_rate": 1.0e-3,
    "lr_scheduler_type": "constant",
    "save_steps": 2,
    "gradient_checkpointing": False,
    "bf16": False,
    "use_cpu": True,
    "seed": 3,
}
WARM_UP: dict[str, Any] = {
    key: value
    for key, value in BASE.items()
    if not key.startswith(("eval_", "min_")) and key not in ("num_generations", "turn_limit")
} | {"eval_per_label": 2, "max_steps": 3, "save_steps": 3, "logging_steps": 1}


def sample_tasks(split: str = "train", count: int = 10) -> list[Task]:
    """`count` tasks of each label from all worlds."""
    return make_tasks(["bank", "files", "mail"], split, dict.fromkeys(Label, count), seed=1)


def make_policy(folder: Path) -> Path:
    """Save a policy of random weights that speaks no protocol but has all its tokens."""
    torch.manual_seed(0)
    tasks = sample_tasks()
    scripts = choose_scripts(tasks, dict.fromkeys(Label, 0.5), 0.1, Random(0))
    tokenizer = fit_tokenizer(texts_of(tasks, scripts, COMPACT), 700)
    model = new_model(Scratch(layers=2, width=32, heads=2, hidden=64), tokenizer)
    with torch.no_grad():  # some turns end before their limit
        model.model.embed_tokens.weight[tokenizer.eos_token_id] *= 2.5
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_config(folder: Path, base: dict[str, Any], **changes: Any) -> Path:
    """A configuration whose run lies beside it; None takes a key out."""
    keys = {"run": str(folder / "run"), **base, **changes}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in keys.items() if value is not None}))
    return path


def metrics_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def numbers_of(run: Path) -> dict[int, tuple[Any, ...]]:
    """By step, what must not depend on how a run was started: all but the times."""
    keys = ("loss", "grad_norm", "reward", "r_align", "r_fmt", "tokens")
    lines = metrics_of(run)
    assert len({line["step"] for line in lines}) == len(lines), "a step stands twice in metrics.jsonl"
    return {line["step"]: tuple(line[key] for key in keys) for line in lines}


def error_of(main: Callable[[list[str]], None], argv: Sequence[str], capsys: pytest.CaptureFixture[str]) -> Any:
    """Exit status and the one line on stderr of a script that must fail."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as stopped, one_line_errors():
        main(list(argv))
    return stopped.value.code, one_error(capsys.readouterr().err)


def one_error(stderr: str) -> str:
    lines = stderr.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), stderr
    return lines[0].removeprefix("error: ")


def environment() -> dict[str, str]:
    """For a process of its own: our packages, one thread, no network."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


class ScriptedTrainerPolicy(TrainerPolicy):
    """Samples nothing: the rollouts of a group are the expert's, the undoubting agent's, an answer, and no turn."""

    def generate(self, episodes: Sequence[Episode]) -> Any:
        self._texts = [scripted_text(episode) for episode in episodes]
        return super().generate(episodes)

    def sample(self, prompts: list[list[int]]) -> Sampled:
        ids = self.tokenizer(self._texts, add_special_tokens=False)["input_ids"] if self._texts else []
        return Sampled([[*row, self._eos] for row in ids], None)


def scripted_text(episode: Episode) -> str:
    at, task = len(episode.turns), episode.task
    script = {0: task.expert, 1: task.act}.get(episode.sample, (Step(plan="", answer="Done."),))
    if episode.sample == 3:
        return "I will not say."
    return render((script[at] if at < len(script) else Step(plan="", answer="")).turn())
