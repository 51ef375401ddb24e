"""Weights & Biases as a switch that cannot break a run: whatever fails there is said once and left."""

from __future__ import annotations

import os
from typing import Any

from transformers import TrainerCallback

from demur.train.folder import RunFolder


class WandbLog(TrainerCallback):
    """Logs each step's numbers; offline, into the run's folder, unless WANDB_API_KEY is set."""

    def __init__(self, folder: RunFolder, config: dict[str, Any]) -> None:
        self._run: Any = None
        os.environ.setdefault("WANDB_MODE", "online" if os.environ.get("WANDB_API_KEY") else "offline")
        try:
            import wandb

            self._run = wandb.init(project="demur", name=folder.path.name, dir=str(folder.path), config=config)
        except Exception as error:  # an optional service must never stop a run
            self._give_up(error)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kw: Any) -> None:
        if self._run is None or not state.is_world_process_zero:
            return
        try:
            self._run.log(logs or {}, step=state.global_step)
        except Exception as error:
            self._give_up(error)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        try:
            if self._run is not None:
                self._run.finish()
        except Exception as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._run = None
        print(f"wandb is off from here on: {type(error).__name__}: {error}", flush=True)
