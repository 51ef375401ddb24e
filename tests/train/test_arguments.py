"""Configurations: every one that ships loads, and what a dry run prints is the same configuration."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from trl import SFTConfig

from demur.envs.trace import Label
from demur.train import grpo, sft
from demur.train.arguments import GRPOArguments, TaskArguments, WarmUpArguments
from demur.train.folder import RunFolder
from tests.train.runs import BASE, ROOT, WARM_UP, write_config

SHIPPED = sorted(
    path for path in (ROOT / "configs").rglob("*.yaml") if path.parent.name not in ("accelerate", "ablations", "eval")
)


def script_of(path: Path) -> Any:
    """The script a configuration is for, by its name or its folder."""
    return sft if path.name.startswith("tiny") or path.parent.name == "sft" else grpo


def dry_run(script: Any, path: Path, capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    capsys.readouterr()
    script.main(["--config", str(path), "--dry_run", *flags])
    return capsys.readouterr().out


def test_configurations_ship() -> None:
    assert {"quickstart.yaml", "tiny_policy.yaml"} <= {path.name for path in SHIPPED}


@pytest.mark.parametrize("path", SHIPPED, ids=[str(path.relative_to(ROOT / "configs")) for path in SHIPPED])
def test_a_shipped_configuration_loads_and_prints_as_one_that_loads(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # nothing is looked for, nothing is written
    printed = dry_run(script_of(path), path, capsys)
    given, shown = yaml.safe_load(path.read_text()), yaml.safe_load(printed)
    both = given.keys() & shown.keys()  # what equals TRL's default is not shown
    assert {key: given[key] for key in both} == {key: shown[key] for key in both}
    (again := tmp_path / "printed.yaml").write_text(printed)
    assert dry_run(script_of(path), again, capsys) == printed
    assert list(tmp_path.iterdir()) == [again]


def test_a_dry_run_shows_all_our_keys_and_what_was_given_of_trls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_config(tmp_path, BASE, model_name_or_path="org/model", steps_per_generation=2, wandb=True)
    shown = yaml.safe_load(dry_run(grpo, path, capsys, "--learning_rate", "3e-4", "--worlds", "bank", "mail"))
    assert shown["learning_rate"] == 3e-4 and shown["worlds"] == ["bank", "mail"]  # flags win
    assert shown["reward"] == "pairwise" and shown["outcome_gate"] is True  # our defaults are written out
    assert shown["steps_per_generation"] == 2 and "generation_batch_size" not in shown  # TRL derives the latter
    assert not shown.keys() & {"run", "dry_run", "resume", "overwrite", "output_dir"}


def test_one_world_may_stand_without_a_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_config(tmp_path, BASE, model_name_or_path="org/model", worlds="bank")
    assert yaml.safe_load(dry_run(grpo, path, capsys))["worlds"] == ["bank"]


def test_a_configuration_for_gpus_can_be_looked_at_without_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_config(tmp_path, BASE, model_name_or_path="org/model", bf16=True, use_cpu=None)
    shown = yaml.safe_load(dry_run(grpo, path, capsys))
    assert shown["bf16"] is True and "use_cpu" not in shown


def test_scientific_numbers_need_no_point(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model_name_or_path: org/model\nuse_cpu: true\nbf16: false\nlearning_rate: 2e-4\n")  # text in YAML
    assert yaml.safe_load(dry_run(grpo, path, capsys))["learning_rate"] == 2e-4


def test_the_warm_ups_keys_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = yaml.safe_load(dry_run(sft, write_config(tmp_path, WARM_UP, from_scratch=True), capsys))
    assert shown["from_scratch"] is True and shown["expert_harmful"] == 1.0 and shown["width"] == 128


def test_the_mixture_reaches_the_tasks() -> None:
    keys = {"levels": [1, 2], "world_weights": [1, 0], "shuffle_tools": True, "offered_tools": 4}
    run_args = TaskArguments(worlds=["mail", "bank"], turn_limit=5, asking=False, **keys)  # type: ignore[arg-type]
    tasks = run_args.tasks("train", {Label.BENIGN: 8}, seed=1)
    assert {task.world for task in tasks} == {"mail"} and {task.level for task in tasks} <= {1, 2}
    assert {len(task.initial.offered()) for task in tasks} == {4}
    assert {task.turn_limit for task in tasks} == {5} and not any(task.offers_asking for task in tasks)


def test_a_curriculum_is_not_shuffled(tmp_path: Path) -> None:
    for curriculum in (True, False):
        run_args = TaskArguments(run=str(tmp_path), worlds=["mail"], curriculum=curriculum)
        args = GRPOArguments(output_dir=str(tmp_path), use_cpu=True, bf16=False)
        assert run_args.complete(args, (1, 1, 1, 0), RunFolder(tmp_path)).shuffle_dataset is not curriculum
        warm_up = SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False)
        strategy = WarmUpArguments().complete(warm_up, RunFolder(tmp_path), curriculum).train_sampling_strategy
        assert strategy == ("sequential" if curriculum else "random")
