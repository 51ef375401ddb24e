"""The thread in which guards of live tools run, with an event loop of its own.

A guard is asynchronous and a live tool need not be: it may be called with or without a running event loop, from any
thread. In a loop that is always the same one, whatever a guard holds (connections, locks) stays usable, and a guard
that blocks does not stop the agent's own loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextvars import copy_context
from functools import cache
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, name="demur-guards", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):  # a forked process has the loop, but no thread that runs it
    os.register_at_fork(after_in_child=_loop.cache_clear)


def run_in_worker(work: Coroutine[Any, Any, T]) -> T:
    """Wait in the calling thread for what comes of `work` in the worker. Raises what it raises."""
    if _in_worker():
        work.close()
        raise RuntimeError("a guard or its callback called a guarded tool that is not asynchronous; make it async")
    future = asyncio.run_coroutine_threadsafe(_held(work), _loop())
    try:
        return future.result()()
    finally:
        future.cancel()  # for one that was interrupted while it waited


async def await_in_worker(work: Coroutine[Any, Any, T]) -> T:
    """The same for code in an event loop, which goes on meanwhile."""
    if _in_worker():
        return await work
    return (await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_held(work), _loop())))()


async def call_in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Call a blocking function, such as one that asks a user. Unlike with `asyncio.to_thread`, no exit waits for it."""
    future: Future[Callable[[], T]] = Future()
    future.set_running_or_notify_cancel()  # from here on its result can be set even if nobody waits any more

    def work() -> None:
        try:
            result = function(*arguments)
        except BaseException as error:
            future.set_result(_raising(error))
        else:
            future.set_result(lambda: result)

    Thread(target=copy_context().run, args=(work,), name="demur-callback", daemon=True).start()
    return (await asyncio.wrap_future(future))()


def _in_worker() -> bool:
    try:
        return asyncio.get_running_loop() is _loop()
    except RuntimeError:
        return False


async def _held(work: Coroutine[Any, Any, T]) -> Callable[[], T]:
    """What comes of `work`, as a function: an exit raised in a task would end the loop that everybody shares."""
    try:
        result = await work
    except BaseException as error:
        return _raising(error)
    return lambda: result


def _raising(error: BaseException) -> Callable[[], Any]:
    def give() -> Any:
        raise error

    return give
