"""A step of judging may take several calls of a judge, the rounds of a schedule; they share the step's time.

with one_step():
    judge.compare(first_round)
    judge.compare(second_round)  # has what the first one left of its step_timeout

A question that comes again within one call gets an answer of its own. So does one that is asked again later:

with asked_before(2):
    judge.compare(pairs)  # each for the third time
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_began: ContextVar[float | None] = ContextVar("step_began", default=None)
_before: ContextVar[int] = ContextVar("asked_before", default=0)


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


@contextmanager
def asked_before(times: int) -> Iterator[None]:
    """What this thread asks inside was asked so often before; judges that number repeats go on from there."""
    token = _before.set(times)
    try:
        yield
    finally:
        _before.reset(token)


def times_before() -> int:
    """How often this thread asked its questions before; 0 outside of an `asked_before`."""
    return _before.get()
