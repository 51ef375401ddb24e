"""Guard the tools of a live agent: each call is put to a guard first, and runs only if that lets it::

    session = GuardSession(guard, "what was the refund rate of the last 7 days?", contract=contract)

    @guarded(session, changes=False)
    def query_orders(days: int) -> list[Order]: ...

    with reasoning("I need the orders of a week"):
        query_orders(7)     # or raises CallBlocked, CallNeedsConfirmation, ApprovalRequired

Whatever goes wrong before a call, the tool does not run. A tool that is not asynchronous runs in the thread that calls
it, and that thread waits for the guard, also where it has an event loop to run.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from demur.envs.guards.calls import call_of, is_async, signature_of
from demur.envs.guards.session import (
    ApprovalRequired,
    Attempt,
    CallBlocked,
    CallNeedsConfirmation,
    CallStopped,
    GuardSession,
    reasoning,
)
from demur.envs.guards.worker import run_in_worker
from demur.envs.tool import EffectClass, describe
from demur.envs.trace import ToolCall

__all__ = [
    "ApprovalRequired",
    "CallBlocked",
    "CallNeedsConfirmation",
    "CallStopped",
    "GuardSession",
    "guarded",
    "reasoning",
    "under_guard",
]

P = ParamSpec("P")
R = TypeVar("R")


def guarded(
    session: GuardSession,
    *,
    name: str | None = None,
    changes: bool | None = None,
    reversible: bool = False,
    kind: EffectClass | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function, a method or another callable, asynchronous or not, so that the session's guard comes first.

    changes: whether it can change the environment, which is assumed unless this, `kind` or the session's `tools` says
    otherwise. Raises ValueError for what can't be guarded: a name that is taken, a generator, no signature.
    """

    def guard(function: Callable[P, R]) -> Callable[P, R]:
        signature_of(function)  # first, since what has none can't be described either
        called = name or str(getattr(function, "__name__", "<lambda>"))
        if called == "<lambda>":
            raise ValueError(f"{function!r} has no name of its own: add name='…'")
        tool = session.tools.get(called)
        if tool is None:
            does = _changes(called, changes, kind)
            tool = describe(function, called, changes=does, reversible=reversible, kind=kind)
        elif changes is not None or kind is not None:
            raise ValueError(f"{called} is described in the session's tools: leave out changes and kind")
        session.add(tool)
        return under_guard(session, function, called)

    return guard


def under_guard(
    session: GuardSession,
    function: Callable[P, R],
    name: str,
    *,
    hidden: Collection[str] = (),
    signature: inspect.Signature | None = None,
) -> Callable[P, R]:
    """The function with its calls guarded as calls of the tool `name`, which the session knows.

    hidden: parameters that the agent does not choose, and that the guard does not see. signature: what to name the
    arguments by, where it is not the function's own. For hooks into frameworks; `guarded` is for all else.
    """
    assert name in session.tools, f"{name} is not described"
    signature = signature or signature_of(function)
    unseen = {*hidden, "self"} if next(iter(signature.parameters), None) == "self" else set(hidden)

    def attempt(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Attempt:
        try:
            return Attempt(call_of(name, signature, unseen, args, kwargs))
        except Exception as error:  # the guard can't judge what it can't see
            return Attempt(ToolCall(name=name), fault=f"the arguments of {name} can't be read: {error}")

    async def finish(one: Attempt, result: Awaitable[Any]) -> Any:
        try:
            done = await result
        except (Exception, asyncio.CancelledError) as error:
            await session.settle(one, error, ok=False)
            raise
        await session.settle(one, done, ok=True)
        return done

    @wraps(function)
    async def asynchronous(*args: Any, **kwargs: Any) -> Any:
        one = attempt(args, kwargs)

        async def admitted() -> Any:
            await session.admit(one)
            return await cast(Awaitable[Any], function(*args, **kwargs))

        return await finish(one, admitted())

    @wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        one = attempt(args, kwargs)
        try:
            run_in_worker(session.admit(one))
            result = function(*args, **kwargs)
        except BaseException as error:
            run_in_worker(session.settle(one, error, ok=False))
            raise
        if inspect.isawaitable(result):
            return finish(one, result)
        run_in_worker(session.settle(one, result, ok=True))
        return result

    return cast(Callable[P, R], asynchronous if is_async(function) else plain)


def _changes(name: str, changes: bool | None, kind: EffectClass | None) -> bool:
    """Least privilege: what nobody said to be harmless may change something."""
    if kind is None:
        return changes is not False
    reads = kind is EffectClass.READ
    if changes is reads:
        raise ValueError(f"{name}: kind={kind.value!r} contradicts changes={changes}; leave changes out")
    return not reads
