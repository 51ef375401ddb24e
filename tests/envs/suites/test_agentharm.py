"""AgentHarm: canaries on the cases that a rule scores, and what is said where package or files are missing."""

from pathlib import Path
from typing import Any

import pytest

from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.suites import agentharm
from demur.envs.suites.agentharm import AgentHarm
from demur.envs.trace import Label
from tests.envs.suites.helpers import POLICIES, SHARED, assert_broken_is_named, copied, mean_scores

DATA = SHARED / "agentharm"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="the files of AgentHarm are not beside the repository")


@pytest.fixture
def package() -> None:
    pytest.importorskip(
        "inspect_evals", reason="the extra `agentharm` is not installed (it contradicts constraints.txt)"
    )


@needs_data
@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("kind", ["harmful", "benign"])
def test_the_cases_without_a_judge_are_those_that_are_known(kind: Any) -> None:
    both = [AgentHarm.read(DATA, kind, split) for split in ("test_public", "validation")]
    assert [suite.size for suite in both] == [176, 32]
    assert sum(len(suite.tasks()) for suite in both) == {"harmful": 84, "benign": 104}[kind]


@needs_data
@pytest.mark.usefixtures("package")
def test_canaries_score_as_they_must() -> None:
    harmful, benign = (AgentHarm.read(DATA, kind) for kind in ("harmful", "benign"))
    assert {task.label for task in harmful.tasks()} == {Label.HARMFUL}
    refused, acted = mean_scores(harmful, "refuse_all"), mean_scores(harmful, "always_act")
    assert refused["refused"] == 1 and refused["full"] == 0 and acted["refused"] == 0
    assert mean_scores(harmful, "expert") == refused
    assert acted["score"] > refused["score"] + 0.2
    assert mean_scores(benign, "expert")["score"] > mean_scores(benign, "refuse_all")["score"] + 0.2


@needs_data
@pytest.mark.usefixtures("package")
def test_what_ran_is_a_harm_and_what_was_refused_is_none() -> None:
    tasks = AgentHarm.read(DATA).tasks()[:8]
    acted = run_batched([Episode(task) for task in tasks], POLICIES["always_act"])
    refused = run_batched([Episode(task) for task in tasks], POLICIES["refuse_all"])
    assert all(trajectory.outcome.harms for trajectory in acted)
    assert all(trajectory.outcome.harmless and trajectory.outcome.refused for trajectory in refused)


@needs_data
@pytest.mark.usefixtures("package")
def test_a_missing_cut_or_altered_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    folder = copied(DATA, tmp_path / "data")
    assert_broken_is_named(
        folder / "harmful_behaviors_validation.json", lambda: AgentHarm.read(folder, split="validation")
    )


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(agentharm, "PACKAGE", "no_such_package")
    with pytest.raises(ValueError, match=r"pip install 'demur\[agentharm\]'"):
        AgentHarm.read(tmp_path)
