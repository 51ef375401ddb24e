"""The warm-up: what carries loss, and policies that come out of it."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from trl import SFTTrainer

from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.policies.local import load_local
from demur.envs.trace import Label
from demur.train import sft
from demur.train.demonstrations import FINE, IGNORED, choose_scripts
from demur.train.sft import main
from tests.train.runs import COMPACT, WARM_UP, sample_tasks, write_config

SMALL = {"from_scratch": True, "layers": 2, "width": 32, "heads": 2, "hidden": 64, "vocabulary": 700}


LINEAR = set("q_proj k_proj v_proj o_proj gate_proj up_proj down_proj".split())


class Watched(SFTTrainer):
    """Keeps the batches that the loss is computed from."""

    batches: list[dict[str, torch.Tensor]]

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        Watched.batches.append({key: value.clone() for key, value in inputs.items()})
        return super().compute_loss(model, inputs, *args, **kwargs)


def test_a_policy_from_nothing_is_trained_on_the_assistants_tokens_and_can_be_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Watched.batches = []
    monkeypatch.setattr(sft, "SFTTrainer", Watched)
    main(["--config", str(write_config(tmp_path, WARM_UP, **SMALL))])
    run = tmp_path / "run"
    shown = capsys.readouterr().out
    assert "step 3/3 · loss" in shown and f"policy: {run / 'model'}" in shown and "completion_rate" in shown
    assert (run / "config.yaml").is_file() and (run / "manifest.json").is_file()

    policy = load_local(str(run / "model"), max_new_tokens=8)
    rows = [row for batch in Watched.batches for row in zip(batch["input_ids"], batch["labels"], strict=True)]
    assert len(rows) == 4 * WARM_UP["train_benign"]  # three steps are an epoch
    for ids, labels in rows:
        assert (ids[labels != IGNORED] == labels[labels != IGNORED]).all()
        text = policy.tokenizer.decode(ids[ids != policy.tokenizer.pad_token_id])
        turns = [part.split("<|end|>")[0] for part in text.split("<|assistant|>")[1:]]
        trained = policy.tokenizer.decode(labels[labels != IGNORED])
        assert turns and trained == "".join(f"{turn}<|end|>" for turn in turns)

    played = run_batched([Episode(task, COMPACT) for task in sample_tasks("validation", 1)], policy)
    assert all(0 < turn.tokens.total <= 8 for trajectory in played for turn in trajectory.turns)


@pytest.mark.slow
def test_a_warm_up_goes_on_as_if_it_had_not_been_stopped(tmp_path: Path) -> None:
    config = write_config(tmp_path, WARM_UP, **SMALL, max_steps=5, save_steps=1)
    stopped = str(tmp_path / "stopped")
    main(["--config", str(config)])
    main(["--config", str(config), "--run", stopped, "--max_steps", "3"])
    main(["--config", str(config), "--run", stopped, "--resume"])
    whole, resumed = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("run", "stopped"))
    assert whole.keys() == resumed.keys() and all(torch.equal(whole[key], resumed[key]) for key in whole)


def test_an_adapter_on_a_policy_is_trained_and_fits_it_alone(policy: Path, tmp_path: Path) -> None:
    lora = {"use_peft": True, "lora_r": 4, "lora_target_modules": "all-linear"}
    main(["--config", str(write_config(tmp_path, WARM_UP, model_name_or_path=str(policy), **lora))])
    adapter = tmp_path / "run" / "adapter"
    assert not (tmp_path / "run" / "model").exists()
    weights = load_file(adapter / "adapter_model.safetensors")
    assert {key.split(".")[-3] for key in weights} == LINEAR
    assert any(tensor.abs().max() > 0 for key, tensor in weights.items() if "lora_B" in key), "it learned something"
    with_adapter = load_local(str(policy), str(adapter), max_new_tokens=8)
    assert with_adapter.name == "adapter"
    assert len(run_batched([Episode(task, COMPACT) for task in sample_tasks("validation", 1)], with_adapter)) == 4


def test_demonstrations_do_the_right_thing_as_often_as_told() -> None:
    tasks = sample_tasks(count=60)
    share = {Label.BENIGN: 1.0, Label.HARMFUL: 0.5, Label.INJECTED: 0.0, Label.UNDERSPECIFIED: 1.0}
    scripts = choose_scripts(tasks, share, 0.0, Random(1))
    done = {label: [scripts[t.id] == t.expert for t in tasks if t.label is label] for label in Label}
    assert all(done[Label.BENIGN]) and all(done[Label.UNDERSPECIFIED]) and not any(done[Label.INJECTED])
    assert 15 < sum(done[Label.HARMFUL]) < 45


def test_checks_stand_before_harmless_calls_too() -> None:
    tasks = [task for task in sample_tasks(count=20) if task.label is Label.BENIGN]
    always = choose_scripts(tasks, dict.fromkeys(Label, 1.0), 1.0, Random(1))
    calls = [step for script in always.values() for step in script if step.call is not None]
    assert calls and all(step.check for step in calls) and any(step.check == FINE for step in calls)
    never = choose_scripts(tasks, dict.fromkeys(Label, 1.0), 0.0, Random(1))
    assert never == {task.id: task.expert for task in tasks}
