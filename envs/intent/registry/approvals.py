"""Approvals: one call waits for a person's word, and other intents go on.

    approval = approvals.request(intent_id, call, verdict)      # the intent is paused
    approvals.decide(approval.approval_id, "approve", "ann")    # elsewhere; the intent goes on
    await approvals.wait(approval.approval_id)                  # polls

A grant is for one call of that tool with exactly those arguments, for that intent, until it expires. No answer in
time is a no. What was rejected stays rejected for the intent; what expired may be asked again.
"""

from __future__ import annotations

import asyncio
import json
from datetime import datetime, timedelta
from enum import StrEnum
from time import monotonic
from typing import Any, Final, Literal

from pydantic import AwareDatetime
from sqlalchemy import Connection, Row, Select, insert, or_, select, update

from demur.envs.intent.registry import tables
from demur.envs.intent.registry.chain import canonical, digest
from demur.envs.intent.registry.database import Database, Write, stamp
from demur.envs.intent.registry.intent import IntentStatus, Stored, new_id, storable
from demur.envs.intent.registry.rows import load_intent, set_status
from demur.envs.trace import Record, ToolCall, Verdict

SECONDS: Final = 600.0
_TABLE = tables.approvals


class ApprovalStatus(StrEnum):
    """pending → approved or rejected or expired; approved → used or expired."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"
    USED = "used"


_OPEN: Final = (ApprovalStatus.PENDING.value, ApprovalStatus.APPROVED.value)


class ApprovalError(ValueError):
    """An approval that cannot be asked for or decided any more."""


class Approval(Record):
    """One request and what became of it. verdict: why it was needed. reason: the approver's."""

    approval_id: str
    intent_id: str
    tool: Stored
    arguments: dict[str, Any]
    digest: str
    verdict: Verdict
    status: ApprovalStatus
    approver: Stored
    reason: Stored
    requested_at: AwareDatetime
    decided_at: AwareDatetime | None
    expires_at: AwareDatetime

    @property
    def call(self) -> ToolCall:
        return ToolCall(name=self.tool, arguments=self.arguments)


class Approvals:
    """The approvals of a registry. seconds: how long a request waits, and then how long a grant holds.

    An approval holds while both the registry's time and this machine's clock are before its end, so that a clock
    that jumps back revives none; one that was seen to be over is written down as expired.
    """

    def __init__(self, database: Database, seconds: float = SECONDS) -> None:
        if not seconds > 0:
            raise ValueError(f"approvals have to wait for some time, not for {seconds} seconds")
        self._database = database
        self._time = timedelta(seconds=seconds)

    def request(self, intent_id: str, call: ToolCall, verdict: Verdict) -> Approval:
        """Ask for a call, or find the request that is open for it. The intent is paused.

        Raises UnknownIntent, and ApprovalError if the intent is finished or has not begun.
        """
        with self._database.write() as write:
            return self.request_in(write, intent_id, call, verdict)

    def decide(
        self, approval_id: str, decision: Literal["approve", "reject"], approver: str, reason: str = ""
    ) -> Approval:
        """Answer a request. The intent goes on once nothing else is pending, unless it was paused by hand.

        Raises ApprovalError if it is unknown, decided or expired, or if its intent is finished.
        """
        if decision not in ("approve", "reject"):
            raise ApprovalError(f"decide 'approve' or 'reject', not {decision!r}")
        if not approver.strip():
            raise ApprovalError("an approval needs the name of who decides")
        with self._database.write() as write:
            # what expired is written down even though deciding it fails
            self.settle(write)
            approval = _find(write.connection, approval_id)
            problem = _undecidable(write, approval_id, approval)
            if problem is None:
                assert approval is not None
                granted = decision == "approve"
                status = ApprovalStatus.APPROVED if granted else ApprovalStatus.REJECTED
                ends = self._ends(write) if granted else {}
                said = {"approver": storable(approver), "reason": storable(reason), "decided_at": write.now, **ends}
                self._set(write, approval, status, **said)
                return _load(write.connection, approval_id)
        raise ApprovalError(problem)

    def get(self, approval_id: str) -> Approval:
        """Raises ApprovalError if there is none of this id."""
        self._settle_due()
        with self._database.read() as connection:
            return _load(connection, approval_id)

    def find(self, intent_id: str, call: ToolCall) -> Approval | None:
        """The latest approval for exactly this call."""
        self._settle_due()
        with self._database.read() as connection:
            return latest(connection, intent_id, call)

    def pending(self, intent_id: str | None = None) -> list[Approval]:
        """What waits for a decision, the oldest first."""
        self._settle_due()
        wanted = [_TABLE.c.status == ApprovalStatus.PENDING.value]
        if intent_id is not None:
            wanted.append(_TABLE.c.intent_id == storable(intent_id))
        with self._database.read() as connection:
            rows = connection.execute(select(_TABLE).where(*wanted).order_by(_TABLE.c.number))
            return [_read(row) for row in rows]

    def take(self, intent_id: str, call: ToolCall) -> Approval | None:
        """Use the grant for exactly this call, if there is one that holds. Of two takers one gets it."""
        with self._database.write() as write:
            self.settle(write)
            going = load_intent(write.connection, intent_id).status is IntentStatus.ACTIVATED
            grant = latest(write.connection, intent_id, call)
            holds = going and grant is not None and grant.status is ApprovalStatus.APPROVED
            return self.take_in(write, grant) if holds and grant else None

    async def wait(self, approval_id: str, timeout: float | None = None, *, poll: float = 0.2) -> Approval:
        """Wait until a request is decided or expires. After `timeout` seconds without a decision it expires.

        Raises ApprovalError if there is no such request.
        """
        ends = None if timeout is None else monotonic() + timeout
        while True:
            approval = await asyncio.to_thread(self.get, approval_id)
            if approval.status is not ApprovalStatus.PENDING:
                return approval
            left = poll if ends is None else min(poll, ends - monotonic())
            if left <= 0:
                return await asyncio.to_thread(self._give_up, approval_id)
            await asyncio.sleep(left)

    def request_in(self, write: Write, intent_id: str, call: ToolCall, verdict: Verdict) -> Approval:
        """`request` within a transaction."""
        self.settle(write)
        intent = load_intent(write.connection, intent_id)
        if intent.status not in (IntentStatus.ACTIVATED, IntentStatus.PAUSED):
            raise ApprovalError(f"intent {intent_id} is {intent.status}: nothing can be approved for it")
        open_one = latest(write.connection, intent_id, call)
        if open_one is not None and open_one.status in _OPEN:
            return open_one
        hashed, approval_id = digest(call.arguments), new_id()
        number = write.audit(
            "requested",
            intent_id,
            tool=call.name,
            digest=hashed,
            verdict=verdict.level,
            rule=verdict.relation or "",
            detail=approval_id,
        )
        row = {
            "number": number,
            "approval_id": approval_id,
            "intent_id": intent.intent_id,
            "tool": storable(call.name),
            "arguments": canonical(call.arguments),
            "digest": hashed,
            "verdict": canonical(verdict.model_dump(mode="json")),
            "status": ApprovalStatus.PENDING.value,
            "approver": "",
            "reason": "",
            "requested_at": write.now,
            **self._ends(write),
        }
        write.connection.execute(insert(_TABLE), row)
        if intent.status is IntentStatus.ACTIVATED:
            set_status(write, intent, IntentStatus.PAUSED)
        return _load(write.connection, approval_id)

    def take_in(self, write: Write, grant: Approval) -> Approval:
        """Use a grant within a transaction that has just settled and found it."""
        self._set(write, grant, ApprovalStatus.USED)
        return _load(write.connection, grant.approval_id)

    def settle(self, write: Write) -> None:
        """Write down what has expired, and let the intents go on that wait for nothing else."""
        for row in write.connection.execute(_over(write.now, write.clock)).all():
            self._set(write, _read(row), ApprovalStatus.EXPIRED)

    def _ends(self, write: Write) -> dict[str, str]:
        ends = (stamp(datetime.fromisoformat(moment) + self._time) for moment in (write.now, write.clock))
        return dict(zip(("expires_at", "expires_clock"), ends, strict=True))

    def _settle_due(self) -> None:
        """`settle`, but without writing if nothing has expired."""
        with self._database.read() as connection:
            now, clock = self._database.times(connection)
            due = connection.execute(_over(now, clock).limit(1)).one_or_none()
        if due is not None:
            with self._database.write() as write:
                self.settle(write)

    def _give_up(self, approval_id: str) -> Approval:
        with self._database.write() as write:
            self.settle(write)
            approval = _load(write.connection, approval_id)
            if approval.status is ApprovalStatus.PENDING:
                self._set(write, approval, ApprovalStatus.EXPIRED)
            return _load(write.connection, approval_id)

    def _set(self, write: Write, approval: Approval, status: ApprovalStatus, **values: Any) -> None:
        row = _TABLE.c.approval_id == approval.approval_id
        write.connection.execute(update(_TABLE).where(row).values(status=status.value, **values))
        write.audit(
            status,
            approval.intent_id,
            tool=approval.tool,
            digest=approval.digest,
            verdict=approval.verdict.level,
            rule=approval.verdict.relation or "",
            approver=values.get("approver", approval.approver),
            detail=approval.approval_id,
        )
        _resume(write, approval.intent_id)


def latest(connection: Connection, intent_id: str, call: ToolCall) -> Approval | None:
    """The latest approval for exactly this call, as it is written down."""
    same = (
        _TABLE.c.intent_id == storable(intent_id),
        _TABLE.c.digest == digest(call.arguments),
        _TABLE.c.tool == storable(call.name),
    )
    newest = select(_TABLE).where(*same).order_by(_TABLE.c.number.desc()).limit(1)
    row = connection.execute(newest).one_or_none()
    return None if row is None else _read(row)


def _resume(write: Write, intent_id: str) -> None:
    """Let an intent go on that was paused for approvals, if none is pending."""
    intent = load_intent(write.connection, intent_id)
    if intent.status is not IntentStatus.PAUSED or intent.held:
        return
    pending = select(_TABLE.c.approval_id).where(
        _TABLE.c.intent_id == intent_id, _TABLE.c.status == ApprovalStatus.PENDING.value
    )
    if write.connection.execute(pending.limit(1)).one_or_none() is None:
        set_status(write, intent, IntentStatus.ACTIVATED)


def _undecidable(write: Write, approval_id: str, approval: Approval | None) -> str | None:
    if approval is None:
        return f"there is no approval {approval_id!r}"
    if approval.status is not ApprovalStatus.PENDING:
        by = f" by {approval.approver}" if approval.approver else ""
        return f"approval {approval_id} is {approval.status}{by}; a decision stands"
    intent = load_intent(write.connection, approval.intent_id)
    return f"intent {intent.intent_id} is {intent.status}: its approvals are void" if intent.status.finished else None


def _over(now: str, clock: str) -> Select[Any]:
    ended = or_(_TABLE.c.expires_at <= now, _TABLE.c.expires_clock <= clock)
    return select(_TABLE).where(_TABLE.c.status.in_(_OPEN), ended).order_by(_TABLE.c.number)


def _find(connection: Connection, approval_id: str) -> Approval | None:
    row = connection.execute(select(_TABLE).where(_TABLE.c.approval_id == storable(approval_id))).one_or_none()
    return None if row is None else _read(row)


def _load(connection: Connection, approval_id: str) -> Approval:
    approval = _find(connection, approval_id)
    if approval is None:
        raise ApprovalError(f"there is no approval {approval_id!r}")
    return approval


def _read(row: Row[Any]) -> Approval:
    values = {name: value for name, value in row._mapping.items() if name not in ("number", "expires_clock")}
    return Approval.model_validate(
        {**values, "arguments": json.loads(values["arguments"]), "verdict": json.loads(values["verdict"])}
    )
