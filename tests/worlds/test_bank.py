"""The bank world: scripts do what their labels say, twins differ in meaning only, reading changes nothing."""

from itertools import product
from typing import Any

import pytest

from demur.envs.episode import Episode, Generation
from demur.envs.family import SPLITS
from demur.envs.protocol import render
from demur.envs.task import Script, Task
from demur.envs.tool import ToolError
from demur.envs.trace import Label, Outcome, ToolCall
from demur.envs.worlds import load_domain

BANK = load_domain("bank")
CASES = [(family, label) for family in BANK.families.values() for label in family.labels]
SEEDS = range(20)


def tasks(family: str, label: Label) -> list[Task]:
    return [BANK.task(family, label, split, seed) for split, seed in product(SPLITS, SEEDS)]


def replay(task: Task, script: Script) -> Outcome:
    episode = Episode(task)
    for step in script:
        if episode.propose(Generation(text=render(step.turn()))) is not None:
            episode.settle()
    return episode.trajectory().outcome


@pytest.mark.parametrize(("family", "label"), [(f.name, label) for f, label in CASES])
def test_the_expert_is_right_and_the_undoubting_agent_is_not(family: str, label: Label) -> None:
    for task in tasks(family, label):
        right, wrong = replay(task, task.expert), replay(task, task.act)
        assert not (right.harms or right.damage or right.attack or right.needless_calls), task.query
        assert right.asked_needless == 0
        assert right.refused == (label is Label.HARMFUL)
        assert right.goal == (0 if label is Label.HARMFUL else 1), task.query
        careless = label is Label.BENIGN and task.act != task.expert
        assert bool(task.act_effects) == (label is not Label.BENIGN or careless), task.query
        match label:
            case Label.HARMFUL:
                assert wrong.harms
            case Label.INJECTED:
                assert (wrong.goal, wrong.attack) == (1, 1)
            case Label.UNDERSPECIFIED:
                assert wrong.damage
                assert wrong.goal < 1
                assert right.asked_needed == 1


@pytest.mark.parametrize("family", [f.name for f in BANK.families.values() if len(f.labels) == 2])
def test_twins_share_everything_but_the_meaning(family: str) -> None:
    labels = BANK.families[family].labels
    for one, other in zip(*(tasks(family, label) for label in labels), strict=True):
        if Label.INJECTED in labels:
            assert one.query == other.query
            assert one.initial != other.initial
            assert without_texts(one) == without_texts(other)
        else:
            assert one.query != other.query
            assert one.initial == other.initial


def without_texts(task: Task) -> dict[str, Any]:
    """The initial state without the texts that others write."""
    texts = {"notices": {"__all__": {"body"}}, "payments": {"__all__": {"text"}}}
    return task.initial.model_dump(exclude=texts)


def test_reading_changes_nothing() -> None:
    state = BANK.task("pay_person", Label.BENIGN, "train", 0).initial.copy_state()
    before = state.copy_state()
    first = {name: next(iter(getattr(state, name).items())) for name in ("payees", "notices")}
    arguments = {
        "show_account": {},
        "find_payee": {"name": first["payees"][1].name},
        "list_payments": {},
        "list_orders": {},
        "search_notices": {"words": first["notices"][1].subject},
        "read_notice": {"id": first["notices"][0]},
    }
    assert set(arguments) == {name for name, tool in state.tools().items() if not tool.changes}
    for name, values in arguments.items():
        assert state.run(ToolCall(name=name, arguments=values))
        assert state == before, f"{name} is annotated as reading"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("transfer", {"to": "1234", "amount": 0}),
        ("transfer", {"to": "1234", "amount": 1000}),
        ("transfer", {"to": "12a4", "amount": 10}),
        ("transfer", {"to": "1234", "amount": "10"}),
        ("add_payee", {"name": "Eve", "account": "123"}),
        ("remove_payee", {"name": "nobody"}),
        ("set_limit", {"amount": -1}),
        ("cancel_order", {"id": "s99"}),
    ],
)
def test_calls_that_cannot_be_done_change_nothing(tool: str, arguments: dict[str, Any]) -> None:
    task = BANK.task("pay_person", Label.BENIGN, "train", 0)
    state = task.initial.copy_state()
    with pytest.raises(ToolError):
        state.run(ToolCall(name=tool, arguments=arguments))
    assert state == task.initial
