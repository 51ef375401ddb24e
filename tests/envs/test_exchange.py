"""Tasks as rows: nothing is lost, nothing changed goes unnoticed, and no code comes from a file."""

import json
from pathlib import Path

import pytest

from demur.envs.exchange import fingerprint, from_dataset, from_row, read_tasks, to_dataset, to_row, write_tasks
from demur.envs.task import Task
from demur.envs.taskset import Mix, make_tasks
from demur.envs.trace import Label

COUNTS = dict.fromkeys(Label, 5)


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    plain = make_tasks(["bank", "mail"], "test", COUNTS)
    shown = make_tasks(["files"], "train", COUNTS, mix=Mix(rename_tools=True, shuffle_tools=True, offered_tools=5))
    return [*plain, *shown]


def test_a_file_gives_back_the_tasks(tasks: list[Task], tmp_path: Path) -> None:
    write_tasks(tmp_path / "deep" / "tasks.jsonl", tasks)
    back = list(read_tasks(tmp_path / "deep" / "tasks.jsonl"))
    assert back == tasks and fingerprint(back) == fingerprint(tasks)
    assert [list(task.tools) for task in back] == [list(task.tools) for task in tasks]
    assert [task.act_effects for task in back] == [task.act_effects for task in tasks]
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / "tasks.jsonl"]


def test_a_dataset_gives_back_the_tasks(tasks: list[Task]) -> None:
    dataset = to_dataset(tasks)
    assert dataset.num_rows == len(tasks) and set(dataset["label"]) == set(Label)
    assert from_dataset(dataset) == tasks


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"query": "Something else."}, "does not fit its fingerprint"),
        ({"state": "{}"}, "tasks.jsonl:2 is not a task"),
        ({"world": "moon"}, "belongs to the world 'moon'"),
        ({"world": "os:system"}, "belongs to the world 'os:system'"),
        ({"schema_version": 99}, "version 99"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_changed_row_is_named(tasks: list[Task], change: dict[str, object], sentence: str, tmp_path: Path) -> None:
    write_tasks(tmp_path / "tasks.jsonl", tasks[:2])
    first, second = (tmp_path / "tasks.jsonl").read_text(encoding="utf-8").splitlines()
    second = json.dumps({**json.loads(second), **change})
    (tmp_path / "tasks.jsonl").write_text(f"{first}\n{second}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        list(read_tasks(tmp_path / "tasks.jsonl"))


def test_only_worlds_that_the_reader_names_are_loaded(tasks: list[Task]) -> None:
    with pytest.raises(ValueError, match="pass it in `worlds`"):
        from_row(to_row(tasks[0]), [name for name in ("bank", "mail") if name != tasks[0].world])


def test_a_fingerprint_depends_on_order_and_content(tasks: list[Task]) -> None:
    assert fingerprint(tasks) != fingerprint(tasks[::-1]) != fingerprint(tasks[1:])
    assert len({to_row(task).fingerprint for task in tasks}) == len(tasks)


def test_writing_that_fails_leaves_the_old_file(tasks: list[Task], tmp_path: Path) -> None:
    path = tmp_path / "tasks.jsonl"
    write_tasks(path, tasks[:1])
    before = path.read_bytes()

    def broken() -> object:
        yield tasks[1]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_tasks(path, broken())  # type: ignore[arg-type]
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
