"""What a run records while it trains: rollouts, metrics, and one line for the person who watches."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from demur.envs.trace import Label, Trajectory, write_jsonl
from demur.eval.metrics import attacked, completed, guessed_wrong
from demur.rewards.judges import Failure
from demur.rewards.rubric import Parts
from demur.train.folder import COMPLETE, RunFolder
from demur.train.intent import IntentScores
from demur.train.scoring import Judging


class CheckpointMarks(TrainerCallback):
    """Marks each checkpoint whose files are all written, so that `--resume` takes no half of one."""

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()


class StepRecorder(CheckpointMarks):
    """Keeps a step's rollouts until TRL logs the step, then writes both. Used on the main process only."""

    def __init__(self, folder: RunFolder, trainer: Any = None, intent: IntentScores | None = None) -> None:
        self.folder = folder
        self.trainer = trainer
        self.intent = intent
        self._facts: dict[str, Any] = {}
        self._started = self._first = time.perf_counter()
        self._first_step = 0

    def record(self, step: int, trajectories: Sequence[Trajectory], parts: Sequence[Parts], judging: Judging) -> None:
        """Take a step's rollouts from the scorer; the judge's failures are written at once, so that none is lost."""
        write_jsonl(self.folder.rollouts / f"step-{step:06d}.jsonl", trajectories)
        self._write_failures(step, judging.failures)
        self._facts = {**_behaviour(trajectories), **_reward_parts(parts)}
        self._facts |= {f"judge_{name}": value for name, value in judging.measures.items()}
        self._facts["tokens"] = sum(turn.tokens.total for t in trajectories for turn in t.turns)
        # scoring gives every rollout a number, 0 where no harm was done
        self._facts["intent_failures"] = sum(t.acted_intent is None for t in trajectories) if self.intent else None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._started = self._first = time.perf_counter()
        self._first_step = state.global_step

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kw: Any) -> None:
        if not logs or "loss" not in logs or not self._facts:
            return
        now = time.perf_counter()
        seconds, self._started = now - self._started, now
        facts = dict(self._facts)
        line = {
            "step": state.global_step,
            "loss": logs["loss"],
            "reward": logs.get("reward"),
            "grad_norm": logs.get("grad_norm"),
            **facts,
            "tokens_per_second": facts["tokens"] / seconds,
            "model_share": min(1.0, self.trainer.pop_model_seconds() / seconds),
            "intent_seconds": self.intent.pop_seconds() if self.intent else None,
            "seconds": seconds,
        }
        with self.folder.metrics.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self._show(line, state.max_steps, now)

    def _write_failures(self, step: int, failures: Sequence[Failure]) -> None:
        if failures:
            self.folder.judge_failures.parent.mkdir(exist_ok=True)
            with self.folder.judge_failures.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps({"step": step, **f.model_dump(mode="json")}) + "\n" for f in failures)

    def _show(self, line: dict[str, Any], max_steps: int, now: float) -> None:
        done = max(1, line["step"] - self._first_step)
        left = (now - self._first) / done * (max_steps - line["step"])
        text = (
            f"step {line['step']}/{max_steps} · align {_show(line['r_align'])} format {_show(line['r_fmt'])} "
            f"length {_show(line['p_len'])} · harmful refused {_percent(line['harmful_refusal'])} "
            f"· benign done {_percent(line['benign_completion'])} · {line['tokens_per_second']:.0f} tokens/s "
            f"· model {line['model_share']:.0%} of {line['seconds']:.1f}s · {_clock(left)} left"
        )
        end = "\r" if sys.stdout.isatty() and line["step"] < max_steps else "\n"
        print(f"{text:<110}", end=end, flush=True)


def _behaviour(trajectories: Sequence[Trajectory]) -> dict[str, float | None]:
    """How the step's (sampled) rollouts behaved, by DESIGN's definitions of the metrics."""
    of = {label: [t for t in trajectories if t.label is label] for label in Label}
    turns = sum(len(t.turns) for t in trajectories)
    return {
        "harmful_refusal": _share([t.outcome.refused for t in of[Label.HARMFUL]]),
        "benign_completion": _share([completed(t) for t in of[Label.BENIGN]]),
        "over_refusal": _share([t.outcome.refused for t in of[Label.BENIGN]]),
        "attack_success": _share([attacked(t) for t in of[Label.INJECTED]]),
        "wrong_guess": _share([guessed_wrong(t) for t in of[Label.UNDERSPECIFIED]]),
        "needless_ask": _share([t.outcome.asked_needless > 0 for t in of[Label.BENIGN]]),
        "format_valid": sum(t.valid_turns for t in trajectories) / turns if turns else None,
    }


def _reward_parts(parts: Sequence[Parts]) -> dict[str, float | int | None]:
    """Means of the unweighted parts over the rollouts that have them."""
    names = {"r_align": "align", "r_fmt": "format", "p_len": "length", "r_int": "intent"}
    scored = [part for part in parts if not part.failed]
    means = {key: _share([getattr(part, name) for part in scored]) for key, name in names.items()}
    return {**means, "judge_failures": len(parts) - len(scored)}


def _share(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
