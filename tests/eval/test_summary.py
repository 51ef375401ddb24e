"""`summary.json`, the manifest in it, and the table printed from it."""

import getpass
import json
import os
import socket
from pathlib import Path

import pytest
from rich.console import Console

from demur.envs.exchange import fingerprint
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label
from demur.eval.compare import compare
from demur.eval.manifest import manifest, prompt_hashes
from demur.eval.metrics import metric_rows
from demur.eval.summary import Summary, read_summary, write_summary
from demur.eval.table import before_after_table, number
from tests.eval.runs import COUNTS, evaluate, make_trace

ROW_KEYS = {"policy", "guard", "suite", "split", "label", "metric", "value", "n", "ci_low", "ci_high"}


@pytest.fixture(scope="module")
def summary() -> Summary:
    trajectories = evaluate(make_tasks(["mail"], "test", COUNTS))
    return Summary(manifest=manifest(seeds={"tasks": 0}), rows=tuple(metric_rows(trajectories)))


def test_the_file_keeps_the_contract_and_reads_back(summary: Summary, tmp_path: Path) -> None:
    path = tmp_path / "eval" / "final" / "summary.json"
    write_summary(path, summary)
    content = json.loads(path.read_text(encoding="utf-8"))
    assert set(content) == {"schema", "manifest", "rows"}
    assert content["schema"] == 1
    assert all(set(row) == ROW_KEYS for row in content["rows"])
    assert read_summary(path) == summary
    assert os.listdir(path.parent) == ["summary.json"]


def test_a_failed_write_leaves_the_old_file(summary: Summary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.json"
    write_summary(path, summary)
    kept = path.read_bytes()

    def full_disk(self: Path, *_: object, **__: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_summary(path, summary)
    assert path.read_bytes() == kept
    assert os.listdir(tmp_path) == ["summary.json"]


@pytest.mark.parametrize("content", ["", "[]", '{"schema": 2, "manifest": {}, "rows": []}', '{"rows": 1}'])
def test_what_is_not_a_summary_is_named(content: str, tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"summary\.json is not a summary"):
        read_summary(path)


def test_the_manifest_can_be_published(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMUR_TEST_SECRET", "hunter2-hunter2")
    text = manifest(seeds={"train": 7}, notes={"eval_judge": "none"}).model_dump_json()
    content = json.loads(text)
    assert content["seeds"] == {"train": 7}
    assert content["versions"]["numpy"]
    assert set(content["prompts"]) == {"compact.txt", "full.txt"}
    places = [os.getcwd(), str(Path.home()) + "/", socket.gethostname(), f'"{getpass.getuser()}"']
    for private in ("hunter2-hunter2", *places):
        assert private not in text


def test_a_fingerprint_changes_with_the_data_and_only_with_it() -> None:
    counts = {Label.BENIGN: 3}
    assert fingerprint(make_tasks(["mail"], "test", counts)) == fingerprint(make_tasks(["mail"], "test", counts))
    assert fingerprint(make_tasks(["mail"], "test", counts)) != fingerprint(
        make_tasks(["mail"], "test", counts, seed=1)
    )
    task = make_tasks(["mail"], "test", counts)[0]
    before = fingerprint([task])
    key = next(iter(task.initial.model_dump()["events"]))
    getattr(task.initial, "events")[key].note = "a word more"  # noqa: B009
    assert fingerprint([task]) != before


def test_prompt_hashes_are_of_the_shipped_files() -> None:
    assert all(len(digest) == 64 for digest in prompt_hashes().values())


def printed(summary: Summary, width: int, paired: bool) -> str:
    console = Console(width=width, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    trajectories = evaluate(make_tasks(["mail"], "test", COUNTS))
    console.print(before_after_table(summary, compare(trajectories) if paired else ()))
    return console.export_text()


@pytest.mark.parametrize("paired", [False, True])
def test_the_table_shows_the_rows_numbers(summary: Summary, paired: bool) -> None:
    text = printed(summary, 140, paired)
    line = next(line for line in text.splitlines() if "Refused the harmful task" in line)
    for policy in ("before", "after"):
        row = summary.row(policy, "refusal_rate", "harmful")
        assert row is not None
        assert f"{100 * row.value:.1f}% [{100 * row.ci_low:.1f},{100 * row.ci_high:.1f}]" in line
    assert ("change, paired" in text) is paired
    assert "harmful, 24 tasks" in text
    assert "all, 72 tasks" in text


def test_the_table_fits_a_narrow_terminal(summary: Summary) -> None:
    assert max(len(line) for line in printed(summary, 80, True).splitlines()) <= 80


def test_numbers_are_shown_in_their_unit() -> None:
    assert number("completion_rate", 0.925) == "92.5%"
    assert number("completion_rate", -0.00001, signed=True) == "+0.0"
    assert number("completion_rate", -0.125, signed=True) == "-12.5"
    assert number("tokens_per_task", 311.26) == "311.3"
    assert number("refusal_turn", 0.5) == "0.50"


def test_a_policy_that_was_not_evaluated_has_no_value(summary: Summary) -> None:
    assert summary.value("after", "refusal_rate", "harmful") is not None
    assert summary.value("nobody", "refusal_rate", "harmful") is None
    assert (
        Summary(manifest=summary.manifest, rows=tuple(metric_rows([make_trace()]))).row(
            "after", "refusal_rate", "harmful"
        )
        is None
    )
