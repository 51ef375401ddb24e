"""How the tools of a task are put to a policy: which are on offer, in which order, under which names.

A policy that has learnt names or places in place of meanings fails once they change. Twins are presented alike.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from demur.envs.task import Script, Task, world_calls

_CONSONANTS, _VOWELS = "bdfgklmnprstvz", "aeiou"


def present(task: Task, *, rename: bool = False, shuffle: bool = False, offered: int = 0) -> Task:
    """The same task with other names, another order and fewer of its world's tools.

    rename: each tool gets a made-up name; refusing and asking keep theirs. offered: how many tools of the world
    are left, 0 for all; those of the task's scripts always are. All of it depends on the task's seed alone.
    """
    if not (rename or shuffle or offered):
        return task
    rng = Random(f"tools/{task.world}/{task.family}/{task.split}/{task.seed}")
    names = list(task.initial.tools())
    if offered:
        needed = {call.name for call in world_calls(task.expert + task.act)}
        spare = [name for name in names if name not in needed]
        kept = needed | set(rng.sample(spare, min(len(spare), max(0, offered - len(needed)))))
        names = [name for name in names if name in kept]
    if shuffle:
        rng.shuffle(names)
    shown = _made_up(rng, len(names)) if rename else names
    initial = task.initial.copy_state()
    initial.offer(dict(zip(shown, names, strict=True)))
    new_names = dict(zip(names, shown, strict=True))
    return replace(
        task,
        initial=initial,
        expert=_renamed(task.expert, new_names),
        act=_renamed(task.act, new_names),
        contract=task.contract.renamed(new_names),
    )


def _made_up(rng: Random, count: int) -> list[str]:
    """Distinct names that mean nothing, such as `fn_kilo`."""
    names: dict[str, None] = {}
    while len(names) < count:
        names["fn_" + "".join(rng.choice(_CONSONANTS) + rng.choice(_VOWELS) for _ in range(2))] = None
    return list(names)


def _renamed(script: Script, new_names: dict[str, str]) -> Script:
    return tuple(
        step
        if step.call is None
        else replace(step, call=step.call.model_copy(update={"name": new_names.get(step.call.name, step.call.name)}))
        for step in script
    )
