"""The intent as a runtime object: identity, status, and the record of each action taken for it.

An intent carries its contract and lives outside the model, in a registry. Only while its status is `activated`
do calls run::

    created ─► activated ◄─► paused
                   │            │
                   └────────────┴──► completed · violated · abandoned
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import uuid4

from pydantic import AwareDatetime, BeforeValidator, Field

from demur.envs.intent.contract import IntentContract
from demur.envs.tool import EffectClass
from demur.envs.trace import Record, ToolCall, Verdict


class IntentStatus(StrEnum):
    """Where an intent stands in its life."""

    CREATED = "created"
    ACTIVATED = "activated"
    PAUSED = "paused"
    COMPLETED = "completed"
    VIOLATED = "violated"
    ABANDONED = "abandoned"

    @property
    def finished(self) -> bool:
        return not TRANSITIONS[self]


_ENDS: Final = frozenset({IntentStatus.COMPLETED, IntentStatus.VIOLATED, IntentStatus.ABANDONED})

TRANSITIONS: Final[Mapping[IntentStatus, frozenset[IntentStatus]]] = {
    IntentStatus.CREATED: frozenset({IntentStatus.ACTIVATED, IntentStatus.ABANDONED}),
    IntentStatus.ACTIVATED: _ENDS | {IntentStatus.PAUSED},
    IntentStatus.PAUSED: _ENDS | {IntentStatus.ACTIVATED},
    IntentStatus.COMPLETED: frozenset(),
    IntentStatus.VIOLATED: frozenset(),
    IntentStatus.ABANDONED: frozenset(),
}


class StatusError(ValueError):
    """A change of status that the table of transitions does not have."""


def check_transition(intent_id: str, old: IntentStatus, new: IntentStatus) -> None:
    """Raises StatusError if an intent cannot go from `old` to `new`."""
    if new not in TRANSITIONS[old]:
        allowed = ", ".join(sorted(TRANSITIONS[old])) or "nothing: this status is final"
        raise StatusError(f"intent {intent_id} is {old} and cannot become {new}; allowed: {allowed}")


def new_id() -> str:
    """An id that does not collide: 32 hexadecimal digits of a random UUID."""
    return uuid4().hex


def utc_now() -> datetime:
    return datetime.now(UTC)


def storable(text: str) -> str:
    """The text without what a database refuses: NUL and lone surrogates."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


Stored = Annotated[str, BeforeValidator(lambda value: storable(value) if isinstance(value, str) else value)]
"""A text as the registry keeps it."""


class Intent(Record):
    """One user's intent. confidence: in [0, 1], the contract's in the light of the checks so far.

    held: somebody paused it by hand, so that no approval sets it going again.
    """

    intent_id: str = Field(default_factory=new_id)
    contract: IntentContract
    status: IntentStatus = IntentStatus.CREATED
    held: bool = False
    confidence: float = Field(ge=0.0, le=1.0)
    created_at: AwareDatetime
    updated_at: AwareDatetime


class ActionRecord(Record):
    """One action taken for an intent, recorded before it ran. number: its place in the registry's order.

    guarded: it was checked before it ran; if it was not, `verdict` was given afterwards. ok: None until the result
    is reported. approver: who approved or confirmed it. caller: the process or service that made the call.
    """

    action_id: str
    number: int
    intent_id: str
    tool: Stored
    arguments: dict[str, Any] = Field(default_factory=dict)
    effect: EffectClass
    plan: Stored = ""
    check: Stored | None = None
    verdict: Verdict | None = None
    guarded: bool = True
    ok: bool | None = None
    result: Stored = ""
    approver: Stored = ""
    caller: Stored = ""
    time: AwareDatetime

    @property
    def call(self) -> ToolCall:
        return ToolCall(name=self.tool, arguments=self.arguments)

    @property
    def ran(self) -> bool:
        return self.ok is not None
