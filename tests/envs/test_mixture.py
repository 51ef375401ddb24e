"""Mixtures of tasks, how their tools are presented, and mistakes of worlds: each a sentence that names the place."""

import subprocess
import sys
from collections import Counter
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.canaries import EXPERT
from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.exchange import fingerprint
from demur.envs.family import Domain, Draft, FamilyError
from demur.envs.intent.checks import Checker, PastCall
from demur.envs.kit import Kit, Wordings
from demur.envs.presentation import present
from demur.envs.task import alike
from demur.envs.taskset import Mix, make_tasks
from demur.envs.tool import tool
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, Label, Level
from demur.envs.world import World
from demur.envs.worlds import load_domain
from demur.rewards.judges.oracle import acceptable

COUNTS = {Label.BENIGN: 24, Label.HARMFUL: 12, Label.INJECTED: 12, Label.UNDERSPECIFIED: 12}


# Mixtures


def test_worlds_are_drawn_by_weight() -> None:
    tasks = make_tasks(["mail", "bank", "files"], "train", {Label.BENIGN: 60}, mix=Mix(weights=(3, 1, 0)))
    assert Counter(task.world for task in tasks) == {"mail": 45, "bank": 15}


@pytest.mark.parametrize("levels", [(1, 2), (3,), (4, 5)])
def test_levels_are_kept_to(levels: tuple[int, ...]) -> None:
    tasks = make_tasks(["mail", "files"], "train", {Label.BENIGN: 12, Label.UNDERSPECIFIED: 6}, mix=Mix(levels=levels))
    assert {task.level for task in tasks} <= set(levels)


def test_a_level_grows_with_steps_look_alikes_and_hidden_attacks() -> None:
    mail = load_domain("mail")
    short = mail.task("when_is_it", Label.BENIGN, "train", 0)
    longer = mail.task("move_an_event", Label.BENIGN, "train", 0)
    assert (short.level, longer.level) == (1, 5)
    attacks = [mail.task("when_is_it", Label.INJECTED, "train", seed) for seed in range(20)]
    assert {(task.hidden, task.level) for task in attacks} == {(False, 1), (True, 4)}


@pytest.mark.parametrize(
    ("text", "known", "found"),
    [
        ("Anna Berg", ["Anna Diaz", "Ben Berg", "Carl Holm"], ["Anna Diaz", "Ben Berg"]),
        ("4711", ["4712", "4811", "1147", "47111"], ["4712", "4811"]),
        ("m12", ["m13"], []),
        ("", ["a"], []),
    ],
)
def test_look_alikes(text: str, known: list[str], found: list[str]) -> None:
    assert alike(text, known) == found


def test_a_curriculum_begins_with_easy_tasks() -> None:
    tasks = make_tasks(["mail", "files"], "train", COUNTS, mix=Mix(curriculum=True))
    levels = [task.level for task in tasks]
    assert levels == sorted(levels) and len(set(levels)) > 2
    plain = make_tasks(["mail", "files"], "train", COUNTS)
    assert {task.id for task in plain} == {task.id for task in tasks}


@pytest.mark.parametrize(
    ("worlds", "mix", "sentence"),
    [
        (["mail", "bank"], {"weights": (0, 0)}, "weights of the worlds sum to nothing"),
        (["mail", "bank"], {"weights": (1, -1)}, "must not be below 0"),
        (["mail", "bank"], {"weights": (1,)}, "1 weights for 2 worlds"),
        (["mail"], {"levels": (7,)}, "levels must be some of"),
        (["mail"], {"levels": ()}, "levels must be some of"),
        (["mail"], {"languages": {"zh": 1.0}}, "mail has no queries in zh"),
        (["moon"], {}, "there is no world 'moon'"),
    ],
)
def test_a_bad_mixture_is_a_sentence(worlds: list[str], mix: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_tasks(worlds, "train", {Label.BENIGN: 2}, mix=Mix(**mix))  # type: ignore[arg-type]


def test_tasks_do_not_depend_on_the_hash_seed_or_on_what_was_drawn_before() -> None:
    script = (
        "from demur.envs.exchange import fingerprint; from demur.envs.taskset import make_tasks;"
        "from demur.envs.trace import Label;"
        "print(fingerprint(make_tasks(['files', 'mail', 'bank'], 'train', dict.fromkeys(Label, 6), seed=4)))"
    )
    runs = [
        subprocess.run([sys.executable, "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True)
        for seed in ("1", "2")
    ]
    here = fingerprint(make_tasks(["files", "mail", "bank"], "train", dict.fromkeys(Label, 6), seed=4))
    assert [run.stdout.strip() for run in runs] == [here, here], runs[0].stderr


# Presentation


@given(seed=st.integers(0, 200), offered=st.sampled_from([0, 4, 6]))
def test_a_task_with_renamed_and_shuffled_tools_is_solved_as_before(seed: int, offered: int) -> None:
    domain = load_domain("mail")
    families = [(family.name, label) for family in domain.families.values() for label in family.labels]
    family, label = families[seed % len(families)]
    task = domain.task(family, label, "train", seed)
    shown = present(task, rename=True, shuffle=True, offered=offered)
    (played,) = run_batched([Episode(shown)], EXPERT)
    assert acceptable(played) and played.outcome.harmless
    assert not set(shown.tools) & set(task.initial.tools())
    assert {REFUSE_TOOL, ASK_TOOL} <= set(shown.tools)
    assert (shown.goal_effects, shown.act_effects) == (task.goal_effects, task.act_effects)
    assert present(task, rename=True, shuffle=True, offered=offered) == shown
    calls = [step.call for step in shown.expert if step.call and step.call.name not in (REFUSE_TOOL, ASK_TOOL)]
    checker = Checker(shown.contract, shown.tools)
    past = [PastCall(call) for call in calls]
    assert all(checker.check(call, past[:at]).level is Level.ALLOW for at, call in enumerate(calls))


def test_twins_are_presented_alike() -> None:
    domain = load_domain("mail")
    for family, label in (("write_message", Label.HARMFUL), ("book_an_event", Label.UNDERSPECIFIED)):
        one, other = (
            present(domain.task(family, which, "train", 3), rename=True, shuffle=True, offered=5)
            for which in (Label.BENIGN, label)
        )
        assert list(one.tools.items()) == list(other.tools.items())
        assert len(one.initial.offered()) == 5


def test_the_old_names_of_tools_are_gone() -> None:
    task = present(load_domain("mail").task("when_is_it", Label.BENIGN, "train", 0), rename=True)
    from demur.envs.tool import ToolError
    from demur.envs.trace import ToolCall

    with pytest.raises(ToolError, match="there is no tool 'list_events'"):
        task.initial.copy_state().run(ToolCall(name="list_events", arguments={"day": "Monday"}))


# Mistakes of those who write worlds


class Lamp(World):
    domain: ClassVar[str] = "lamp"
    on: bool = False
    level: int = 0

    @tool(changes=True)
    def switch(self) -> str:
        """Switch the lamp on."""
        self.on = True
        return "It is on."

    @tool(changes=True)
    def break_it(self) -> str:
        """Fail in a way that no tool should."""
        raise ZeroDivisionError("the bulb")


WORDINGS: Wordings = {
    "openers": [""],
    "asides": ["please"],
    "plans": {"switch": ["Go."], "break_it": ["Go."], "answer": ["Done."], "ask": ["Ask."], "refuse": ["No."]},
    "checks": {"missing": ["?"], "harm": ["!"]},
    "refusals": {"harm": ["No."]},
}
FAULTY = Domain("faulty", Lamp, WORDINGS)


@FAULTY.family(Label.BENIGN)
def never_said(kit: Kit, label: Label) -> Draft:
    return Draft(query="Light!", world=Lamp(), expert=(kit.call("switch"), kit.answer("Done.")), must_say=("42",))


@FAULTY.family(Label.BENIGN)
def tool_breaks(kit: Kit, label: Label) -> Draft:
    return Draft(query="Light!", world=Lamp(), expert=(kit.call("break_it"), kit.answer("Done.")))


@FAULTY.family(Label.BENIGN)
def family_breaks(kit: Kit, label: Label) -> Draft:
    return Draft(query=f"Light {[][kit.rng.randrange(1, 2)]}!", world=Lamp(), expert=())


@FAULTY.family(Label.BENIGN)
def no_wording(kit: Kit, label: Label) -> Draft:
    return Draft(query=kit.query(), world=Lamp(), expert=())


@FAULTY.family(Label.HARMFUL)
def no_harm(kit: Kit, label: Label) -> Draft:
    return Draft(query="Light!", world=Lamp(), expert=(kit.refuse(),), act=(kit.answer("Done."),))


@FAULTY.family(Label.HARMFUL)
def no_refusal(kit: Kit, label: Label) -> Draft:
    return Draft(query="Light!", world=Lamp(), expert=(kit.answer("No."),), act=(kit.call("switch"),))


@FAULTY.family(Label.UNDERSPECIFIED)
def no_fact(kit: Kit, label: Label) -> Draft:
    expert = (kit.ask("Which?"), kit.answer("Done."))
    return Draft(query="Light!", world=Lamp(), expert=expert, act=(kit.call("switch"), kit.answer("Done.")))


@FAULTY.family(Label.BENIGN)
def too_long(kit: Kit, label: Label) -> Draft:
    return Draft(query="Light!", world=Lamp(), expert=(kit.call("switch"),) * 9)


@pytest.mark.parametrize(
    ("family", "sentence"),
    [
        ("never_said", r"does not reach the goal.*'42'"),
        ("tool_breaks", "ZeroDivisionError: the bulb"),
        ("family_breaks", "IndexError"),
        ("no_wording", "no wordings 'no_wording.queries'"),
        ("no_harm", "does nothing wrong"),
        ("no_refusal", "does not refuse"),
        ("no_fact", "asks for nothing"),
        ("too_long", "more than 8 turns"),
    ],
)
def test_a_family_that_makes_a_bad_task_is_named_with_its_seed(family: str, sentence: str) -> None:
    alone = Domain("faulty", Lamp, WORDINGS, {family: FAULTY.families[family]})
    globals()["ALONE"] = alone
    label = alone.families[family].labels[0]
    with pytest.raises(FamilyError, match=rf"{family}, train seed 0, {label}.*{sentence}"):
        make_tasks([f"{__name__}:ALONE"], "train", {label: 1})
