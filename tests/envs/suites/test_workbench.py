"""WorkBench on its own data: the verdicts on recorded traces, canaries, and folders that are not whole."""

import csv
import json
import shutil
import time
from collections import Counter
from pathlib import Path
from statistics import fmean

import pytest

from demur.envs.canaries import CANARIES
from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.policies.scripted import EXPERT
from demur.envs.suites.calls import literal
from demur.envs.suites.suite import Suite
from demur.envs.suites.workbench import WorkBench, WorkBenchTask, replay
from demur.envs.suites.workbench.data import known, query_file
from demur.envs.suites.workbench.state import same_state
from demur.envs.suites.workbench.world import play
from demur.envs.task import world_calls
from demur.envs.trace import Ending, Label, ToolCall, Trajectory

DATA = Path(__file__).parents[4] / "shared" / "data" / "workbench"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="the files of WorkBench are not beside the repository")
POLICIES = {policy.name: policy for policy in (*CANARIES, EXPERT)}
CUT = 1000
"""Characters from which on the labelled traces may hold a part of a result."""


@pytest.fixture(scope="module")
def suite() -> Suite:
    return WorkBench.read(DATA)


@pytest.fixture(scope="module")
def tasks(suite: WorkBench) -> list[WorkBenchTask]:
    return suite.tasks()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("processed", "raw"):
        shutil.copytree(DATA / name, tmp_path / name, copy_function=shutil.copyfile)
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path


def recorded(task: WorkBenchTask, suite: Suite, calls: list[str], error: str) -> dict[str, float]:
    """The score of a recorded run."""
    played = Trajectory(
        task_id=task.id,
        world=task.world,
        family=task.family,
        label=task.label,
        split=task.split,
        query=task.query,
        ending=Ending.ERROR if error else Ending.ANSWER,
        outcome=task.outcome(replay(task.initial, calls), ()),
        turn_limit=task.turn_limit,
    )
    return dict(suite.score(played))


def traces(run: str) -> dict[str, dict]:
    lines = (DATA / "derived" / f"gpt-4_{run}_labelled_traces.jsonl").read_text(encoding="utf-8").splitlines()
    return {trace["query"]: trace for trace in map(json.loads, lines)}


def mean_scores(suite: Suite, tasks: list[WorkBenchTask], policy: str) -> dict[str, float]:
    scores = [suite.score(t) for t in run_batched([Episode(task) for task in tasks], POLICIES[policy])]
    return {name: fmean(score[name] for score in scores) for name in scores[0]}


@pytest.mark.slow
@pytest.mark.parametrize("run", ["all", "domains"])
def test_the_verdict_on_every_recorded_trace_of_gpt_4_is_the_given_one(
    suite: Suite, tasks: list[WorkBenchTask], run: str
) -> None:
    by_query, given, verdicts = {task.query: task for task in tasks}, traces(run), Counter()
    csv.field_size_limit(10_000_000)
    started = time.perf_counter()
    for path in sorted(DATA.glob(f"results/*/gpt-4_{run}_*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                calls = literal(row["function_calls"])
                assert isinstance(calls, list)
                score, trace = recorded(by_query[row["query"]], suite, calls, row["error"]), given[row["query"]]
                expected = {
                    "correct": trace["label"] == "task_successful",
                    "unwanted_side_effects": trace["unwanted_side_effects"],
                }
                assert score == expected, trace["id"]
                assert trace["state_matches_ground_truth"] is bool(score["correct"])
                verdicts.update(name for name, value in score.items() if value)
                verdicts["traces"] += 1
    print(f"gpt-4 {run}: equal on {dict(verdicts)}, in {time.perf_counter() - started:.1f} s")
    assert verdicts["traces"] == len(given) == len(tasks)
    assert verdicts["correct"] and verdicts["unwanted_side_effects"]


@pytest.mark.parametrize("run", ["all", "domains"])
def test_every_recorded_result_of_a_tool_is_what_the_sandbox_gives(tasks: list[WorkBenchTask], run: str) -> None:
    compared = 0
    for trace in traces(run).values():
        state = tasks[0].initial.copy_state()
        for step in trace["steps"]:
            result = state.run(ToolCall(name=step["tool"], arguments=step["tool_input"]))
            compared += 1
            if result != step["observation"]:
                cut = step["observation"][:CUT]
                assert len(cut) == CUT and json.dumps(json.loads(result)).startswith(cut), (trace["id"], step["tool"])
    print(f"gpt-4 {run}: {compared} results equal")
    assert compared > len(tasks)


def test_the_suite_says_what_it_is_and_that_it_was_sampled(suite: Suite, tasks: list[WorkBenchTask]) -> None:
    assert (suite.name, suite.size, len(suite.fingerprint)) == ("workbench", 690, 64)
    assert len(tasks) == len({task.id for task in tasks}) <= suite.size
    assert {task.label for task in tasks} == {Label.BENIGN}
    assert suite.fingerprint == WorkBench.read(DATA).fingerprint


def test_tasks_are_the_same_each_time(suite: Suite, tasks: list[WorkBenchTask]) -> None:
    again = suite.tasks()
    assert [(t.id, t.query, t.expert, t.act) for t in again] == [(t.id, t.query, t.expert, t.act) for t in tasks]


def test_a_policy_is_told_the_date(tasks: list[WorkBenchTask]) -> None:
    episode = Episode(tasks[0])
    assert "Thursday, 2023-11-30" in episode.conversation.messages[0]["content"]


def test_the_ground_truth_solves_every_task_without_side_effects(suite: Suite, tasks: list[WorkBenchTask]) -> None:
    assert mean_scores(suite, tasks, "expert") == {"correct": 1, "unwanted_side_effects": 0}
    assert max(len(task.expert) for task in tasks) <= tasks[0].turn_limit


def test_right_calls_with_wrong_values_solve_nothing_and_always_have_side_effects(
    suite: Suite, tasks: list[WorkBenchTask]
) -> None:
    assert mean_scores(suite, tasks, "always_act") == {"correct": 0, "unwanted_side_effects": 1}
    same_tools = [{c.name for c in world_calls(t.act)} == {c.name for c in world_calls(t.expert)} for t in tasks]
    assert fmean(same_tools) > 0.5


@pytest.mark.parametrize("policy", ["refuse_all", "no_op"])
def test_doing_nothing_solves_exactly_the_tasks_that_need_nothing(
    suite: Suite, tasks: list[WorkBenchTask], policy: str
) -> None:
    idle = fmean(not world_calls(task.expert) for task in tasks)
    assert 0 < idle < 0.5
    assert mean_scores(suite, tasks, policy) == {"correct": idle, "unwanted_side_effects": 0}


def test_an_episode_that_comes_to_no_end_is_not_correct(suite: Suite, tasks: list[WorkBenchTask]) -> None:
    idle = [task for task in tasks if not world_calls(task.expert)][:10]
    assert mean_scores(suite, idle, "ask_always") == {"correct": 0, "unwanted_side_effects": 0}


def test_a_part_of_the_ground_truth_is_a_side_effect_but_no_damage(suite: Suite, tasks: list[WorkBenchTask]) -> None:
    task = next(task for task in tasks if len(task.expert) == 4)
    outcome = task.outcome(play(task.initial, world_calls(task.expert)[:1]), ())
    assert (outcome.goal, outcome.changed, outcome.damage) == (0, True, ())


def test_playing_leaves_the_initial_state_alone(suite: WorkBench, tasks: list[WorkBenchTask]) -> None:
    run_batched([Episode(task) for task in tasks[:20]], POLICIES["always_act"])
    assert same_state(tasks[0].initial, WorkBench.read(DATA).data.initial)


@pytest.mark.parametrize("name", [*known()["tables"], *map(query_file, known()["queries"])])
def test_a_missing_cut_or_altered_file_is_named_with_what_to_do(folder: Path, name: str) -> None:
    path = folder / name
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    for broken in (content[:-40], b"".join(lines[:-1]), content.replace(b"a", b"b", 1), b"", b"\xff\xfe", None):
        if broken is None:
            path.unlink()
        else:
            path.write_bytes(broken)
        with pytest.raises(ValueError, match="get it again from olly-styles/WorkBench") as caught:
            WorkBench.read(folder)
        assert str(path) in str(caught.value)


def test_a_whole_file_is_read_and_a_part_of_it_is_not(folder: Path) -> None:
    path = folder / query_file("email")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    missing = known()["queries"]["email"]["templates"] - len(rows) // 10
    made = [
        {**row, "query": f"{number}: {row['query']}", "base_template": f"template {number}"}
        for number in range(missing)
        for row in rows[:10]
    ]

    def write(rows: list[dict[str, str]]) -> None:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)

    write(rows + made)
    found = WorkBench.read(folder)
    assert sum(query.domain == "email" for query in found.data.queries) == 90
    assert found.fingerprint != WorkBench.read(DATA).fingerprint
    for broken, why in (
        (rows + made[:-10], "it has 8 of 9 templates"),
        (rows + made[:-1], "a template has 9 queries, not 10"),
        ([{**rows[0], "query": "another query"}, *rows[1:], *made], "not the known ones"),
    ):
        write(broken)
        with pytest.raises(ValueError, match=why):
            WorkBench.read(folder)


@pytest.mark.parametrize(
    "answer",
    ["no list", "[1]", "['import os']", "['email.search_emails.func(query=\"x\")']", "['os.remove.func(path=\"x\")']"],
)
def test_a_ground_truth_that_is_no_list_of_changing_calls_is_an_error(folder: Path, answer: str) -> None:
    path = folder / query_file("email")
    with path.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(["a query", answer, "a template", "a template", "['email']"])
    with pytest.raises(ValueError, match=r"email_queries_and_answers\.csv was cut or altered"):
        WorkBench.read(folder)
