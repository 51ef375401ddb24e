"""A run that was stopped, by whatever, goes on as if it had not been."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from demur.eval.summary import read_summary
from demur.train.folder import COMPLETE
from demur.train.grpo import main
from tests.train.runs import BASE, ROOT, environment, metrics_of, numbers_of, write_config

# judged by their letters, so that the rollouts of a policy without skill differ in reward
LEARNS = {**BASE, "judge": "tests.train.judges:Texts", "outcome_gate": False, "max_steps": 6}


def start(config: Path, *flags: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "train" / "grpo.py"), "--config", str(config), *flags]
    return subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT
    )


def kill_behind_step(process: subprocess.Popen[str], metrics: Path, steps: int) -> None:
    """Kill -9 as soon as so many steps are recorded."""
    until = time.monotonic() + 600
    while not (metrics.is_file() and metrics.read_text().count("\n") >= steps):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < until, "the run took too long to get anywhere"
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


@pytest.mark.slow
def test_a_killed_run_goes_on_with_the_losses_of_one_that_was_not(policy: Path, tmp_path: Path) -> None:
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    whole, killed = (write_config(tmp_path / n, LEARNS, model_name_or_path=str(policy)) for n in ("whole", "killed"))
    main(["--config", str(whole)])

    run = killed.parent / "run"
    process = start(killed)
    kill_behind_step(process, run / "metrics.jsonl", 3)
    assert process.returncode == -signal.SIGKILL and not (run / "report.html").exists()
    steps_before = len(metrics_of(run))
    assert 3 <= steps_before < 6

    resumed = start(killed, "--resume")
    output, _ = resumed.communicate(timeout=600)
    assert resumed.returncode == 0, output
    assert "step 1/6" not in output and "step 6/6" in output  # it went on and did not begin again
    expected, numbers = numbers_of(whole.parent / "run"), numbers_of(run)
    assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
    for step, wanted in expected.items():
        assert numbers[step] == pytest.approx(wanted, rel=1e-6), step
    assert len({row[0] for row in expected.values()}) == 6 and all(row[1] > 0 for row in expected.values())
    before, after = (read_summary(p.parent / "run" / "eval" / "final" / "summary.json") for p in (whole, killed))
    assert before.rows == after.rows


@pytest.mark.slow
@pytest.mark.parametrize("stop", [2, 4])
def test_a_run_may_grow_and_sees_the_tasks_of_later_epochs_in_the_same_order(
    policy: Path, tmp_path: Path, stop: int
) -> None:
    """6 tasks at 2 a step make epochs of 3 steps: the run stops in its first or its second."""
    few = {f"train_{label}": count for label, count in zip(("benign", "harmful", "injected"), (2, 2, 2), strict=True)}
    run = str(tmp_path / "grown")
    config = write_config(tmp_path, LEARNS, model_name_or_path=str(policy), **few, train_underspecified=0)
    main(["--config", str(config)])
    main(["--config", str(config), "--run", run, "--max_steps", str(stop)])
    main(["--config", str(config), "--run", run, "--resume"])
    assert numbers_of(Path(run)) == numbers_of(tmp_path / "run")


@pytest.mark.slow
def test_a_checkpoint_that_was_cut_off_is_not_taken(policy: Path, tmp_path: Path) -> None:
    config = write_config(tmp_path, LEARNS, model_name_or_path=str(policy), max_steps=4)
    run = tmp_path / "run"
    main(["--config", str(config)])
    expected = numbers_of(run)
    cut = run / "checkpoints" / "checkpoint-4"
    (cut / COMPLETE).unlink()
    (cut / "model.safetensors").write_bytes((cut / "model.safetensors").read_bytes()[:100])
    times = seconds_of(run)
    main(["--config", str(config), "--resume"])
    assert numbers_of(run) == expected
    assert seconds_of(run)[:2] == times[:2] and seconds_of(run)[2] != times[2]  # from step 2, of which both are one
    assert (cut / COMPLETE).is_file()


def seconds_of(run: Path) -> list[Any]:
    return [line["seconds"] for line in metrics_of(run)]
