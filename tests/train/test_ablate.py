"""Ablations: every file that ships resolves, bad ones are one line, and a failed cell costs nothing but itself."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from demur.envs.trace import write_lines
from demur.eval.ablation_cells import CellRecord, cells_file, read_cells
from demur.train import ablate
from demur.train.ablation import load_plan
from demur.train.cells import Ranks
from demur.train.checks import one_line_errors
from demur.train.folder import RunFolder
from tests.train.runs import BASE, ROOT, environment, error_of

SHIPPED = sorted((ROOT / "configs" / "ablations").glob("*.yaml"))
CELLS = {
    "pairwise-vs-pointwise": 24,
    "paper-safety-thoughts": 6,
    "paper-pointwise": 6,
    "outcome-gate-and-scaling": 18,
    "group-size": 9,
    "length-budget": 9,
    "reward-weights": 15,
}


def write_ablation(folder: Path, model: str = "org/model", **changes: Any) -> Path:
    """An ablation of two arms and one seed beside its base; None takes a key out."""
    base = {**BASE, "model_name_or_path": model, "run": "ignored", "seed": 99}
    (folder / "base.yaml").write_text(yaml.safe_dump(base))
    keys = {
        "base": "base.yaml",
        "run": str(folder / "ab"),
        "seeds": [1],
        "factors": {"reward": {"pairwise": {"reward": "pairwise"}, "outcome": {"reward": "outcome"}}},
        **changes,
    }
    path = folder / "ablation.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in keys.items() if v is not None}, sort_keys=False))
    return path


def test_each_shipped_ablation_is_counted() -> None:
    assert {path.stem for path in SHIPPED} == CELLS.keys()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_ablation_resolves(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ablate.main(["--config", str(path), "--dry_run"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert len(shown["cells"]) == CELLS[path.stem] and shown["shared"]["worlds"]
    differing = [json.dumps(cell, sort_keys=True) for cell in shown["cells"].values()]
    assert len(set(differing)) == len(differing), "two cells are the same run"
    assert not list(tmp_path.iterdir())


def test_a_cell_is_base_then_file_then_setting_then_flag(tmp_path: Path) -> None:
    path = write_ablation(tmp_path, max_steps=7, learning_rate=0.5)
    plan = load_plan(path, ["--learning_rate", "0.25"], seeds=[4, 5])
    assert [cell.name for cell in plan.cells] == ["pairwise-seed4", "pairwise-seed5", "outcome-seed4", "outcome-seed5"]
    config = plan.cells[-1].config
    assert (config["reward"], config["seed"], config["max_steps"], config["learning_rate"]) == ("outcome", 5, 7, 0.25)
    assert "run" not in plan.cells[0].keys


def test_listed_cells_replace_the_crossing(tmp_path: Path) -> None:
    factors = {
        "a": {"x": {"reward": "pairwise"}, "y": {"reward": "outcome"}},
        "b": {"on": {"refusal": True}, "no_r": {}},
    }
    path = write_ablation(tmp_path, factors=factors, cells=[{"b": "no_r", "a": "y"}])
    (cell,) = load_plan(path).cells
    assert (cell.name, cell.settings) == ("y-no_r-seed1", {"a": "y", "b": "no_r"})


BAD: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "no factors": ({"factors": {}}, [], "there is nothing to run"),
    "no seeds": ({"seeds": []}, [], "there is nothing to run"),
    "names that are numbers": ({"factors": {"n": {4: {"num_generations": 4}}}}, [], "want quotes"),
    "name with a slash": ({"factors": {"n": {"../x": {}}}}, [], "part of a folder's name"),
    "misspelt key": ({"max_stepz": 3}, [], "there is no key 'max_stepz'"),
    "bad value": ({"factors": {"r": {"x": {"reward": "pairwize"}}}}, [], "cell x-seed1: reward must be one of"),
    "unknown setting": ({"cells": [{"reward": "none"}]}, [], "reward has no setting 'none'"),
    "cell lacks a factor": ({"cells": [{}]}, [], "must name a setting of each factor"),
    "base that is not there": ({"base": "gone.yaml"}, [], "there is no configuration file"),
    "same cell twice": ({"seeds": [1, 1]}, [], "two cells are named pairwise-seed1"),
    "flag of a factor": ({}, ["--reward", "outcome"], "--reward is what a factor of"),
    "seed as a flag": ({}, ["--seed", "3"], "use --seeds"),
    "misspelt flag": ({}, ["--lerning_rate", "1"], "there is no flag --lerning_rate"),
    "only what is not": ({}, ["--only", "nothing"], "its arms are pairwise, outcome"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_writes_nothing(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes, flags, says = BAD[case]
    path = write_ablation(tmp_path, **changes)
    status, line = error_of(ablate.main, ["--config", str(path), *flags], capsys)
    assert status == 2 and says in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ablation.yaml", "base.yaml"]


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_ablation(tmp_path)
    (tmp_path / "ab").mkdir()
    (tmp_path / "ab" / "thesis.txt").write_text("mine")
    status, line = error_of(ablate.main, ["--config", str(path)], capsys)
    assert status == 2 and "choose another folder with --run" in line
    assert [p.name for p in (tmp_path / "ab").iterdir()] == ["thesis.txt"]


def test_a_folder_with_another_ablation_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_ablation(tmp_path)
    other = CellRecord(name="n8-seed1", arm="n8", settings={"n": "n8"}, seed=1)
    write_lines(cells_file(tmp_path / "ab"), [other.model_dump_json()])
    status, line = error_of(ablate.main, ["--config", str(path)], capsys)
    assert status == 2 and "holds another ablation" in line
    assert cells_file(tmp_path / "ab").read_text() == other.model_dump_json() + "\n"


def test_what_is_finished_is_skipped_only_with_the_same_configuration(tmp_path: Path) -> None:
    path = write_ablation(tmp_path)
    plan = load_plan(path)
    for cell in plan.cells:
        folder = RunFolder(plan.run / "cells" / cell.name)
        folder.final.mkdir(parents=True)
        (folder.final / "summary.json").write_text("{}")
        config = cell.config if cell.arm == "pairwise" else {**cell.config, "learning_rate": 0.9}
        folder.config.write_text(yaml.safe_dump(config))
    old = CellRecord(name="outcome-seed1", arm="outcome", settings={}, seed=1, state="failed", error="gone")
    write_lines(cells_file(plan.run), [old.model_dump_json()])
    known = ablate._known(plan)
    assert [record.state for record in known.values()] == ["finished", "failed"]
    assert known["outcome-seed1"].error == "gone" and known["pairwise-seed1"].error is None


def test_cells_of_other_seeds_stay_in_the_list_if_they_are_still_the_same(tmp_path: Path) -> None:
    path = write_ablation(tmp_path)
    plan = load_plan(path, seeds=[42, 2])  # 42 is the default, which a resolved configuration leaves out
    for cell in plan.cells:
        config = {**cell.config, "learning_rate": 0.9} if cell.name == "outcome-seed2" else cell.config
        folder = RunFolder(plan.run / "cells" / cell.name)
        folder.final.mkdir(parents=True)
        folder.config.write_text(yaml.safe_dump(config))
    before = [ablate._record(cell, "finished", None) for cell in plan.cells]
    gone = CellRecord(name="gone-seed2", arm="gone", settings={}, seed=2, state="finished")
    write_lines(cells_file(plan.run), [record.model_dump_json() for record in [*before, gone]])
    known = ablate._known(load_plan(path, seeds=[7]))
    assert {name: record.state for name, record in known.items()} == {
        "pairwise-seed7": "open",
        "pairwise-seed42": "finished",
        "pairwise-seed2": "finished",
        "outcome-seed7": "open",
        "outcome-seed42": "finished",
        "outcome-seed2": "open",
    }
    assert "another one than today's" in (known["outcome-seed2"].error or "")


CHILD = """
import os, sys, time
from pathlib import Path
import demur.train.cells as cells
from demur.train.cells import Ranks
out = Path(sys.argv[1])
cells.MODULE = "child"
ranks = Ranks(dict(os.environ))
out.mkdir(exist_ok=True)
for cell in ("fails", "works"):
    error = ranks.run(cell, [cell], out / f"{cell}{ranks.rank}.log")
    (out / f"{cell}{ranks.rank}.txt").write_text(str(error))
"""
WORK = """
import os, sys, time
rank = os.environ["RANK"]
print("port", os.environ["MASTER_PORT"], flush=True)
if sys.argv[1] == "fails":
    if rank == "1":
        print("error: no memory left")
        sys.exit(3)
    time.sleep(600)  # in a collective, for ever
"""


def test_ranks_end_a_cell_together_when_one_fails_and_go_on(tmp_path: Path) -> None:
    (tmp_path / "walk.py").write_text(CHILD)
    (tmp_path / "child.py").write_text(WORK)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*command, str(tmp_path / "walk.py"), str(tmp_path / "out")],
        env={**environment(), "PYTHONPATH": os.pathsep.join((str(ROOT), str(tmp_path)))},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = {path.stem: path.read_text() for path in (tmp_path / "out").glob("*.txt")}
    assert said == {"fails0": "no memory left", "fails1": "no memory left", "works0": "None", "works1": "None"}
    ports = {name: [(tmp_path / "out" / f"{name}{r}.log").read_text().split()[1] for r in "01"] for name in ("works",)}
    assert ports["works"][0] == ports["works"][1]


def test_a_killed_cell_says_its_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dies.py").write_text("import os\nprint('step 1', flush=True)\nos.kill(os.getpid(), 9)\n")
    monkeypatch.setattr("demur.train.cells.MODULE", "dies")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert Ranks(dict(os.environ)).run("cell", [], tmp_path / "log") == "stopped by signal 9; last words: step 1"


@pytest.mark.slow
def test_a_failed_cell_is_recorded_and_done_at_the_next_call(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for key, value in environment().items():
        monkeypatch.setenv(key, value)
    path = write_ablation(tmp_path, str(policy))
    run = tmp_path / "ab"
    blocked = run / "cells" / "pairwise-seed1"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("a file where the run should be")
    write_lines(cells_file(run), [])
    with one_line_errors():
        assert ablate.main(["--config", str(path)]) == 1
    failed, finished = read_cells(run)
    assert failed.state == "failed" and "is a file" in (failed.error or "") and finished.state == "finished"
    assert (run / "ablation.html").is_file()
    stamp = (run / "cells" / "outcome-seed1" / "report.html").stat().st_mtime_ns

    blocked.unlink()
    assert ablate.main(["--config", str(path)]) == 0
    assert [record.state for record in read_cells(run)] == ["finished", "finished"]
    assert (run / "cells" / "outcome-seed1" / "report.html").stat().st_mtime_ns == stamp, "it was not run again"
    result = json.loads((run / "ablation.json").read_text())
    assert [arm["name"] for arm in result["arms"]] == ["pairwise", "outcome"] and not result["unfinished"]
    assert "outcome against pairwise" in capsys.readouterr().out
