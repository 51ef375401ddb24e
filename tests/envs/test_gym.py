"""A world as a Gymnasium environment."""

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from demur.envs.canaries import EXPERT
from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.guards import Context
from demur.envs.gym import AnyText, ToolEnv
from demur.envs.protocol import render
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label, Level, ToolCall, Verdict
from demur.rewards.judges.oracle import acceptable

TASKS = make_tasks(["mail"], "train", dict.fromkeys(Label, 3))


class BlockAll:
    name = "block_all"

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        return Verdict(level=Level.BLOCK, guard=self.name, reason="never")


def play(env: ToolEnv, at: int) -> list[tuple[str, float, bool, bool]]:
    """The expert's messages, and what came back for each."""
    env.reset(seed=1, options={"task": at})
    steps = []
    for step in env.tasks[at].expert:
        observation, reward, terminated, truncated, _ = env.step(render(step.turn()))
        steps.append((observation, float(reward), terminated, truncated))
    return steps


def test_it_keeps_gymnasium_s_rules() -> None:
    check_env(ToolEnv(TASKS, acceptable), skip_render_check=True)


@pytest.mark.parametrize("at", range(len(TASKS)))
def test_an_episode_is_the_engine_s_and_is_scored_at_its_end(at: int) -> None:
    steps = play(env := ToolEnv(TASKS, acceptable), at)
    assert [reward for _, reward, _, _ in steps] == [0.0] * (len(steps) - 1) + [1.0]
    assert [terminated for _, _, terminated, _ in steps] == [False] * (len(steps) - 1) + [True]
    (trajectory,) = run_batched([Episode(TASKS[at])], EXPERT)
    assert [observation for observation, *_ in steps] == [turn.observation or "" for turn in trajectory.turns]
    assert TASKS[at].query in env.render()


def test_the_seed_chooses_the_task() -> None:
    env = ToolEnv(TASKS, acceptable)
    first = [env.reset(seed=5)[1]["task_id"], *(env.reset()[1]["task_id"] for _ in range(6))]
    again = [env.reset(seed=5)[1]["task_id"], *(env.reset()[1]["task_id"] for _ in range(6))]
    assert first == again and len(set(first)) > 1


def test_a_guard_stands_before_each_call() -> None:
    at = next(i for i, task in enumerate(TASKS) if task.label is Label.BENIGN)
    observation, *_ = play(ToolEnv(TASKS, acceptable, guard=BlockAll()), at)[0]
    assert "Not carried out: never" in observation


def test_the_turn_limit_truncates() -> None:
    env = ToolEnv(TASKS, acceptable)
    env.reset(seed=1)
    ends = [env.step("nonsense")[2:4] for _ in range(TASKS[0].turn_limit)]
    assert ends[-1] == (False, True) and ends[0] == (False, False)


def test_steps_out_of_place_and_no_tasks() -> None:
    with pytest.raises(ValueError, match="needs tasks"):
        ToolEnv([], acceptable)
    with pytest.raises(RuntimeError, match="call reset"):
        ToolEnv(TASKS, acceptable).step("hello")


def test_a_space_of_texts() -> None:
    space = AnyText(seed=1)
    assert space.contains(space.sample()) and space.contains("任何") and not space.contains(3)
    assert space == AnyText() and isinstance(space, gymnasium.Space)
