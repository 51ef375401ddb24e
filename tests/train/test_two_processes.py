"""Two processes do what one does, wherever TRL puts the rollouts of a group."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import demur.train.rollout
from demur.envs.trace import Trajectory, read_jsonl
from demur.eval.summary import read_summary
from demur.train.grpo import main
from tests.tools.noisy_server import Faults, NoisyServer
from tests.train.runs import BASE, ROOT, ScriptedTrainerPolicy, environment, metrics_of, write_config

SPLITS: dict[str, tuple[dict[str, int], dict[str, int]]] = {
    "whole": ({"per_device_train_batch_size": 8}, {"per_device_train_batch_size": 4}),
    "split": ({"per_device_train_batch_size": 4}, {"per_device_train_batch_size": 2}),
    "uneven": ({"per_device_train_batch_size": 12}, {"per_device_train_batch_size": 6}),
}
"""How groups of 4 lie on one process and on each of two: whole, in halves, and one of three in halves."""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, policy: Path) -> dict[str, Path]:
    """The runs of two processes, by name, all done by one pair to save its start."""
    batches = {name: batch for name, (_, batch) in SPLITS.items()}
    configs, runs = [], {}
    judges: dict[str, dict[str, Any]] = {"failing": {"judge": "tests.train.judges:FailsOnLastRank"}}
    with NoisyServer(lambda shown: 0.5, faults=Faults(hanging=1.0), attempts=None) as server:
        judges["hanging"] = {**HANGING, "judge_url": server.url}
        for name, changes in {**batches, **judges}.items():
            folder = tmp_path_factory.mktemp(name)
            keys: dict[str, Any] = {"per_device_train_batch_size": 4, **changes}
            configs.append(write_config(folder, BASE, model_name_or_path=str(policy), turn_limit=4, **keys))
            runs[name] = folder / "run"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
        script = ROOT / "tests" / "train" / "two_processes.py"
        done = subprocess.run(
            [*command, str(script), *map(str, configs)],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=600,  # ample on a busy machine; it is there for ranks that wait for each other
        )
        assert done.returncode == 0, done.stderr[-3000:]
    return runs


HANGING = {"judge": "llm", "judge_model": "noisy", "judge_step_timeout": 2.0, "judge_max_failures": 1.0}
"""A judge whose server never answers; the run is to go on all the same."""


def rollouts(run: Path, step: int) -> list[Trajectory]:
    return list(read_jsonl(run / "rollouts" / f"step-{step:06d}.jsonl"))


@pytest.mark.slow
@pytest.mark.parametrize("split", SPLITS)
def test_two_processes_train_as_one(
    two: dict[str, Path], split: str, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demur.train.rollout, "TrainerPolicy", ScriptedTrainerPolicy)
    batch = SPLITS[split][0]
    main(["--config", str(write_config(tmp_path, BASE, model_name_or_path=str(policy), turn_limit=4, **batch))])
    for step in (1, 2):  # the same groups, rollout for rollout
        assert rollouts(two[split], step) == rollouts(tmp_path / "run", step)
    first, one = metrics_of(two[split])[0], metrics_of(tmp_path / "run")[0]
    for key in ("reward", "r_align", "r_fmt", "p_len", "r_int", "loss", "grad_norm"):
        assert first[key] == pytest.approx(one[key], rel=1e-5), key
    # no comparison of zeros: the group's rewards differ, and so do their lengths
    assert one["grad_norm"] > 1e-3 and abs(one["loss"]) > 1e-3 and 0 < one["r_align"] < 1


@pytest.mark.slow
def test_the_rollouts_of_a_group_are_numbered_across_processes(two: dict[str, Path]) -> None:
    for split in SPLITS:
        numbers = [trajectory.sample for trajectory in rollouts(two[split], 1)]
        assert numbers == [0, 1, 2, 3] * (len(numbers) // 4)


@pytest.mark.slow
def test_the_evaluation_is_shared_and_complete(two: dict[str, Path]) -> None:
    final = two["whole"] / "eval" / "final"
    played = [(t.policy, t.task_id) for t in read_jsonl(final / "trajectories.jsonl")]
    assert len(played) == len(set(played)) == 2 * 16
    names = [name for name, _ in played]
    assert names == ["before"] * 16 + ["after"] * 16
    assert {row.policy for row in read_summary(final / "summary.json").rows} == {"before", "after"}


@pytest.mark.slow
def test_a_judge_that_raises_on_one_rank_costs_its_groups_and_nothing_else(two: dict[str, Path]) -> None:
    failing, whole = metrics_of(two["failing"]), metrics_of(two["whole"])
    assert [line["judge_failures"] for line in failing] == [4, 4]  # of 8: rank 1 judges every second group
    assert [line["judge_failures"] for line in whole] == [0, 0]
    assert failing[0]["grad_norm"] > 0 and failing[0]["loss"] != whole[0]["loss"]
    assert (two["failing"] / "report.html").is_file()


@pytest.mark.slow
def test_a_judge_that_hangs_costs_every_rank_its_time_out_and_no_more(two: dict[str, Path]) -> None:
    lines = metrics_of(two["hanging"])
    assert [line["judge_failures"] for line in lines] == [8, 8] and all(line["judge_calls"] > 0 for line in lines)
    assert all(2 <= line["judge_seconds"] < 10 for line in lines), "of the slowest rank; ample on a busy machine"
    assert all(line["reward"] is None or line["reward"] != line["reward"] for line in lines), "nobody was scored"
