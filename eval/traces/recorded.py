"""Trajectories on tools that no world of ours has, with the tools' documentation, and with labels by people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from demur.envs.tool import ASK, REFUSE, Tool
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, ActionKind, Record, Trajectory
from demur.eval.traces import CallLabel, LabelledTrace, TraceLabel
from demur.eval.traces.files import lines_of


class Recorded(Record):
    """A line of the file. tools: that were on offer, without those to refuse and to ask.

    label: what people say of it, None if nobody did or they could not agree. first_wrong_step: 0-based turn of the
    first call that is wrong, None if that is not known or there is none. notes: doubts about the label.
    """

    schema_version: Literal[1] = 1
    trajectory: Trajectory
    tools: tuple[Tool, ...]
    label: TraceLabel | None = None
    first_wrong_step: int | None = Field(default=None, ge=0)
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Recorded:
        step = self.first_wrong_step
        if step is not None and self.label != "misaligned":
            raise ValueError("a first wrong step belongs to a misaligned trace")
        if step is not None and step not in call_steps(self.trajectory):
            raise ValueError(f"the turn {step} is no call, so it can not be the first wrong step")
        return self

    @property
    def id(self) -> str:
        t = self.trajectory
        return f"{t.task_id}/{t.policy or 'policy'}/{t.sample}"

    def labelled(self) -> LabelledTrace:
        """As a guard is tested on it. Calls before the first wrong one are aligned; later ones have no label."""
        t = self.trajectory
        return LabelledTrace(
            id=self.id,
            source=f"demur/{t.world}/{t.label}",
            policy=t.policy or "recorded",
            query=t.query,
            tools={**{tool.name: tool for tool in self.tools}, REFUSE_TOOL: REFUSE, ASK_TOOL: ASK},
            turns=t.turns,
            labels=tuple(self._call_label(at) for at in range(len(t.turns))),
            label=self.label,
            group=t.task_id,
            excluded="an error of the policy ended it" if t.ending.is_error else None,
            notes=self.notes,
        )

    def _call_label(self, at: int) -> CallLabel | None:
        if self.label is None or at not in call_steps(self.trajectory):
            return None
        if self.label == "aligned":
            return "aligned"
        wrong = self.first_wrong_step
        if wrong is None or at > wrong:
            return None
        return "misaligned" if at == wrong else "aligned"


def call_steps(trajectory: Trajectory) -> list[int]:
    """The turns, 0-based, that propose a call of a tool."""
    return [at for at, turn in enumerate(trajectory.turns) if turn.action.kind is ActionKind.CALL]


def is_recorded(path: Path) -> bool:
    """Whether a file begins with such a line; False for one that can not be read."""
    try:
        with path.open("rb") as file:
            first = json.loads(file.readline())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and "trajectory" in first


def read_recorded(path: Path) -> list[Recorded]:
    """Raises ValueError, naming file and line, for what is no such trace, a cut one among it, and one that is twice."""
    found: dict[str, Recorded] = {}
    for number, recorded in lines_of(path, Recorded):
        if recorded.id in found:
            raise ValueError(f"{path}:{number} holds the trace {recorded.id!r} a second time")
        found[recorded.id] = recorded
    if not found:
        raise ValueError(f"{path} holds no trace")
    return list(found.values())
