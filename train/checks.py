"""Checks of the input before anything is written, and what a script says when they fail."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trl import GRPOConfig

from demur.envs.episode import Episode, PromptOptions
from demur.envs.policies.tokens import TokenPolicy
from demur.envs.task import Task
from demur.train.judging import JudgeGaveOut

ROOT = Path(__file__).resolve().parent.parent
"""Where train/ and configs/ lie: the checkout, or the installed package."""


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the script with one line on stderr: status 2 for bad input, 1 for a disk that is full or broken."""
    try:
        yield
    except ValueError as error:
        _stop(2, str(error))
    except JudgeGaveOut as error:
        _stop(1, str(error))
    except OSError as error:
        full = f"; {FREE_SPACE}" if error.errno == errno.ENOSPC else ""
        _stop(1, f"{error}{full}")
    except Exception as error:
        if not any(sign in str(error) for sign in FULL_DISK):
            raise
        _stop(1, f"a checkpoint could not be written, the disk seems to be full; {FREE_SPACE}")


def check_context(
    tokenizer: Any, tasks: Iterable[Task], options: PromptOptions, max_turn_tokens: int, context: int | None
) -> None:
    """Every task's prompt and one turn must fit the context. Raises ValueError with the figures."""
    if context is None:
        return
    encoder = TokenPolicy("encoder", tokenizer, max_new_tokens=max_turn_tokens, context=None)
    longest = max(len(encoder.extend(Episode(task, options).conversation)) for task in tasks)
    if longest + max_turn_tokens > context:
        raise ValueError(
            f"the longest prompt takes {longest} tokens and a turn up to {max_turn_tokens}, but the context "
            f"has {context}: lower --max_turn_tokens, use --prompt compact, or a model with a longer context"
        )


def check_batches(tasks: int, args: GRPOConfig) -> None:
    """A step takes as many tasks as it has groups. Raises ValueError if there are fewer."""
    groups = args.generation_batch_size // args.num_generations
    if tasks < groups:
        raise ValueError(
            f"a step takes {groups} training tasks, but there are {tasks}: raise --train_benign or another "
            "--train_…, or lower --per_device_train_batch_size"
        )


def named(model: str | None) -> str:
    """The model's name; what ships with demur is found from any folder. Raises ValueError if none is named."""
    if not model:
        raise ValueError("no model is named: set model_name_or_path to a folder or a hub name")
    shipped = ROOT / model
    return str(shipped) if not Path(model).exists() and shipped.is_dir() else model


FREE_SPACE = "free some space, then go on with --resume"
# torch and safetensors do not raise OSError for a disk that is full
FULL_DISK = ("No space left on device", "file write failed", "unexpected pos", "iostream error")


def _stop(status: int, message: str) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    raise SystemExit(status)
