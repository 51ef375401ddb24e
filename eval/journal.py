"""A JSONL file that grows record by record, so that a run that was killed goes on with the same command."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from demur.envs.trace import write_lines

R = TypeVar("R", bound=BaseModel)


class Lines(Generic[R]):
    """The records of a file, those of an earlier run first.

    what: a word for a record. settings: what the records depend on; kept as JSON at `settings_path`. keep: which
    records of an earlier run stay; the others are made again. Raises ValueError if the file holds records made with
    other settings, or none is known, and for a line that is no such record; a cut last line is left out, as it was
    being written when the run ended.
    """

    def __init__(
        self,
        path: Path,
        record: type[R],
        settings: dict[str, Any],
        *,
        what: str,
        settings_path: Path,
        keep: Callable[[R], bool] = lambda record: True,
    ) -> None:
        self._path, self._what = path, what
        text = json.dumps(settings, indent=1, sort_keys=True)
        if settings_path.exists() and settings_path.read_text(encoding="utf-8") != text:
            raise ValueError(
                f"{path} was made with other settings: give another --out, or delete it and {settings_path.name}"
            )
        if not settings_path.exists() and path.exists():
            raise ValueError(f"{path} is there, but not what made it: give another --out, or delete it")
        path.parent.mkdir(parents=True, exist_ok=True)
        settings_path.write_text(text, encoding="utf-8")
        self.records = [found for found in self._whole(record) if keep(found)]
        self._write_all()

    def add(self, record: R) -> None:
        self.records.append(record)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(record.model_dump_json() + "\n")

    def sort(self, key: Callable[[R], Any]) -> None:
        """Write all records in this order."""
        self.records.sort(key=key)
        self._write_all()

    def _write_all(self) -> None:
        write_lines(self._path, (record.model_dump_json() for record in self.records))

    def _whole(self, record: type[R]) -> Iterator[R]:
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                yield record.model_validate_json(line)
            except ValidationError as error:
                if number == len(lines):
                    return  # killed while it was written
                raise ValueError(f"{self._path}:{number} is not a {self._what}: delete it to start anew") from error
