"""The benchmark's files, read from where they lie and held against their fingerprints."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from demur.envs.suites.calls import literal
from demur.envs.suites.workbench.state import Row
from demur.envs.suites.workbench.tools import workbench_tools
from demur.envs.suites.workbench.world import WorkBenchWorld, read_call
from demur.envs.trace import ToolCall

SOURCE: Final = "olly-styles/WorkBench@42f1b6d, folder data"
_FILES: Final = Path(__file__).with_name("fingerprints.yaml")
_OF_A_TEMPLATE: Final = 10
_QUERY_COLUMNS: Final = ("query", "answer", "base_template", "chosen_template", "domains")


class Query(NamedTuple):
    """One query. calls: the ground truth, which holds only what changes something. template: what it was made from."""

    domain: str
    text: str
    calls: tuple[ToolCall, ...]
    template: str


class Data(NamedTuple):
    """fingerprint: SHA-256 over the files, in the order of their names. size: queries of the whole benchmark."""

    initial: WorkBenchWorld
    queries: tuple[Query, ...]
    fingerprint: str
    size: int


def read_data(folder: Path) -> Data:
    """Raises ValueError, naming the file and what to do, for one that is missing, cut or altered."""
    files = {name: _bytes(folder / name) for name in (*known()["tables"], *map(query_file, known()["queries"]))}
    for name, expected in known()["tables"].items():
        if (found := _sha256(files[name])) != expected:
            raise _broken(folder / name, f"has the fingerprint {found[:12]}…, not {expected[:12]}…")
    queries: list[Query] = []
    for domain in known()["queries"]:
        queries += _queries(folder / query_file(domain), domain, files[query_file(domain)])
    digests = "".join(f"{_sha256(files[name])} {name}\n" for name in sorted(files))
    return Data(
        initial=_initial(files),
        queries=tuple(queries),
        fingerprint=_sha256(digests.encode()),
        size=_OF_A_TEMPLATE * sum(entry["templates"] for entry in known()["queries"].values()),
    )


def query_file(domain: str) -> str:
    return f"processed/queries_and_answers/{domain}_queries_and_answers.csv"


@cache
def known() -> dict[str, Any]:
    """What is known of the files."""
    found: dict[str, Any] = yaml.safe_load(_FILES.read_text(encoding="utf-8"))
    return found


def _initial(files: dict[str, bytes]) -> WorkBenchWorld:
    number = count(1)  # keys differ across tables

    def table(name: str) -> dict[str, Row]:
        return {f"r{next(number)}": Row(cells=cells) for cells in _rows(files[f"processed/{name}.csv"])}

    return WorkBenchWorld(
        emails=table("emails"),
        events=table("calendar_events"),
        project_tasks=table("project_tasks"),
        customers=table("customer_relationship_manager_data"),
        visits=tuple(table("analytics_data").values()),
        directory=tuple(files["raw/email_addresses.csv"].decode().split()),
    )


def _rows(content: bytes) -> Iterator[dict[str, str | None]]:
    """Rows of texts; an empty cell has no value."""
    for row in csv.DictReader(io.StringIO(content.decode(), newline="")):
        yield {name: text or None for name, text in row.items()}


def _queries(path: Path, domain: str, content: bytes) -> list[Query]:
    try:
        reader = csv.DictReader(io.StringIO(content.decode(), newline=""), strict=True)
        if tuple(reader.fieldnames or ()) != _QUERY_COLUMNS:
            raise ValueError(f"its columns are not {', '.join(_QUERY_COLUMNS)}")
        found = list(reader)
        queries = [_query(domain, row) for row in found]
        _check_templates(known()["queries"][domain], found)
    except (ValueError, csv.Error) as error:
        raise _broken(path, f"was cut or altered: {error}; its fingerprint is {_sha256(content)[:12]}…") from None
    return queries


def _check_templates(entry: dict[str, Any], found: list[dict[str, str]]) -> None:
    """A file has all templates, or those that are known, each with ten queries; known ones as they are known."""
    by_template: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
    for row in found:
        by_template[row["base_template"]].append(row)
    names = {_digest(template) for template in by_template}
    for template, queries in by_template.items():
        if len(queries) != _OF_A_TEMPLATE:
            raise ValueError(f"a template has {len(queries)} queries, not {_OF_A_TEMPLATE}")
        if entry["known"].get(_digest(template), digest := _digest(queries)) != digest:
            raise ValueError("the queries of a template are not the known ones")
    if len(names) != entry["templates"] and names != entry["known"].keys():
        raise ValueError(f"it has {len(names)} of {entry['templates']} templates")


def _digest(value: object) -> str:
    return _sha256(json.dumps(value).encode())[:16]


def _query(domain: str, row: dict[str, Any]) -> Query:
    if None in row or None in row.values():
        raise ValueError("a row has too many or too few cells")
    written = literal(row["answer"])
    if not isinstance(written, list) or not row["query"] or not row["base_template"]:
        raise ValueError("a row lacks its query, template or list of calls")
    return Query(domain, row["query"], tuple(map(_call, written)), row["base_template"])


def _call(text: object) -> ToolCall:
    call = read_call(text) if isinstance(text, str) else None
    if call is None or call.name not in workbench_tools() or not workbench_tools()[call.name].changes:
        raise ValueError("a ground truth is no list of calls that change something")
    return call


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _broken(path, f"can not be read ({error.strerror or error})") from error


def _broken(path: Path, what: str) -> ValueError:
    return ValueError(f"{path} {what}: get it again from {SOURCE}")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
