"""Checks of the input before anything is written, and what a script says when they fail."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from demur.envs.episode import Episode, PromptOptions
from demur.envs.policies.tokens import TokenPolicy
from demur.envs.task import Task


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the script with one line on stderr: status 2 for bad input, 1 for a disk that is full or broken."""
    try:
        yield
    except ValueError as error:
        _stop(2, str(error))
    except OSError as error:
        full = "; free some space, then go on with --resume" if error.errno == errno.ENOSPC else ""
        _stop(1, f"{error}{full}")


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


def _stop(status: int, message: str) -> None:
    print(f"error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    raise SystemExit(status)
