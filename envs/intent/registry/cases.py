"""What an approver is shown of a request, and the decision: shared by the terminal and the web page.

    for case in pending_cases(registry):
        case.facts, case.arguments
    decide(registry, approval_id, "reject", "ann", "that is the wrong order")

The texts come from users and agents. `visible` spells out what a screen would hide or act on, so that two different
calls never look the same; escaping for HTML is left to the page.
"""

from __future__ import annotations

import getpass
import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from sqlalchemy import func, select

from demur.envs.intent.registry import Registry, tables
from demur.envs.intent.registry.approvals import Approval, ApprovalError, ApprovalStatus
from demur.envs.intent.registry.chain import digest
from demur.envs.intent.registry.intent import ActionRecord, Intent
from demur.envs.visible import visible as visible

Decision = Literal["approve", "reject"]


class Fact(NamedTuple):
    """One line of a case. by_agent: the agent wrote it, so it is a claim."""

    name: str
    text: str
    by_agent: bool = False


@dataclass(frozen=True, slots=True)
class Case:
    """A request with what is known about it at the time `now`. action: as the guard recorded it, if it did."""

    approval: Approval
    intent: Intent
    action: ActionRecord | None
    now: datetime

    @property
    def tool(self) -> str:
        return visible(self.approval.tool)

    @property
    def goal(self) -> str:
        return visible(self.intent.contract.goal)

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """Each argument's name and its value as JSON, exactly and in full."""
        return spelled(self.approval.arguments)

    @property
    def facts(self) -> list[Fact]:
        """All but the call and the times; empty ones are left out, but for the agent's plan."""
        contract, verdict, action = self.intent.contract, self.approval.verdict, self.action
        rule = " · ".join(part for part in (verdict.guard, verdict.stage, verdict.relation) if part)
        facts = [
            Fact("goal", contract.goal),
            Fact("the user's words", contract.source_text),
            Fact("user", contract.user_id),
            Fact("rule that asks", rule),
            Fact("why", verdict.reason),
            Fact("evidence", ", ".join(verdict.evidence)),
            Fact("effect", action.effect.replace("_", " ") if action else ""),
            Fact("agent's plan", (action.plan if action else "") or "none is known", by_agent=True),
            Fact("agent's check", (action.check if action else "") or "", by_agent=True),
            Fact("called by", action.caller if action else ""),
            Fact("intent", f"{self.intent.intent_id}, {self.intent.status}"),
        ]
        return [fact._replace(text=visible(fact.text)) for fact in facts if fact.text]

    @property
    def age(self) -> str:
        return duration(self.now - self.approval.requested_at)

    @property
    def left(self) -> str:
        return duration(self.approval.expires_at - self.now)


def pending_cases(registry: Registry) -> list[Case]:
    """What waits for a decision, the oldest first. Raises RegistryUnavailable, as all here does."""
    return [_case(registry, approval) for approval in registry.approvals.pending()]


def find_case(registry: Registry, approval_id: str) -> Case:
    """Raises ApprovalError if there is none of this id, or if it does not wait for a decision any more."""
    approval = registry.approvals.get(approval_id)
    if approval.status is not ApprovalStatus.PENDING:
        raise ApprovalError(f"approval {approval_id} is {outcome(approval)}; a decision stands")
    return _case(registry, approval)


def decided(registry: Registry, most: int = 20) -> list[Approval]:
    """The requests that were decided or that expired, the latest decision first."""
    table = tables.approvals
    latest = (
        select(table.c.approval_id)
        .where(table.c.status != ApprovalStatus.PENDING.value)
        .order_by(func.coalesce(table.c.decided_at, table.c.expires_at).desc(), table.c.number.desc())
        .limit(most)
    )
    with registry.database.read() as connection:
        ids = list(connection.scalars(latest))
    return [registry.approvals.get(approval_id) for approval_id in ids]


def decide(registry: Registry, approval_id: str, decision: Decision, approver: str, reason: str = "") -> Approval:
    """Approve or reject. Raises ApprovalError, also for a rejection without a reason: the agent is told it."""
    reason = reason.strip()
    if decision == "reject" and not reason:
        raise ApprovalError("say why you reject it: the reason goes to the agent and into the history")
    return registry.approvals.decide(approval_id, decision, approver, reason)


def asked_for(registry: Registry, approval: Approval) -> list[ActionRecord]:
    """The recorded actions that wanted exactly this call by the time the approval was asked for."""
    return [
        action
        for action in registry.actions(approval.intent_id)
        if action.time <= approval.requested_at
        and action.tool == approval.tool
        and digest(action.arguments) == approval.digest
    ]


def approver_name(name: str | None) -> str:
    """The name that decisions are recorded under, by default the login name. Raises ValueError if there is none."""
    if name is None:
        try:
            name = getpass.getuser()
        except (OSError, KeyError) as error:
            raise ValueError("nobody is logged in here: say who approves with --as NAME") from error
    if not name.strip():
        raise ValueError("the name of who approves is empty: say it with --as NAME")
    return name.strip()


def outcome(approval: Approval) -> str:
    """What became of a request, such as `rejected by ann: too much`."""
    by = f" by {approval.approver}" if approval.approver else ""
    reason = f": {approval.reason}" if approval.reason else ""
    status = "approved and used" if approval.status is ApprovalStatus.USED else str(approval.status)
    return visible(f"{status}{by}{reason}")


def spelled(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Names and values of arguments, the values as JSON that shows each character."""
    names = (name if name.isidentifier() else json.dumps(name, ensure_ascii=False) for name in arguments)
    values = (json.dumps(value, ensure_ascii=False, indent=2) for value in arguments.values())
    return [(visible(name), visible(value)) for name, value in zip(names, values, strict=True)]


def duration(time: timedelta) -> str:
    """A time in whole seconds, minutes or hours, never negative."""
    seconds = max(0, int(time.total_seconds()))
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7200 else f"{seconds // 3600} h {seconds % 3600 // 60} min"


def _case(registry: Registry, approval: Approval) -> Case:
    asked = asked_for(registry, approval)
    intent = registry.get(approval.intent_id)
    return Case(approval, intent, asked[-1] if asked else None, registry.database.clock())
