"""What the tests of the registry share: a contract, a clock, and a PostgreSQL server of our own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg

from demur.envs.intent.contract import CallPattern, Constraint, Criterion, Equals, IntentContract, Precondition
from demur.envs.trace import Level

_I1 = (Equals(argument="id", value="i1"),)

NAILS = IntentContract(
    goal="order nails",
    allowed=(
        CallPattern(tool="look"),
        CallPattern(tool="order", where=(Equals(argument="name", value="nails"),), at_most=2),
        CallPattern(tool="open_at"),
        CallPattern(tool="drop"),
    ),
    constraints=(
        Constraint(id="keep-i1", text="keep i1.", forbid=CallPattern(tool="drop", where=_I1)),
        Constraint(id="ask-first", text="ask me.", level=Level.ASK, forbid=CallPattern(tool="open_at")),
    ),
    approval=(CallPattern(tool="drop"),),
    order=(Precondition(id="look-first", before=CallPattern(tool="order"), first=CallPattern(tool="look")),),
    acceptance=(Criterion(id="nails", text="two orders", done_when=CallPattern(tool="order"), times=2),),
)
"""Reading is free, orders come after a look and twice complete it, dropping needs approval, and i1 stays."""


class Clock:
    """A clock that goes where it is told to."""

    def __init__(self) -> None:
        self.now = datetime(2026, 5, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Postgres:
    """A PostgreSQL server in a temporary folder, reached by a socket in it."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._user = _unprivileged() if os.getuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="demur-pg-"))
        self._server: subprocess.Popen[bytes] | None = None
        if self._user:
            os.chown(self.folder, self._user.pw_uid, self._user.pw_gid)
        self._call("initdb", "-D", "data", "-A", "trust", "-U", "demur", "-E", "UTF8", "--no-locale", "--no-sync")

    def start(self) -> None:
        options = ["-D", "data", "-k", str(self.folder), "-h", "", "-c", "fsync=off"]  # the machine does not crash
        with (self.folder / "log").open("ab") as log:
            self._server = subprocess.Popen(
                [self._programs / "postgres", *options], cwd=self.folder, stdout=log, stderr=log, **self._as_user()
            )
        for _ in range(300):
            try:
                self._execute("SELECT 1")
                return
            except psycopg.OperationalError:
                time.sleep(0.1)
        raise AssertionError(f"PostgreSQL did not start: {(self.folder / 'log').read_text()}")

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        if self._server is not None:
            self._server.send_signal(signal.SIGQUIT)
            self._server.wait(30)
            self._server = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def url(self, schema: str) -> str:
        """An empty schema of that name."""
        self._execute(f"CREATE SCHEMA {schema}")
        return f"postgresql://demur@/postgres?host={self.folder}&options=-csearch_path%3D{schema}"

    def _execute(self, statement: str) -> None:
        with psycopg.connect(host=str(self.folder), user="demur", dbname="postgres") as connection:
            connection.execute(statement)

    def _call(self, program: str, *arguments: str) -> None:
        command = [self._programs / program, *arguments]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True, **self._as_user())

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


def _unprivileged() -> pwd.struct_passwd:
    names = {entry.pw_name: entry for entry in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]
