"""Run many episodes over a policy: in lock-step batches, or each at its own pace.

Lock-step suits a local model, which is fastest on a full batch; `run_async` suits an endpoint that
takes requests one by one. Both give the same trajectories for a deterministic policy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from demur.envs.episode import Conversation, Episode, Generation
from demur.envs.guards import AllowAll, Guard, checked
from demur.envs.trace import Trajectory

Progress = Callable[[int, int], None]
"""Called with (episodes finished, episodes in all)."""


class Policy(Protocol):
    """Writes the next message of each conversation, in order, one each."""

    @property
    def name(self) -> str: ...

    def generate(self, episodes: Sequence[Episode]) -> list[Generation]: ...


class AsyncPolicy(Protocol):
    """The same for one conversation at a time."""

    @property
    def name(self) -> str: ...

    async def respond(self, conversation: Conversation) -> Generation: ...


def run_lockstep(
    episodes: Sequence[Episode],
    policy: Policy,
    guard: Guard | None = None,
    *,
    any_live: Callable[[bool], bool] = lambda live: live,
) -> list[Trajectory]:
    """Step all episodes together until none is live.

    any_live: across processes, whether any rank still has a live episode; a rank without one goes on
    calling `policy.generate([])`, so that collective operations inside it stay matched.
    """
    guard = guard or AllowAll()
    while any_live(bool(live := [episode for episode in episodes if episode.live])):
        generations = policy.generate(live)
        assert len(generations) == len(live), "a policy writes one message an episode"
        waiting = [e for e, g in zip(live, generations, strict=True) if e.propose(g) is not None]
        _settle(waiting, guard)
    return [episode.trajectory(policy.name, guard.name) for episode in episodes]


def run_batched(
    episodes: Sequence[Episode],
    policy: Policy,
    guard: Guard | None = None,
    *,
    batch_size: int = 64,
    progress: Progress | None = None,
) -> list[Trajectory]:
    """`run_lockstep` over slices of `batch_size` episodes, which bounds memory."""
    done: list[Trajectory] = []
    for start in range(0, len(episodes), batch_size):
        done += run_lockstep(episodes[start : start + batch_size], policy, guard)
        if progress:
            progress(len(done), len(episodes))
    return done


async def run_async(
    episodes: Sequence[Episode],
    policy: AsyncPolicy,
    guard: Guard | None = None,
    *,
    concurrency: int = 16,
    progress: Progress | None = None,
) -> list[Trajectory]:
    """Run each episode at its own pace, at most `concurrency` at once; results keep the order."""
    guard = guard or AllowAll()
    slots = asyncio.Semaphore(concurrency)
    finished = 0

    async def run(episode: Episode) -> Trajectory:
        nonlocal finished
        async with slots:
            while episode.live:
                call = episode.propose(await policy.respond(episode.conversation))
                if call is not None:
                    free = isinstance(guard, AllowAll)
                    verdicts = [] if free else [await checked(guard, episode.context(), call)]
                    if episode.state.waits:
                        await asyncio.to_thread(episode.settle, verdicts)
                    else:
                        episode.settle(verdicts)
        finished += 1
        if progress:
            progress(finished, len(episodes))
        return episode.trajectory(policy.name, guard.name)

    return list(await asyncio.gather(*(run(episode) for episode in episodes)))


def _settle(waiting: Sequence[Episode], guard: Guard) -> None:
    """Ask the guard about every waiting call at once, then run what it lets through."""
    if isinstance(guard, AllowAll):
        for episode in waiting:
            episode.settle()
        return

    async def check_all() -> None:
        calls = [episode.pending_call for episode in waiting]
        verdicts = await asyncio.gather(*(checked(guard, e.context(), c) for e, c in zip(waiting, calls, strict=True)))
        for episode, verdict in zip(waiting, verdicts, strict=True):
            episode.settle([verdict])

    asyncio.run(check_all())
