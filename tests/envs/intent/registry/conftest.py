"""Registries to test with, each kept in SQLite and in PostgreSQL."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.intent import Intent, IntentStatus
from tests.envs.intent.registry.helpers import NAILS, Clock, Postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running server. Skips where PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    path = shutil.which("initdb") or (str(found[-1]) if found else None)
    if path is None:
        pytest.skip("PostgreSQL's initdb is not installed; on Debian: apt-get install postgresql")
    server = Postgres(Path(path).resolve().parent)
    try:
        server.start()
        yield server
    finally:
        server.remove()


_schemas = count(1)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where no registry is yet."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/intents.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(f"test_{next(_schemas)}")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_registry(url: str, clock: Clock) -> Iterator[Callable[[], Registry]]:
    """Opens the same registry anew, as another process would."""
    opened: list[Registry] = []

    def open_one() -> Registry:
        opened.append(Registry(url, caller="tests", clock=clock))
        return opened[-1]

    yield open_one
    for registry in opened:
        registry.close()


@pytest.fixture
def registry(open_registry: Callable[[], Registry]) -> Registry:
    return open_registry()


@pytest.fixture
def intent(registry: Registry) -> Intent:
    """An activated intent of the contract `NAILS`."""
    intent = registry.register(NAILS)
    return registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
