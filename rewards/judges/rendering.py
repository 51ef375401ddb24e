"""How trajectories are put to a judge, so that nothing inside them can pass for instructions.

    message = render([first, second])    # or [trajectory]
    view_key(first) == view_key(second)  # the judge could not tell them apart

A judge sees a trajectory's `view()` and nothing else. It is written as one JSON object, whose quoting no text in it can
leave, between two lines with a code made from that object: no text can contain the code of the message it stands in,
and the same trajectories give the same message, which a cache can find. What came back from tools has a role of its
own; characters that do not show are spelled out; what is left out of a long trajectory leaves a mark with a role of
its own, which no text can forge.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from demur.envs.trace import Trajectory
from demur.envs.visible import visible

MAX_CHARS = 12_000
LEAST_CHARS = 400


class Piece(NamedTuple):
    """role: assistant, tool, or cut for the mark of what was left out."""

    role: str
    text: str

    @property
    def size(self) -> int:
        """Characters; a mark counts none."""
        return 0 if self.role == "cut" else len(self.text)


class _Source(NamedTuple):
    """What a piece is made from. text: as it was written. size: of the text once it is visible.

    Only what is shown is spelled out, since a policy may write very many characters that do not show.
    """

    role: str
    text: str
    size: int

    @classmethod
    def of(cls, role: str, text: str) -> _Source:
        return cls(role, text, sum(count * len(visible(one)) for one, count in Counter(text).items()))

    def first(self, count: int) -> Piece:
        return Piece(self.role, visible(self.text[:count])[:count])

    def last(self, count: int) -> Piece:
        shown = visible(self.text[-count:])
        return Piece(self.role, shown[max(0, len(shown) - count) :])

    def whole(self) -> Piece:
        return Piece(self.role, visible(self.text))


def render(trajectories: Sequence[Trajectory], max_chars: int = MAX_CHARS) -> str:
    """The user message for one trajectory, or for two of the same request in this order.

    max_chars: the most that is shown of each trajectory, in characters as `visible` writes them; marks and JSON's own
    signs come on top. The first and the last turn keep a quarter each; a request may take a quarter beside that. Raises
    ValueError below 400.
    """
    check_max_chars(max_chars)
    assert len(trajectories) in (1, 2), "a judge sees one trajectory or two"
    assert len({trajectory.query for trajectory in trajectories}) == 1, "a judge compares trajectories of one request"
    names = ("trajectory",) if len(trajectories) == 1 else ("first", "second")
    data: dict[str, object] = {"request": _shorten_request(trajectories[0].query, max_chars // 4)}
    for name, trajectory in zip(names, trajectories, strict=True):
        data[name] = [piece._asdict() for piece in shown(trajectory, max_chars)]
    return _enclose(json.dumps(data, ensure_ascii=False))


def view_key(trajectory: Trajectory) -> str:
    """The sha256, in hexadecimal, of all that a judge may see of a trajectory; long ones are not cut for it."""
    return sha256(json.dumps(trajectory.view()).encode()).hexdigest()


def shown(trajectory: Trajectory, max_chars: int) -> list[Piece]:
    """The turns and results as a judge reads them, cut in the middle to at most so many characters beside the marks."""
    _, *messages = trajectory.view()
    pieces = [_Source.of("assistant" if m["role"] == "assistant" else "tool", m["content"]) for m in messages]
    if _size(pieces) <= max_chars:
        return [piece.whole() for piece in pieces]
    starts = [at for at, piece in enumerate(pieces) if piece.role == "assistant"]
    if len(starts) == 1:
        return _shorten_turn(pieces, max_chars)
    opening, middle, closing = pieces[: starts[1]], pieces[starts[1] : starts[-1]], pieces[starts[-1] :]
    share = max_chars // 4 if middle else max_chars // 2
    first = _shorten_turn(opening, max(share, max_chars - _size(middle) - _size(closing)))
    last = _shorten_turn(closing, max(share, max_chars - _size(first) - _size(middle)))
    return [*first, *_shorten(middle, max_chars - _size(first) - _size(last)), *last]


def check_max_chars(max_chars: int) -> None:
    """Raises ValueError if so few characters could not show a trajectory."""
    if max_chars < LEAST_CHARS:
        raise ValueError(f"max_chars must be at least {LEAST_CHARS}, not {max_chars}: a judge needs something to read")


def _enclose(data: str) -> str:
    code = sha256(data.encode()).hexdigest()[:32]
    assert code not in data, "a text cannot hold a part of its own hash"
    return (
        f"DATA {code}\n{data}\nDATA {code}\n"
        "The data ends above. Reply with the JSON object that the instructions ask for, and nothing else."
    )


def _size(pieces: Sequence[Piece | _Source]) -> int:
    return sum(piece.size for piece in pieces)


def _mark(left_out: int) -> str:
    return f"{left_out} characters left out"


def _shorten_request(text: str, limit: int) -> str:
    request = _Source.of("user", text)
    if request.size <= limit:
        return request.whole().text
    # the user's own text, so a mark inside it does not let a policy forge one
    head, tail = request.first(limit - limit // 2).text, request.last(limit // 2).text
    return f"{head} [… {_mark(request.size - limit)} …] {tail}"


def _shorten_turn(pieces: Sequence[_Source], limit: int) -> list[Piece]:
    """One turn and its result, each cut on its own: an action stands at the end of what the assistant wrote."""
    said, back = pieces[:1], pieces[1:]
    kept = _shorten(said, max(limit - limit // 2, limit - _size(back)))
    return [*kept, *_shorten(back, limit - _size(kept))]


def _shorten(pieces: Sequence[_Source], limit: int) -> list[Piece]:
    """The beginning and the end of the pieces, with a mark between them."""
    size = _size(pieces)
    if size <= limit:
        return [piece.whole() for piece in pieces]
    head, tail = list[Piece](), list[Piece]()
    left = limit - limit // 2
    for piece in pieces:
        if left <= 0:
            break
        head.append(piece.first(left))
        left -= piece.size
    left = limit // 2
    for piece in reversed(pieces):
        if left <= 0:
            break
        tail.append(piece.last(left))
        left -= piece.size
    return [*head, Piece("cut", _mark(size - limit)), *reversed(tail)]
