"""Questions to the model behind a judge: many at once, within bounds of time and money, remembered on disk.

    calls = Calls("gpt-4o", base_url="https://…/v1", options=CallOptions(max_calls=10_000), cache=cache)
    answers = calls.ask_all(questions)   # one a question, in order; a call that failed is Answer(None, why)

The calls run in an event loop of their own, in a thread, so that connections and the bound on concurrency last over
the whole run, whichever thread asks.
"""

from __future__ import annotations

import asyncio
import os
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, NamedTuple

from pydantic import BaseModel

from demur.envs.endpoint import Endpoint, EndpointError, Message, Reply, json_form, told_fault
from demur.rewards.judges import Usage
from demur.rewards.judges.cache import Cache
from demur.rewards.judges.steps import seconds_gone, times_before


class Question(NamedTuple):
    """read: the value in a reply; raises ValueError for an unusable one. schema: what the reply has to follow."""

    messages: list[dict[str, str]]
    schema: type[BaseModel]
    read: Callable[[str], Any]


class Answer(NamedTuple):
    """error: why there is no value, without the key. repeat: how often the same question came before it."""

    value: Any | None
    error: str | None
    repeat: int = 0


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """Raises ValueError, naming the option, for one that cannot be.

    concurrency: calls under way at once. timeout: seconds for one question, its retries included. step_timeout: seconds
    for one `ask_all`, or for all within a `one_step`; what is open then fails. retries: see `Endpoint`. max_calls,
    max_tokens, max_cost: budgets of this process; None is no budget. prices: money per million prompt and completion
    tokens.
    """

    concurrency: int = 16
    timeout: float = 60.0
    step_timeout: float = 600.0
    retries: int = 4
    max_new_tokens: int = 512
    temperature: float = 0.0
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    prices: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        for name, least in (("concurrency", 1), ("retries", 0), ("max_new_tokens", 1), ("temperature", 0)):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("timeout", "step_timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0 seconds, not {getattr(self, name)}")
        for name in ("max_calls", "max_tokens", "max_cost"):
            if getattr(self, name) is not None and not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}: leave it out for no budget")
        prices = list(self.prices)  # a configuration may hold any number of them
        if len(prices) != 2 or not all(price >= 0 for price in prices):
            raise ValueError(f"prices must be two numbers of at least 0, prompt and completion, not {self.prices}")
        if self.max_cost is not None and not any(self.prices):
            raise ValueError("max_cost needs prices, money per million prompt and completion tokens")


class Calls:
    """Asks a model behind an OpenAI-compatible endpoint; a call that fails is an answer without a value.

    A reply that cannot be used is asked for once more, with its fault. A budget used up is a hard stop: no further
    call is sent, and `stop_reason` says which; calls under way then, at most `concurrency`, still end and are counted.
    Answers from the cache cost nothing. A question that comes several times in one `ask_all` is asked as often, and
    each time has its own entry in the cache. A forked process may go on using its copy.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        key_variable: str = "OPENAI_API_KEY",
        options: CallOptions = CallOptions(),
        cache: Cache | None = None,
    ) -> None:
        self.model = model
        self.stop_reason: str | None = None
        self._options, self._cache = options, cache
        self._endpoint = Endpoint(
            model, base_url=base_url, key_variable=key_variable, timeout=options.timeout, retries=options.retries
        )
        self._used = Usage()  # since the start: what the budgets count
        self._popped = Usage()
        self._start_over()
        _every.add(self)

    def ask_all(self, questions: Sequence[Question]) -> list[Answer]:
        """An answer to each question, in order. Waits in the calling thread, until `step_timeout` is up at most."""
        started = time.monotonic()
        repeats = _repeats(questions)
        keys = [self._key(question, repeat) for question, repeat in zip(questions, repeats, strict=True)]
        answers = [self._remembered(question, key) for question, key in zip(questions, keys, strict=True)]
        open_ = [at for at, answer in enumerate(answers) if answer is None]
        cached = len(answers) - len(open_)
        if open_:
            left = max(0.0, self._options.step_timeout - seconds_gone())
            asked = self._ask([(questions[at], keys[at]) for at in open_], left)
            future = asyncio.run_coroutine_threadsafe(asked, self._running())
            try:
                for at, answer in zip(open_, future.result(), strict=True):
                    answers[at] = answer
            finally:
                future.cancel()  # for a wait that was interrupted
        done = [a._replace(repeat=repeat) for a, repeat in zip(answers, repeats, strict=True) if a is not None]
        failed = sum(answer.error is not None for answer in done)
        self._count(Usage(cached=cached, failed=failed, seconds=time.monotonic() - started))
        return done

    @property
    def settings(self) -> dict[str, str | float]:
        """The model and how it samples."""
        options = self._options
        return {
            "model": self.model,
            "max_new_tokens": options.max_new_tokens,
            "temperature": options.temperature,
        }

    def pop_usage(self) -> Usage:
        """What was used since the last call of this. calls: with second tries after unusable replies."""
        with self._lock:
            used, self._popped = self._popped, Usage()
        return used

    # What was asked before

    def _key(self, question: Question, repeat: int) -> str:
        if self._cache is None:
            return ""
        parameters = self._parameters(question) | ({"draw": repeat} if repeat else {})
        return self._cache.key(self.model, parameters, question.messages)

    def _remembered(self, question: Question, key: str) -> Answer | None:
        text = self._cache.get(key) if self._cache is not None else None
        if text is None:
            return None
        try:
            return Answer(question.read(text), None)
        except (ValueError, RecursionError):  # as good as a damaged entry
            return None

    def _kept(self, question: Question, key: str, text: str, value: Any) -> Answer:
        """The answer that stands in the cache now: another process may have been first."""
        if self._cache is None:
            return Answer(value, None)
        self._cache.put(key, text)
        return self._remembered(question, key) or Answer(value, None)

    # In the thread of the calls

    async def _ask(self, asked: Sequence[tuple[Question, str]], seconds: float) -> list[Answer]:
        error = f"no answer when the step's time was up, step_timeout {self._options.step_timeout:g} s"
        if not seconds:  # no call is paid for that cannot end in time
            return [Answer(None, error)] * len(asked)
        tasks = [asyncio.create_task(self._within_bounds(*one)) for one in asked]
        try:
            await asyncio.wait(tasks, timeout=seconds)
        finally:
            late = [task for task in tasks if task.cancel()]
        if late:
            await asyncio.wait(late, timeout=1.0)  # a connection may take a moment to close
        ended = (task.done() and not task.cancelled() for task in tasks)
        return [task.result() if end else Answer(None, error) for task, end in zip(tasks, ended, strict=True)]

    async def _within_bounds(self, question: Question, key: str) -> Answer:
        async with self._limit:
            try:
                async with asyncio.timeout(self._options.timeout):
                    return await self._one(question, key)
            except TimeoutError:
                return Answer(None, f"no answer within timeout {self._options.timeout:g} s")

    async def _one(self, question: Question, key: str) -> Answer:
        messages: Sequence[Message] = question.messages
        fault = ""
        for _ in range(2):
            if self._over_budget():
                return Answer(None, self.stop_reason)
            self._count(Usage(calls=1))
            try:
                reply = await self._endpoint.complete(messages, **self._parameters(question))
            except EndpointError as error:
                fault = str(error)
                if error.kind == "reply":
                    continue
                break
            self._pay(reply)
            if not reply.text:
                fault = f"the model gave no text (it stopped for {reply.stop!r})"
                return Answer(None, self._endpoint.mask(fault)[:500])
            try:
                value = question.read(reply.text)
            except (ValueError, RecursionError) as error:
                cut = f" (cut at max_new_tokens {self._options.max_new_tokens})" if reply.stop == "length" else ""
                fault = self._endpoint.mask(f"unusable reply{cut}: {error}")[:500]
                messages = told_fault(question.messages, reply.text, str(error) or "it follows no schema")
            else:
                return self._kept(question, key, reply.text, value)
        return Answer(None, fault)

    def _parameters(self, question: Question) -> dict[str, Any]:
        options = self._options
        return {
            "max_tokens": options.max_new_tokens,
            "temperature": options.temperature,
            "response_format": json_form(question.schema),
        }

    # Usage and budgets

    def _over_budget(self) -> bool:
        used, options = self._used, self._options
        budgets = {
            "max_calls": (used.calls, options.max_calls),
            "max_tokens": (used.tokens, options.max_tokens),
            "max_cost": (used.cost, options.max_cost),
        }
        for name, (spent, budget) in budgets.items():
            if budget is not None and spent >= budget and self.stop_reason is None:
                self.stop_reason = f"budget used up: {name} {budget:g}, spent {spent:g}"
        return self.stop_reason is not None

    def _pay(self, reply: Reply) -> None:
        """Count a reply's tokens. Where a budget needs them and the endpoint counts none, no further call is sent."""
        prompt, completion = reply.prompt_tokens, reply.completion_tokens
        cost = (prompt * self._options.prices[0] + completion * self._options.prices[1]) / 1e6
        self._count(Usage(prompt_tokens=prompt, completion_tokens=completion, cost=cost))
        needed = self._options.max_tokens is not None or self._options.max_cost is not None
        if needed and not prompt + completion and self.stop_reason is None:
            self.stop_reason = "budget cannot be kept: the endpoint counts no tokens; use max_calls"

    def _count(self, usage: Usage) -> None:
        with self._lock:
            self._used, self._popped = self._used + usage, self._popped + usage

    # The thread

    def _start_over(self) -> None:
        """Without a thread: at first, and in a forked process, where locks may be held by threads that are gone."""
        self._lock = Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._limit = asyncio.Semaphore(self._options.concurrency)  # bound to the loop that uses it first

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                Thread(target=_run, args=(self._loop,), name="demur-judge", daemon=True).start()
                weakref.finalize(self, _end, self._loop, self._endpoint).atexit = False
            return self._loop


def _repeats(questions: Sequence[Question]) -> list[int]:
    """How often each question came before."""
    seen: Counter[Any] = Counter()
    repeats = []
    for question in questions:
        same = question.schema, tuple(tuple(message.items()) for message in question.messages)
        repeats.append(times_before() + seen[same])
        seen[same] += 1
    return repeats


_every: weakref.WeakSet[Calls] = weakref.WeakSet()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _end(loop: asyncio.AbstractEventLoop, endpoint: Endpoint) -> None:
    """End the thread whose `Calls` are gone."""

    async def end() -> None:
        try:
            await endpoint.close()
        finally:
            loop.stop()

    running: list[asyncio.Task[None]] = []  # a loop holds its tasks weakly
    loop.call_soon_threadsafe(lambda: running.append(loop.create_task(end())))


def _start_all_over() -> None:
    for calls in _every:
        calls._start_over()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_over)
