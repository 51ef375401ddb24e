"""The folder of an evaluation: a cell is a folder with `cell.json` and `trajectories.jsonl`, one line a finished task.

A line is written at once, so that a process that is killed loses no more than the one under its pen. A finished cell
is in the order of its task ids, whatever was finished first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError

from demur.envs.trace import Record, Trajectory, write_lines
from demur.eval.summary import write_whole


class CellKey(NamedTuple):
    policy: str
    guard: str
    suite: str
    seed: int

    @property
    def title(self) -> str:
        return f"{self.policy} × {self.guard} × {self.suite} × seed {self.seed}"

    @property
    def folder(self) -> str:
        """A name for files; where letters had to be replaced, a digest keeps it apart from others."""
        plain = "--".join(map(str, self))
        safe = re.sub(r"[^A-Za-z0-9_.+-]+", "_", plain)[:120]
        digest = hashlib.sha256(repr(tuple(self)).encode()).hexdigest()[:8]
        return safe if safe == plain and plain.count("--") == 3 else f"{safe}--{digest}"


class CellRecord(Record):
    """`cell.json`. tasks: how many there are to play. settings: what the trajectories depend on."""

    policy: str
    guard: str
    suite: str
    seed: int
    state: Literal["open", "complete", "failed"] = "open"
    tasks: int
    error: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)

    @property
    def key(self) -> CellKey:
        return CellKey(self.policy, self.guard, self.suite, self.seed)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; the system lets go of it when the process ends, however it ends.

    Raises ValueError, with the number of the process that has it, if another one does.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise ValueError(
                f"another evaluation (process {owner}) is writing into {folder}: wait for it, or give another --out"
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


class CellFile:
    """A cell on disk. Nothing is written before `open`."""

    def __init__(self, folder: Path, record: CellRecord) -> None:
        self.record = record
        self.key = record.key
        self._folder = folder / "cells" / self.key.folder
        self.path = self._folder / "trajectories.jsonl"
        self.done: set[str] = set()
        self.error: str | None = None
        self._row = 0  # failures in a row
        self._file: int | None = None

    def check(self) -> None:
        """Take over what is there. Raises ValueError if it was made with other settings."""
        path = self._folder / "cell.json"
        if not path.is_file():
            return
        try:
            there = CellRecord.model_validate_json(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not the record of a cell: delete {self._folder} to play it anew") from error
        mine = self.record.model_dump(mode="json")
        if (there.settings, there.tasks) != (mine["settings"], mine["tasks"]):
            apart = [key for key in mine["settings"] if there.settings.get(key) != mine["settings"][key]] or ["tasks"]
            raise ValueError(
                f"the cell {self.key.title} was made with other settings ({', '.join(apart)}): give another --out, or "
                f"delete {self._folder}"
            )
        self.record = there

    @property
    def complete(self) -> bool:
        return self.record.state == "complete"

    def open(self) -> None:
        """Ready to write. Raises ValueError for a line, other than a cut last one, that is no trajectory."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.done = {task for task, _ in self._index()}
        self._save("open")
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def add(self, task_id: str, line: str) -> None:
        """Write a finished trajectory."""
        assert self._file is not None and task_id not in self.done, "a task of a cell is played once"
        rest = f"{line}\n".encode()
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self.done.add(task_id)
        self._row = 0

    def failed(self, error: str) -> int:
        """Note that a task could not be played. How many could not in a row."""
        self.error = self.error or " ".join(error.split())[:500]
        self._row += 1
        return self._row

    def close(self, error: str | None = None) -> None:
        """Complete if every task is there, else failed."""
        if self._file is None:
            return
        os.close(self._file)
        self._file = None
        missing = self.record.tasks - len(self.done)
        self.error = self.error or error
        if missing:
            self._save(
                "failed", f"{missing} of {self.record.tasks} tasks are missing: {self.error or 'it was stopped'}"
            )
            return
        self._sort()
        self._save("complete")

    def trajectories(self) -> Iterator[Trajectory]:
        with self.path.open("rb") as file:
            for line in file:
                yield Trajectory.model_validate_json(line)

    def _save(self, state: Literal["open", "complete", "failed"], error: str | None = None) -> None:
        self.record = self.record.model_copy(update={"state": state, "error": error})
        write_whole(self._folder / "cell.json", self.record.model_dump_json(indent=1) + "\n")

    def _index(self) -> list[tuple[str, int]]:
        """Task and offset of each line. A cut last line is taken off the file."""
        if not self.path.exists():
            return []
        found: list[tuple[str, int]] = []
        at = 0
        with self.path.open("r+b") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    file.truncate(at)  # the process was killed while it wrote this
                    break
                try:
                    found.append((Trajectory.model_validate_json(line).task_id, at))
                except ValidationError as error:
                    raise ValueError(
                        f"{self.path}:{number} is not a trajectory: delete {self._folder} to play it anew"
                    ) from error
                at += len(line)
        return found

    def _sort(self) -> None:
        index = self._index()
        if index == sorted(index):
            return
        with self.path.open("rb") as file:

            def lines() -> Iterator[str]:
                for _, at in sorted(index):
                    file.seek(at)
                    yield file.readline().decode().removesuffix("\n")

            write_lines(self.path, lines())


def line_of(trajectory: Trajectory) -> str:
    """As `write_jsonl` writes it."""
    return f'{{"schema_version":{trajectory.schema_version},{trajectory.model_dump_json(exclude_defaults=True)[1:]}'
