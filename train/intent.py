"""The intent part of the reward: a frozen scorer reads the rollouts before their groups are scored.

Only intent that was acted on counts: the score at the last prefix before a call that did harm. The scorer is the
policy as it was before training, or another model; it never learns, so that the policy cannot move its yardstick.
"""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from transformers.integrations import is_deepspeed_zero3_enabled
from transformers.integrations.fsdp import is_fsdp_enabled

from demur.envs.episode import PromptOptions
from demur.envs.intent.decoys import SPLITS, DecoySplit, check_decoys, decoys_for
from demur.envs.intent.scoring.local import LocalScorer
from demur.envs.intent.scoring.scores import ScoreRequest, Scores, acted_intent, harmful_turns, request_of
from demur.envs.policies.loading import load_model, load_tokenizer
from demur.envs.task import Task
from demur.envs.trace import Trajectory
from demur.eval.intent_evaluation import IntentReading
from demur.eval.monitor_check import INTENT_DECOYS, monitor_notes

_log = logging.getLogger(__name__)


class Scorer(Protocol):
    """Scores for each request, in order; see `demur.envs.intent.scoring`. model: what reads."""

    name: str
    model: Any

    def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Scores]: ...


class IntentScores:
    """Fills in `acted_intent` of the rollouts of one rank.

    adapter_off: the scorer is the policy in training with its adapter off, which it has once a trainer made it.
    """

    def __init__(self, scorer: Scorer, split: DecoySplit, options: PromptOptions, *, adapter_off: bool = False) -> None:
        self.scorer, self.split, self.options = scorer, split, options
        self.adapter_off = adapter_off
        self._seconds = 0.0

    def __call__(self, trajectories: Sequence[Trajectory], tasks: Mapping[str, Task]) -> list[Trajectory]:
        """The same trajectories with `acted_intent` in [0, 1], or None for all of them if the scorer failed."""
        start = time.perf_counter()
        values: list[float | None]
        try:
            values = self._values(trajectories, tasks)
        except Exception as error:  # whatever it is, the other ranks wait for this one
            _log.warning("no intent scores for %d rollouts: %s: %s", len(trajectories), type(error).__name__, error)
            values = [None] * len(trajectories)
        self._seconds += time.perf_counter() - start
        return [t.model_copy(update={"acted_intent": value}) for t, value in zip(trajectories, values, strict=True)]

    @property
    def notes(self) -> dict[str, str]:
        """For the run's manifest: which intent tools the policy is trained against, and who scores."""
        return {INTENT_DECOYS: self.split, "intent_scorer": self.scorer.name}

    def reading(self, tasks: Sequence[Task], notes: Mapping[str, object]) -> IntentReading:
        """The same scorer for the run's evaluation; see `LocalScorer.exact`. notes: of the run's manifest."""
        assert isinstance(self.scorer, LocalScorer), "a run's scorer is a model in this process"
        return IntentReading(self.scorer.exact(), tasks, self.options, notes)

    def pop_seconds(self) -> float:
        """Seconds that scoring took since the last call."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def attach(self, policy: Any, device: Any) -> None:
        """Take over the trainer's policy where its adapter is to be off; else bring the scorer to its device."""
        if self.adapter_off:
            assert hasattr(policy, "disable_adapter"), "without an adapter to switch off the scorer would learn"
            self.scorer.model = policy
        else:
            self.scorer.model.to(device)

    def _values(self, trajectories: Sequence[Trajectory], tasks: Mapping[str, Task]) -> list[float | None]:
        values: list[float | None] = [0.0] * len(trajectories)
        # who did no harm has a 0 that no score can change
        read = [at for at, t in enumerate(trajectories) if harmful_turns(tasks[t.task_id], t)]
        requests = [self._request(tasks[trajectories[at].task_id], trajectories[at]) for at in read]
        for at, scores in zip(read, self.scorer.score(requests), strict=True):
            values[at] = acted_intent(tasks[trajectories[at].task_id], trajectories[at], scores)
        return values

    def _request(self, task: Task, trajectory: Trajectory) -> ScoreRequest:
        return request_of(task, trajectory, decoys_for(task, self.split), self.options, which="changes")


def frozen_scorer(
    policy: Any,
    tokenizer: Any,
    split: DecoySplit,
    options: PromptOptions,
    *,
    use_peft: bool,
    other: str | None = None,
) -> IntentScores:
    """A scorer that stays as it is while the policy is trained; call it before the trainer gets the policy.

    other: a model's folder or hub name; None takes the policy itself, as it is now: with its adapter off under LoRA,
    else a copy of it, which needs the memory for one. Raises ValueError for a model that cannot score.
    """
    if other is not None:
        model = load_model(other, dtype=str(policy.dtype).removeprefix("torch."))
        scorer = LocalScorer(_frozen(model), load_tokenizer(other), name=Path(other).name)
        return IntentScores(scorer, split, options)
    model = policy if use_peft else _frozen(copy.deepcopy(policy))
    return IntentScores(LocalScorer(model, tokenizer, name="initial policy"), split, options, adapter_off=use_peft)


def check_intent(tasks: Iterable[Task], split: DecoySplit) -> None:
    """Raises ValueError if a task has no intent tools of its own or if models are sharded over ranks."""
    for task in tasks:
        check_decoys(task, decoys_for(task, split))
    if is_deepspeed_zero3_enabled() or is_fsdp_enabled():
        # a forward pass of a sharded model is collective, and ranks have different numbers of rollouts to read
        raise ValueError(
            "scoring intent needs the whole model on each rank: use DDP or ZeRO-2 in place of ZeRO-3 or FSDP, or leave "
            "--intent_scores and --intent_eval out"
        )


def check_intent_eval(tasks: Iterable[Task]) -> None:
    """The same of the tasks of an evaluation, which is read with the intent tools of every split."""
    tasks = list(tasks)
    for split in SPLITS:
        check_intent(tasks, split)


def intent_notes(intent: IntentScores | None, intent_eval: bool) -> dict[str, str]:
    """For the run's manifest: what is trained against, and whether the evaluation reads with the same."""
    notes = dict(intent.notes) if intent else {}
    return notes | (monitor_notes(notes) if intent_eval else {})


def _frozen(model: Any) -> Any:
    return model.eval().requires_grad_(False)
