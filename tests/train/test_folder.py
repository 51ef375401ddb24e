"""The run's folder: who may write into it, and from where a run goes on."""

import json
from pathlib import Path

import pytest

from demur.train.folder import COMPLETE, RunFolder

CONFIG = {"worlds": ["bank"], "seed": 1, "max_steps": 4}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    claimed = RunFolder(tmp_path / "runs" / "mine")
    claimed.claim(CONFIG, resume=False, overwrite=False)
    return claimed


def checkpoint(folder: RunFolder, step: int, complete: bool = True) -> Path:
    path = folder.checkpoints / f"checkpoint-{step}"
    path.mkdir(parents=True)
    if complete:
        (path / COMPLETE).touch()
    return path


def test_a_claimed_folder_says_whose_it_is(folder: RunFolder) -> None:
    assert folder.stored_config() == CONFIG and not folder.finished
    with pytest.raises(ValueError, match="holds an unfinished run"):
        folder.claim(CONFIG, resume=False, overwrite=False)


def test_a_run_goes_on_with_its_own_configuration_and_may_get_longer(folder: RunFolder) -> None:
    folder.claim({**CONFIG, "max_steps": 8}, resume=True, overwrite=False)
    assert folder.stored_config() == {**CONFIG, "max_steps": 8}
    with pytest.raises(ValueError, match=r"another configuration \(lora_r: None there, 8 now, seed: 1 there, 2 now\)"):
        folder.claim({**CONFIG, "seed": 2, "lora_r": 8}, resume=True, overwrite=False)


def test_an_empty_folder_may_be_claimed(tmp_path: Path) -> None:
    RunFolder(tmp_path).claim(CONFIG, resume=False, overwrite=False)
    assert RunFolder(tmp_path).stored_config() == CONFIG


def test_overwriting_deletes_a_run(folder: RunFolder) -> None:
    checkpoint(folder, 2)
    folder.claim({**CONFIG, "seed": 2}, resume=False, overwrite=True)
    assert folder.last_checkpoint() is None and folder.stored_config() == {**CONFIG, "seed": 2}


def test_a_run_goes_on_from_the_last_whole_checkpoint(folder: RunFolder) -> None:
    assert folder.last_checkpoint() is None
    for step, complete in ((2, True), (10, True), (9, True), (12, False)):
        checkpoint(folder, step, complete)
    last = folder.last_checkpoint()
    assert last is not None and last.name == "checkpoint-10"


def test_what_lies_behind_the_checkpoint_is_forgotten(folder: RunFolder) -> None:
    for step in (2, 4, 6):
        checkpoint(folder, step, complete=step < 6)
    lines = [json.dumps({"step": step, "loss": 0.0}) for step in (1, 2, 3, 4, 5)]
    folder.metrics.write_text("\n".join(lines) + '\n{"step": 6, "lo')  # cut off in the middle of a line
    folder.forget_after(4)
    assert folder.metrics.read_text().splitlines() == lines[:4]
    assert sorted(path.name for path in folder.checkpoints.iterdir()) == ["checkpoint-2", "checkpoint-4"]
    folder.forget_after(0)
    assert folder.metrics.read_text() == "" and not list(folder.checkpoints.iterdir())
