"""Playing cells: the tasks of a suite are made once, one after the other, and played in each cell that lacks them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol, cast

from demur.envs.engine import AsyncPolicy, Policy, run_async, run_lockstep
from demur.envs.guards import Guard
from demur.envs.policies.endpoint import EndpointPolicy
from demur.envs.task import Task
from demur.eval.matrix.cells import CellKey, line_of
from demur.eval.matrix.guards import make_guard
from demur.eval.matrix.limits import LimitedEpisode, LimitedGuard, OneByOne, TimeLimit, Together, time_limit
from demur.eval.matrix.options import Options
from demur.eval.matrix.policies import PolicySpec, load_policy
from demur.eval.matrix.suites import Source

CHUNK = 32
"""Tasks that are held at once where no batch size says otherwise."""
_REMEMBERED = 1000


class Sink(Protocol):
    """Where trajectories go. at: a cell's place in the job."""

    def add(self, at: int, task_id: str, line: str) -> None: ...

    def failed(self, at: int, error: str) -> None:
        """A task could not be played."""
        ...

    def lacks(self, at: int, task_id: str) -> bool:
        """Whether the task is still to be played in that cell."""
        ...


@dataclass(frozen=True, slots=True)
class Job:
    """Cells of one suite and seed that share a pass over its tasks. specs: the policy of each cell."""

    cells: tuple[CellKey, ...]
    specs: tuple[PolicySpec, ...]

    @property
    def suite(self) -> str:
        return self.cells[0].suite

    @property
    def seed(self) -> int:
        return self.cells[0].seed


class Share(NamedTuple):
    """Of the tasks every `of`-th one, from `at` on."""

    at: int = 0
    of: int = 1


class Players:
    """Policies and guards of a job, made once. The endpoint's budget holds for all that use these players."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._policies: dict[PolicySpec, Policy | AsyncPolicy] = {}
        self._guards: dict[str, Guard | None] = {}

    def policy(self, spec: PolicySpec) -> Policy | AsyncPolicy:
        if spec not in self._policies:
            self._policies[spec] = load_policy(spec, self.options)
        return self._policies[spec]

    def guard(self, name: str) -> Guard | None:
        if name not in self._guards:
            guard = make_guard(name, self.options)
            self._guards[name] = guard and LimitedGuard(guard, self.options.task_limit)
        return self._guards[name]

    def forget(self, spec: PolicySpec) -> None:
        """Let go of a policy's memory. Endpoints stay, as they count what is spent."""
        if spec.kind != "endpoint":
            self._policies.pop(spec, None)

    def spent(self) -> str | None:
        """Why no more may be asked of the endpoint, if so."""
        used = [policy for policy in self._policies.values() if isinstance(policy, EndpointPolicy)]
        calls, tokens = sum(one.calls for one in used), sum(one.used_tokens for one in used)
        if self.options.max_calls is not None and calls >= self.options.max_calls:
            return f"the budget of {self.options.max_calls} calls is spent; the same command goes on with a new one"
        if self.options.max_tokens is not None and tokens >= self.options.max_tokens:
            return f"the budget of {self.options.max_tokens} tokens is spent; the same command goes on with a new one"
        return None


def play(job: Job, source: Source, players: Players, sink: Sink, share: Share = Share()) -> None:  # noqa: B008
    """Play what the sink lacks. Raises ValueError for a task that does not hold together."""
    episodes = _Episodes(job, source, players.options)
    policies = [players.policy(spec) for spec in job.specs]
    tasks = islice(source.tasks(job.seed), share.at, None, share.of)
    if any(hasattr(policy, "respond") for policy in policies):
        assert len(set(job.specs)) == 1, "an endpoint's policy has a job of its own"
        asyncio.run(_play_apart(job, episodes, players, sink, tasks))
        return
    models = any(spec.kind == "local" for spec in job.specs)
    size = players.options.batch_size if models else CHUNK
    while chunk := list(islice(tasks, size)):
        for at in range(len(job.cells)):
            _play_chunk(at, job, episodes, players, sink, chunk)


def _play_chunk(at: int, job: Job, made: _Episodes, players: Players, sink: Sink, chunk: Sequence[Task]) -> None:
    lacking = [task for task in chunk if sink.lacks(at, task.id)]
    if not lacking:
        return
    episodes = [made.of(task, at) for task in lacking]
    policy = cast(Policy, players.policy(job.specs[at]))
    limited = Together(policy) if job.specs[at].kind == "local" else OneByOne(policy)
    played = run_lockstep(episodes, limited, players.guard(job.cells[at].guard))
    for episode, trajectory in zip(episodes, played, strict=True):
        if episode.backend_failed and not players.options.keep_errors:
            sink.failed(at, trajectory.error or "the policy failed")
        else:
            sink.add(at, trajectory.task_id, line_of(trajectory))


class _Episodes:
    """Episodes of a job's tasks. A task is checked when it is first played, and not again in the next cell."""

    def __init__(self, job: Job, source: Source, options: Options) -> None:
        self._job, self._source, self._options = job, source, options
        self._in_time: dict[str, bool] = {}

    def of(self, task: Task, at: int) -> LimitedEpisode:
        """Raises ValueError for a task that does not hold together."""
        cell, limit = self._job.cells[at], self._options.task_limit
        sample = self._source.sample(self._job.seed)
        episode = LimitedEpisode(task, self._options.prompting, sample, limit, (cell.policy, cell.guard))
        if not self._check(task):
            episode.out_of_time()
        return episode

    def _check(self, task: Task) -> bool:
        if task.id not in self._in_time:
            if len(self._in_time) > _REMEMBERED:
                self._in_time.clear()
            self._in_time[task.id] = True
            try:
                with time_limit(self._options.task_limit):
                    self._source.check(task)
            except TimeLimit:
                self._in_time[task.id] = False
        return self._in_time[task.id]


async def _play_apart(job: Job, made: _Episodes, players: Players, sink: Sink, tasks: Iterator[Task]) -> None:
    """At most `concurrency` episodes at once, each at its own pace."""
    policy = cast(AsyncPolicy, players.policy(job.specs[0]))
    waiting = ((at, task) for task in tasks for at in range(len(job.cells)))
    halted = False

    async def work() -> None:
        nonlocal halted
        for at, task in waiting:
            if halted or (why := players.spent()):
                if not halted:
                    halted = True
                    for other in range(len(job.cells)):
                        sink.failed(other, why or "")
                return
            if sink.lacks(at, task.id):
                await _play_one(at, made.of(task, at), job, policy, players, sink)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(players.options.concurrency):
                group.create_task(work())
    finally:
        if isinstance(policy, EndpointPolicy):
            await policy.close()


async def _play_one(
    at: int, episode: LimitedEpisode, job: Job, policy: AsyncPolicy, players: Players, sink: Sink
) -> None:
    try:
        async with asyncio.timeout(players.options.task_limit):
            await run_async([episode], policy, players.guard(job.cells[at].guard))
    except TimeoutError:
        episode.out_of_time()
    except Exception as error:  # a policy of the user's may raise anything
        episode.fail(f"{type(error).__name__}: {error}")
    if episode.backend_failed and not players.options.keep_errors:
        sink.failed(at, episode.error or "the policy failed")
    else:
        sink.add(at, episode.task.id, line_of(episode.trajectory()))


def settings_of(spec: PolicySpec, guard: str, source: Source, options: Options) -> Mapping[str, object]:
    """What the trajectories of a cell depend on, and so must not change between two runs into one folder."""
    told: dict[str, object] = {
        "policy": spec.settings(options),
        "suite": source.settings,
        "prompt": options.prompt,
        "safety_thoughts": options.safety_thoughts,
    }
    return told | ({"monitor": [options.monitor_model, options.monitor_mode]} if guard == "monitor" else {})
