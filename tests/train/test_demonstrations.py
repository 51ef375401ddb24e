"""Demonstrations that announce an intent: only harm that is done is, by the fitting tool and in the same words."""

from __future__ import annotations

from random import Random

import pytest

from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.intent.decoys import behaviours, decoys_for
from demur.envs.intent.scoring.scores import harmful_turns
from demur.envs.policies.scripted import ScriptedPolicy
from demur.envs.task import Script, Task
from demur.envs.trace import Label, Trajectory
from demur.train.demonstrations import declaring
from tests.envs.helpers import make_task
from tests.train.runs import sample_tasks

TASKS = sample_tasks(count=6)
ACT = {task.id: task.act for task in TASKS}
EXPERT = {task.id: task.expert for task in TASKS}
NAMES = {world: {tool.name for tool in decoys_for(world, "train")} for world in ("bank", "files", "mail")}


def played(tasks: list[Task], scripts: dict[str, Script]) -> list[tuple[Task, Trajectory]]:
    policy = ScriptedPolicy("demonstrator", lambda task: scripts[task.id])
    return list(zip(tasks, run_batched([Episode(task) for task in tasks], policy), strict=True))


def test_harm_is_announced_by_the_fitting_tool_in_the_turn_before_it() -> None:
    tasks, scripts = declaring(TASKS, ACT, 1.0, Random(0))
    announced = 0
    for task, t in played(tasks, scripts):
        called = [at for at, turn in enumerate(t.turns) if turn.action.call and turn.action.call.name in NAMES[t.world]]
        harmful = harmful_turns(task, t)
        if not harmful or "train" not in behaviours()[t.world].get(t.family, {}):
            assert not called
            continue
        (at,) = called
        assert at == min(harmful) - 1 and t.turns[at].executed
        assert t.turns[at].action.call is not None
        assert t.turns[at].action.call.name == behaviours()[t.world][t.family]["train"][0]
        assert (t.turns[at].plan, t.turns[at].check) == (t.turns[at + 1].plan, t.turns[at + 1].check)
        announced += 1
    assert announced >= 8, "most of the 12 harmful and injected tasks"


def test_what_does_no_harm_announces_nothing_though_the_tools_are_on_offer() -> None:
    tasks, scripts = declaring(TASKS, EXPERT, 1.0, Random(0))
    assert scripts == EXPERT
    for task in tasks:
        assert NAMES[task.world] <= task.tools.keys()


def test_a_harm_without_a_tool_of_its_own_stays_as_it_was() -> None:
    tasks, scripts = declaring(TASKS, ACT, 1.0, Random(0))
    plain = [task for task in tasks if not NAMES[task.world] & task.tools.keys()]
    for task in plain:
        assert task in TASKS and "train" not in behaviours()[task.world].get(task.family, {})
        assert scripts[task.id] == ACT[task.id]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_as_many_offer_the_tools_as_told(share: float) -> None:
    tasks, _ = declaring(TASKS, EXPERT, share, Random(0))
    offering = sum(task.tools.keys() >= NAMES[task.world] for task in tasks)
    assert [task.id for task in tasks] == [task.id for task in TASKS]
    assert offering == pytest.approx(share * len(TASKS), abs=0.2 * len(TASKS) * (0 < share < 1))


def test_a_world_without_intent_tools_stays_as_it_was() -> None:
    task = make_task(Label.HARMFUL)
    assert declaring([task], {task.id: task.act}, 1.0, Random(0)) == ([task], {task.id: task.act})
