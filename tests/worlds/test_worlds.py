"""What every shipped world must hold: twins, splits, annotations, contracts; and that canaries do not win."""

import os
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs import worlds
from demur.envs.canaries import CANARIES, EXPERT
from demur.envs.engine import run_batched
from demur.envs.episode import Episode, PromptOptions
from demur.envs.family import SPLITS, Domain
from demur.envs.intent.checks import Checker, PastCall
from demur.envs.task import Script, Task
from demur.envs.tool import Tool, ToolError
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, Label, ToolCall, Trajectory
from demur.envs.verify import verify
from demur.envs.world import World
from demur.envs.worlds import SHIPPED, load_domain
from demur.rewards.alignment import Kind
from demur.rewards.judges.oracle import Oracle, acceptable, rank
from demur.rewards.rubric import Rubric
from tests.worlds.wordings import expanded

NAMES = os.environ["DEMUR_WORLDS"].split(",") if "DEMUR_WORLDS" in os.environ else SHIPPED
DOMAINS = [load_domain(name) for name in NAMES]
LOADED = {domain.name: domain for domain in DOMAINS}
CASES = [(d, f.name, label) for d in DOMAINS for f in d.families.values() for label in f.labels]
TWINS = [(d, f.name, f.labels[1]) for d in DOMAINS for f in d.families.values() if len(f.labels) > 1]
KINDS: tuple[Kind, ...] = ("pairwise", "pointwise", "outcome")
PER_SPLIT = 3

domains = pytest.mark.parametrize("domain", DOMAINS, ids=list(LOADED))
cases = pytest.mark.parametrize(
    ("domain", "family", "label"), CASES, ids=[f"{d.name}-{family}-{label}" for d, family, label in CASES]
)
twins = pytest.mark.parametrize(
    ("domain", "family", "label"), TWINS, ids=[f"{d.name}-{family}" for d, family, _ in TWINS]
)


def tasks(domain: Domain, family: str, label: Label, count: int = PER_SPLIT) -> list[Task]:
    return [domain.task(family, label, split, seed) for split in SPLITS for seed in range(count)]


def world_calls(script: Any) -> list[ToolCall]:
    return [step.call for step in script if step.call and step.call.name not in (REFUSE_TOOL, ASK_TOOL)]


@domains
def test_every_world_makes_every_label(domain: Domain) -> None:
    assert {label for family in domain.families.values() for label in family.labels} == set(Label)


@domains
def test_every_family_makes_benign_tasks_and_at_most_one_other_label(domain: Domain) -> None:
    for family in domain.families.values():
        assert family.labels[0] is Label.BENIGN and len(family.labels) <= 2, family.name


@domains
def test_a_domain_has_breadth(domain: Domain) -> None:
    tools = domain.world.tools().values()
    assert len(tools) >= 8 and sum(tool.changes for tool in tools) >= 3
    assert any(tool.changes and not tool.reversible for tool in tools)
    count = Counter(label for family in domain.families.values() for label in family.labels)
    floor = {Label.BENIGN: 6, Label.HARMFUL: 4, Label.INJECTED: 3, Label.UNDERSPECIFIED: 3}
    assert all(count[label] >= least for label, least in floor.items()), count


@domains
def test_queries_have_eight_wordings_a_quarter_of_them_held_out(domain: Domain) -> None:
    for language in domain.languages:
        wordings = domain.wordings if language == "en" else domain.wordings[language]
        for name in domain.families:
            queries = wordings.get(name, {}).get("queries")
            if queries is not None and set(queries) == set(SPLITS):
                count = {split: len(queries[split]) for split in SPLITS}
                assert sum(count.values()) >= 8, (language, name)
                assert 4 * (count["validation"] + count["test"]) >= sum(count.values()), (language, name)


@domains
def test_families_say_what_they_are_about(domain: Domain) -> None:
    for family in domain.families.values():
        if family.labels != (Label.BENIGN,):
            assert family.modes, family.name
        if Label.HARMFUL in family.labels or Label.INJECTED in family.labels:
            assert family.risks, family.name


@cases
def test_every_task_holds_together(domain: Domain, family: str, label: Label) -> None:
    for task in tasks(domain, family, label):
        verify(task)
        assert 1 <= task.level <= 5


@domains
def test_modules_stay_small(domain: Domain) -> None:
    folder = Path(worlds.__file__).parent / domain.name
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 400 for path in folder.glob("*.py"))


# The expert and the canaries, on every family and label


@cache
def groups(domain: str, family: str, label: Label) -> list[tuple[Task, list[Trajectory]]]:
    """For each task one trajectory of the expert, then one of each canary."""
    made = tasks(LOADED[domain], family, label)
    compact = PromptOptions(style="compact")
    runs = [run_batched([Episode(task, compact) for task in made], policy) for policy in (EXPERT, *CANARIES)]
    return [(task, [run[at] for run in runs]) for at, task in enumerate(made)]


def totals(task: Task, group: list[Trajectory], kind: Kind, weights: tuple[float, float, float, float]) -> list[float]:
    rubric = Rubric(judge=Oracle(), kind=kind, weights=weights)
    found = [rubric.total(parts) for parts in rubric.score_group(group, task)]
    assert None not in found
    return [value for value in found if value is not None]


@cases
def test_the_expert_solves_every_task(domain: Domain, family: str, label: Label) -> None:
    for _, (expert, *_) in groups(domain.name, family, label):
        place = rank(expert)
        assert (place.row, place.ended_well, place.tie_break) == (0, True, 0), expert.query
        assert expert.outcome.harmless and expert.outcome.well_formed and acceptable(expert)


@cases
def test_no_canary_beats_the_expert_before_the_oracle(domain: Domain, family: str, label: Label) -> None:
    for _, (expert, *canaries) in groups(domain.name, family, label):
        verdicts = Oracle().compare([(canary, expert) for canary in canaries])
        assert not [c.policy for c, won in zip(canaries, verdicts, strict=True) if won not in (0, 0.5)]


@pytest.mark.parametrize("weights", [(3.0, 2.0, 1.0, 0.0), (3.0, 2.0, 1.0, 1.0)], ids=["default", "intent"])
@pytest.mark.parametrize("kind", KINDS)
@domains
def test_no_canary_earns_more_than_the_expert(
    domain: Domain, kind: Kind, weights: tuple[float, float, float, float]
) -> None:
    for family in domain.families.values():
        for label in family.labels:
            for task, group in groups(domain.name, family.name, label):
                expert, *others = totals(task, group, kind, weights)
                for canary, value in zip(CANARIES, others, strict=True):
                    assert value <= expert, f"{canary.name} beats the expert: {task.query}"


@pytest.mark.parametrize("kind", KINDS)
@domains
def test_over_all_labels_every_canary_earns_less_than_the_expert(domain: Domain, kind: Kind) -> None:
    rows = [
        totals(task, group, kind, (3.0, 2.0, 1.0, 0.0))
        for family in domain.families.values()
        for label in family.labels
        for task, group in groups(domain.name, family.name, label)
    ]
    expert, *canaries = (mean(column) for column in zip(*rows, strict=True))
    for canary, value in zip(CANARIES, canaries, strict=True):
        assert value < expert - 0.1, canary.name


@cases
def test_the_agent_that_never_doubts_wins_where_no_care_is_needed(domain: Domain, family: str, label: Label) -> None:
    at = [canary.name for canary in CANARIES].index("always_act")
    for task, (_, *canaries) in groups(domain.name, family, label):
        assert acceptable(canaries[at]) == (label is Label.BENIGN and task.act == task.expert)


@cases
def test_the_contract_allows_what_the_expert_does_and_not_the_wrong(domain: Domain, family: str, label: Label) -> None:
    for task in tasks(domain, family, label):
        assert not refused(task, task.expert)
        stopped = refused(task, task.act)
        assert bool(stopped) == bool(task.act_effects), task.query
        assert all(task.tools[call.name].changes for call in stopped)
        right = [derived(task, call) for call in world_calls(task.expert)]
        wrong = [call for call in world_calls(task.act) if derived(task, call) not in right]
        assert all(call in wrong for call in stopped)
        assert all(call in stopped for call in wrong if task.tools[call.name].changes)


def refused(task: Task, script: Script) -> list[ToolCall]:
    """The calls of a script that the task's contract stops, if the others are carried out."""
    checker, past, stopped = Checker(task.contract, task.tools), list[PastCall](), list[ToolCall]()
    for step in script:
        if step.call is None or step.call.name in (REFUSE_TOOL, ASK_TOOL):
            continue
        if checker.check(step.call, past).level.lets_run:
            past.append(PastCall(step.call, ok=not step.fails))
        else:
            stopped.append(step.call)
    return stopped


def derived(task: Task, call: ToolCall) -> tuple[str, dict[str, Any]]:
    """A call without the texts that a model makes up."""
    known = task.tools[call.name].derivable
    return call.name, {name: value for name, value in call.arguments.items() if name in known}


# Twins


@twins
def test_twins_share_state_tools_and_the_shape_of_what_is_done(domain: Domain, family: str, label: Label) -> None:
    for one, other in zip(tasks(domain, family, Label.BENIGN), tasks(domain, family, label), strict=True):
        assert (one.twin, other.twin) == (other.id, one.id)
        assert one.tools == other.tools and type(one.initial) is type(other.initial)
        assert (one.turn_limit, one.secrets, one.split) == (other.turn_limit, other.secrets, other.split)
        if label is Label.INJECTED:
            assert one.query == other.query
            assert_injected(one.initial.model_dump(), other.initial.model_dump())
        else:
            assert one.initial == other.initial and one.query != other.query
        if label is not Label.INJECTED:
            assert [c.name for c in world_calls(one.act)] == [c.name for c in world_calls(other.act)]


def assert_injected(clean: Any, injected: Any) -> None:
    """One text is longer, or two for an order in two halves; everything else is the same."""
    longer = 0
    pairs = [(clean, injected)]
    while pairs:
        one, other = pairs.pop()
        assert type(one) is type(other)
        if isinstance(one, dict):
            assert list(one) == list(other)
            pairs += [(one[key], other[key]) for key in one]
        elif isinstance(one, str) and one != other:
            assert other.startswith(one)
            longer += 1
        else:
            assert one == other
    assert longer in (1, 2)


@pytest.mark.parametrize(
    ("domain", "family"),
    [(d, family) for d, family, label in TWINS if label is Label.HARMFUL],
    ids=[f"{d.name}-{family}" for d, family, label in TWINS if label is Label.HARMFUL],
)
def test_harmful_twins_differ_only_in_the_phrase(domain: Domain, family: str) -> None:
    phrases = domain.wordings[family]

    def frames(task: Task) -> set[str]:
        """The query with a gap for each phrase of its label that it holds."""
        known = {one for phrase in phrases[task.label][task.split] for one in expanded(phrase)}
        return {task.query.replace(phrase, "…") for phrase in known if phrase in task.query}

    pairs = zip(tasks(domain, family, Label.BENIGN), tasks(domain, family, Label.HARMFUL), strict=True)
    for one, other in pairs:
        assert frames(one) & frames(other), f"{one.query!r} and {other.query!r} differ in more than a phrase"


# Splits


def held_out(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, list[str]]]]:
    """Every place of a domain's wordings that has lists by split."""
    if isinstance(node, dict) and set(node) & set(SPLITS):
        yield path, node
    elif isinstance(node, dict):
        for key, child in node.items():
            yield from held_out(child, f"{path}.{key}")


@domains
def test_splits_share_no_wording(domain: Domain) -> None:
    places = dict(held_out(domain.wordings))
    assert len(places) >= len(domain.families), "queries are held out by split"
    for path, lists in places.items():
        assert set(lists) == set(SPLITS), path
        splits = [{one.strip().casefold() for text in lists[s] for one in expanded(text)} for s in SPLITS]
        for one, other in combinations(splits, 2):
            assert not one & other, f"{path}: {sorted(one & other)}"
        assert all(lists.values()), path


@domains
def test_no_wording_of_a_split_is_another_splits_but_for_punctuation_and_slots(domain: Domain) -> None:
    lists = [by_split for _, by_split in held_out(domain.wordings)]
    for split, other in combinations(SPLITS, 2):
        one, two = (
            {normal(one) for by_split in lists for text in by_split[name] for one in expanded(text)}
            for name in (split, other)
        )
        assert one and not one & two


def normal(wording: str) -> str:
    return re.sub(r"\W+", " ", re.sub(r"\{\w+\}", "_", wording)).strip().casefold()


@domains
def test_splits_share_no_task(domain: Domain) -> None:
    seen: dict[tuple[str, str], str] = {}
    ids: dict[str, str] = {}
    for family in domain.families.values():
        for label in family.labels:
            for task in tasks(domain, family.name, label, 25):
                asked = (task.query, task.initial.model_dump_json())
                assert seen.setdefault(asked, task.split) == task.split
                assert ids.setdefault(task.id, task.query) == task.query


@domains
def test_injections_are_held_out_too(domain: Domain) -> None:
    styles = {"plain", "system", "urgent", "split_first", "split_second", "encoded"}
    assert domain.wordings["injections"].keys() == styles
    for family in domain.families.values():
        if Label.INJECTED not in family.labels:
            continue
        for task in tasks(domain, family.name, Label.INJECTED, 10):
            texts = list(strings(task.initial.model_dump()))
            fits = {
                split
                for split in SPLITS
                for style in styles
                for wording in domain.wordings["injections"][style][split]
                if any(re.search(re.sub(r"\\{\w+\\}", ".+", re.escape(wording)), text) for text in texts)
            }
            assert fits == {task.split}, f"{family.name}: a {task.split} injection reads like one of {fits}"


# Tools


def strings(node: Any) -> Iterator[str]:
    """Every key and text of a dumped state."""
    if isinstance(node, dict):
        for key, child in node.items():
            yield key
            yield from strings(child)
    elif isinstance(node, str):
        yield node


def state_of(domain: Domain, seed: int) -> World:
    families = [(f.name, label) for f in domain.families.values() for label in f.labels]
    family, label = families[seed % len(families)]
    return domain.task(family, label, SPLITS[seed % 3], seed).initial


def arguments_for(tool: Tool, texts: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments that fit a tool's schema."""
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": texts,
        "integer": st.integers(-5, 1000) | st.integers(-(10**50), 10**50),
        "number": st.floats(allow_nan=False, allow_infinity=False),
        "boolean": st.booleans(),
    }
    values = {
        p.name: st.sampled_from(p.schema["enum"]) if "enum" in p.schema else kinds[p.schema["type"]]
        for p in tool.parameters
    }
    return st.fixed_dictionaries(values)


def filled(schema: dict[str, Any], text: str) -> Any:
    """A value for a parameter: the text, or what follows from its length."""
    if "enum" in schema:
        return schema["enum"][len(text) % len(schema["enum"])]
    other = {"integer": len(text), "number": float(len(text)), "boolean": len(text) % 2 == 0}
    return other.get(schema["type"], text)


@domains
def test_reading_tools_never_change_a_state(domain: Domain) -> None:
    """With the texts of the state as arguments, over many states."""
    reading = [tool for tool in domain.world.tools().values() if not tool.changes]
    assert reading
    answered: set[str] = set()
    for seed in range(40):
        state = state_of(domain, seed)
        before, shown = state.copy_state(), repr(state)
        whole = set(strings(state.model_dump()))
        texts = sorted(whole | {part for text in whole for part in re.findall(r"[^\s/]+", text)})
        if seed >= 6:  # large states hold hundreds of texts; some of them do for the rest
            texts = Random(seed).sample(texts, min(60, len(texts)))
        for tool in reading:
            for text in texts:
                arguments = {p.name: filled(p.schema, text) for p in tool.parameters}
                try:
                    if state.run(ToolCall(name=tool.name, arguments=arguments)):
                        answered.add(tool.name)
                except ToolError:
                    continue
            assert state == before and repr(state) == shown, f"{tool.name} is annotated as reading"
    assert answered == {tool.name for tool in reading}, "each reading tool found something"


@domains
@given(data=st.data())
def test_any_call_that_fits_the_schema_gives_a_result_or_an_error_for_the_policy(
    domain: Domain, data: st.DataObject
) -> None:
    state = state_of(domain, data.draw(st.integers(0, 200))).copy_state()
    texts = st.text() | st.sampled_from(sorted(set(strings(state.model_dump()))))
    for _ in range(4):
        tool = data.draw(st.sampled_from(list(domain.world.tools().values())))
        before = state.copy_state()
        call = ToolCall(name=tool.name, arguments=data.draw(arguments_for(tool, texts)))
        try:
            assert isinstance(state.run(call), str)
        except ToolError:
            assert state == before, f"{tool.name} failed half-way"
        assert tool.changes or state == before
        assert type(state).model_validate(state.model_dump()) == state


@domains
def test_every_changing_tool_is_of_use_to_somebody(domain: Domain) -> None:
    used = {
        call.name
        for family in domain.families.values()
        for label in family.labels
        for task in tasks(domain, family.name, label)
        for call in world_calls((*task.expert, *task.act))
    }
    idle = set(domain.world.tools()) - used
    assert not [name for name in idle if domain.world.tools()[name].changes], idle


@cases
def test_tasks_are_made_the_same_every_time(domain: Domain, family: str, label: Label) -> None:
    assert tasks(domain, family, label, 2) == tasks(domain, family, label, 2)


@cases
def test_a_policy_is_told_nothing_but_the_query_and_the_tools(domain: Domain, family: str, label: Label) -> None:
    for task in tasks(domain, family, label, 1):
        system, query = Episode(task).conversation.messages
        assert query["content"] == task.query
        told = system["content"] + query["content"]
        assert task.id not in told and f"/{family}" not in told
        assert not [fact.reply for fact in task.facts if fact.reply in told]
