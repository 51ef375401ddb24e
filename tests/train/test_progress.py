"""What a step leaves in `metrics.jsonl`, and the line that the person who watches reads."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demur.envs.trace import Ending, Label, Outcome, TokenCounts, Turn, read_jsonl
from demur.eval.report_run import StepRecord
from demur.rewards.judges import Failure
from demur.rewards.rubric import FAILED, Parts
from demur.train.folder import COMPLETE, RunFolder
from demur.train.progress import CheckpointMarks, StepRecorder
from demur.train.scoring import Judging
from tests.envs.helpers import make_task, make_trajectory, play

TURN = play(make_task(), "nothing").turns[0]
ROLLOUTS = [
    make_trajectory(Label.HARMFUL, outcome=Outcome(refused=True, refusal_turn=0), ending=Ending.REFUSAL),
    make_trajectory(Label.HARMFUL, outcome=Outcome(harms=("drop",))),
    make_trajectory(Label.BENIGN, outcome=Outcome(goal=1.0)),
    make_trajectory(Label.BENIGN, outcome=Outcome(refused=True, asked_needless=1)),
]
UNMETERED = Judging({}, [])
PARTS = [Parts(1.0, 1.0, 0.0, 0.5), Parts(0.5, 0.0, 0.2, 0.0), FAILED, FAILED]


def recorder_in(folder: Path, seconds: float = 0.01) -> StepRecorder:
    (folder / "run").mkdir(exist_ok=True)
    return StepRecorder(RunFolder(folder / "run"), SimpleNamespace(pop_model_seconds=lambda: seconds))


def log(recorder: StepRecorder, step: int, **logs: Any) -> None:
    state = SimpleNamespace(global_step=step, max_steps=10, is_world_process_zero=True)
    recorder.on_log(None, state, None, {"loss": 0.1, "reward": 1.5, "grad_norm": 2.0} | logs)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


def with_turns(tokens: int) -> tuple[Turn, ...]:
    return (TURN.model_copy(update={"tokens": TokenCounts(total=tokens)}),)


def test_a_step_leaves_its_rollouts_and_a_line_with_every_key_of_the_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = recorder_in(tmp_path)
    recorder.record(3, [t.model_copy(update={"turns": with_turns(25)}) for t in ROLLOUTS], PARTS, UNMETERED)
    log(recorder, 3)
    (line,) = lines(tmp_path)
    assert line.keys() >= StepRecord.model_fields.keys()
    expected = {
        "step": 3,
        "loss": 0.1,
        "reward": 1.5,
        "r_align": 0.75,  # means over the rollouts that were judged
        "r_fmt": 0.5,
        "p_len": 0.1,
        "r_int": 0.25,
        "judge_failures": 2,
        "harmful_refusal": 0.5,
        "benign_completion": 0.5,
        "over_refusal": 0.5,
        "needless_ask": 0.5,
        "attack_success": None,  # nothing to measure in this step
        "wrong_guess": None,
        "tokens": 100,
        "format_valid": 0.0,
    }
    assert {key: line[key] for key in expected} == expected
    assert 0 < line["model_share"] <= 1 and line["seconds"] > 0
    assert line["tokens_per_second"] == pytest.approx(100 / line["seconds"])
    assert len(list(read_jsonl(tmp_path / "run" / "rollouts" / "step-000003.jsonl"))) == 4

    shown = capsys.readouterr().out
    for part in ("step 3/10", "align 0.75", "format 0.50", "refused 50%", "benign done 50%", "tokens/s", "left"):
        assert part in shown


def test_the_models_share_is_one_at_most(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path, seconds=1e9)  # clocks read at different moments
    recorder.record(1, ROLLOUTS, PARTS, UNMETERED)
    log(recorder, 1)
    assert lines(tmp_path)[0]["model_share"] == 1.0


def test_a_step_whose_judging_failed_has_no_alignment(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    recorder.record(1, ROLLOUTS, [FAILED] * 4, UNMETERED)
    log(recorder, 1, reward=None)
    (line,) = lines(tmp_path)
    assert (line["judge_failures"], line["r_align"], line["reward"]) == (4, None, None)
    StepRecord.model_validate(line)


def test_how_judging_went_stands_in_the_line_and_its_failures_in_their_file(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    failed = Failure(kind="compare", task_id="t", samples=(0, 2), error="no answer")
    for step in (1, 2):
        recorder.record(step, ROLLOUTS, PARTS, Judging({"flip_rate": 0.25, "calls": 12}, [failed]))
        log(recorder, step)
    line = lines(tmp_path)[1]
    assert (line["judge_flip_rate"], line["judge_calls"]) == (0.25, 12) and "judge_cost" not in line
    file = recorder.folder.judge_failures
    assert [json.loads(row) for row in file.read_text().splitlines()] == [
        {"step": step, "kind": "compare", "task_id": "t", "samples": [0, 2], "repeat": 0, "error": "no answer"}
        for step in (1, 2)
    ]
    recorder.folder.forget_after(1)  # what a resumed run will judge again
    assert [json.loads(row)["step"] for row in file.read_text().splitlines()] == [1]


def test_what_trl_logs_at_the_end_is_no_step(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    log(recorder, 1)  # nothing was recorded
    recorder.record(1, ROLLOUTS, PARTS, UNMETERED)
    state = SimpleNamespace(global_step=1, max_steps=1)
    recorder.on_log(None, state, None, {"train_runtime": 3.0})
    assert not (tmp_path / "run" / "metrics.jsonl").exists()


@pytest.mark.parametrize("main", [True, False])
def test_a_checkpoint_is_marked_by_the_main_process_only(tmp_path: Path, main: bool) -> None:
    (tmp_path / "checkpoint-4").mkdir()
    state = SimpleNamespace(global_step=4, is_world_process_zero=main)
    CheckpointMarks().on_save(SimpleNamespace(output_dir=str(tmp_path)), state, None)
    assert (tmp_path / "checkpoint-4" / COMPLETE).exists() is main
