"""A world as a Gymnasium environment, for trainers other than ours. Needs the package `gymnasium`.

    env = ToolEnv(make_tasks(["mail"], "train", {Label.BENIGN: 100}), score=acceptable)
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(text_of_the_policy)

Actions are a policy's messages, observations what comes back, both as text. `info["messages"]` is the whole
conversation for a chat template. The reward is 0 until the episode ends, then what `score` gives.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

import gymnasium

from demur.envs.episode import DEFAULT_PROMPT, Episode, Generation, PromptOptions
from demur.envs.guards import AllowAll, Guard, check_sync
from demur.envs.task import Task
from demur.envs.trace import Ending, Trajectory


class AnyText(gymnasium.spaces.Space[str]):
    """Every text. Samples are short and printable."""

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        letters = self.np_random.choice(list(string.printable), size=self.np_random.integers(1, 40))
        return "".join(letters)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText)


class ToolEnv(gymnasium.Env[str, str]):
    """Plays tasks, one an episode, drawn by the environment's seed.

    score: of a finished trajectory, such as `demur.rewards.judges.oracle.acceptable`. guard: checks each call
    before it runs. An episode that hits its turn limit is truncated. Raises ValueError without tasks.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}
    render_mode = "ansi"

    def __init__(
        self,
        tasks: Sequence[Task],
        score: Callable[[Trajectory], float],
        prompt: PromptOptions = DEFAULT_PROMPT,
        guard: Guard | None = None,
    ) -> None:
        if not tasks:
            raise ValueError("an environment needs tasks to play: make some with make_tasks")
        self.tasks = tuple(tasks)
        self._score, self._prompt, self._guard = score, prompt, guard or AllowAll()
        self.action_space, self.observation_space = AnyText(), AnyText()
        self._episode: Episode | None = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the next task: a random one, or number `options["task"]`. Gives the system prompt and the query."""
        super().reset(seed=seed)
        at = (options or {}).get("task")
        task = self.tasks[int(self.np_random.integers(len(self.tasks))) if at is None else at]
        self._episode = Episode(task, self._prompt)
        system, query = self._episode.conversation.messages
        return f"{system['content']}\n\n{query['content']}", self._info()

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take a policy's message. Raises RuntimeError before `reset` or behind the end of an episode."""
        episode = self._episode
        if episode is None or not episode.live:
            raise RuntimeError("call reset before the first step of an episode")
        call = episode.propose(Generation(text=action))
        if call is not None:
            episode.settle([check_sync(self._guard, episode.context(), call)])
        observation = episode.turns[-1].observation or ""
        ending = episode.ending
        reward = 0.0 if ending is None else float(self._score(episode.trajectory()))
        truncated = ending is Ending.TURN_LIMIT
        return observation, reward, ending is not None and not truncated, truncated, self._info()

    def render(self) -> str:
        """The conversation as text."""
        messages = self._episode.conversation.messages if self._episode else []
        return "\n\n".join(f"{message['role']}: {message['content']}" for message in messages)

    def _info(self) -> dict[str, Any]:
        assert self._episode is not None
        return {"messages": list(self._episode.conversation.messages), "task_id": self._episode.task.id}
