"""The registry: intents, their actions, approvals and audit log, in a database outside the model.

    registry = Registry("sqlite:///intents.db", caller="refund-agent")
    intent = registry.register(contract)
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    guard = IntentGuard(registry, intent.intent_id, tools)      # demur.envs.intent.registry.session

Any number of processes may share it. A write that returned is in the database: killing a process loses none, and on
SQLite only a loss of power may take back the last ones, unless `durable` is set. Needs the package `sqlalchemy`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import NamedTuple

from sqlalchemy import insert, select

from demur.envs.intent.contract import IntentContract
from demur.envs.intent.registry import tables
from demur.envs.intent.registry.approvals import Approvals
from demur.envs.intent.registry.audit import AuditLog
from demur.envs.intent.registry.database import Clock, Database
from demur.envs.intent.registry.intent import ActionRecord, Intent, IntentStatus, new_id, storable, utc_now
from demur.envs.intent.registry.rows import add_action, find_intent, load_actions, load_intent, read_intent, set_status
from demur.envs.tool import EffectClass
from demur.envs.trace import ToolCall


class DuplicateIntent(ValueError):
    """The registry already has an intent of this id."""


class Recovered(NamedTuple):
    """What a restart found. waiting: paused, and an approval is pending. held: paused by hand.

    active: calls may run. unreported: actions that were let through and whose result nobody reported; they may have
    been carried out.
    """

    waiting: list[Intent]
    held: list[Intent]
    active: list[Intent]
    unreported: list[ActionRecord]


class Registry:
    """See the module. Parameters and errors are those of `Database` in `demur.envs.intent.registry.database`.

    approval_seconds: how long the approvals that a guard asks for wait, and how long grants hold.
    """

    def __init__(
        self,
        url: str,
        *,
        caller: str = "",
        durable: bool = False,
        must_exist: bool = False,
        approval_seconds: float = 600.0,
        clock: Clock = utc_now,
    ) -> None:
        self.database = Database(url, caller=caller, durable=durable, must_exist=must_exist, clock=clock)
        self.approvals = Approvals(self.database, approval_seconds)
        self.audit = AuditLog(self.database)

    def __enter__(self) -> Registry:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.database.close()

    def register(self, contract: IntentContract, *, intent_id: str | None = None) -> Intent:
        """Add an intent with the status `created`. Raises DuplicateIntent."""
        intent_id = storable(intent_id or new_id())
        with self.database.write() as write:
            if find_intent(write.connection, intent_id) is not None:
                raise DuplicateIntent(f"intent {intent_id!r} is registered already; leave the id out to get a new one")
            row = {
                "intent_id": intent_id,
                "contract": contract.model_dump_json(),
                "status": IntentStatus.CREATED.value,
                "held": False,
                "confidence": contract.confidence,
                "created_at": write.now,
                "updated_at": write.now,
            }
            write.connection.execute(insert(tables.intents), row)
            write.audit("registered", intent_id)
            return load_intent(write.connection, intent_id)

    def get(self, intent_id: str) -> Intent:
        """Raises UnknownIntent if there is none of this id."""
        with self.database.read() as connection:
            return load_intent(connection, intent_id)

    def update_status(self, intent_id: str, status: IntentStatus) -> Intent:
        """Change the status by hand; an intent paused so is set going again only by hand.

        Raises UnknownIntent, and StatusError if the transition is not allowed.
        """
        with self.database.write() as write:
            intent = load_intent(write.connection, intent_id)
            set_status(write, intent, status, held=status is IntentStatus.PAUSED)
            return load_intent(write.connection, intent_id)

    def append_action(
        self,
        intent_id: str,
        call: ToolCall,
        *,
        effect: EffectClass,
        plan: str = "",
        check: str | None = None,
    ) -> ActionRecord:
        """Record an action before it is checked and run.

        Raises UnknownIntent, and ValueError if its arguments are no JSON.
        """
        with self.database.write() as write:
            return add_action(write, intent_id, call, effect=effect, plan=plan, check=check)

    def actions(self, intent_id: str) -> list[ActionRecord]:
        """The actions of an intent, in the order in which they were recorded."""
        with self.database.read() as connection:
            load_intent(connection, intent_id)
            return [action for _, action in load_actions(connection, intent_id)]

    def intents(self, status: IntentStatus | None = None) -> list[Intent]:
        """All intents, or those of one status, the oldest first."""
        table = tables.intents
        wanted = select(table).order_by(table.c.created_at, table.c.intent_id)
        if status is not None:
            wanted = wanted.where(table.c.status == status.value)
        with self.database.read() as connection:
            return [read_intent(row) for row in connection.execute(wanted)]

    def recover(self) -> Recovered:
        """Look at what an earlier process left. What expired meanwhile is settled; the rest goes on as it was."""
        with self.database.write() as write:
            self.approvals.settle(write)
        paused, active = self.intents(IntentStatus.PAUSED), self.intents(IntentStatus.ACTIVATED)
        unreported = [action for intent in active + paused for action in self.actions(intent.intent_id)]
        return Recovered(
            waiting=[intent for intent in paused if not intent.held],
            held=[intent for intent in paused if intent.held],
            active=active,
            unreported=[a for a in unreported if not a.ran and a.verdict is not None and a.verdict.level.lets_run],
        )

    def stale(self, older_than: timedelta) -> list[Intent]:
        """Activated or paused intents that nothing has happened to for that long, the oldest first."""
        limit = self.database.clock() - older_than
        going = self.intents(IntentStatus.ACTIVATED) + self.intents(IntentStatus.PAUSED)
        return sorted((i for i in going if i.updated_at <= limit), key=lambda intent: intent.updated_at)

    def remind(self, older_than: timedelta, tell: Callable[[Intent], None]) -> int:
        """Tell somebody of each stale intent; returns how many there were."""
        stale = self.stale(older_than)
        for intent in stale:
            tell(intent)
        return len(stale)
