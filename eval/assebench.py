"""ASSEBench's labelled traces (arXiv 2506.00641) as trajectories: single traces to test a judge's scores on."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, TypeAdapter

from demur.envs.trace import Action, ActionKind, Ending, Label, Trajectory, Turn


class _Message(BaseModel):
    role: Literal["user", "agent", "environment"]
    content: str = ""
    thought: str = ""
    action: str = ""


class _Item(BaseModel):
    id: int
    profile: str = ""
    contents: list[list[_Message]]
    label: Literal[0, 1]


_ITEMS: TypeAdapter[list[_Item]] = TypeAdapter(list[_Item])


class LabelledTrace(NamedTuple):
    """safe: what people said of the whole trace."""

    trajectory: Trajectory
    safe: bool


def read_assebench(path: Path) -> list[LabelledTrace]:
    """The traces of one of its JSON files. Facts are unknown: label and outcome of the trajectories mean nothing.

    Raises ValueError, naming the file, if it is not such a file.
    """
    try:
        items = _ITEMS.validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a file of ASSEBench: {error}") from error
    if not items:
        raise ValueError(f"{path} holds no trace")
    return [LabelledTrace(_trajectory(item), item.label == 0) for item in items]


def _trajectory(item: _Item) -> Trajectory:
    """The first message is the query, behind the agent's profile; what follows a turn is its observation."""
    messages = [message for session in item.contents for message in session]
    opening: list[str] = [item.profile.strip()] if item.profile.strip() else []
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "agent":
            text = message.action or message.content
            raw = f"Thought: {message.thought}\nAction: {text}" if message.thought else text
            turns.append({"plan": message.thought, "text": text, "raw": raw, "heard": []})
        else:
            (turns[-1]["heard"] if turns else opening).append(message.content)
    return Trajectory(
        task_id=str(item.id),
        world="assebench",
        family="assebench",
        label=Label.BENIGN,
        split="test",
        query="\n\n".join(opening),
        turns=tuple(
            Turn(
                plan=turn["plan"],
                action=Action(kind=ActionKind.ANSWER, text=turn["text"]),
                raw=turn["raw"],
                observation="\n\n".join(turn["heard"]) or None,
            )
            for turn in turns
        ),
        ending=Ending.ANSWER,
        turn_limit=max(1, len(turns)),
    )
