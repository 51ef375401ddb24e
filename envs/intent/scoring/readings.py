"""Requests as token ids: the conversation once, and for each position where it is cut and what follows there.

As in rollouts (`demur.envs.policies.tokens`) a conversation is extended by ids: prompt, turn, frame, result,
frame, and so on. A turn is cut between tokens: those that end at or before the position stay, and the text
between the last of them and the position is part of the tail.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from demur.envs.intent.scoring.positions import CallFormat, Position
from demur.envs.intent.scoring.scores import ScoreRequest
from demur.envs.policies.tokens import TurnFrame


class Point(NamedTuple):
    """The first `cut` ids have been read, then comes `tail`, then a tool's name."""

    cut: int
    tail: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A request's ids, its points in the order of its positions, and how many of the ids are its prompt."""

    ids: list[int]
    points: list[Point]
    prompt: int


class Reader:
    """Turns requests into ids. Raises ValueError for a tokenizer that does not say where its tokens stand."""

    def __init__(self, tokenizer: Any, form: CallFormat) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ValueError("intent scoring needs a fast tokenizer, one that gives the offsets of its tokens")
        self.tokenizer, self.form = tokenizer, form
        self.frame = TurnFrame.of(tokenizer)
        self._closing, self._opening = self._ids(self.frame.closing), self._ids(self.frame.opening)
        self._tails: dict[str, tuple[int, ...]] = {}
        self._names: dict[str, tuple[int, ...]] = {}
        self._prompts: dict[tuple[str, str], list[int]] = {}

    def read(self, requests: Sequence[ScoreRequest]) -> list[Reading]:
        """All requests at once: the tokenizer is called twice, not once a text."""
        turns, results = [], []
        for request in requests:
            turns += [m["content"].removeprefix(self.frame.prefill) for m in request.messages[2::2]]
            results += [m["content"] for m in request.messages[3::2]]
        # what a model wrote and what came back is data: nothing in it may end a message and open another
        options = {"add_special_tokens": False, "split_special_tokens": True}
        written = self.tokenizer(turns, return_offsets_mapping=True, **options) if turns else {}
        answered = iter(self.tokenizer(results, **options)["input_ids"] if results else [])
        pieces = zip(written.get("input_ids", []), written.get("offset_mapping", []), strict=True)
        return [self._reading(request, pieces, answered) for request in requests]

    def name_ids(self, name: str) -> tuple[int, ...]:
        """The ids of a tool's name behind the opener."""
        if name not in self._names:
            opener, whole = self._ids(self.form.opener), self._ids(self.form.opener + name)
            # where the opener would merge with the name, the name stands on its own
            ids = whole[len(opener) :] if whole[: len(opener)] == opener else self._ids(name)
            self._names[name] = tuple(ids)
        return self._names[name]

    @cached_property
    def closers(self) -> list[int]:
        """All tokens that begin with what ends a name. Their sum is the probability that the name ends there."""
        tokens = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        return [index for index, token in enumerate(tokens) if token and token.startswith(self.form.closer)]

    def _reading(self, request: ScoreRequest, pieces: Any, answered: Any) -> Reading:
        prompt = self._prompt(request)
        ids, starts, offsets = list(prompt), [], []
        for index in range(2, len(request.messages), 2):
            turn, spans = next(pieces)
            starts.append(len(ids))
            offsets.append([end for _, end in spans])
            ids += turn
            if index + 1 < len(request.messages):
                ids += [*self._closing, *next(answered), *self._opening]
        points = [self._point(request, p, starts[p.turn], offsets[p.turn]) for p in request.positions]
        del ids[max((point.cut for point in points), default=len(ids)) :]  # nothing looks at what comes later
        return Reading(ids, points, len(prompt))

    def _point(self, request: ScoreRequest, position: Position, start: int, ends: list[int]) -> Point:
        text = request.turn(position.turn).removeprefix(self.frame.prefill)
        skipped = len(request.turn(position.turn)) - len(text)
        end = position.end - skipped
        kept = bisect_right(ends, end)
        between = text[ends[kept - 1] if kept else 0 : end]
        tail = between + position.tail(self.form)
        if tail not in self._tails:
            self._tails[tail] = tuple(self._ids(tail))
        return Point(start + kept, self._tails[tail])

    def _prompt(self, request: ScoreRequest) -> list[int]:
        system, user = request.messages[:2]
        key = (system["content"], user["content"])
        if key not in self._prompts:
            if len(self._prompts) >= 4096:  # a long run has many tasks
                self._prompts.clear()
            self._prompts[key] = self.tokenizer.apply_chat_template(
                [dict(system), dict(user)], add_generation_prompt=True, return_dict=False
            )
        return self._prompts[key]

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids
