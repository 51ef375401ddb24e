"""Where intents are kept: an SQLite file or a PostgreSQL database, with one writer at a time.

    database = Database("sqlite:///intents.db")
    with database.write() as write:                 # all or nothing; other processes wait
        write.audit("status", intent_id, detail="activated")

Every write appends to the audit log, so one writer at a time keeps it one chain. The registry's time is the clock's,
but never before the last audit record: it does not run back when a clock does. Needs the package `sqlalchemy`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from demur.envs.intent.registry import tables
from demur.envs.intent.registry.chain import GENESIS, hash_of
from demur.envs.intent.registry.intent import storable, utc_now

BUSY_SECONDS: Final = 30.0
"""How long a write waits for its turn."""
_LOCK: Final = 0x64656D7572  # PostgreSQL's advisory lock of whoever writes

Clock = Callable[[], datetime]


class RegistryUnavailable(RuntimeError):
    """The registry cannot be reached, or not in time. Whether a write in progress went through is unknown."""


def stamp(moment: datetime) -> str:
    """A time as the tables hold it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


@dataclass(slots=True)
class Write:
    """A transaction that changes something. now: the registry's time; clock: this machine's, which may run back."""

    connection: Connection
    caller: str
    now: str
    clock: str
    number: int
    head: str

    def audit(
        self,
        event: str,
        intent_id: str,
        *,
        tool: str = "",
        digest: str = "",
        verdict: str = "",
        rule: str = "",
        approver: str = "",
        detail: str = "",
    ) -> int:
        """Append a record to the audit log; returns its number."""
        row: dict[str, Any] = {
            "number": self.number + 1,
            "time": self.now,
            "caller": self.caller,
            "intent_id": storable(intent_id),
            "event": event,
            "tool": storable(tool),
            "digest": digest,
            "verdict": verdict,
            "rule": storable(rule),
            "approver": storable(approver),
            "detail": storable(detail),
            "previous": self.head,
        }
        row["hash"] = hash_of(row)
        self.connection.execute(_APPEND, row)
        self.number, self.head = row["number"], row["hash"]
        return self.number


_APPEND = insert(tables.audit)
_HEAD = (
    select(tables.audit.c.number, tables.audit.c.hash, tables.audit.c.time)
    .order_by(tables.audit.c.number.desc())
    .limit(1)
)


class Database:
    """A registry's database; it is made on first use, unless it must exist.

    url: `sqlite:///FILE` or `postgresql://…`. caller: who the audit log says is writing. durable: SQLite writes
    survive a loss of power, not only the death of the process (PostgreSQL has its own setting for that).
    Raises ValueError if `url` leads to no registry, or to one of another version, and RegistryUnavailable.
    """

    def __init__(
        self,
        url: str,
        *,
        caller: str = "",
        durable: bool = False,
        must_exist: bool = False,
        clock: Clock = utc_now,
    ) -> None:
        self.caller = storable(caller)
        self.clock = clock
        self._turn = threading.Lock()  # threads wait here for each other, rather than poll the database
        address = _address(url)
        self.name = address.render_as_string(hide_password=True)
        self._file = Path(address.database or "") if address.get_backend_name() == "sqlite" else None
        if must_exist and self._file is not None and not self._file.is_file():
            raise ValueError(f"there is no registry at {self.name}; name the one that your agents write to")
        self._engine = _engine(address, durable)
        try:
            self._prepare(must_exist)
        except BaseException:
            self.close()
            raise
        self._inode = self._file.stat().st_ino if self._file else 0

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state and changes nothing."""
        with self._reachable(), self._engine.connect() as connection:
            if self._file is not None:
                connection.exec_driver_sql("BEGIN")
            yield connection

    @contextmanager
    def write(self) -> Iterator[Write]:
        """A transaction that nobody else writes beside; it is in the database once the block is left without error."""
        with self._reachable(), self._turn, self._alone() as connection:
            number, hashed, last = connection.execute(_HEAD).one_or_none() or (0, GENESIS, "")
            clock = stamp(self.clock())
            yield Write(connection, self.caller, max(clock, last), clock, number, hashed)

    @contextmanager
    def _alone(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            # said here and not by a listener: listeners cost a tenth of every write
            connection.exec_driver_sql("BEGIN IMMEDIATE" if self._file else f"SELECT pg_advisory_xact_lock({_LOCK})")
            yield connection

    def times(self, connection: Connection) -> tuple[str, str]:
        """The registry's time and this machine's."""
        _, _, last = connection.execute(_HEAD).one_or_none() or (0, GENESIS, "")
        clock = stamp(self.clock())
        return max(clock, last), clock

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        try:
            self._still_there()
            yield
        except (DBAPIError, SQLAlchemyError, OSError) as error:
            raise self._unavailable(error) from error

    def _still_there(self) -> None:
        """A file that was deleted takes writes until it is closed, and they are lost."""
        if self._file is not None and os.stat(self._file).st_ino != self._inode:
            raise OSError("the file was replaced by another one")

    def _unavailable(self, error: Exception) -> RegistryUnavailable:
        cause = error.orig if isinstance(error, DBAPIError) else error
        first_line = str(cause).strip().split("\n")[0]
        return RegistryUnavailable(f"the registry {self.name} cannot be used: {type(cause).__name__}: {first_line}")

    def _prepare(self, must_exist: bool) -> None:
        """Check the version before anything is written; make the tables if there are none."""
        try:
            with self._engine.connect() as connection:
                found = inspect(connection).has_table(tables.schema.name)
                versions = list(connection.scalars(select(tables.schema.c.version))) if found else []
            if found:
                self._check_version(versions)
            elif must_exist:
                raise ValueError(f"{self.name} holds no registry; name the database that your agents write to")
            else:
                self._create()
        except DBAPIError as error:
            if self._file is not None and "not a database" in str(error.orig):
                raise ValueError(f"{self.name} is not an SQLite database; name another file") from error
            raise self._unavailable(error) from error

    def _check_version(self, versions: list[int]) -> None:
        if versions != [tables.SCHEMA]:
            kind = "newer" if versions and max(versions) > tables.SCHEMA else "older or unknown"
            raise ValueError(
                f"{self.name} holds a registry of a {kind} version ({versions or 'none'}; this one knows "
                f"{tables.SCHEMA}): use the version of demur that made it, or name another database"
            )

    def _create(self) -> None:
        if self._file is not None:
            driver = self._engine.raw_connection()  # the mode can only be set outside of a transaction
            with closing(driver), closing(driver.cursor()) as cursor:
                cursor.execute("PRAGMA journal_mode=WAL")
                cursor.fetchall()
        with self._alone() as connection:
            tables.metadata.create_all(connection)
            # another process may have been faster
            if connection.scalar(select(tables.schema.c.version)) is None:
                connection.execute(insert(tables.schema), {"version": tables.SCHEMA})


def _address(url: str) -> URL:
    try:
        address = make_url(url)
    except ArgumentError as error:
        raise ValueError("the registry's URL cannot be read; write sqlite:///FILE or postgresql://…") from error
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    kind = address.get_backend_name()
    if kind not in ("sqlite", "postgresql"):
        raise ValueError(f"a registry is kept in sqlite:///FILE or postgresql://…, not in {kind}")
    if kind == "sqlite" and address.database in (None, "", ":memory:"):
        raise ValueError("a registry in memory would be lost with its process; write sqlite:///FILE")
    return address


def _engine(address: URL, durable: bool) -> Engine:
    try:
        engine = create_engine(address)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise ValueError(f"{error}: PostgreSQL needs pip install 'demur[postgres]'") from error
    sqlite = engine.dialect.name == "sqlite"

    def connect(connection: Any, _: Any) -> None:
        with closing(connection.cursor()) as cursor:
            if sqlite:
                connection.isolation_level = None  # the driver begins no transaction by itself
                cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")
                cursor.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            else:
                cursor.execute(f"SET lock_timeout = '{BUSY_SECONDS:.0f}s'")
                connection.commit()

    event.listen(engine, "connect", connect)
    return engine
