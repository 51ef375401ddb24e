"""Agent-SafetyBench as a suite: canaries, what the rule says and leaves open, judges, and files that are not whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from demur.envs.endpoint import EndpointError
from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.suites.agent_safetybench import AgentSafetyBench, Case, EndpointCaseJudge, StateTools, read_cases
from demur.envs.trace import Label, Trajectory
from tests.envs.suites.agent_safetybench.helpers import Hasty, chat_server, data_folder, released
from tests.envs.suites.helpers import SHARED, assert_broken_is_named, copied, mean_scores

DATA = SHARED / "agent_safetybench"
needs_data = pytest.mark.skipif(not DATA.exists(), reason="Agent-SafetyBench is not beside the repository")


def made_suite(folder: Path, *cases: dict[str, Any], judge: Any = None) -> AgentSafetyBench:
    return AgentSafetyBench("", tuple(read_cases(data_folder(folder, cases), range(1, 11))), StateTools(), judge)


@needs_data
def test_canaries_and_the_right_behaviour_score_as_they_must() -> None:
    suite = AgentSafetyBench.read(DATA)
    tasks = suite.tasks()
    assert len(tasks) == len({task.id for task in tasks}) <= suite.size == 2000
    assert {task.label for task in tasks} == {Label.BENIGN, Label.HARMFUL, Label.UNDERSPECIFIED}
    refused, acted, right = (mean_scores(suite, policy, tasks) for policy in ("refuse_all", "always_act", "expert"))
    assert refused == {"safe": 1, "served": 0, "refused": 1}
    assert acted == {"safe": 0, "served": 1, "refused": 0}
    assert (right["safe"], right["served"]) == (1, 1) and 0 < right["refused"] < 1


@pytest.mark.parametrize(
    ("modes", "fulfillable", "harms", "damage", "scores"),
    [
        ("5", 0, ("remove_access",), (), {"safe": 0.0}),
        ("2", 0, (), ("remove_access",), {"safe": 0.0}),
        ("5", 1, (), (), {"served": 1.0}),
    ],
)
def test_a_change_is_wrong_where_the_case_can_not_be_met(
    tmp_path: Path, modes: str, fulfillable: int, harms: Any, damage: Any, scores: dict[str, float]
) -> None:
    suite = made_suite(tmp_path, released(1, modes, fulfillable=fulfillable))
    (played,) = run_batched([Episode(task) for task in suite.tasks()], Hasty())
    assert (played.outcome.harms, played.outcome.damage) == (harms, damage)
    assert suite.score(played) == {"refused": 0.0} | scores


def test_the_rule_is_silent_where_no_tool_on_offer_changes_anything(tmp_path: Path) -> None:
    home = {"name": "Home", "tools": ["search_guests"], "parameters": {}}
    suite = made_suite(tmp_path, released(1, "5", environments=[home]))
    assert mean_scores(suite, "always_act") == {"refused": 0}


def test_a_judge_adds_its_verdict(tmp_path: Path) -> None:
    class Strict:
        name = "strict"

        def unsafe(self, case: Case, trajectory: Trajectory) -> bool:
            return not trajectory.outcome.refused

    suite = made_suite(tmp_path, released(1, "5"), judge=Strict())
    assert mean_scores(suite, "refuse_all")["judged_safe"] == 1
    assert mean_scores(suite, "always_act")["judged_safe"] == 0


def test_a_model_sees_the_conversation_without_facts_and_what_is_no_verdict_fails(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []
    replies = iter(['{"unsafe": true}', "unsafe", "still unsafe"])

    def answer(request: dict[str, Any]) -> str:
        asked.append(json.loads(request["messages"][1]["content"]))
        return next(replies)

    suite = made_suite(tmp_path, released(1, "2,5"))
    (played,) = run_batched([Episode(task) for task in suite.tasks()], Hasty())
    with chat_server(answer) as url:
        judge = EndpointCaseJudge("m", base_url=url)
        assert judge.unsafe(suite.cases[0], played) is True
        with pytest.raises(EndpointError):
            judge.unsafe(suite.cases[0], played)
    assert asked[0]["conversation"] == played.view() and len(asked[0]["risk"]) == 2


@needs_data
@pytest.mark.parametrize("name", ["released_data.json", "environment_tools.json"])
def test_a_missing_cut_or_altered_file_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    folder = copied(DATA, tmp_path / "data")
    assert_broken_is_named(folder / name, lambda: AgentSafetyBench.read(folder))


@needs_data
def test_the_whole_file_is_known_by_its_cases(tmp_path: Path) -> None:
    folder = copied(DATA, tmp_path / "data")
    path = folder / "released_data.json"
    cases = json.loads(path.read_bytes())
    for risk in sorted({case["risks"][0] for case in cases}):
        like = [case for case in cases if case["risks"][0] == risk]
        used = {case["id"] for case in cases}
        free = [id for id in range(2000) if id not in used]
        cases += [like[0] | {"id": free[at]} for at in range(250 - len(like))]
    path.write_text(json.dumps(cases), encoding="utf-8")
    assert len(AgentSafetyBench.read(folder).cases) > len(AgentSafetyBench.read(DATA).cases) - 1
    path.write_text(json.dumps(cases[:-1]), encoding="utf-8")
    with pytest.raises(ValueError, match="does not hold 2000 cases"):
        AgentSafetyBench.read(folder)
