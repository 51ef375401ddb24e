"""Labelled traces to test guards on: recorded runs of which it is known what went wrong, and where.

    traces = read_traces(Path("gpt-4_all_labelled_traces.jsonl"), "workbench")
    for at, context, call in steps(traces[0]):
        verdict = await checked(guard, context, call)

A trace is data. Whatever it says, no tool of it runs, and a guard never sees its labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Final, Literal, NamedTuple, cast

from demur.envs.episode import CONFIRMED_REPLY, UNKNOWN_REPLY
from demur.envs.guards import Context
from demur.envs.protocol import OBSERVATION_MARKUP
from demur.envs.tool import Tool
from demur.envs.trace import ActionKind, Level, ToolCall, Turn

TraceLabel = Literal["aligned", "misaligned"]
CallLabel = Literal["aligned", "misaligned", "injected"]

FORMATS: Final = ("demur", "workbench", "agentdojo", "assebench", "rjudge")


class Said(NamedTuple):
    """What the user said before the turn with this 0-based number."""

    turn: int
    text: str


class Proposed(NamedTuple):
    """A call of a trace. at: its turn, 0-based. context: what was known when it was proposed."""

    at: int
    context: Context
    call: ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledTrace:
    """A recorded run. id: unique in its file. source: where it comes from. policy: whose run it is.

    labels: one a turn, None where the call was not labelled or there is none. label: of the whole trace, None if it
    is neither. group: traces of one group depend on each other, such as queries of one template. now: the clock.
    said: what the user added, besides the answers to questions, which are turns. allowed: tools that the request
    needs, where that is known. injection_seen: one a turn, whether the agent had read the injection by then; empty
    where there is none. excluded: why the trace does not count, or None. partial: turns
    of whose results the file holds a part. notes: doubts about its labels.
    """

    id: str
    source: str
    policy: str = "recorded"
    query: str
    tools: Mapping[str, Tool]
    turns: tuple[Turn, ...]
    labels: tuple[CallLabel | None, ...]
    label: TraceLabel | None
    group: str
    now: datetime | None = None
    said: tuple[Said, ...] = ()
    allowed: frozenset[str] | None = None
    injection_seen: tuple[bool, ...] = field(default=())
    excluded: str | None = None
    partial: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.labels) == len(self.turns), "a label, or None, a turn"
        assert len(self.injection_seen) in (0, len(self.turns)), "one a turn, or none at all"


def steps(trace: LabelledTrace) -> Iterator[Proposed]:
    """Every proposed call, with the recorded history before it; a call that did not run was proposed as well."""
    opening, closing = OBSERVATION_MARKUP
    answers: list[Said] = list(trace.said)
    confirmed: list[ToolCall] = []
    for at, turn in enumerate(trace.turns):
        call, asked = turn.action.call, any(v.level is Level.ASK for v in turn.verdicts) and not turn.executed
        if turn.action.kind is ActionKind.CALL and call is not None:
            context = Context(
                query=trace.query,
                tools=trace.tools,
                history=trace.turns[:at],
                plan=turn.plan,
                check=turn.check,
                user_said=tuple(text for when, text in sorted(answers) if when <= at),
                confirmed=tuple(confirmed),
                now=trace.now,
                partial=trace.partial,
            )
            yield Proposed(at, context, call)
        spoke = asked or turn.action.kind in (ActionKind.ASK, ActionKind.ANSWER)  # behind an answer, if they say more
        if spoke and turn.observation is not None:
            reply = turn.observation.removeprefix(opening).removesuffix(closing)
            if reply == CONFIRMED_REPLY and call is not None:
                confirmed.append(call)
            elif reply != UNKNOWN_REPLY:
                answers.append(Said(at + 1, reply))


def read_traces(path: Path, format: str) -> list[LabelledTrace]:
    """The traces of a file in one of `FORMATS`.

    Raises ValueError, naming the file and the place in it, for a file that is not of the format, is cut or empty,
    holds a trace twice, or a trace without a query; and for a format that does not exist.
    """
    if format not in FORMATS:
        raise ValueError(f"there is no format {format!r}: use one of {', '.join(FORMATS)}")
    reader = import_module(f"demur.eval.traces.{format}")
    traces = cast(Callable[[Path], list[LabelledTrace]], reader.read)(path)
    if not traces:
        raise ValueError(f"{path} holds no trace")
    known: set[str] = set()
    for trace in traces:
        if trace.id in known:
            raise ValueError(f"{path} holds the trace {trace.id!r} twice")
        known.add(trace.id)
        if not trace.query.strip():
            raise ValueError(f"{path}: the trace {trace.id!r} has no query, so nothing can be checked against it")
    return traces
