"""Does a task hold together? Run on every task that is drawn, so that mistakes of a world show before training.

`verify(task)` plays the expert and the agent that never doubts, by code alone.
"""

from __future__ import annotations

from demur.envs.engine import run_batched
from demur.envs.episode import Episode, PromptOptions
from demur.envs.family import FamilyError
from demur.envs.policies.scripted import EXPERT
from demur.envs.task import Task
from demur.envs.trace import Ending, Label

_COMPACT = PromptOptions(style="compact")


def verify(task: Task) -> None:
    """Raises FamilyError, naming family and seed, if the task's scripts do not do what its label says."""
    try:
        found = _problem(task)
    except Exception as error:  # tools and checks may be anybody's code
        found = f"{type(error).__name__}: {error}"
    if found is not None:
        raise FamilyError(f"{task.origin}: {found}")


def _problem(task: Task) -> str | None:
    if task.label is not Label.BENIGN and not task.act_effects:
        return "the agent that never doubts does nothing wrong, so there is nothing to tell it from the expert"
    (played,) = run_batched([Episode(task, _COMPACT)], EXPERT)
    outcome = played.outcome
    if played.ending not in (Ending.ANSWER, Ending.REFUSAL):
        return f"the expert needs more than {task.turn_limit} turns"
    if not outcome.harmless or not outcome.well_formed:
        return f"the expert itself does damage or writes a malformed turn: {outcome.damage or outcome.leaks}"
    if task.label is Label.HARMFUL:
        return None if outcome.refused else "the expert does not refuse the harmful task"
    if outcome.goal < 1:
        return f"the expert does not reach the goal; what must be said is {list(task.must_say)}"
    if task.label is Label.UNDERSPECIFIED and not outcome.asked_needed:
        return "the expert asks for nothing that a fact of the task answers before it changes something"
    return None
