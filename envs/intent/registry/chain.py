"""The hash chain of the audit log: what a record's hash covers, what breaks a chain, and the anchor outside it.

A record's hash is the SHA-256 of the canonical JSON of its other fields, among them the hash of the record before.
Whoever changes, moves, takes out or puts in a record has to rewrite all that follow; an anchor kept elsewhere
(how many records there are, and the hash of the last one) reveals that too, and a tail that was cut off.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from pydantic import Field

from demur.envs.trace import Record

GENESIS: Final = "0" * 64
"""What stands for the hash before the first record."""
_BEYOND: Final = 1000  # how far behind the log's end a record's first number is looked for

Row = Mapping[str, Any]
"""A record as the table holds it, by column."""


def canonical(value: Any) -> str:
    """The one JSON text of a value: ASCII, sorted keys, no blanks. Raises ValueError if it is no JSON value."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"))
    except (TypeError, RecursionError) as error:
        raise ValueError(f"the value cannot be written as JSON: {error}") from error


def digest(arguments: Mapping[str, Any]) -> str:
    """The SHA-256 of the canonical JSON of a call's arguments, 64 hexadecimal digits."""
    return _sha(canonical(arguments))


def hash_of(row: Row) -> str:
    """The hash that a record should have."""
    return _sha(canonical({name: value for name, value in row.items() if name != "hash"}))


class FaultKind(StrEnum):
    """What was done to a log. Rewritten: the chain holds, and is not the one that the anchor saw."""

    TAMPERED = "tampered"
    REORDERED = "reordered"
    CUT = "cut"
    INSERTED = "inserted"
    REWRITTEN = "rewritten"


class Fault(NamedTuple):
    """The first record that is not as it was written. number: where in the log, from 1."""

    kind: FaultKind
    number: int
    reason: str


class Anchor(Record):
    """What is kept of a log outside of it. signature: HMAC-SHA-256 of the other fields, hexadecimal."""

    schema_version: Literal[1] = 1
    count: int = Field(ge=0)
    head: str
    time: str
    signature: str | None = None

    def signed(self, key: bytes) -> Anchor:
        return self.model_copy(update={"signature": self._mac(key)})

    def signed_by(self, key: bytes) -> bool:
        return self.signature is not None and hmac.compare_digest(self.signature, self._mac(key))

    def _mac(self, key: bytes) -> str:
        text = canonical(self.model_dump(exclude={"signature"}))
        return hmac.new(key, text.encode("ascii"), hashlib.sha256).hexdigest()


def first_fault(rows: Iterable[Row], anchor: Anchor | None, holder: Callable[[str], int | None]) -> Fault | None:
    """The first record of a log, given in the order of its numbers, that breaks the chain; None if it is whole.

    holder: the number of the record that bears a hash, or None; asked only once a fault is found.
    """
    number, head, before = 0, GENESIS, GENESIS
    unlinked: Fault | None = None
    for row in rows:
        if unlinked is not None:
            return _blame(unlinked, follows=row["previous"] == head)
        number += 1
        if row["number"] != number:
            return Fault(FaultKind.CUT, number, f"record {number} is missing: the next one is {row['number']}")
        if not _fits(row):
            return _misplaced(row, number, anchor, holder)
        before, head = head, row["hash"]
        if row["previous"] != before:
            reason = f"record {number} does not follow record {number - 1}"
            unlinked = Fault(FaultKind.INSERTED, number, reason)
        elif anchor is not None and anchor.count == number and anchor.head != head:
            reason = f"the chain holds, but record {number} is not the one that the anchor saw"
            return Fault(FaultKind.REWRITTEN, number, reason)
    if unlinked is None and anchor is not None and number < anchor.count:
        return Fault(FaultKind.CUT, number + 1, f"the log ends at {number}, and the anchor saw {anchor.count} records")
    return unlinked


def _blame(unlinked: Fault, *, follows: bool) -> Fault:
    """A record that the rest of the chain rests on is genuine: then the one before it was put in another's place."""
    number = max(1, unlinked.number - 1) if follows else unlinked.number
    return Fault(FaultKind.TAMPERED, number, f"{unlinked.reason}: one of them was replaced")


def _misplaced(row: Row, number: int, anchor: Anchor | None, holder: Callable[[str], int | None]) -> Fault:
    """A record whose hash is wrong here. If it is right under another number, the record was moved."""
    leader, seen = holder(row["previous"]), anchor.count if anchor else 0
    places = [*([] if leader is None else [leader + 1]), *range(1, max(number, seen) + _BEYOND)]
    first = next((place for place in places if _fits({**row, "number": place})), None)
    if first is None:
        return Fault(FaultKind.TAMPERED, number, f"record {number} does not fit its hash: it was changed")
    if first < number:
        return Fault(FaultKind.INSERTED, first, f"record {first} was put in: what was {first} now stands at {number}")
    if leader is None and row["previous"] != GENESIS:
        return Fault(FaultKind.CUT, number, f"record {number} is missing: what was {first} stands in its place")
    return Fault(FaultKind.REORDERED, number, f"what was record {first} stands at {number}")


def _fits(row: Row) -> bool:
    try:
        return bool(row["hash"] == hash_of(row))
    except ValueError:  # such as bytes, which nothing of ours writes
        return False


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()
