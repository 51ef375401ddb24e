"""The one trajectory schema: what a policy wrote, what the world answered, what came of it.

Rollouts, rewards, judges, guards, evaluation, imports of public traces and the runtime log all
use these models; on disk a trajectory is one line of JSON::

    trajectory = Trajectory.model_validate_json(line)
    [turn.action.kind for turn in trajectory.turns]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION: Final = 1
REFUSE_TOOL = "refuse_unsafe_task"
ASK_TOOL = "ask_user"


class Label(StrEnum):
    """What the right behaviour on a task is about."""

    BENIGN = "benign"
    HARMFUL = "harmful"
    INJECTED = "injected"
    UNDERSPECIFIED = "underspecified"


class ActionKind(StrEnum):
    """The one thing a turn does."""

    CALL = "call"
    REFUSE = "refuse"
    ASK = "ask"
    ANSWER = "answer"
    MALFORMED = "malformed"


class Ending(StrEnum):
    """Why an episode stopped."""

    ANSWER = "answer"
    REFUSAL = "refusal"
    TURN_LIMIT = "turn_limit"
    CONTEXT_LIMIT = "context_limit"
    ERROR = "error"  # the policy's backend failed; the trajectory carries `error`

    @property
    def is_error(self) -> bool:
        return self is Ending.ERROR


class Level(StrEnum):
    """What a guard says of a call, mildest first."""

    ALLOW = "allow"
    WARN = "warn"
    ASK = "ask"
    REQUIRE_APPROVAL = "require_approval"
    BLOCK = "block"

    @property
    def severity(self) -> int:
        """0 (allow) to 4 (block)."""
        return list(Level).index(self)

    @property
    def lets_run(self) -> bool:
        return self in (Level.ALLOW, Level.WARN)


class Record(BaseModel):
    """Base of everything written to disk: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolCall(Record):
    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)

    def same_as(self, other: ToolCall) -> bool:
        return self.name == other.name and self.arguments == other.arguments


class Action(Record):
    """One action. Which fields are set depends on `kind`:

    call: `call` · refuse, ask: `call` and `text` (reason, question) · answer: `text` ·
    malformed: `text` (the whole raw turn) and `fault` (why it could not be read).
    """

    kind: ActionKind
    call: ToolCall | None = None
    text: str = ""
    fault: str | None = None


class Verdict(Record):
    """A guard's word on one call, with what it rests on."""

    level: Level
    guard: str
    reason: str = ""
    stage: str | None = None
    relation: str | None = None
    evidence: tuple[str, ...] = ()
    question: str | None = None


class TokenCounts(Record):
    """Tokens of one turn by part; `total` includes tags and the end-of-turn token."""

    plan: int = 0
    check: int = 0
    action: int = 0
    total: int = 0


class Turn(Record):
    """One message of the policy and what it brought about. failed: the call ran, and the tool could not do it."""

    plan: str = ""
    check: str | None = None
    action: Action
    raw: str = ""
    observation: str | None = None
    executed: bool = False
    failed: bool = False
    verdicts: tuple[Verdict, ...] = ()
    tokens: TokenCounts = TokenCounts()


class Outcome(Record):
    """Facts about an episode, computed by plain code from the world's state; no judge is involved.

    goal, attack: reached share in [0, 1]. harms: changes that do harm. damage: changes that nobody
    asked for. leaks: secrets that left through an answer or a sent text. refusal_turn is 0-based.
    safe_share: of a harmful task that has a part which is safe, how much of that was done, in [0, 1].
    """

    goal: float = 0.0
    safe_share: float | None = None
    harms: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    leaks: tuple[str, ...] = ()
    attack: float = 0.0
    changed: bool = False
    refused: bool = False
    refusal_turn: int | None = None
    asked_needed: int = 0
    asked_needless: int = 0
    needless_calls: int = 0
    well_formed: bool = True

    @property
    def harmless(self) -> bool:
        return not (self.harms or self.damage or self.leaks or self.attack > 0)


class Trajectory(Record):
    """A whole episode. `view()` is what a judge may see of it. given: how many of the turns were there at the start."""

    schema_version: Literal[1] = SCHEMA_VERSION
    task_id: str
    world: str
    family: str
    label: Label
    split: str
    query: str
    turns: tuple[Turn, ...] = ()
    given: int = 0
    ending: Ending
    outcome: Outcome = Outcome()
    turn_limit: int
    policy: str = ""
    guard: str = "none"
    sample: int = 0
    acted_intent: float | None = None  # intent-tool score before an executed harmful call, if scored
    error: str | None = None

    @property
    def calls(self) -> list[ToolCall]:
        """Calls that really ran, in order; refusing and asking are not among them."""
        return [t.action.call for t in self.turns if t.executed and t.action.call is not None]

    @property
    def own_turns(self) -> tuple[Turn, ...]:
        """The turns that the policy wrote."""
        return self.turns[self.given :]

    @property
    def valid_turns(self) -> int:
        return sum(t.action.kind is not ActionKind.MALFORMED for t in self.own_turns)

    def view(self) -> list[dict[str, str]]:
        """The query, the raw turns and the observations as chat messages: no label, facts or verdicts."""
        messages = [{"role": "user", "content": self.query}]
        for turn in self.turns:
            messages.append({"role": "assistant", "content": turn.raw})
            if turn.observation is not None:
                messages.append({"role": "user", "content": turn.observation})
        return messages


def write_jsonl(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Write trajectories to `path`, one a line; the file appears whole or not at all."""
    # the version is written although it is a default, so that old files stay recognisable
    write_lines(
        path,
        (f'{{"schema_version":{t.schema_version},{t.model_dump_json(exclude_defaults=True)[1:]}' for t in trajectories),
    )


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines to `path`; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(f"{line}\n")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def read_jsonl(path: Path) -> Iterator[Trajectory]:
    """Read trajectories; a line that is not one raises ValueError naming file and line."""
    with path.open("rb") as file:  # bytes, so that a wrong encoding is a bad line like any other
        for number, line in enumerate(file, 1):
            try:
                yield Trajectory.model_validate_json(line)
            except ValueError as error:
                raise ValueError(f"{path}:{number} is not a trajectory: {error}") from error
