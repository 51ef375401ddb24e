"""`summary.json`: the numbers of an evaluation and what they rest on, for programs to read.

write_summary(path, Summary(manifest=manifest(seeds={"tasks": 1}), rows=metric_rows(trajectories)))
read_summary(path).value("after", "refusal_rate", "harmful")
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from demur.envs.trace import Record
from demur.eval.manifest import Manifest
from demur.eval.metrics import Row


class Summary(Record):
    """`{"schema": 1, "manifest": {…}, "rows": [{…}]}`, a row a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    manifest: Manifest
    rows: tuple[Row, ...]

    def row(self, policy: str, metric: str, label: str) -> Row | None:
        """The first row of a policy, metric and label."""
        wanted = (policy, metric, label)
        return next((row for row in self.rows if (row.policy, row.metric, row.label) == wanted), None)

    def value(self, policy: str, metric: str, label: str) -> float | None:
        row = self.row(policy, metric, label)
        return None if row is None else row.value


def write_summary(path: Path, summary: Summary) -> None:
    """Write `summary` to `path`; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, summary.model_dump_json(by_alias=True, indent=1) + "\n")


def read_summary(path: Path) -> Summary:
    """Raises ValueError, naming the file, if it is not a summary."""
    try:
        return Summary.model_validate_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not a summary: {error}") from error


def write_whole(path: Path, text: str) -> None:
    """Write a text file by way of a partial one, so that a reader or a crash never meets half of it."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
