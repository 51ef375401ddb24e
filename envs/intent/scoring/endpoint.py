"""The intent-tool scorer over HTTP: prompt log-probabilities from an OpenAI-compatible `/v1/completions`.

For each position one request holds a prompt a tool: the conversation, the tail and the tool's name, as token ids.
What the server says of the name's tokens and of the token after it gives the same score as `LocalScorer`, but for
one thing: of the tokens that end a name only the likeliest (`TOP`) are known. vLLM answers both ways::

    scorer = EndpointScorer("policy", tokenizer, base_url="http://127.0.0.1:8000/v1")
    scores = scorer.score(requests)      # or `await scorer.score_async(requests)`
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Literal

from openai import APIStatusError

from demur.envs.endpoint import Endpoint
from demur.envs.intent.scoring.positions import FORMATS, CallFormat
from demur.envs.intent.scoring.readings import Point, Reader, Reading
from demur.envs.intent.scoring.scores import PositionScore, ScoreRequest

TOP = 20
"""Log-probabilities asked for of the token behind a name; the most that vLLM gives unless told."""
NEVER = -100.0
"""Log-probability of ending a name where no token that does is among the likeliest."""

Way = Literal["echo", "prompt_logprobs"]


class NoPromptLogprobs(ValueError):
    """The endpoint works but does not say how likely the tokens of a prompt are."""


class EndpointScorer:
    """way: `echo` with `logprobs`, the API's own, or vLLM's `prompt_logprobs`.

    A request that fails after the client's retries, or a reply that cannot be read, gives None for its position,
    never a score. Raises ValueError if the endpoint gives no prompt log-probabilities at all. The tokenizer must be
    the served model's; the key is read from the environment only. concurrency: requests at once; timeout in seconds.
    """

    def __init__(
        self,
        model: str,
        tokenizer: Any,
        *,
        base_url: str,
        form: str | CallFormat = "demur",
        way: Way = "echo",
        key_variable: str = "OPENAI_API_KEY",
        concurrency: int = 16,
        timeout: float = 120.0,
        retries: int = 4,
    ) -> None:
        if isinstance(form, str):
            if form not in FORMATS:
                raise ValueError(f"there is no call format {form!r}; there are {', '.join(FORMATS)}")
            form = FORMATS[form]
        if concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {concurrency}")
        self.name, self.reader = model, Reader(tokenizer, form)
        self._way, self._concurrency = way, concurrency
        self._endpoint = Endpoint(model, base_url=base_url, key_variable=key_variable, timeout=timeout, retries=retries)

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[PositionScore | None]]:
        """A score for each position of each request, in order, or None; for code without an event loop."""
        return asyncio.run(self.score_async(requests))

    async def score_async(self, requests: Sequence[ScoreRequest]) -> list[list[PositionScore | None]]:
        """A score for each position of each request, in order, or None."""
        readings = self.reader.read(requests)
        limit = asyncio.Semaphore(self._concurrency)

        async def one(request: ScoreRequest, reading: Reading, at: int) -> PositionScore | None:
            async with limit:
                return await self._position(request, reading, at)

        tasks = [
            [asyncio.ensure_future(one(request, reading, at)) for at in range(len(request.positions))]
            for request, reading in zip(requests, readings, strict=True)
        ]
        every = [task for of_request in tasks for task in of_request]
        try:
            await asyncio.gather(*every)
        except NoPromptLogprobs:
            for task in every:
                task.cancel()
            await asyncio.gather(*every, return_exceptions=True)
            raise
        return [[task.result() for task in of_request] for of_request in tasks]

    async def _position(self, request: ScoreRequest, reading: Reading, at: int) -> PositionScore | None:
        names = [self.reader.name_ids(name) for name in request.tools]
        try:
            choices = await self._ask(reading, reading.points[at], names)
            read = reading.points[at].cut + len(reading.points[at].tail)
            logs = [self._log(choice, name, read) for choice, name in zip(choices, names, strict=True)]
        except NoPromptLogprobs:
            raise
        except Exception as error:  # whatever an endpoint sends: one position has no score, the rest goes on
            if isinstance(error, APIStatusError) and _refuses(error):
                raise NoPromptLogprobs(self._advice(str(error))) from None
            return None
        return PositionScore.of(request.positions[at], dict(zip(request.tools, logs, strict=True)), request.decoys)

    async def _ask(self, reading: Reading, point: Point, names: Sequence[tuple[int, ...]]) -> list[dict[str, Any]]:
        """One choice a name, in order. Raises what the client raises, or ValueError for another reply."""
        before = [*reading.ids[: point.cut], *point.tail]
        options: dict[str, Any] = {"echo": True} if self._way == "echo" else {}
        extra = {} if self._way == "echo" else {"prompt_logprobs": 1}
        reply: Any = await self._endpoint.client().completions.create(
            model=self.name,
            prompt=[[*before, *name] for name in names],
            max_tokens=1,
            temperature=0,
            logprobs=TOP,
            extra_body=extra,
            **options,
        )
        choices = sorted(reply.to_dict(warnings=False)["choices"], key=lambda choice: int(choice["index"]))
        if len(choices) != len(names):
            raise ValueError(f"the endpoint sent {len(choices)} choices for {len(names)} prompts")
        return choices

    def _log(self, choice: dict[str, Any], name: tuple[int, ...], read: int) -> float:
        """The log-probability of a name that stands behind `read` tokens, and of its end."""
        logprobs = choice.get("logprobs") or {}
        given = logprobs.get("token_logprobs") or []
        prompt = given if self._way == "echo" else choice.get("prompt_logprobs") or []
        if len(prompt) <= 1 or not logprobs.get("top_logprobs"):  # nothing, or only the new token's
            raise NoPromptLogprobs(self._advice())
        if len(prompt) != read + len(name) + (self._way == "echo"):
            raise ValueError(f"the endpoint counts {len(prompt)} tokens where {read + len(name)} were sent")
        steps = prompt[read : read + len(name)]
        if self._way == "prompt_logprobs":  # each by token id, with the likeliest ones beside the prompt's own
            steps = [step[str(token)]["logprob"] for step, token in zip(steps, name, strict=True)]
        after = logprobs["top_logprobs"][-1]
        ends = [math.exp(float(log)) for text, log in after.items() if text.startswith(self.reader.form.closer)]
        total = sum(map(float, steps)) + (math.log(sum(ends)) if sum(ends) > 0 else NEVER)
        if math.isnan(total):
            raise ValueError("the endpoint sent a log-probability that is no number")
        return total

    def _advice(self, said: str = "") -> str:
        other = "prompt_logprobs" if self._way == "echo" else "echo"
        return (
            f"the endpoint gives no prompt log-probabilities for {self.name} (way={self._way!r}): try way={other!r}, "
            f"serve it with vLLM, or score in this process with LocalScorer. {self._endpoint.mask(said)[:200]}"
        ).rstrip()


def _refuses(error: APIStatusError) -> bool:
    """Whether an error says that the endpoint has no such thing, rather than that this request went wrong."""
    said = str(error).casefold()
    return error.status_code in (404, 405, 501) or (
        error.status_code in (400, 422) and any(word in said for word in ("echo", "logprobs"))
    )
