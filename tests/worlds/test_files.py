"""The file world's families: solvable, with real harm to avoid, alike in all but the label."""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

import demur.envs.worlds
from demur.envs.episode import Episode, Generation
from demur.envs.family import SPLITS
from demur.envs.protocol import render
from demur.envs.task import Script, Task
from demur.envs.tool import ToolError
from demur.envs.trace import Label, ToolCall, Trajectory
from demur.envs.worlds.files import DOMAIN
from demur.envs.worlds.files.world import File, FilesWorld, Share, User

SEEDS = range(20)
CASES = [(family.name, label) for family in DOMAIN.families.values() for label in family.labels]


def tasks(family: str, label: Label) -> Iterator[Task]:
    return (DOMAIN.task(family, label, split, seed) for split in SPLITS for seed in SEEDS)


def replay(task: Task, script: Script) -> Trajectory:
    episode = Episode(task)
    for step in script:
        if episode.propose(Generation(text=render(step.turn()))) is not None:
            before = episode.state.copy_state()
            call = episode.pending_call
            episode.settle()
            if not task.tools[call.name].changes:
                assert episode.state == before, f"{call.name} says it only reads"
    return episode.trajectory()


@pytest.mark.parametrize(("family", "label"), CASES)
def test_the_expert_solves_every_task(family: str, label: Label) -> None:
    for task in tasks(family, label):
        done = replay(task, task.expert)
        assert done.outcome.harmless and done.outcome.well_formed and done.outcome.needless_calls == 0
        assert not any((turn.observation or "").startswith("Error") for turn in done.turns)
        if label is Label.HARMFUL:
            assert done.outcome.refused and not done.outcome.changed
        else:
            assert done.outcome.goal == 1
            assert done.outcome.asked_needed == (label is Label.UNDERSPECIFIED)
            assert done.outcome.asked_needless == 0
        assert 1 <= len(done.calls) <= 6 or label is Label.HARMFUL


@pytest.mark.parametrize(("family", "label"), [case for case in CASES if case[1] is not Label.BENIGN])
def test_the_agent_that_never_doubts_does_wrong(family: str, label: Label) -> None:
    for task in tasks(family, label):
        assert task.act_effects
        outcome = replay(task, task.act).outcome
        if label is Label.INJECTED:
            assert outcome.attack == 1 and outcome.goal == 1
        else:
            assert outcome.harms if label is Label.HARMFUL else outcome.damage


@pytest.mark.parametrize("family", [f.name for f in DOMAIN.families.values() if len(f.labels) > 1])
def test_twins_differ_only_in_what_the_label_is_about(family: str) -> None:
    first, second = DOMAIN.families[family].labels
    for one, two in zip(tasks(family, first), tasks(family, second), strict=True):
        if second is Label.INJECTED:
            assert one.query == two.query
            assert without_injections(one, two) == one.initial
            assert one.initial != two.initial
        else:
            assert one.initial == two.initial and one.query != two.query
        assert one.act[-1] == two.act[-1] or second is Label.UNDERSPECIFIED


def without_injections(clean: Task, injected: Task) -> FilesWorld:
    world = injected.initial.copy_state()
    assert isinstance(world, FilesWorld) and isinstance(clean.initial, FilesWorld)
    for key, file in world.files.items():
        own = clean.initial.files[key]
        assert file.text.startswith(own.text)
        file.text, file.note = own.text, own.note
    return world


def test_reading_tools_never_change_the_state() -> None:
    state = small_world()
    reading = [tool for tool in FilesWorld.tools().values() if not tool.changes]
    assert len(reading) == 4
    for tool in reading:
        for value in ("Anna", "work", "plan", "work/plan", "nothing"):
            with suppress(ToolError):
                state.run(ToolCall(name=tool.name, arguments={tool.parameters[0].name: value}))
            assert state == small_world()


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("write_file", {"path": "work/plan", "text": "x"}, "already"),
        ("write_file", {"path": "plan", "text": "x"}, "folder/name"),
        ("move_file", {"path": "work/plan", "folder": "home"}, "already"),
        ("rename_file", {"path": "work/plan", "name": "a/b"}, "folder/name"),
        ("delete_file", {"path": "work/menu"}, "no file"),
        ("share_file", {"path": "work/plan", "user": "ben"}, "no user"),
        ("share_file", {"path": "work/plan", "user": "anna.berg"}, "already"),
        ("stop_sharing", {"path": "home/plan", "user": "anna.berg"}, "not shared"),
    ],
)
def test_a_tool_that_can_not_do_it_says_so_and_changes_nothing(
    name: str, arguments: dict[str, Any], fault: str
) -> None:
    state = small_world()
    with pytest.raises(ToolError, match=fault):
        state.run(ToolCall(name=name, arguments=arguments))
    assert state == small_world()


def test_a_share_follows_the_file_and_ends_with_it() -> None:
    state = small_world()
    state.run(ToolCall(name="rename_file", arguments={"path": "work/plan", "name": "menu"}))
    state.run(ToolCall(name="move_file", arguments={"path": "work/menu", "folder": "home"}))
    assert state.shares == small_world().shares and state.files["f1"].path == "home/menu"
    state.run(ToolCall(name="delete_file", arguments={"path": "home/menu"}))
    assert not state.shares and list(state.files) == ["f2"]


def small_world() -> FilesWorld:
    return FilesWorld(
        users={"u1": User(name="Anna Berg", login="anna.berg")},
        files={"f1": File(path="work/plan", text="one"), "f2": File(path="home/plan", text="two")},
        shares={"s1": Share(file="f1", user="anna.berg")},
    )


def wordings(world: str) -> dict[str, Any]:
    """A world's own wordings, without the shared ones."""
    folder = Path(demur.envs.worlds.__file__).parent
    loaded: dict[str, Any] = yaml.safe_load((folder / world / "wordings.yaml").read_text(encoding="utf-8"))
    return loaded


def texts(node: Any, split: str) -> list[str]:
    """All wordings of a split; those that no split holds out count as training."""
    if isinstance(node, list):
        return node if split == "train" else []
    if isinstance(node, dict) and "train" in node:
        return list(node[split])
    return [text for child in node.values() for text in texts(child, split)]


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", re.sub(r"\{\w+\}", " ", text).lower()))
