"""Scripted demonstrations as token ids with labels, for the warm-up.

Each demonstration plays a task's script through a real episode. How often a demonstration does the right
thing is a setting per label: a warm-up that mixes safe and unsafe behaviour leaves something to improve.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from demur.envs.engine import run_batched
from demur.envs.episode import Episode, PromptOptions
from demur.envs.intent.decoys import behaviours, declared, decoys_for
from demur.envs.intent.scoring.scores import harmful_turns
from demur.envs.policies.scripted import ScriptedPolicy
from demur.envs.policies.tokens import Sampled, TokenPolicy
from demur.envs.task import Script, Step, Task
from demur.envs.trace import Label, ToolCall

IGNORED = -100
"""The label of tokens that carry no loss."""


class Demonstrator(TokenPolicy):
    """Plays scripts and keeps the token ids, so that demonstrations look to the model as rollouts do."""

    def __init__(self, tokenizer: Any, scripted: ScriptedPolicy) -> None:
        super().__init__("demonstrator", tokenizer, max_new_tokens=0, context=None)
        self._scripted = scripted
        self._texts: list[str] = []

    def generate(self, episodes: Sequence[Episode]) -> Any:
        self._texts = [generation.text for generation in self._scripted.generate(episodes)]
        return super().generate(episodes)

    def sample(self, prompts: list[list[int]]) -> Sampled:
        texts = [text.removeprefix(self.frame.prefill) for text in self._texts]
        ids = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        return Sampled([[*row, self._eos] for row in ids], None)


def choose_scripts(
    tasks: Sequence[Task], expert_share: Mapping[Label, float], check_share: float, rng: Random
) -> dict[str, Script]:
    """A script for each task id: the expert's with the label's probability, else the undoubting one.

    check_share: how many harmless calls get a check of their own, so that a check alone foretells nothing.
    """
    chosen: dict[str, Script] = {}
    for task in tasks:
        expert = rng.random() < expert_share[task.label]
        chosen[task.id] = _with_checks(task, check_share, rng) if expert else task.act
    return chosen


def declaring(
    tasks: Sequence[Task], scripts: Mapping[str, Script], share: float, rng: Random
) -> tuple[list[Task], dict[str, Script]]:
    """The same demonstrations, of which a share offers the intent tools for training and uses them.

    There a script that does harm first calls the tool of its family's behaviour, with the words of the turn that then
    acts; other scripts call none. Demonstrations of a harm that none of the tools stands for stay as they are.
    """
    offering, announced = [], dict(scripts)
    for task in tasks:
        families = behaviours().get(task.world, {})
        if not families or rng.random() >= share:
            offering.append(task)
            continue
        at, script = _first_harm(task, scripts[task.id]), scripts[task.id]
        named = families.get(task.family, {}).get("train")
        if at is not None and named is None:
            offering.append(task)
            continue
        offering.append(declared(task, decoys_for(task, "train")))
        if at is not None and named is not None:
            intent = Step(plan=script[at].plan, check=script[at].check, call=ToolCall(name=named[0]))
            announced[task.id] = (*script[:at], intent, *script[at:])
    return offering, announced


def demonstrate(
    tasks: Sequence[Task], scripts: Mapping[str, Script], tokenizer: Any, prompt: PromptOptions
) -> Iterator[dict[str, list[int]]]:
    """Rows with `input_ids` and `labels`, [tokens] each; labels cover exactly what the policy wrote."""
    scripted = ScriptedPolicy("demonstrator", lambda task: scripts[task.id])
    episodes = [Episode(task, prompt) for task in tasks]
    run_batched(episodes, Demonstrator(tokenizer, scripted), batch_size=256)
    for episode in episodes:
        yield row_of(episode)


def row_of(episode: Episode) -> dict[str, list[int]]:
    """The ids of a finished episode and the labels that leave out what the policy did not write."""
    spans = episode.conversation.spans
    return {
        "input_ids": [token for span in spans for token in span.ids],
        "labels": [token if span.by_model else IGNORED for span in spans for token in span.ids],
    }


def texts_of(tasks: Sequence[Task], scripts: Mapping[str, Script], prompt: PromptOptions) -> list[str]:
    """Every message of the demonstrations: what a new tokenizer is fitted to."""
    episodes = [Episode(task, prompt) for task in tasks]
    run_batched(episodes, ScriptedPolicy("demonstrator", lambda task: scripts[task.id]), batch_size=256)
    return [message["content"] for episode in episodes for message in episode.conversation.messages]


def _first_harm(task: Task, script: Script) -> int | None:
    (played,) = run_batched([Episode(task)], ScriptedPolicy("demonstrator", lambda _: script))
    return min(harmful_turns(task, played), default=None)


def _with_checks(task: Task, share: float, rng: Random) -> Script:
    if task.label is Label.HARMFUL:
        return task.expert
    return tuple(
        Step(plan=step.plan, check=FINE, call=step.call, answer=step.answer)
        if step.check is None and step.call is not None and rng.random() < share
        else step
        for step in task.expert
    )


FINE = "The user asked for it."
