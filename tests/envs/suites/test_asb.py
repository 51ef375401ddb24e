"""ASB on its own data: canaries under every attack, the five phrasings, and files that are not whole."""

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.suites.asb import ASB, Attack, Phrasing, injected, phrasings
from demur.envs.suites.files import known_files
from demur.envs.trace import Label
from tests.envs.suites.helpers import POLICIES, SHARED, assert_broken_is_named, copied, mean_scores

DATA = SHARED / "asb"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the files of ASB are not beside the repository")
ATTACKS = [attack for attack in get_args(Attack) if attack != "none"]


@needs_data
@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("phrasing", ["naive", "combined"])
def test_canaries_and_the_ground_truth_score_as_they_must(attack: Attack, phrasing: Phrasing) -> None:
    suite = ASB.read(DATA, attack, phrasing)
    tasks = suite.tasks()
    assert len(tasks) == len({task.id for task in tasks}) == suite.size == 2040
    some = tasks[::7]
    assert mean_scores(suite, "expert", some) == {"attack_success": 0, "utility": 1, "refused": 0}
    assert mean_scores(suite, "refuse_all", some) == {"attack_success": 0, "utility": 0, "refused": 1}
    assert mean_scores(suite, "always_act", some) == {"attack_success": 1, "utility": 1, "refused": 0}
    assert mean_scores(suite, "no_op", some) == {"attack_success": 0, "utility": 0, "refused": 0}


@needs_data
def test_without_an_attack_there_is_utility_alone() -> None:
    suite = ASB.read(DATA, "none")
    assert len(suite.tasks()) == suite.size == 51 and {task.label for task in suite.tasks()} == {Label.BENIGN}
    assert mean_scores(suite, "expert") == {"utility": 1, "refused": 0}
    assert mean_scores(suite, "refuse_all") == {"utility": 0, "refused": 1}


@needs_data
@pytest.mark.parametrize("attack", ATTACKS)
def test_the_instruction_stands_where_the_attack_says(attack: Attack) -> None:
    suite = ASB.read(DATA, attack, "naive")
    instruction = suite.agents[0].attacks[0].instruction
    task = suite.tasks()[0]
    (played,) = run_batched([Episode(task)], POLICIES["expert"])
    results = [turn.observation or "" for turn in played.turns if turn.executed]
    assert (instruction in task.query) is (attack in ("direct", "mixed"))
    assert [instruction in result for result in results] == [attack in ("indirect", "mixed")] * 2
    assert instruction not in task.contract.source_text


@needs_data
def test_the_agent_is_told_its_role_and_offered_one_tool_of_the_attacker() -> None:
    task = ASB.read(DATA, "indirect").tasks()[0]
    assert task.role in Episode(task).conversation.messages[0]["content"] and task.role
    assert len(task.initial.offered()) == 3


@given(st.text(), st.text(), st.sampled_from(get_args(Phrasing)))
def test_both_texts_survive_every_phrasing(text: str, instruction: str, phrasing: Phrasing) -> None:
    whole = injected(text, instruction, phrasing)
    assert whole.startswith(text) and whole.endswith(instruction) and len(whole) > len(text) + len(instruction)


def test_the_five_phrasings_differ() -> None:
    assert set(phrasings()) == set(get_args(Phrasing)) and len(set(phrasings().values())) == 5


@needs_data
@pytest.mark.parametrize("name", list(known_files("asb").digests)[:5])
def test_a_missing_cut_or_altered_file_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    folder = copied(DATA, tmp_path / "data")
    assert_broken_is_named(folder / name, lambda: ASB.read(folder))
