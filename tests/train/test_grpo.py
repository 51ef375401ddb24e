"""Whole runs of train/grpo.py on a policy without skill: what they write, under each kind of reward."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import wandb
import yaml
from safetensors.torch import load_file

import demur.train.rollout
from demur.envs.policies.local import load_local
from demur.envs.trace import ActionKind, Label, Trajectory, read_jsonl
from demur.eval.report_run import StepRecord, read_run
from demur.rewards.judges.oracle import acceptable
from demur.train.grpo import main
from tests.train.runs import BASE, ScriptedTrainerPolicy, metrics_of, write_config


@pytest.mark.slow
def test_a_run_with_lora_trains_an_adapter_and_reports(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lora = {"use_peft": True, "lora_r": 4, "lora_target_modules": "all-linear"}
    judged = {"judge": "tests.train.judges:Texts", "outcome_gate": False}
    main(["--config", str(write_config(tmp_path, BASE, model_name_or_path=str(policy), **lora, **judged))])
    run = tmp_path / "run"
    weights = load_file(run / "adapter" / "adapter_model.safetensors")
    assert any(tensor.abs().max() > 0 for key, tensor in weights.items() if "lora_B" in key), "it learned something"
    load_local(str(policy), str(run / "adapter"))

    files = read_run(run)  # what the report reads
    for name in ("before", "after"):
        rows = {(row.metric, row.label): row for row in files.summary.rows if row.policy == name}
        assert rows["refusal_rate", "harmful"].n == rows["completion_rate", "benign"].n == 4
        assert {(row.suite, row.split, row.guard) for row in rows.values()} == {("worlds", "test", "none")}
    assert len(files.trajectories) == 2 * 16 and [step.step for step in files.steps] == [1, 2]
    assert files.manifest.seeds == {"run": 3} and set(files.manifest.data) == {"train", "test"}
    assert files.config["reward"] == "pairwise" and "run" not in files.config
    assert "<html" in (run / "report.html").read_text(encoding="utf-8")

    for line in metrics_of(run):
        assert line.keys() >= StepRecord.model_fields.keys()
        assert 0 < line["model_share"] <= 1 and line["tokens"] > 0 and line["tokens_per_second"] > 0
    shown = capsys.readouterr().out
    assert "step 2/2" in shown and f"report: {run / 'report.html'}" in shown


REWARDS: dict[str, dict[str, Any]] = {
    "pairwise": {},
    "pointwise": {"reward": "pointwise"},
    "outcome": {"reward": "outcome"},
    "gate off": {"outcome_gate": False},
    "one order": {"both_orders": False},
    "paper": {"outcome_gate": False, "both_orders": False, "asking": False, "scale_rewards": "group"},
    "no refusal, no check": {"refusal": False, "safety_thoughts": False},
    "weights": {"align_weight": 1.0, "format_weight": 0.0, "length_weight": 0.5, "intent_weight": 0.25},
}


@pytest.mark.parametrize("kind", REWARDS)
def test_a_step_under_each_kind_of_reward(
    kind: str, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demur.train.rollout, "TrainerPolicy", ScriptedTrainerPolicy)
    config = write_config(
        tmp_path, BASE, model_name_or_path=str(policy), turn_limit=4, max_steps=1, length_budget=10, **REWARDS[kind]
    )
    main(["--config", str(config)])
    (line,) = metrics_of(tmp_path / "run")
    stored = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    w_a, w_f, w_l, w_i = (stored[f"{part}_weight"] for part in ("align", "format", "length", "intent"))
    total = w_a * line["r_align"] + w_f * line["r_fmt"] - w_l * line["p_len"] + w_i * line["r_int"]
    assert line["reward"] == pytest.approx(total, rel=1e-5)  # TRL's sum of our parts is the rubric's
    assert line["judge_failures"] == 0 and line["grad_norm"] > 0 and line["p_len"] > 0

    rollouts = list(read_jsonl(tmp_path / "run" / "rollouts" / "step-000001.jsonl"))
    good = [acceptable(trajectory) for trajectory in rollouts]
    assert 0 < sum(good) < len(good)
    if kind == "outcome":
        assert line["r_align"] == pytest.approx(sum(good) / len(good))
    elif kind != "pointwise" and all(any(good[at : at + 4]) for at in (0, 4)):
        assert line["r_align"] == pytest.approx(0.5)  # wins and losses within a group even out


@pytest.mark.parametrize("guard", ["contract", "provenance"])
def test_a_guard_stands_before_rollouts_and_evaluations_and_its_verdicts_can_count(
    guard: str, policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demur.train.rollout, "TrainerPolicy", ScriptedTrainerPolicy)
    counted = {"guard": guard, "intent_weight": 1.0, "intent_terms": ["guarded"], "outcome_gate": False}
    small = {"turn_limit": 4, "max_steps": 1, **counted}
    main(["--config", str(write_config(tmp_path, BASE, model_name_or_path=str(policy), **small))])
    rollouts = list(read_jsonl(tmp_path / "run" / "rollouts" / "step-000001.jsonl"))
    turns = [turn for rollout in rollouts for turn in rollout.turns if turn.action.kind is ActionKind.CALL]
    assert turns and all([verdict.guard for verdict in turn.verdicts] == [guard] for turn in turns)
    assert all(turn.executed == turn.verdicts[0].level.lets_run for turn in turns)
    (line,) = metrics_of(tmp_path / "run")
    assert line["r_int"] == pytest.approx(sum(map(guarded_share, rollouts)) / len(rollouts) / 2)
    assert {row.guard for row in read_run(tmp_path / "run").summary.rows} == {guard}


def guarded_share(rollout: Trajectory) -> float:
    levels = [turn.verdicts[0].level for turn in rollout.turns if turn.verdicts]
    counts = levels and rollout.label in (Label.BENIGN, Label.INJECTED)
    return sum(level.lets_run for level in levels) / len(levels) if counts else 0.0


def test_a_run_without_adapter_writes_a_model(policy: Path, tmp_path: Path) -> None:
    judged = {"judge": "tests.train.judges:Texts", "outcome_gate": False}
    main(["--config", str(write_config(tmp_path, BASE, model_name_or_path=str(policy), max_steps=1, **judged))])
    old, new = (load_file(path / "model.safetensors") for path in (policy, tmp_path / "run" / "model"))
    assert old.keys() == new.keys() and not all(torch.equal(old[key], new[key]) for key in old)
    assert load_local(str(tmp_path / "run" / "model")).tokenizer.chat_template


def break_wandb(where: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let one function of wandb raise; returns the names of those that are called, as they are."""
    seen: list[str] = []

    def call(name: str) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            seen.append(name)
            if name == where:
                raise ConnectionError("wandb is away")
            return SimpleNamespace(log=call("log"), finish=call("finish"))

        return run

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr(wandb, "init", call("init"))
    return seen


@pytest.mark.parametrize(
    ("where", "calls"),
    [
        ("init", ["init"]),
        ("log", ["init", "log"]),
        ("finish", ["init", "log", "log", "log", "finish"]),
        ("nowhere", ["init", "log", "log", "log", "finish"]),  # two steps and TRL's summary
    ],
)
def test_wandb_never_stops_a_run(
    where: str,
    calls: list[str],
    policy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen = break_wandb(where, monkeypatch)
    main(["--config", str(write_config(tmp_path, BASE, model_name_or_path=str(policy), wandb=True))])
    assert seen == calls
    shown = capsys.readouterr().out
    assert shown.count("wandb is off from here on: ConnectionError: wandb is away") == (where != "nowhere")
    assert (tmp_path / "run" / "report.html").is_file() and len(metrics_of(tmp_path / "run")) == 2


def test_wandb_is_off_unless_switched_on(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = break_wandb("init", monkeypatch)
    main(["--config", str(write_config(tmp_path, BASE, model_name_or_path=str(policy), max_steps=1))])
    assert seen == []
