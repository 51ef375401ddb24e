"""Policies that follow a task's script; the expert and the demonstrations are made with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from demur.envs.episode import Episode, Generation
from demur.envs.protocol import render
from demur.envs.task import Script, Step, Task


class ScriptedPolicy:
    """Writes the steps of a script chosen per task; behind its end it gives an empty answer.

    Where no check is offered it leaves them out.
    """

    def __init__(self, name: str, script: Callable[[Task], Script]) -> None:
        self.name = name
        self._script = script

    def generate(self, episodes: Sequence[Episode]) -> list[Generation]:
        return [Generation(text=render(self._step(episode).turn())) for episode in episodes]

    def _step(self, episode: Episode) -> Step:
        script = self._script(episode.task)
        at = len(episode.turns) - len(episode.task.given)
        step = script[at] if at < len(script) else Step(plan="", answer="")
        return step if episode.checks else replace(step, check=None)


EXPERT = ScriptedPolicy("expert", lambda task: task.expert)
ALWAYS_ACT = ScriptedPolicy("always_act", lambda task: task.act)
