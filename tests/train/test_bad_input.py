"""Whatever is wrong with the input, a script says so in one line, and writes nothing."""

import errno
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import demur.train.progress
from demur.envs.policies.loading import load_model
from demur.envs.trace import Trajectory, read_jsonl, write_jsonl
from demur.train import grpo, sft
from demur.train.checks import one_line_errors
from tests.train.runs import BASE, LABELS, ROOT, WARM_UP, environment, error_of, metrics_of, one_error, write_config

NONE_TO_TRAIN = dict.fromkeys((f"train_{label}" for label in LABELS), 0)
CASES: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "misspelt key": ({"max_stps": 3}, [], "there is no key 'max_stps'; did you mean 'max_steps'?"),
    "unknown flag": ({}, ["--colour", "red"], "there is no flag --colour"),
    "misspelt flag": ({}, ["--max_stps=3"], "there is no flag --max_stps; did you mean 'max_steps'?"),
    "flag cut short": ({}, ["--num_gen", "2"], "there is no flag --num_gen"),
    "misspelt choice": ({"reward": "pairwize"}, [], "reward must be one of pairwise, pointwise, outcome"),
    "misspelt choice as flag": ({}, ["--reward", "pairwize"], "invalid choice: 'pairwize'"),
    "word for a number": ({"max_steps": "many"}, [], "invalid int value: 'many'"),
    "list for a number": ({"max_steps": [1]}, [], "max_steps must be a whole number, not [1]"),
    "fraction for a count": ({"train_benign": 2.5}, [], "train_benign must be a whole number, not 2.5"),
    "number for a switch": ({"outcome_gate": 3}, [], "outcome_gate must be true or false, not 3"),
    "no model": ({"model_name_or_path": None}, [], "no model is named: set model_name_or_path"),
    "no such model": ({"model_name_or_path": "/nowhere/tiny"}, [], "there is no model at /nowhere/tiny"),
    "no such world": ({"worlds": "bnk"}, [], "there is no world 'bnk': use one of bank, chat, cloud"),
    "no such level": ({"levels": [1, 9]}, [], "levels must be some of (1, 2, 3, 4, 5), not (1, 9)"),
    "weights that sum to nothing": ({"worlds": ["bank"], "world_weights": [0]}, [], "sum to nothing: set one above 0"),
    "a weight too many": ({"worlds": ["bank"], "world_weights": [1, 2]}, [], "2 weights for 1 worlds"),
    "more than all Chinese": ({"chinese": 2}, [], "chinese must be from 0 to 1, not 2"),
    "no such judge": ({"judge": "orcale"}, [], "there is no judge 'orcale': use oracle"),
    "no tasks to train on": (NONE_TO_TRAIN, [], "there is nothing to train on"),
    "fewer tasks than a step takes": (
        {**NONE_TO_TRAIN, "train_benign": 1},
        [],
        "a step takes 2 training tasks, but there are 1",
    ),
    "no tasks to evaluate": (
        dict.fromkeys((f"eval_{label}" for label in LABELS), 0),
        [],
        "there is nothing to evaluate",
    ),
    "no turn": ({"turn_limit": 0}, [], "turn_limit must be at least 1"),
    "no token": ({"max_turn_tokens": 0}, [], "max_turn_tokens must be at least 1"),
    "context too small": ({"max_turn_tokens": 1000}, [], "and a turn up to 1000, but the context has 1024"),
    "group that does not fit": ({"num_generations": 3}, [], "a batch of 8 rollouts"),
    "group of one": ({"num_generations": 1}, [], "at least 2 generations"),
    "nothing to resume": ({}, ["--resume"], "holds no run to resume"),
    "resume and overwrite": ({}, ["--resume", "--overwrite"], "leave one of them out"),
    "too few valid turns": ({"min_valid_turns": 0.9}, [], "the policy writes 0% valid turns, 90% are needed"),
    "too few completed": ({"min_completion": 0.9}, [], "the policy completes 0% of the benign tasks, 90% are"),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_one_line_and_nothing_is_written(
    case: str, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, flags, says = CASES[case]
    config = write_config(tmp_path, BASE, **{"model_name_or_path": str(policy), **changes})
    status, line = error_of(grpo.main, ["--config", str(config), *flags], capsys)
    assert status == 2 and says in line
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize("case", ["misspelt key", "word for a number", "no model", "no tasks to train on", "no turn"])
def test_the_warm_up_says_so_too(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes, flags, says = CASES[case]
    config = write_config(tmp_path, WARM_UP, **changes)
    status, line = error_of(sft.main, ["--config", str(config), *flags], capsys)
    assert status == 2 and says in line
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("- a list\n", "must hold keys and values"),
        ("", "must hold keys and values"),
        ("a: [1\n", "is not valid YAML"),
        (None, "there is no configuration file"),
    ],
)
def test_a_configuration_that_is_none(
    text: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)
    status, line = error_of(grpo.main, ["--config", str(path)], capsys)
    assert status == 2 and says in line and str(path) in line


def test_a_config_flag_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert error_of(grpo.main, ["--max_steps", "2", "--config"], capsys)[0] == 2


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("config.json", "holds no model: config.json is missing"),
        ("tokenizer.json", "cannot load the tokenizer of"),
        ("model.safetensors", "cannot load the model"),
    ],
)
@pytest.mark.parametrize("how", ["missing", "cut off"])
def test_a_folder_with_half_a_model(
    broken: str, says: str, how: str, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = shutil.copytree(policy, tmp_path / "model")
    if how == "missing":
        (model / broken).unlink()
    else:
        (model / broken).write_bytes((model / broken).read_bytes()[:40])
        says = says if broken != "config.json" else "is not a valid JSON file"
    config = write_config(tmp_path, BASE, model_name_or_path=str(model))
    status, line = error_of(grpo.main, ["--config", str(config)], capsys)
    assert status == 2 and says in line
    assert not (tmp_path / "run").exists()


def test_an_adapter_for_another_base(policy: Path, tmp_path: Path) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "org/other"}')
    with pytest.raises(ValueError, match="was made for org/other, not for"):
        load_model(str(policy), adapter=str(tmp_path))


# ---- folders that hold something


@pytest.fixture
def finished(policy: Path, tmp_path: Path) -> Path:
    """The configuration of a run that lies finished beside it."""
    config = write_config(tmp_path, BASE, model_name_or_path=str(policy), max_steps=1, save_steps=1)
    grpo.main(["--config", str(config)])
    return config


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_folder_with_a_run_is_left_alone(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = finished.parent / "run"
    before = content(run)
    assert len(before) > 10
    for flags, says in {
        (): "holds a finished run: --resume goes on with it, --overwrite deletes it, --run names another",
        ("--resume", "--learning_rate", "3e-3"): "another configuration (learning_rate: 0.001 there, 0.003 now)",
        ("--resume", "--overwrite"): "leave one of them out",
    }.items():
        status, line = error_of(grpo.main, ["--config", str(finished), *flags], capsys)
        assert status == 2 and says in line
        assert content(run) == before
    (run / "report.html").unlink()
    assert "holds an unfinished run" in error_of(grpo.main, ["--config", str(finished)], capsys)[1]


@pytest.mark.parametrize("name", ["notes.txt", "config.yaml"])
@pytest.mark.parametrize("text", ["mine", "- mine", "mine: [", "site_name: mine"])
@pytest.mark.parametrize("flag", ["", "--overwrite", "--resume"])
def test_foreign_files_are_left_alone(
    name: str, text: str, flag: str, policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = write_config(tmp_path, BASE, model_name_or_path=str(policy))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).write_text(text)
    status, line = error_of(grpo.main, ["--config", str(config), *filter(None, [flag])], capsys)
    assert status == 2 and ("choose another folder with --run" in line or "no run to resume" in line)
    assert content(tmp_path / "run") == {name: text.encode()}


def test_a_file_where_the_folder_should_be(policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path, BASE, model_name_or_path=str(policy), run=str(policy / "config.json"))
    status, line = error_of(grpo.main, ["--config", str(config)], capsys)
    assert status == 2 and "is a file; choose a folder with --run" in line


# ---- a full disk


def test_a_disk_that_fills_up_while_rollouts_are_written(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def until_full(trajectories: list[Trajectory]) -> Iterator[Trajectory]:
        yield from trajectories[:3]
        raise OSError(errno.ENOSPC, "No space left on device")

    def write(path: Path, trajectories: list[Trajectory]) -> None:
        write_jsonl(path, until_full(trajectories) if path.name == "step-000002.jsonl" else trajectories)

    config = write_config(tmp_path, BASE, model_name_or_path=str(policy), save_steps=1)
    with monkeypatch.context() as patch:
        patch.setattr(demur.train.progress, "write_jsonl", write)
        status, line = error_of(grpo.main, ["--config", str(config)], capsys)
    run = tmp_path / "run"
    assert status == 1
    assert "No space left on device; free some space, then go on with --resume" in line
    assert [path.name for path in (run / "rollouts").iterdir()] == ["step-000001.jsonl"]
    assert len(list(read_jsonl(run / "rollouts" / "step-000001.jsonl"))) == 8
    assert [entry["step"] for entry in metrics_of(run)] == [1]

    grpo.main(["--config", str(config), "--resume"])  # with space again, nothing was lost
    assert [entry["step"] for entry in metrics_of(run)] == [1, 2] and (run / "report.html").is_file()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_disk_that_fills_up_while_a_checkpoint_is_written(size: int, capsys: pytest.CaptureFixture[str]) -> None:
    def save(argv: list[str]) -> None:
        torch.save({"weights": torch.zeros(size)}, "/dev/full")

    status, line = error_of(save, [], capsys)
    assert status == 1 and "the disk seems to be full; free some space, then go on with --resume" in line


def test_other_faults_keep_their_traceback() -> None:
    with pytest.raises(RuntimeError, match="a bug"), one_line_errors():
        raise RuntimeError("a bug")


# ---- as a user meets it


@pytest.mark.slow
@pytest.mark.parametrize("script", ["grpo", "sft"])
def test_the_command_itself_prints_one_line(script: str, policy: Path, tmp_path: Path) -> None:
    base, case = {"grpo": (BASE, "context too small"), "sft": (WARM_UP, "misspelt key")}[script]
    changes, flags, says = CASES[case]
    config = write_config(tmp_path, base, **{"model_name_or_path": str(policy), **changes})
    done = subprocess.run(
        [sys.executable, str(ROOT / "train" / f"{script}.py"), "--config", str(config), *flags],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout) == (2, "") and says in one_error(done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]
