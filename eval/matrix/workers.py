"""Scripted policies in processes of their own: each plays every n-th task of a job, and sends what it has finished.

A process is started anew, not forked. It ends with the process that started it: its next message finds nobody.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from demur.eval.matrix.options import Options
from demur.eval.matrix.play import Job, Players, Share, Sink, play
from demur.eval.matrix.suites import load_source

_SPAWN = multiprocessing.get_context("spawn")


class _Pipe:
    """A sink that sends to the process that started this one."""

    def __init__(self, sender: Connection, done: Sequence[frozenset[str]]) -> None:
        self._sender, self._done = sender, done

    def add(self, at: int, task_id: str, line: str) -> None:
        self._sender.send((at, task_id, line))

    def failed(self, at: int, error: str) -> None:
        self._sender.send((at, None, error))

    def lacks(self, at: int, task_id: str) -> bool:
        return task_id not in self._done[at]


def play_in_processes(job: Job, options: Options, sink: Sink, done: Sequence[frozenset[str]]) -> str | None:
    """Play a job; None, or what went wrong with a process. done: the tasks that each cell has."""
    started: dict[Connection, BaseProcess] = {}
    process: BaseProcess
    for at in range(options.processes):
        receiver, sender = _SPAWN.Pipe(duplex=False)
        process = _SPAWN.Process(
            target=_work, args=(sender, job, options, done, Share(at, options.processes)), daemon=True
        )
        process.start()
        sender.close()
        started[receiver] = process
    problem: str | None = None
    try:
        while started:
            for ready in wait(list(started)):
                assert isinstance(ready, Connection)
                try:
                    at, task_id, text = ready.recv()
                except EOFError:
                    process = started.pop(ready)
                    process.join()
                    if process.exitcode:
                        problem = problem or f"a process that played tasks ended with status {process.exitcode}"
                    continue
                if at is None:
                    problem = problem or text
                elif task_id is None:
                    sink.failed(at, text)
                else:
                    sink.add(at, task_id, text)
    finally:
        for process in started.values():
            process.kill()
            process.join()
    return problem


def _work(sender: Connection, job: Job, options: Options, done: Sequence[frozenset[str]], share: Share) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    try:
        play(job, load_source(job.suite, options), Players(options), _Pipe(sender, done), share)
    except BrokenPipeError:
        os._exit(1)  # nobody listens any more
    except Exception as error:  # told to whoever reads the cell; the other jobs go on
        sender.send((None, None, f"{type(error).__name__}: {error}"))
    sender.close()
