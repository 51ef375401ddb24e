"""Rows of the registry's tables as records, and the changes that several parts of the registry make to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, bindparam, insert, select, update

from demur.envs.intent.registry import tables
from demur.envs.intent.registry.chain import canonical, digest
from demur.envs.intent.registry.database import Write
from demur.envs.intent.registry.intent import ActionRecord, Intent, IntentStatus, check_transition, new_id, storable
from demur.envs.tool import EffectClass
from demur.envs.trace import ToolCall, Verdict


class UnknownIntent(ValueError):
    """The registry has no intent of this id."""


_INTENT = select(tables.intents).where(tables.intents.c.intent_id == bindparam("id"))
_TOUCH = update(tables.intents).where(tables.intents.c.intent_id == bindparam("id")).values(updated_at=bindparam("now"))
_SET_INTENT: Final = update(tables.intents).where(tables.intents.c.intent_id == bindparam("id"))
_NEW_ACTIONS = (
    select(tables.actions)
    .where(tables.actions.c.intent_id == bindparam("id"), tables.actions.c.changed > bindparam("after"))
    .order_by(tables.actions.c.number)
)
_SET_ACTION = update(tables.actions).where(tables.actions.c.number == bindparam("which"))
_ADD_ACTION = insert(tables.actions)


def find_intent(connection: Connection, intent_id: str) -> Intent | None:
    row = connection.execute(_INTENT, {"id": storable(intent_id)}).one_or_none()
    return None if row is None else read_intent(row)


def load_intent(connection: Connection, intent_id: str) -> Intent:
    """Raises UnknownIntent if there is none."""
    intent = find_intent(connection, intent_id)
    if intent is None:
        raise UnknownIntent(f"there is no intent {intent_id!r} in this registry; register it first")
    return intent


def read_intent(row: Row[Any]) -> Intent:
    values = dict(row._mapping)
    return Intent.model_validate({**values, "contract": json.loads(values["contract"])})


def load_actions(connection: Connection, intent_id: str, after: int = 0) -> list[tuple[int, ActionRecord]]:
    """The actions that something was told of after that audit record, each with the record's number."""
    rows = connection.execute(_NEW_ACTIONS, {"id": storable(intent_id), "after": after})
    return [(row.changed, _read_action(row)) for row in rows]


def _read_action(row: Row[Any]) -> ActionRecord:
    values = dict(row._mapping)
    del values["changed"]
    values["arguments"] = json.loads(values["arguments"])
    values["verdict"] = values["verdict"] and json.loads(values["verdict"])
    return ActionRecord.model_validate(values)


def set_status(write: Write, intent: Intent, status: IntentStatus, *, held: bool = False) -> None:
    """Raises StatusError if the transition is not allowed."""
    check_transition(intent.intent_id, intent.status, status)
    change_intent(write, intent.intent_id, status=status.value, held=held)
    write.audit("status", intent.intent_id, detail=status)


def change_intent(write: Write, intent_id: str, **values: Any) -> None:
    changed = _SET_INTENT.values(updated_at=write.now, **values)
    write.connection.execute(changed, {"id": intent_id})


def add_action(
    write: Write,
    intent_id: str,
    call: ToolCall,
    *,
    effect: EffectClass,
    plan: str = "",
    check: str | None = None,
    guarded: bool = True,
) -> ActionRecord:
    """Raises UnknownIntent, and ValueError if the call's arguments are no JSON."""
    intent_id, hashed = storable(intent_id), digest(call.arguments)
    if write.connection.execute(_TOUCH, {"id": intent_id, "now": write.now}).rowcount == 0:
        raise UnknownIntent(f"there is no intent {intent_id!r} in this registry; register it first")
    number = write.audit("action" if guarded else "unguarded", intent_id, tool=call.name, digest=hashed)
    record = ActionRecord(
        action_id=new_id(),
        number=number,
        intent_id=intent_id,
        tool=call.name,
        arguments=call.arguments,
        effect=effect,
        plan=plan,
        check=check,
        guarded=guarded,
        caller=write.caller,
        time=datetime.fromisoformat(write.now),
    )
    row = record.model_dump(exclude={"intent_id", "arguments", "effect", "verdict", "time"})
    row |= {"changed": number, "intent_id": intent_id, "time": write.now}
    row |= {"arguments": canonical(call.arguments), "effect": effect.value, "verdict": None}
    write.connection.execute(_ADD_ACTION, row)
    return record


def add_verdict(write: Write, action: ActionRecord, verdict: Verdict, *, approver: str = "") -> None:
    """What was said of an action. approver: who approved or confirmed it."""
    number = write.audit(
        "checked",
        action.intent_id,
        tool=action.tool,
        digest=digest(action.arguments),
        verdict=verdict.level,
        rule=verdict.relation or "",
        approver=approver,
        detail=verdict.stage or "",
    )
    said = canonical(verdict.model_dump(mode="json"))
    _change_action(write, action, number, verdict=said, approver=storable(approver))


def add_result(write: Write, action: ActionRecord, result: str, ok: bool) -> None:
    """What came of an action."""
    number = write.audit(
        "ran",
        action.intent_id,
        tool=action.tool,
        digest=digest(action.arguments),
        verdict=action.verdict.level if action.verdict else "",
        detail="ok" if ok else "failed",
    )
    _change_action(write, action, number, result=storable(result), ok=ok)


def _change_action(write: Write, action: ActionRecord, number: int, **values: Any) -> None:
    write.connection.execute(_SET_ACTION.values(changed=number, **values), {"which": action.number})
    write.connection.execute(_TOUCH, {"id": action.intent_id, "now": write.now})


def newest(changed: Sequence[tuple[int, ActionRecord]], before: int) -> int:
    """The number of the latest audit record among those of `load_actions`."""
    return max((number for number, _ in changed), default=before)
