"""The engine: lock-step and asynchronous runs agree, guards are asked, ranks stay together."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from demur.envs.engine import run_async, run_batched, run_lockstep
from demur.envs.episode import Conversation, Episode, Generation
from demur.envs.guards import AllowAll, Guard, compose
from demur.envs.policies.scripted import ALWAYS_ACT, EXPERT, ScriptedPolicy
from demur.envs.trace import Ending, Label, Level
from tests.envs.helpers import DONE, DROP, LOOK, Broken, Says, Writer, make_task, texts_of


class OneByOne:
    """A scripted policy that answers single conversations, each after a while of its own."""

    def __init__(self, scripted: ScriptedPolicy, episodes: list[Episode]) -> None:
        self.name = scripted.name
        self._scripted = scripted
        self._episodes = {id(episode.conversation): episode for episode in episodes}
        self.at_once = self.most_at_once = 0

    async def respond(self, conversation: Conversation) -> Generation:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(0.001 * (id(conversation) // 64 % 3))
        self.at_once -= 1
        (generation,) = self._scripted.generate([self._episodes[id(conversation)]])
        return generation


def episodes() -> list[Episode]:
    return [Episode(make_task(label), sample=sample) for label in Label for sample in range(3)]


@pytest.mark.parametrize("scripted", [EXPERT, ALWAYS_ACT], ids=lambda policy: policy.name)
@pytest.mark.parametrize(
    "guard", [None, AllowAll(), Says(Level.BLOCK, only="drop"), compose(Says(Level.WARN), Broken())]
)
def test_lockstep_and_async_give_the_same_trajectories(scripted: ScriptedPolicy, guard: Guard | None) -> None:
    together = run_lockstep(episodes(), scripted, guard)
    alone = episodes()
    policy = OneByOne(scripted, alone)
    assert asyncio.run(run_async(alone, policy, guard, concurrency=5)) == together
    assert run_batched(episodes(), scripted, guard, batch_size=5) == together
    assert [one.sample for one in together] == [0, 1, 2] * 4


def test_at_most_so_many_episodes_run_at_once() -> None:
    running = episodes()
    policy = OneByOne(EXPERT, running)
    asyncio.run(run_async(running, policy, concurrency=4))
    assert 1 < policy.most_at_once <= 4


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    run_batched(episodes(), EXPERT, batch_size=5, progress=lambda done, of: told.append((done, of)))
    assert told == [(5, 12), (10, 12), (12, 12)]
    told.clear()
    running = episodes()
    policy = OneByOne(EXPERT, running)
    asyncio.run(run_async(running, policy, progress=lambda done, of: told.append((done, of))))
    assert told == [(n, 12) for n in range(1, 13)]


def test_trajectories_name_their_policy_and_guard() -> None:
    (done,) = run_lockstep([Episode(make_task())], EXPERT, Says(Level.ALLOW, "strict"))
    assert (done.policy, done.guard) == ("expert", "strict")
    (done,) = run_lockstep([Episode(make_task())], EXPERT)
    assert done.guard == "none"


def test_a_guard_that_fails_lets_no_call_run() -> None:
    done = run_lockstep([Episode(make_task(label)) for label in Label], ALWAYS_ACT, Broken())
    assert not any(one.calls or one.outcome.changed for one in done)
    assert all("the guard failed" in (one.turns[0].observation or "") for one in done)
    assert {one.ending for one in done} == {Ending.ANSWER}


def test_a_policy_is_asked_only_about_live_episodes() -> None:
    quick, slow = make_task(turn_limit=1), make_task(turn_limit=3)
    policy = Writer(*texts_of([LOOK]))
    run_lockstep([Episode(quick), Episode(slow), Episode(quick)], policy)
    assert policy.asked == [3, 1, 1]


def test_a_rank_without_live_episodes_goes_on_until_every_rank_is_done() -> None:
    told: list[bool] = []
    others = iter([True, True, True, True, False])

    def any_live(live: bool) -> bool:
        told.append(live)
        return next(others) or live

    policy = Writer(*texts_of([LOOK, DONE]))
    (done,) = run_lockstep([Episode(make_task())], policy, Says(Level.WARN), any_live=any_live)
    assert told == [True, True, False, False, False]
    assert policy.asked == [1, 1, 0, 0]
    assert done.ending is Ending.ANSWER


def test_ranks_of_different_lengths_keep_their_collective_operations_matched() -> None:
    """Two ranks as threads; `any_live` and `generate` each wait for the other rank."""
    together = Barrier(2, timeout=10)
    lives = [False, False]

    class Rank(Writer):
        def generate(self, episodes: Sequence[Episode]) -> list[Generation]:
            together.wait()
            return super().generate(episodes)

    def run(rank: int, limits: list[int]) -> list[int]:
        def any_live(live: bool) -> bool:
            lives[rank] = live
            together.wait()
            some = any(lives)
            together.wait()
            return some

        policy = Rank(*texts_of([LOOK]))
        run_lockstep([Episode(make_task(turn_limit=n)) for n in limits], policy, any_live=any_live)
        return policy.asked

    with ThreadPoolExecutor(2) as pool:
        asked = list(pool.map(run, [0, 1], [[1, 2], [5]]))
    assert asked == [[2, 1, 0, 0, 0], [1, 1, 1, 1, 1]]


def test_no_episodes_are_no_problem() -> None:
    assert run_lockstep([], EXPERT, Broken()) == []
    assert run_batched([], EXPERT) == []
    assert asyncio.run(run_async([], OneByOne(EXPERT, []))) == []


def test_behind_its_script_a_scripted_policy_gives_an_empty_answer() -> None:
    (done,) = run_lockstep([Episode(make_task())], ScriptedPolicy("short", lambda task: (DROP,)))
    assert [turn.action.text for turn in done.turns] == ["", ""]
    assert done.ending is Ending.ANSWER
