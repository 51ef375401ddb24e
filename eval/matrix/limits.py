"""Episodes that end: no task may hang, or take an evaluation down with it, whoever wrote its world.

A tool, a check or a script that runs too long is interrupted by a signal, which works in the main thread of a process
(POSIX). In another thread nothing interrupts it.
"""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from demur.envs.engine import Policy
from demur.envs.episode import Episode, Generation, PromptOptions
from demur.envs.guards import Context, Guard
from demur.envs.task import Task
from demur.envs.trace import Ending, ToolCall, Trajectory, Verdict

T = TypeVar("T")

LONGEST = 500
"""Characters of an error's text."""


class TimeLimit(BaseException):
    """Not an Exception, so that code which catches all of them does not catch it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeLimit inside when the time is up; limits do not nest."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class LimitedEpisode(Episode):
    """An episode that ends in an error if its own code fails or the seconds of `limit` are used up.

    backend_failed: the policy's backend gave no message, so that playing it again may help.
    """

    def __init__(self, task: Task, options: PromptOptions, sample: int, limit: float, names: tuple[str, str]) -> None:
        self.limit, self.used = limit, 0.0
        self.backend_failed = False
        self._names = names
        super().__init__(task, options, sample)

    def propose(self, generation: Generation) -> ToolCall | None:
        if not self.live:
            return None
        self.backend_failed = generation.stop == "error"
        call = self.counted(lambda: super(LimitedEpisode, self).propose(generation))
        return None if self.error else call

    def settle(self, verdicts: Sequence[Verdict] = ()) -> None:
        self.counted(lambda: super(LimitedEpisode, self).settle(verdicts))

    def trajectory(self, policy: str = "", guard: str = "none") -> Trajectory:
        """Under the names that the matrix has. A check of the task that fails leaves no facts."""
        trajectory: Trajectory | None = None
        if self.used < self.limit:
            trajectory = self.counted(lambda: super(LimitedEpisode, self).trajectory(*self._names))
        if trajectory is None:
            task = self.task
            trajectory = Trajectory(
                task_id=task.id,
                world=task.world,
                family=task.family,
                label=task.label,
                split=task.split,
                query=task.query,
                turns=tuple(self.turns),
                given=len(task.given),
                ending=Ending.ERROR,
                turn_limit=task.turn_limit,
                policy=self._names[0],
                guard=self._names[1],
                sample=self.sample,
                error=self.error,
            )
        return trajectory

    def fail(self, error: str) -> None:
        self._pending = None
        self.ending, self.error = Ending.ERROR, " ".join(error.split())[:LONGEST]

    def out_of_time(self) -> None:
        self.fail(f"the task took more than {self.limit:g} s")

    def counted(self, run: Callable[[], T]) -> T | None:
        """Run code whose time counts, and whose failure is the episode's: then None."""
        start = time.monotonic()
        try:
            with time_limit(self.limit - self.used):
                return run()
        except TimeLimit:
            self.out_of_time()
        except Exception as error:  # a world or a script may be anybody's code
            self.fail(f"{type(error).__name__}: {error}")
        finally:
            self.used += time.monotonic() - start
        return None


class OneByOne:
    """A policy that is code: each message is asked for alone, and counts for its task's time."""

    def __init__(self, policy: Policy) -> None:
        self.name, self._policy = policy.name, policy

    def generate(self, episodes: Sequence[Episode]) -> list[Generation]:
        return [self._message(episode) for episode in episodes]

    def _message(self, episode: Episode) -> Generation:
        assert isinstance(episode, LimitedEpisode)
        messages = episode.counted(lambda: self._policy.generate([episode]))
        return messages[0] if messages else Generation(text="", stop="error", error=episode.error)


class Together:
    """A policy that is a model: what fails, fails for all that it was asked for together."""

    def __init__(self, policy: Policy) -> None:
        self.name, self._policy = policy.name, policy

    def generate(self, episodes: Sequence[Episode]) -> list[Generation]:
        try:
            return self._policy.generate(episodes)
        except Exception as error:  # out of memory, a broken kernel: another try may do
            failed = Generation(text="", stop="error", error=f"{type(error).__name__}: {error}"[:LONGEST])
            return [failed] * len(episodes)


class LimitedGuard:
    """A guard whose check takes at most `limit` seconds of waiting; one that takes longer blocks."""

    def __init__(self, guard: Guard, limit: float) -> None:
        self.name, self._guard, self._limit = guard.name, guard, limit

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        async with asyncio.timeout(self._limit):
            return await self._guard.check(context, call)


def _stop(number: int, frame: FrameType | None) -> None:
    raise TimeLimit
