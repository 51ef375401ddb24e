"""Intent tools: decoys without arguments or effect, one for each harm that a world's families are about.

An acting tool says nothing of why it is called; the same `send_mail` serves a greeting and a threat. An intent
tool gives the intent an action of its own: the more a policy means the harm, the likelier it would call the
decoy next (INTENT-AS-A-TOOL, arXiv 2608.27348). `demur.envs.intent.scoring.local` measures that likelihood::

    decoys_for("bank", "train")              # only the scorer's context lists them
    declared(task, decoys_for(task, "train"))  # the condition in which the policy itself may call them

The texts are data (`decoys.yaml`). What trains a policy and what evaluates it share no name and no description.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from types import new_class
from typing import Any, Literal

import yaml

from demur.envs.guards import Context
from demur.envs.intent.contract import CallPattern
from demur.envs.task import Task
from demur.envs.tool import Tool, tool
from demur.envs.world import World

DecoySplit = Literal["train", "held_out"]
SPLITS: tuple[DecoySplit, ...] = ("train", "held_out")


def decoys_for(world: str | Task, split: DecoySplit) -> tuple[Tool, ...]:
    """The intent tools of a world, or of a task's world, one a behaviour.

    A task gets those of its whole world: which of them fits it is not given away. Raises ValueError for a world
    without intent tools and for an unknown split.
    """
    if split not in SPLITS:
        raise ValueError(f"there is no split {split!r} of intent tools; there are {', '.join(SPLITS)}")
    name = world.world if isinstance(world, Task) else world
    if name not in behaviours():
        raise ValueError(f"the world {name!r} has no intent tools: give your own as Tool(name=…, description=…)")
    wording = _texts()["wordings"][split]
    return tuple(
        Tool(name=entry[split][0], description=wording.format(behaviour=entry[split][1]))
        for entry in behaviours()[name].values()
        if split in entry
    )


def behaviours() -> dict[str, dict[str, dict[str, list[str]]]]:
    """By world, family and split: the name of the intent tool and the behaviour it stands for."""
    return {world: families for world, families in _texts().items() if world != "wordings"}


def declared(task: Task, decoys: Sequence[Tool]) -> Task:
    """The same task in a world that offers the decoys, too: calling one does nothing and is recorded.

    Its contract allows them, so that a guard does not hide what the policy says. Every such call is a turn of the
    trajectory (`executed`, with the decoy's name) and counts as a needless one. Raises ValueError if a decoy has
    parameters, or the name of a tool on offer or of anything else that the world has.
    """
    check_decoys(task, decoys)
    world = task.initial
    for decoy in decoys:
        if hasattr(world, decoy.name):
            raise ValueError(
                f"the intent tool {decoy.name!r} would replace a part of the world {task.world}: rename it"
            )
    shown = world.shown_as() or {name: name for name in world.tools()}
    fields = {name: getattr(world, name) for name in type(world).model_fields}
    initial = _offering(type(world), tuple(decoys)).model_construct(**fields).copy_state()
    initial.offer(shown | {decoy.name: decoy.name for decoy in decoys})
    allowed = (*task.contract.allowed, *(CallPattern(tool=decoy.name) for decoy in decoys))
    return replace(task, initial=initial, contract=task.contract.model_copy(update={"allowed": allowed}))


def check_decoys(task: Task | Context, decoys: Sequence[Tool]) -> None:
    """Raise ValueError if a decoy cannot be told from a tool on offer or from another decoy, or has parameters."""
    taken = set(task.tools)
    for decoy in decoys:
        if decoy.name in taken:
            raise ValueError(f"the intent tool {decoy.name!r} has the name of another tool: rename it")
        if decoy.parameters or decoy.changes:
            raise ValueError(f"the intent tool {decoy.name!r} must have no parameters and change nothing")
        taken.add(decoy.name)


@lru_cache(maxsize=64)
def _offering(world: type[World], decoys: tuple[Tool, ...]) -> type[World]:
    """A subclass of a world, so that decoys are tools of it like any other; state and effects stay the same."""
    body = {"__module__": __name__, **{decoy.name: _method(decoy) for decoy in decoys}}
    made: Any = new_class(world.__name__, (world,), exec_body=lambda namespace: namespace.update(body))
    offering: type[World] = made
    return offering


def _method(decoy: Tool) -> Callable[..., str]:
    def note(self: World) -> str:
        return "Noted."

    note.__name__, note.__doc__ = decoy.name, decoy.description
    return tool(changes=False)(note)


@cache
def _texts() -> dict[str, Any]:
    source = files("demur.envs").joinpath("intent", "decoys.yaml").read_text(encoding="utf-8")
    texts: dict[str, Any] = yaml.safe_load(source)
    return texts
