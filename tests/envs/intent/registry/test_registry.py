"""The registry: intents and actions outlive processes, and nothing runs that it cannot vouch for."""

import sqlite3
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import create_engine, text

from benchmarks.intent_registry import hammer
from demur.envs.intent.registry import DuplicateIntent, Registry
from demur.envs.intent.registry.database import RegistryUnavailable
from demur.envs.intent.registry.intent import TRANSITIONS, Intent, IntentStatus, StatusError, check_transition
from demur.envs.intent.registry.rows import UnknownIntent, add_result, add_verdict
from demur.envs.tool import EffectClass
from demur.envs.trace import Level, ToolCall, Verdict
from tests.envs.helpers import call
from tests.envs.intent.registry.helpers import NAILS, Clock, Postgres

ALLOW = Verdict(level=Level.ALLOW, guard="contract")


def test_a_registered_intent_is_read_back_as_it_was(registry: Registry, clock: Clock) -> None:
    intent = registry.register(NAILS)
    assert registry.get(intent.intent_id) == intent
    assert intent.contract == NAILS
    assert (intent.status, intent.created_at, intent.confidence) == (IntentStatus.CREATED, clock.now, 1.0)


def test_an_id_is_registered_once(registry: Registry) -> None:
    registry.register(NAILS, intent_id="one")
    with pytest.raises(DuplicateIntent, match="registered already"):
        registry.register(NAILS, intent_id="one")
    assert len(registry.intents()) == 1


def test_ids_of_a_second_do_not_collide(registry: Registry) -> None:
    assert len({registry.register(NAILS).intent_id for _ in range(20)}) == 20


@pytest.mark.parametrize("intent_id", ["nobody", "", "nul \0", "lone \ud800"])
def test_an_unknown_intent_is_an_error(registry: Registry, intent_id: str) -> None:
    for use in (registry.get, registry.actions, lambda i: registry.update_status(i, IntentStatus.ACTIVATED)):
        with pytest.raises(UnknownIntent, match="no intent"):
            use(intent_id)
    with pytest.raises(UnknownIntent):
        registry.append_action(intent_id, call("look"), effect=EffectClass.READ)
    assert registry.audit.query() == []


@given(st.lists(st.sampled_from(IntentStatus), max_size=8))
def test_an_intent_only_moves_along_the_table(wishes: list[IntentStatus]) -> None:
    status = IntentStatus.CREATED
    for wish in wishes:
        if wish in TRANSITIONS[status]:
            check_transition("i", status, wish)
            assert not status.finished
            status = wish
        else:
            with pytest.raises(StatusError, match=f"is {status} and cannot become {wish}"):
                check_transition("i", status, wish)


def test_calls_run_only_after_activation_and_no_end_is_left() -> None:
    assert {s for s in IntentStatus if s.finished} == {"completed", "violated", "abandoned"}
    into_activated = {s for s in IntentStatus if IntentStatus.ACTIVATED in TRANSITIONS[s]}
    assert into_activated == {"created", "paused"}


def test_a_refused_transition_changes_nothing(registry: Registry, intent: Intent) -> None:
    registry.update_status(intent.intent_id, IntentStatus.ABANDONED)
    before = registry.audit.query()
    with pytest.raises(StatusError, match="final"):
        registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    assert registry.get(intent.intent_id).status is IntentStatus.ABANDONED
    assert registry.audit.query() == before


def test_an_action_is_kept_with_all_that_came_of_it(registry: Registry, intent: Intent) -> None:
    arguments = {"name": "nails \0 \ud800", "deep": {"b": [1, 2.5, None, True]}, "µ": "→"}
    action = registry.append_action(
        intent.intent_id, ToolCall(name="look", arguments=arguments), effect=EffectClass.READ, plan="p\0", check="c"
    )
    with registry.database.write() as write:
        add_verdict(write, action, ALLOW, approver="ann")
        add_result(write, action, "20 nails \ud800", ok=False)
    (kept,) = registry.actions(intent.intent_id)
    assert kept.arguments == arguments
    assert (kept.plan, kept.check, kept.effect) == ("p\N{REPLACEMENT CHARACTER}", "c", EffectClass.READ)
    assert (kept.verdict, kept.approver, kept.ok, kept.result) == (ALLOW, "ann", False, "20 nails ?")
    assert (kept.caller, kept.guarded, kept.action_id) == ("tests", True, action.action_id)


def test_arguments_that_are_no_json_are_refused_whole(registry: Registry, intent: Intent) -> None:
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        registry.append_action(intent.intent_id, call("look", name=object()), effect=EffectClass.READ)
    assert registry.actions(intent.intent_id) == []


@given(st.dictionaries(st.text(), st.text() | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none()))
def test_any_arguments_come_back(tmp_path_factory: pytest.TempPathFactory, arguments: dict[str, object]) -> None:
    path = tmp_path_factory.getbasetemp() / "any.db"
    with Registry(f"sqlite:///{path}") as registry:
        intent = registry.register(NAILS)
        registry.append_action(intent.intent_id, ToolCall(name="t", arguments=arguments), effect=EffectClass.READ)
        assert registry.actions(intent.intent_id)[0].arguments == arguments


def test_what_was_written_outlives_the_process(open_registry: Callable[[], Registry]) -> None:
    first = open_registry()
    intent = first.register(NAILS)
    first.append_action(intent.intent_id, call("look", name="nails"), effect=EffectClass.READ)
    first.close()
    assert [action.tool for action in open_registry().actions(intent.intent_id)] == ["look"]


def test_after_a_restart_each_intent_goes_on_as_it_was(
    open_registry: Callable[[], Registry], registry: Registry, clock: Clock
) -> None:
    waiting, lapsing, held, active, ended = (registry.register(NAILS, intent_id=name) for name in "wlhae")
    for intent in (waiting, lapsing, held, active, ended):
        registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    registry.approvals.request("l", call("drop", id="i2"), ALLOW)
    clock.pass_by(500)
    registry.approvals.request("w", call("drop", id="i2"), ALLOW)
    registry.update_status("h", IntentStatus.PAUSED)
    registry.update_status("e", IntentStatus.ABANDONED)
    action = registry.append_action("a", call("look"), effect=EffectClass.READ)
    with registry.database.write() as write:
        add_verdict(write, action, ALLOW)
    clock.pass_by(200)
    found = open_registry().recover()
    assert [i.intent_id for i in found.waiting] == ["w"]
    assert [i.intent_id for i in found.held] == ["h"]
    assert sorted(i.intent_id for i in found.active) == ["a", "l"]
    assert [a.action_id for a in found.unreported] == [action.action_id]


def test_a_stale_intent_is_reminded_of_until_something_happens(
    registry: Registry, intent: Intent, clock: Clock
) -> None:
    registry.register(NAILS)  # not activated: nobody waits for it
    told: list[Intent] = []
    clock.pass_by(3599)
    assert registry.remind(timedelta(hours=1), told.append) == 0
    clock.pass_by(1)
    assert registry.remind(timedelta(hours=1), told.append) == 1
    assert [i.intent_id for i in told] == [intent.intent_id]
    registry.append_action(intent.intent_id, call("look"), effect=EffectClass.READ)
    assert registry.stale(timedelta(hours=1)) == []


def test_times_do_not_decrease_when_the_clock_does(registry: Registry, intent: Intent, clock: Clock) -> None:
    registry.append_action(intent.intent_id, call("look"), effect=EffectClass.READ)
    clock.pass_by(-7200)
    registry.append_action(intent.intent_id, call("look"), effect=EffectClass.READ)
    first, second = registry.actions(intent.intent_id)
    assert second.time >= first.time
    assert registry.get(intent.intent_id).updated_at >= first.time
    times = [record.time for record in registry.audit.query()]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("sqlite://", "lost with its process"),
        ("sqlite:///:memory:", "lost with its process"),
        ("mysql://host/x", "not in mysql"),
        ("nonsense", "cannot be read"),
    ],
)
def test_a_url_that_leads_to_no_registry_is_refused(address: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Registry(address)


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes\n" * 100)
    with pytest.raises(ValueError, match="not an SQLite database"):
        Registry(f"sqlite:///{path}")
    assert path.read_text() == "these are notes\n" * 100


def test_a_registry_that_must_exist_is_not_made(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no registry"):
        Registry(url, must_exist=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("version", "kind"), [(2, "newer"), (0, "older")])
def test_another_version_is_refused_and_not_touched(tmp_path: Path, version: int, kind: str) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE demur_schema (version INTEGER PRIMARY KEY)")
        connection.execute("INSERT INTO demur_schema VALUES (?)", (version,))
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"of a {kind}.*use the version of demur that made it"):
        Registry(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_newer_postgresql_registry_is_refused_and_not_touched(postgres: Postgres) -> None:
    url = postgres.url("newer")
    engine = create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE demur_schema (version INTEGER PRIMARY KEY)"))
        connection.execute(text("INSERT INTO demur_schema VALUES (2)"))
    with pytest.raises(ValueError, match="newer"):
        Registry(url)
    with engine.connect() as connection:
        names = connection.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"))
        assert list(names) == ["demur_schema"]
    engine.dispose()


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_file_that_is_gone_takes_no_writes(tmp_path: Path, how: str) -> None:
    path = tmp_path / "intents.db"
    registry = Registry(f"sqlite:///{path}")
    intent = registry.register(NAILS)
    path.rename(tmp_path / "elsewhere.db")
    if how == "replaced":
        path.write_bytes(b"")
    with pytest.raises(RegistryUnavailable, match="cannot be used"):
        registry.append_action(intent.intent_id, call("look"), effect=EffectClass.READ)
    with pytest.raises(RegistryUnavailable):
        registry.get(intent.intent_id)
    registry.close()


def test_a_server_that_stops_is_unavailable_and_one_that_returns_is_used_again(postgres: Postgres) -> None:
    registry = Registry(postgres.url("stopped"))
    intent = registry.register(NAILS)
    postgres.stop()
    try:
        for _ in range(2):
            with pytest.raises(RegistryUnavailable, match="cannot be used"):
                registry.append_action(intent.intent_id, call("look"), effect=EffectClass.READ)
    finally:
        postgres.start()
    registry.append_action(intent.intent_id, call("look"), effect=EffectClass.READ)
    assert len(registry.actions(intent.intent_id)) == 1
    assert registry.audit.verify() is None
    registry.close()


def test_a_password_is_in_no_message(tmp_path: Path) -> None:
    with pytest.raises(RegistryUnavailable) as caught:
        Registry(f"postgresql://me:hunter2@/db?host={tmp_path}")
    assert "hunter2" not in str(caught.value)
    assert "***" in str(caught.value)


@pytest.mark.parametrize(("durable", "level"), [(False, 1), (True, 2)])
def test_sqlite_syncs_as_it_was_told(tmp_path: Path, durable: bool, level: int) -> None:
    with Registry(f"sqlite:///{tmp_path}/x.db", durable=durable) as registry, registry.database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == level
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


@pytest.mark.slow
def test_a_process_that_is_killed_loses_no_acknowledged_write(url: str) -> None:
    figures = hammer(url, processes=4, actions=200, kill_one=True)
    assert figures["kept"] >= figures["acknowledged"] >= 3 * 200 + 100
    assert figures["lost"] == 0
    assert figures["verified"] == 1.0


def test_many_may_open_a_new_registry_at_once(url: str) -> None:
    opened: list[Registry] = []

    def open_one() -> None:
        opened.append(Registry(url))
        opened[-1].register(NAILS)

    threads = [threading.Thread(target=open_one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened[0].intents()) == 6
    assert opened[0].audit.verify() is None
    for registry in opened:
        registry.close()
