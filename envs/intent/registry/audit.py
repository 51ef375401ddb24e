"""The audit log: a record of each event, appended in the transaction that makes the event so, and hash-chained.

    log.query(intent_id=…, verdict="block")
    log.anchor(Path("audit.anchor"))               # keep this file elsewhere
    fault = log.verify(read_anchor(Path("audit.anchor")))

With a key in the environment variable `DEMUR_AUDIT_KEY` anchors are signed, and an anchor that is not is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from pydantic import AwareDatetime
from sqlalchemy import Connection, select

from demur.envs.intent.registry import tables
from demur.envs.intent.registry.chain import GENESIS, Anchor, Fault, canonical, first_fault
from demur.envs.intent.registry.database import Database, stamp
from demur.envs.intent.registry.intent import storable
from demur.envs.trace import Record, write_lines

KEY_VARIABLE: Final = "DEMUR_AUDIT_KEY"
_TABLE = tables.audit
_AT_ONCE: Final = 1000


class AuditRecord(Record):
    """One event. caller: which process or service. digest: SHA-256 of the call's arguments. rule: the matched one.

    detail: depends on the event: the new status, the check that spoke, the approval's id, or how the call ended.
    """

    number: int
    time: AwareDatetime
    caller: str
    intent_id: str
    event: str
    tool: str
    digest: str
    verdict: str
    rule: str
    approver: str
    detail: str
    previous: str
    hash: str


class AuditLog:
    """The log of a registry's database. Nothing here changes a record."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def query(
        self,
        *,
        intent_id: str | None = None,
        tool: str | None = None,
        verdict: str | None = None,
        event: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[AuditRecord]:
        """The records that fit all that is given, in order; `until` is excluded. Times have a zone."""
        wanted: dict[str, Any] = {"intent_id": intent_id, "tool": tool, "verdict": verdict, "event": event}
        fitting = [_TABLE.c[name] == storable(value) for name, value in wanted.items() if value is not None]
        fitting += [_TABLE.c.time >= stamp(since)] if since else []
        fitting += [_TABLE.c.time < stamp(until)] if until else []
        with self._database.read() as connection:
            rows = connection.execute(select(_TABLE).where(*fitting).order_by(_TABLE.c.number))
            return [AuditRecord.model_validate(dict(row._mapping)) for row in rows]

    def verify(self, anchor: Anchor | None = None) -> Fault | None:
        """The first record that is not as it was written, or None. Without an anchor a cut tail goes unseen."""
        with self._database.read() as connection:
            return first_fault(_rows(connection), anchor, lambda hashed: _holder(connection, hashed))

    def export(self, path: Path) -> int:
        """Write the log as JSON lines, canonical, so that `hash` can be checked elsewhere; returns their number."""
        count = 0

        def lines() -> Iterator[str]:
            nonlocal count
            with self._database.read() as connection:
                for row in _rows(connection):
                    count += 1
                    yield canonical(row)

        write_lines(path, lines())
        return count

    def anchor(self, path: Path) -> Anchor:
        """Write where the log stands to a file, whole or not at all.

        Raises ValueError if the anchor that is there already shows that the log was changed.
        """
        known = read_anchor(path) if path.exists() else None
        with self._database.read() as connection:
            last = select(_TABLE.c.number, _TABLE.c.hash, _TABLE.c.time).order_by(_TABLE.c.number.desc()).limit(1)
            count, head, time = connection.execute(last).one_or_none() or (0, GENESIS, "")
            if known is not None and known.count:
                seen = connection.scalar(select(_TABLE.c.hash).where(_TABLE.c.number == known.count))
                if seen != known.head:
                    raise ValueError(f"{path} shows that the log was changed: verify it before anchoring it anew")
        anchor = Anchor(count=count, head=head, time=time)
        key = _key()
        if key is not None:
            anchor = anchor.signed(key)
        write_lines(path, [anchor.model_dump_json()])
        return anchor


def read_anchor(path: Path) -> Anchor:
    """Raises ValueError if the file is no anchor, or its signature does not fit the key in the environment."""
    try:
        anchor = Anchor.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ValueError(f"the anchor {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} is not an anchor; write one with `audit anchor`") from error
    key = _key()
    if key is None and anchor.signature is not None:
        raise ValueError(f"{path} is signed: set {KEY_VARIABLE} to its key")
    if key is not None and not anchor.signed_by(key):
        raise ValueError(f"{path} is not signed with the key in {KEY_VARIABLE}: do not trust it")
    return anchor


def _key() -> bytes | None:
    key = os.environ.get(KEY_VARIABLE)
    return key.encode() if key else None


def _rows(connection: Connection) -> Iterator[dict[str, Any]]:
    streamed = connection.execution_options(stream_results=True, yield_per=_AT_ONCE)
    for row in streamed.execute(select(_TABLE).order_by(_TABLE.c.number)):
        yield dict(row._mapping)


def _holder(connection: Connection, hashed: str) -> int | None:
    return connection.scalar(select(_TABLE.c.number).where(_TABLE.c.hash == hashed).limit(1))
