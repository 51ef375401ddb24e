"""The registry's tables. Times are ISO 8601 texts in UTC with microseconds, so that they sort; what has structure is
canonical JSON, so that SQLite and PostgreSQL hold the same characters. Needs the package `sqlalchemy`."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Boolean, Column, Float, Index, Integer, MetaData, Table, Text

SCHEMA: Final = 1
"""The version of the tables below; it stands in the table `demur_schema`."""

_Number = BigInteger().with_variant(Integer(), "sqlite")  # SQLite's row number is its INTEGER PRIMARY KEY

metadata = MetaData()

schema = Table("demur_schema", metadata, Column("version", Integer, primary_key=True))

intents = Table(
    "demur_intents",
    metadata,
    Column("intent_id", Text, primary_key=True),
    Column("contract", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("confidence", Float, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("updated_at", Text, nullable=False),
)

# number: of the audit record that announced the action; changed: of the one that last told something of it
actions = Table(
    "demur_actions",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("changed", _Number, nullable=False),
    Column("action_id", Text, nullable=False),
    Column("intent_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("effect", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("check", Text),
    Column("verdict", Text),
    Column("guarded", Boolean, nullable=False),
    Column("ok", Boolean),
    Column("result", Text, nullable=False),
    Column("approver", Text, nullable=False),
    Column("caller", Text, nullable=False),
    Column("time", Text, nullable=False),
    Index("demur_actions_by_intent", "intent_id", "changed"),
)

# number: of the audit record of the request; expires_at: by the registry's time, which never
# runs back; expires_clock: by the clock of who wrote it
approvals = Table(
    "demur_approvals",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("approval_id", Text, nullable=False, unique=True),
    Column("intent_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("approver", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("requested_at", Text, nullable=False),
    Column("decided_at", Text),
    Column("expires_at", Text, nullable=False),
    Column("expires_clock", Text, nullable=False),
    Index("demur_approvals_by_intent", "intent_id", "digest"),
    Index("demur_approvals_by_status", "status"),
)

audit = Table(
    "demur_audit",
    metadata,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("time", Text, nullable=False),
    Column("caller", Text, nullable=False),
    Column("intent_id", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("verdict", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("approver", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Index("demur_audit_by_intent", "intent_id"),
)
