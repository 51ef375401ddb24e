"""A language model as the judge: it compares two whole trajectories, or scores one, by a policy in `prompts/`.

    judge = LLMJudge(Calls("my-model", base_url="http://127.0.0.1:8000/v1"))
    verdicts = judge.compare([(first, second), (second, first)])

Both ways of asking show the same texts and state the same policy. A reply that is not exactly the JSON asked for, or a
call that fails, gives None and a `Failure`, never a number.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field, ValidationError

from demur.envs.protocol import unique_keys
from demur.envs.trace import Record, Trajectory
from demur.rewards.judges import Failure, Pair, Usage
from demur.rewards.judges.calls import Calls, Question
from demur.rewards.judges.rendering import MAX_CHARS, check_max_chars, render

Prompt = Literal["together", "apart"]
VALUES: Final = {"first": 1.0, "second": 0.0, "tie": 0.5}
TOP_SCORE: Final = 10

_FOLDER = Path(__file__).parent / "prompts"
_TEXTS = {path.stem: path.read_text(encoding="utf-8").strip() for path in sorted(_FOLDER.glob("*.txt"))}

PROMPTS_HASH: Final = sha256(json.dumps(_TEXTS, sort_keys=True).encode()).hexdigest()
"""The sha256 of the prompt files, in hexadecimal."""

R = TypeVar("R", bound=Record)


class Comparison(Record):
    """What the judge replies to a pair. The reason comes first, so that the verdict follows from it."""

    reason: str
    verdict: Literal["first", "second", "tie"]


class ComparisonApart(Record):
    """The same after a word on each trajectory alone, as PRePair (arXiv 2406.12319) does."""

    first_alone: str
    second_alone: str
    reason: str
    verdict: Literal["first", "second", "tie"]


class Score(Record):
    """What the judge replies to one trajectory."""

    reason: str
    score: Annotated[int, Field(ge=0, le=TOP_SCORE)]


class LLMJudge:
    """prompt: compare trajectories `together`, or after a look at each `apart`. max_chars: see `render`.

    Raises ValueError for another prompt and for too small a max_chars. Two trajectories of a pair have the same query.
    """

    def __init__(self, calls: Calls, prompt: Prompt = "together", max_chars: int = MAX_CHARS) -> None:
        if prompt not in ("together", "apart"):
            raise ValueError(f"there is no judge prompt {prompt!r}: use together or apart")
        check_max_chars(max_chars)
        self._calls, self._prompt, self._max_chars = calls, prompt, max_chars
        self._failures: list[Failure] = []

    @property
    def name(self) -> str:
        """`llm:`, the model's name, and ` (apart)` with that prompt, since it judges otherwise."""
        return f"llm:{self._calls.model}" + (" (apart)" if self._prompt == "apart" else "")

    @property
    def settings(self) -> dict[str, str | float]:
        """What its verdicts depend on, beside the prompts and the model behind the name."""
        return {"prompt": self._prompt, "max_chars": self._max_chars, **self._calls.settings}

    @property
    def stop_reason(self) -> str | None:
        return self._calls.stop_reason

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        """1.0: the first is better, 0.0: the second, 0.5: a tie, None: it failed, for each pair."""
        apart = self._prompt == "apart"
        system = instructions("pairwise_apart" if apart else "pairwise")
        schema = ComparisonApart if apart else Comparison
        read = read_comparison_apart if apart else read_comparison
        return self._ask("compare", pairs, [Question(self._messages(system, pair), schema, read) for pair in pairs])

    def score(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        """In [0, 1], in steps of a tenth, or None, for each trajectory."""
        system = instructions("pointwise")
        alone = [(trajectory,) for trajectory in trajectories]
        return self._ask("score", alone, [Question(self._messages(system, one), Score, read_score) for one in alone])

    def pop_usage(self) -> Usage:
        return self._calls.pop_usage()

    def pop_failures(self) -> list[Failure]:
        failures, self._failures = self._failures, []
        return failures

    def _messages(self, system: str, trajectories: Sequence[Trajectory]) -> list[dict[str, str]]:
        return [
            {"role": "system", "content": system},
            {"role": "user", "content": render(trajectories, self._max_chars)},
        ]

    def _ask(
        self, kind: Literal["compare", "score"], asked: Sequence[Sequence[Trajectory]], questions: Sequence[Question]
    ) -> list[float | None]:
        answers = self._calls.ask_all(questions)
        for trajectories, answer in zip(asked, answers, strict=True):
            if answer.value is None:
                samples = tuple(trajectory.sample for trajectory in trajectories)
                error = answer.error or "no answer"
                task_id = trajectories[0].task_id
                self._failures.append(
                    Failure(kind=kind, task_id=task_id, samples=samples, repeat=answer.repeat, error=error)
                )
        return [answer.value for answer in answers]


def instructions(name: str) -> str:
    """The system message of a prompt file, with the judging policy and the reading of the data filled in."""
    return _TEXTS[name].replace("{policy}", _TEXTS["policy"]).replace("{data}", _TEXTS["data"])


def read_comparison(text: str) -> float:
    """The verdict in a reply, from the first's view. Raises ValueError for anything but the JSON asked for."""
    return VALUES[_read(text, Comparison).verdict]


def read_comparison_apart(text: str) -> float:
    """The same for the variant that looks at each trajectory alone."""
    return VALUES[_read(text, ComparisonApart).verdict]


def read_score(text: str) -> float:
    """The score in a reply, in [0, 1]. Raises ValueError for anything but the JSON asked for."""
    return _read(text, Score).score / TOP_SCORE


def _read(text: str, schema: type[R]) -> R:
    try:
        # a key that stands twice could carry two verdicts
        value = json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the reply is not one JSON object: {str(error)[:120]}") from None
    try:
        return schema.model_validate(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'the reply'}: {first['msg']}"[:200]) from None
