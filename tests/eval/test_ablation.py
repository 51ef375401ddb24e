"""An ablation's table: pairs by task and seed, counts of groups, and a verdict that claims no more than the numbers."""

import json
from pathlib import Path

import pytest

from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.taskset import make_tasks
from demur.envs.trace import Action, ActionKind, Label, ToolCall, Trajectory, Turn, write_jsonl, write_lines
from demur.eval.ablation import main, write_ablation
from demur.eval.ablation_cells import CellRecord, cell_folder, cells_file, read_facts
from demur.eval.ablation_compare import TABLE, Arm, arms_of, comparisons, risk_of
from tests.eval.runs import CONFIG, Counted, make_trace, sometimes, write_run

COUNTS = {Label.BENIGN: 20, Label.HARMFUL: 20, Label.INJECTED: 8, Label.UNDERSPECIFIED: 8}
SKILL = {"strong": (0.95, 0.95), "weak": (0.2, 0.2), "alike": (0.95, 0.9)}


def played(skill: float, seed: int) -> list[Trajectory]:
    tasks = make_tasks(["mail"], "test", COUNTS, seed)
    policies = (Counted("before", sometimes(0.4, seed)), Counted("after", sometimes(skill, 100 * seed)))
    return [t for policy in policies for t in run_batched([Episode(task) for task in tasks], policy)]


def make_ablation(folder: Path, *, seeds: tuple[int, ...] = (1, 2)) -> Path:
    """Three arms with invented curves; a rollout in two of `weak` fails."""
    records = []
    for arm, skills in SKILL.items():
        for seed, skill in zip(seeds, skills, strict=False):
            name = f"{arm}-seed{seed}"
            run = write_run(
                cell_folder(folder, name), played(skill, seed), steps=2,
                config={**CONFIG, "model_name_or_path": "/models/<tiny>"},
            )  # fmt: skip
            (run / "rollouts").mkdir(exist_ok=True)
            bad, good = make_trace(Label.BENIGN, sample=0), make_trace(Label.BENIGN, sample=1, outcome={"goal": 1.0})
            group = [bad, bad.model_copy(update={"sample": 1})] if arm == "weak" else [bad, good]
            for step in (1, 2, 3):  # the third was never trained on
                write_jsonl(run / "rollouts" / f"step-{step:06d}.jsonl", [*group, bad, good])
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            write_lines(
                run / "metrics.jsonl", [json.dumps({**x, "judge_calls": 12, "judge_tokens": 90}) for x in lines]
            )
            records.append(CellRecord(name=name, arm=arm, settings={"skill": arm}, seed=seed, state="finished"))
    records.append(CellRecord(name="lost-seed1", arm="lost", settings={}, seed=1, state="failed", error="<b>gone</b>"))
    write_lines(cells_file(folder), [record.model_dump_json() for record in records])
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_ablation(tmp_path_factory.mktemp("ablation") / "ab")


def test_arms_hold_their_means_and_counts(folder: Path) -> None:
    result = write_ablation(folder)
    strong, weak, _ = result.arms
    refusal = {arm.name: value_of(arm, "refusal_rate", "harmful") for arm in result.arms}
    assert refusal["strong"] > 0.8 and refusal["weak"] < 0.5
    assert strong.seeds == (1, 2) and (strong.judge_calls, strong.judge_tokens) == (48, 360)
    assert (strong.groups, strong.all_fail_groups) == (8, 0) and (weak.groups, weak.all_fail_groups) == (8, 4)


def value_of(arm: Arm, metric: str, label: str) -> float:
    (found,) = (v for v in arm.values if (v.metric, v.label) == (metric, label))
    assert found.mean == pytest.approx(sum(found.by_seed.values()) / len(found.by_seed))
    return found.mean


def test_differences_are_paired_and_corrected(folder: Path) -> None:
    result = write_ablation(folder)
    found = {(c.arm, c.metric, c.label): c for c in result.comparisons}
    c = found["weak", "refusal_rate", "harmful"]
    assert c.against == "strong" and c.verdict == "worse" and c.ci_high < 0 and c.p_holm < 0.05
    assert (c.same_sign, c.seeds) == (2, 2) and c.n == 40
    assert c.difference == pytest.approx(
        value_of(result.arms[1], "refusal_rate", "harmful") - value_of(result.arms[0], "refusal_rate", "harmful")
    )
    assert all(c.p <= c.p_holm <= 1 and c.ci_low <= c.difference <= c.ci_high for c in result.comparisons)
    assert {c.metric for c in result.comparisons} <= TABLE.keys()


def test_an_arm_against_itself_shows_nothing(folder: Path) -> None:
    record = CellRecord(name="strong-seed1", arm="strong", settings={}, seed=1)
    one = read_facts(folder, record)
    twin = read_facts(folder, record.model_copy(update={"arm": "twin"}))
    arms = arms_of([one, twin])
    found = comparisons([one, twin], "strong")
    assert len(arms) == 2 and found and all(c.difference == 0 and not c.shown and c.p == 1 for c in found)


def test_the_verdict_names_what_it_rests_on_and_says_where_nothing_is_shown(folder: Path) -> None:
    weak, alike = write_ablation(folder).verdicts
    assert weak.startswith("weak against strong (worlds, test split, <tiny>, seeds 1, 2): refusal_rate -")
    assert "2 of 2 seeds" in weak
    assert "no difference shown in refusal_rate" in alike


def test_the_page_escapes_text_and_runs_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run", str(folder)]) == 0
    page = (folder / "ablation.html").read_text()
    said = capsys.readouterr().out
    assert "weak against strong" in said and "not in the table: lost-seed1" in said
    assert "&lt;b&gt;gone" in page and "<b>gone" not in page and "<script" not in page and "&lt;tiny&gt;" in page
    assert page.count('<figure class="chart"') == 4 and "src=" not in page
    written = json.loads((folder / "ablation.json").read_text())
    assert written["schema"] == 1 and written["unfinished"][0]["error"] == "<b>gone</b>"


@pytest.mark.parametrize(
    ("tool", "risk"), [("search_mail", "read_only"), ("send_mail", "irreversible"), ("made_up", None)]
)
def test_the_risk_of_a_call_is_that_of_its_tool(tool: str, risk: str | None) -> None:
    turn = Turn(action=Action(kind=ActionKind.CALL, call=ToolCall(name=tool)))
    assert risk_of("mail", turn) == risk and risk_of("no_such_world", turn) is None
    assert risk_of("mail", Turn(action=Action(kind=ActionKind.ANSWER, text="Done."))) is None


def test_bad_folders_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--run", str(tmp_path)]) == 2 and "is not an ablation" in capsys.readouterr().err
    assert (
        main(["--rum", "x"]) == 2 and capsys.readouterr().err == "error: the following arguments are required: --run\n"
    )
    cells_file(tmp_path).write_text("{}\n")
    assert main(["--run", str(tmp_path)]) == 2 and "cells.jsonl:1 is not a cell" in capsys.readouterr().err
    cells_file(tmp_path).write_text("")
    assert main(["--run", str(tmp_path)]) == 2 and "no cell" in capsys.readouterr().err
