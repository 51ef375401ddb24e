"""A step of judging may take several calls of a judge, the rounds of a schedule; they share the step's time.

with one_step():
    judge.compare(first_round)
    judge.compare(second_round)  # has what the first one left of its step_timeout
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_began: ContextVar[float | None] = ContextVar("step_began", default=None)


@contextmanager
def one_step() -> Iterator[None]:
    """What this thread asks inside is one step, which begins now."""
    token = _began.set(time.monotonic())
    try:
        yield
    finally:
        _began.reset(token)


def seconds_gone() -> float:
    """Seconds since this thread's step began; 0 outside of one, where each call of a judge is a step of its own."""
    began = _began.get()
    return 0.0 if began is None else time.monotonic() - began
