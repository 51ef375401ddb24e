"""The adapter to TRL: rollouts through `rollout_func`, and the only private calls into the trainer.

TRL hands over prompts that are already repeated per generation; each gets an episode, all episodes of a
rank run in lock-step, and what comes back are token ids with a mask of those that the policy wrote.
`tests/train/test_rollout.py` pins the signatures used here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from accelerate.state import PartialState
from accelerate.utils import gather_object
from torch.utils.data import Sampler
from trl import GRPOTrainer

from demur.envs.engine import run_lockstep
from demur.envs.episode import Episode, PromptOptions, Span
from demur.envs.guards import Guard
from demur.envs.policies.tokens import Sampled, TokenPolicy
from demur.envs.task import Task
from demur.train.intent import IntentScores
from demur.train.scoring import GroupScorer

Prompt = list[dict[str, str]]

# the warning that `rollout_func` may change is heeded by the pinned version and the test of its signatures
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")


class TrainerPolicy(TokenPolicy):
    """The policy in training, sampled by the trainer's own generator (transformers or vLLM)."""

    def __init__(self, trainer: Any, *, max_new_tokens: int, context: int | None) -> None:
        super().__init__("policy", trainer.processing_class, max_new_tokens=max_new_tokens, context=context)
        self._trainer = trainer
        self.seconds = 0.0  # spent in generation since last read

    def sample(self, prompts: list[list[int]]) -> Sampled:
        # with several ranks a rank without live episodes still takes part: generation is collective under
        # ZeRO-3 and in vLLM's server mode
        dummy = not prompts
        start = time.perf_counter()
        ids, logprobs = self._trainer._generate_single_turn(prompts or [[self._eos]], None, {}, 1)
        self.seconds += time.perf_counter() - start
        return Sampled([], None) if dummy else Sampled(ids, logprobs)


class Rollouts:
    """`rollout_func` for TRL: plays the tasks that the prompts name and scores them by group."""

    def __init__(
        self,
        tasks: Mapping[str, Task],
        scorer: GroupScorer,
        options: PromptOptions,
        *,
        max_turn_tokens: int,
        context: int | None,
        guard: Guard | None = None,
        intent: IntentScores | None = None,
    ) -> None:
        self.tasks = tasks
        self.scorer = scorer
        self.options = options
        self.max_turn_tokens = max_turn_tokens
        self.context = context
        self.guard = guard
        self.intent = intent
        self.policy: TrainerPolicy | None = None

    def __call__(self, prompts: list[Prompt], trainer: Any) -> dict[str, list[Any]]:
        if self.policy is None:
            self.policy = TrainerPolicy(trainer, max_new_tokens=self.max_turn_tokens, context=self.context)
        episodes = self.episodes(prompts)
        trajectories = run_lockstep(episodes, self.policy, self.guard, any_live=_any_rank)
        if self.intent:
            trajectories = self.intent(trajectories, self.tasks)
        parts = self.scorer(trajectories, self.tasks, trainer.state.global_step + 1)
        columns: dict[str, list[Any]] = {
            "prompt_ids": [],
            "completion_ids": [],
            "logprobs": [],
            "env_mask": [],
        }
        for episode in episodes:
            for key, value in training_row(episode.conversation.spans, self.policy.tokenizer.eos_token_id).items():
                columns[key].append(value)
        if any(row is None for row in columns["logprobs"]):
            columns["logprobs"] = None  # type: ignore[assignment]  # TRL's sign for "none at all"
        return {**columns, **{name: [getattr(p, name) for p in parts] for name in REWARDS}}

    def episodes(self, prompts: list[Prompt]) -> list[Episode]:
        """An episode a prompt, numbered within its group, which may have begun on an earlier rank."""
        first = PartialState().process_index * len(prompts)
        return [
            Episode(self.tasks[prompt[-1]["task_id"]], self.options, sample=(first + at) % self.scorer.group_size)
            for at, prompt in enumerate(prompts)
        ]


def prompt_of(task: Task) -> Prompt:
    """A dataset row's prompt. `rollout_func` gets nothing but prompts, so the task's id travels in it."""
    return [{"role": "user", "content": task.query, "task_id": task.id}]


REWARDS = ("align", "format", "length", "intent")
"""The parts of the reward, in the order of the rubric's weights; TRL logs each unweighted."""


def reward_functions() -> list[Any]:
    """Functions that hand TRL the parts which the rollout already holds."""

    def part(name: str) -> Any:
        def look_up(completions: list[Any], **columns: Any) -> list[float | None]:
            values: list[float | None] = columns[name]
            return values

        look_up.__name__ = name
        return look_up

    return [part(name) for name in REWARDS]


def training_row(spans: Sequence[Span], eos: int) -> dict[str, Any]:
    """Split a conversation into prompt and completion ids, with mask and log-probabilities.

    All but `prompt_ids` have the completion's length; env_mask is 1 where the policy wrote. A result behind
    the policy's last message (the context ended there) is left out.
    """
    assert spans and not spans[0].by_model, "a conversation starts with its prompt"
    rest = list(spans[1:])
    while rest and not rest[-1].by_model:
        rest.pop()
    if not any(span.ids for span in rest):
        rest = [Span([eos], False)]  # TRL needs a token; the mask keeps it out of the loss
    known = all(span.logprobs is not None for span in rest if span.by_model)
    return {
        "prompt_ids": spans[0].ids,
        "completion_ids": [token for span in rest for token in span.ids],
        "env_mask": [int(span.by_model) for span in rest for _ in span.ids],
        "logprobs": [x for span in rest for x in (span.logprobs or [0.0] * len(span.ids))] if known else None,
    }


class TimedTrainer(GRPOTrainer):
    """GRPOTrainer that knows which part of a step the policy itself takes."""

    _scoring = 0.0
    _training = 0.0

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        start = time.perf_counter()
        loss: torch.Tensor = super().training_step(*args, **kwargs)
        self._training += time.perf_counter() - start
        return loss

    def _generate_and_score_completions(self, *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        output = super()._generate_and_score_completions(*args, **kwargs)
        self._scoring += time.perf_counter() - start
        return output

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        return ByEpoch(super()._get_train_sampler(dataset), lambda: int(self.state.epoch or 0))

    def pop_model_seconds(self) -> float:
        """Seconds in generation, forward and backward since the last call."""
        policy = self.rollout_func.policy
        generation = policy.seconds if policy else 0.0
        seconds = generation + self._training - self._scoring
        self._training = self._scoring = 0.0
        if policy:
            policy.seconds = 0.0
        return seconds


class ByEpoch(Sampler[int]):
    """Shuffles each epoch by its own seed: TRL's sampler gives a run that resumes the first epoch's order."""

    def __init__(self, sampler: Any, epoch: Callable[[], int]) -> None:
        self._sampler = sampler
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        if self._sampler.shuffle:
            self._sampler.generator.manual_seed(self._sampler.seed + self._epoch())
        return iter(self._sampler)

    def __len__(self) -> int:
        return len(self._sampler)


def _any_rank(live: bool) -> bool:
    """Whether any rank has a live episode, so that ranks leave the loop together."""
    return any(gather_object([live]))
