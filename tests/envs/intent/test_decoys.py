"""Intent tools: one a harm, told apart from every other tool, and without effect."""

import pytest

from demur.envs.engine import run_lockstep
from demur.envs.episode import Episode
from demur.envs.intent.decoys import SPLITS, behaviours, check_decoys, declared, decoys_for
from demur.envs.protocol import ParsedTurn as Turn
from demur.envs.protocol import act, render
from demur.envs.tool import ASK, REFUSE, Tool
from demur.envs.trace import Label, ToolCall
from demur.envs.worlds import SHIPPED, load_domain
from demur.envs.worlds.mail import DOMAIN
from tests.envs.helpers import DONE, Writer, make_task, texts_of

HARMFUL = {Label.HARMFUL, Label.INJECTED}
EVERY = [tool for split in SPLITS for world in SHIPPED for tool in decoys_for(world, split)]


@pytest.mark.parametrize("world", SHIPPED)
def test_each_family_that_does_harm_has_an_intent_tool_and_no_other_family_has(world: str) -> None:
    families = {f.name for f in load_domain(world).families.values() if HARMFUL & set(f.labels)}
    known = behaviours()[world]
    assert set(known) == families
    assert all("held_out" in entry and set(entry) <= set(SPLITS) for entry in known.values())
    assert len(decoys_for(world, "held_out")) == len(families)
    assert 0 < len(decoys_for(world, "train")) < len(families), "some behaviours are for the evaluation only"


def test_no_two_tools_of_any_world_or_split_share_a_name() -> None:
    names = [tool.name for tool in EVERY]
    acting = {name for world in SHIPPED for name in load_domain(world).world.tools()} | {ASK.name, REFUSE.name}
    assert len(set(names)) == len(names) and not acting & set(names)


def test_no_two_descriptions_and_no_two_behaviours_are_the_same() -> None:
    said = [entry[split][1] for world in behaviours().values() for entry in world.values() for split in entry]
    assert len(set(said)) == len(said) == len({tool.description for tool in EVERY}) == len(EVERY)


@pytest.mark.parametrize("world", SHIPPED)
def test_no_sentence_of_a_training_description_returns_in_the_evaluation(world: str) -> None:
    def phrases(split: str) -> set[str]:
        words = [tool.description.casefold().split() for tool in decoys_for(world, split)]
        return {" ".join(some) for text in words for some in zip(*(text[at:] for at in range(8)), strict=False)}

    assert not phrases("train") & phrases("held_out")


@pytest.mark.parametrize("tool", EVERY, ids=lambda tool: tool.name)
def test_an_intent_tool_has_a_short_name_no_parameters_and_says_when_to_call_it(tool: Tool) -> None:
    assert tool.name.replace("_", "").isalpha() and len(tool.name) <= 20
    assert not tool.parameters and not tool.changes and tool.fault({}) is None
    assert "acting tool" in tool.description or "before you call the tool that does it" in tool.description
    assert "Do not call it for any other" in tool.description or "for this aim only" in tool.description


def test_a_task_gets_the_tools_of_its_world_whatever_it_is_about() -> None:
    twins = [DOMAIN.task("write_message", label, "train", 1) for label in (Label.BENIGN, Label.HARMFUL)]
    assert decoys_for(twins[0], "train") == decoys_for(twins[1], "train") == decoys_for("mail", "train")


def test_unknown_worlds_and_splits_are_named() -> None:
    with pytest.raises(ValueError, match="no split 'test'"):
        decoys_for("mail", "test")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"'moon' has no intent tools: give your own"):
        decoys_for("moon", "train")


NOTE = Tool(name="aim_note", description="Says an aim.")


def test_a_declared_decoy_is_called_without_effect_and_recorded() -> None:
    task = declared(make_task(Label.BENIGN), [NOTE])
    declare = render(Turn("I mean it.", None, act(ToolCall(name="aim_note"))))
    (done,) = run_lockstep([Episode(task)], Writer(declare, *texts_of([DONE])))
    assert [call.name for call in done.calls] == ["aim_note"]
    assert done.turns[0].executed and done.turns[0].observation == "<tool_response>Noted.</tool_response>"
    assert not done.outcome.changed and done.outcome.harmless


def test_a_declared_task_is_the_same_task_otherwise() -> None:
    task = make_task(Label.HARMFUL)
    other = declared(task, [NOTE])
    assert set(other.tools) == {*task.tools, "aim_note"} and "aim_note" not in task.tools
    assert (other.goal_effects, other.act_effects) == (task.goal_effects, task.act_effects)
    assert other.initial.model_dump() == task.initial.model_dump()
    assert [pattern.tool for pattern in other.contract.allowed] == [
        *(p.tool for p in task.contract.allowed),
        "aim_note",
    ]


@pytest.mark.parametrize("world", SHIPPED)
def test_the_intent_tools_of_each_world_can_be_declared_under_made_up_names_too(world: str) -> None:
    from demur.envs.presentation import present

    domain = load_domain(world)
    family = next(f for f in domain.families.values() if Label.HARMFUL in f.labels)
    task = present(domain.task(family.name, Label.HARMFUL, "train", 3), rename=True, shuffle=True, offered=5)
    other = declared(task, decoys_for(task, "held_out"))
    assert list(other.tools)[: len(task.initial.offered())] == list(task.initial.offered())
    assert other.act_effects == task.act_effects
    assert other.initial.copy_state().run(ToolCall(name=decoys_for(task, "held_out")[0].name)) == "Noted."


@pytest.mark.parametrize(
    "wrong", [Tool(name="look", description="x"), Tool(name="refuse_unsafe_task", description="x"), REFUSE]
)
def test_a_decoy_with_the_name_of_another_tool_is_refused(wrong: Tool) -> None:
    with pytest.raises(ValueError, match="has the name of another tool"):
        declared(make_task(), [wrong])


@pytest.mark.parametrize("name", ["run", "stock", "copy_state", "model_dump"])
def test_a_declared_decoy_must_not_replace_a_part_of_the_world(name: str) -> None:
    with pytest.raises(ValueError, match="would replace a part of the world shop: rename it"):
        declared(make_task(), [Tool(name=name, description="x")])


def test_a_decoy_must_not_take_parameters_or_stand_twice() -> None:
    with pytest.raises(ValueError, match="must have no parameters"):
        check_decoys(make_task(), [Tool(name="aim", description="x", parameters=REFUSE.parameters)])
    with pytest.raises(ValueError, match="must have no parameters and change nothing"):
        check_decoys(make_task(), [Tool(name="aim", description="x", changes=True)])
    with pytest.raises(ValueError, match="the name of another"):
        check_decoys(make_task(), [NOTE, NOTE])
