"""What every adapter puts around a guard: the mode, a time limit, and an audit log in a file.

    log = AuditFile(Path("audit.jsonl"), caller="mail agent")
    session = GuardSession(enforced(provenance_guard(), mode="ask", log=log), query)

The log holds the records of the registry's audit log, hash-chained in the same way, one a line. Arguments and results
are not in it, only the SHA-256 of the arguments. `AuditFile.verify(path)` names the first record that was changed.
Needs the package `sqlalchemy`, as the registry does.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, get_args

from demur.envs.guards import Context, Guard, checked
from demur.envs.guards.calls import exactly
from demur.envs.guards.session import report
from demur.envs.trace import Level, ToolCall, Verdict

Mode = Literal["block", "ask", "record"]
"""block: nothing runs that the guard does not let run. ask: as the guard says. record: it runs, with a warning."""

TIMEOUT: Final = 60.0
"""Seconds that a guard may take for one call."""


class AuditFile:
    """An audit log in a file, which this process alone writes to until it is closed.

    caller: who the records say is calling. Raises ValueError if the file is another's, or not as it was written.
    """

    def __init__(self, path: Path, *, caller: str = "") -> None:
        from demur.envs.intent.registry.intent import storable

        self.path = path
        self._caller = storable(caller)
        try:
            self._file = path.open("a", encoding="ascii")
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise ValueError(f"{path} is being written by another process; give each a log of its own") from error
        except OSError as error:
            raise ValueError(f"the audit log {path} cannot be written: {error.strerror}") from error
        try:
            self._number, self._head = _end(path)
        except ValueError:
            self.close()
            raise

    def append(
        self, event: str, call: ToolCall, *, verdict: str = "", rule: str = "", approver: str = "", detail: str = ""
    ) -> None:
        """Write one record; it is with the operating system when this returns. Raises OSError if it can't be written,
        and ValueError if the arguments are no JSON."""
        from demur.envs.intent.registry.chain import canonical, digest, hash_of
        from demur.envs.intent.registry.database import stamp
        from demur.envs.intent.registry.intent import storable

        row: dict[str, Any] = {
            "number": self._number + 1,
            "time": stamp(datetime.now(UTC)),
            "caller": self._caller,
            "intent_id": "",
            "event": event,
            "tool": storable(call.name),
            "digest": digest(call.arguments),
            "verdict": verdict,
            "rule": storable(rule),
            "approver": approver,
            "detail": storable(detail),
            "previous": self._head,
        }
        row["hash"] = hash_of(row)
        line = canonical(row)
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError:
            self.close()  # what is left of the line can't be taken back: nothing may follow it
            raise
        self._number, self._head = row["number"], row["hash"]

    def close(self) -> None:
        """Give the file up; whatever is appended later raises ValueError."""
        self._file.close()

    @staticmethod
    def verify(path: Path) -> Any:
        """The first `Fault` of the registry's `chain`, or None. A tail that was cut off goes unseen.

        Raises ValueError for a line that is no record.
        """
        from demur.envs.intent.registry.chain import first_fault

        numbers = {row["hash"]: row["number"] for row in _rows(path)}
        return first_fault(_rows(path), None, numbers.get)


def _end(path: Path) -> tuple[int, str]:
    from demur.envs.intent.registry.chain import GENESIS

    if fault := AuditFile.verify(path):
        raise ValueError(f"the audit log {path} was changed: {fault.reason}; keep it, and name another file")
    last: dict[str, Any] = {"number": 0, "hash": GENESIS}
    for last in _rows(path):  # noqa: B007, only the last one counts
        pass
    return last["number"], last["hash"]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    from demur.envs.intent.registry.audit import AuditRecord

    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                AuditRecord.model_validate(row)
            except ValueError as error:
                raise ValueError(f"{path}:{number} is no record of an audit log; name another file") from error
            yield row


class Enforced:
    """A guard as it acts on a live agent. A guard that fails or takes too long blocks in every mode."""

    def __init__(self, guard: Guard, mode: Mode, log: AuditFile | None, timeout: float) -> None:
        self._guard, self._mode, self._log, self._timeout = guard, mode, log, timeout

    @property
    def name(self) -> str:
        return self._guard.name

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        """Raises OSError if the verdict can't be written down, which `checked` turns into a block."""
        verdict = self._in_mode(await checked(_Timed(self._guard, self._timeout), context, call))
        if self._log is not None:
            agreed = any(exactly(call) == exactly(one) for one in context.confirmed)
            self._log.append(
                "checked",
                call,
                verdict=verdict.level,
                rule=verdict.relation or "",
                approver="user" if agreed else "",
                detail=f"{verdict.guard}, stage {verdict.stage}",
            )
        return verdict

    async def ran(self, call: ToolCall, result: str, ok: bool) -> None:
        """Tell the guard and the log what came of a call. Raises what they raise."""
        await report(self._guard, call, result, ok)
        if self._log is not None:
            self._log.append("ran", call, detail="ok" if ok else "failed")

    def _in_mode(self, verdict: Verdict) -> Verdict:
        if verdict.level.lets_run or verdict.stage == "error" or self._mode == "ask":
            return verdict
        level = Level.BLOCK if self._mode == "block" else Level.WARN
        return verdict.model_copy(update={"level": level})


def enforced(guard: Guard, *, mode: Mode = "ask", log: AuditFile | None = None, timeout: float = TIMEOUT) -> Enforced:
    """The guard with a mode, a time limit in seconds for each check, and a log. Raises ValueError for another mode."""
    if mode not in get_args(Mode):
        raise ValueError(f"there is no mode {mode!r}; use one of {', '.join(get_args(Mode))}")
    return Enforced(guard, mode, log, timeout)


class _Timed:
    def __init__(self, guard: Guard, seconds: float) -> None:
        self.name, self._guard, self._seconds = guard.name, guard, seconds

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        try:
            async with asyncio.timeout(self._seconds):
                return await self._guard.check(context, call)
        except TimeoutError as error:
            raise TimeoutError(str(error) or f"no verdict within {self._seconds:g} s") from error
