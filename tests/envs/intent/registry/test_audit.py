"""The audit log: whatever is done to a record is found, and the first bad one is named."""

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.audit import KEY_VARIABLE, AuditRecord, read_anchor
from demur.envs.intent.registry.chain import GENESIS, Anchor, FaultKind, canonical, digest, first_fault, hash_of
from demur.envs.intent.registry.intent import Intent
from demur.envs.tool import EffectClass
from tests.envs.helpers import call
from tests.envs.intent.registry.helpers import Clock

RECORDS = 12


@pytest.fixture
def log(registry: Registry, intent: Intent) -> Registry:
    """A registry whose log has `RECORDS` records."""
    for n in range(RECORDS - 2):
        registry.append_action(intent.intent_id, call("look", name=f"thing {n}"), effect=EffectClass.READ)
    return registry


def meddle(registry: Registry, *statements: str) -> None:
    """Change the log behind the registry's back."""
    with registry.database.write() as write:
        for statement in statements:
            write.connection.execute(text(statement))


def rewrite(registry: Registry, number: int, **changes: object) -> None:
    """Change a record and give it the hash that then fits."""
    with registry.database.write() as write:
        found = write.connection.execute(text(f"SELECT * FROM demur_audit WHERE number = {number}")).one()
        row = {**found._mapping, **changes}
        row["hash"] = hash_of(row)
        names = ", ".join(f"{name} = :{name}" for name in row)
        write.connection.execute(text(f"UPDATE demur_audit SET {names} WHERE number = {number}"), row)


def forge(registry: Registry, number: int, previous: str) -> None:
    """Put a record in that fits the one before."""
    row: dict[str, object] = dict.fromkeys(AuditRecord.model_fields, "x")
    row |= {"number": number, "previous": previous}
    row["hash"] = hash_of(row)
    names = list(row)
    statement = f"INSERT INTO demur_audit ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
    with registry.database.write() as write:
        write.connection.execute(text(statement), row)


def test_a_log_that_nobody_touched_is_whole(log: Registry) -> None:
    assert len(log.audit.query()) == RECORDS
    assert log.audit.verify() is None


@pytest.mark.parametrize(
    "column", [name for name in AuditRecord.model_fields if name not in ("number", "previous", "hash")]
)
def test_a_changed_field_is_tampering(log: Registry, column: str) -> None:
    meddle(log, f"UPDATE demur_audit SET {column} = 'x' WHERE number = 7")
    assert _fault(log) == (FaultKind.TAMPERED, 7)


@pytest.mark.parametrize("number", [1, RECORDS])
def test_tampering_is_seen_at_both_ends(log: Registry, number: int) -> None:
    meddle(log, f"UPDATE demur_audit SET caller = 'x' WHERE number = {number}")
    assert _fault(log) == (FaultKind.TAMPERED, number)


@pytest.mark.parametrize("column", ["previous", "hash"])
def test_a_changed_hash_is_tampering(log: Registry, column: str) -> None:
    meddle(log, f"UPDATE demur_audit SET {column} = '{'f' * 64}' WHERE number = 5")
    assert _fault(log) == (FaultKind.TAMPERED, 5)


def test_a_changed_record_with_a_fitting_hash_is_tampering(log: Registry) -> None:
    rewrite(log, 5, caller="somebody else")
    assert _fault(log) == (FaultKind.TAMPERED, 5)


def test_two_records_that_changed_places_are_named(log: Registry) -> None:
    meddle(
        log,
        "UPDATE demur_audit SET number = 999 WHERE number = 4",
        "UPDATE demur_audit SET number = 4 WHERE number = 9",
        "UPDATE demur_audit SET number = 9 WHERE number = 999",
    )
    assert _fault(log) == (FaultKind.REORDERED, 4)


def test_neighbours_that_changed_places_are_named(log: Registry) -> None:
    meddle(
        log,
        "UPDATE demur_audit SET number = 999 WHERE number = 4",
        "UPDATE demur_audit SET number = 4 WHERE number = 5",
        "UPDATE demur_audit SET number = 5 WHERE number = 999",
    )
    assert _fault(log) == (FaultKind.REORDERED, 4)


@pytest.mark.parametrize("number", [1, 6])
def test_a_record_taken_out_is_named(log: Registry, number: int) -> None:
    meddle(log, f"DELETE FROM demur_audit WHERE number = {number}")
    assert _fault(log) == (FaultKind.CUT, number)


@pytest.mark.parametrize("number", [1, 6])
def test_a_record_taken_out_is_named_even_if_the_gap_is_closed(log: Registry, number: int) -> None:
    close = [f"UPDATE demur_audit SET number = {n} WHERE number = {n + 1}" for n in range(number, RECORDS)]
    meddle(log, f"DELETE FROM demur_audit WHERE number = {number}", *close)
    assert _fault(log) == (FaultKind.CUT, number)


def test_a_record_put_in_is_named(log: Registry) -> None:
    move = [f"UPDATE demur_audit SET number = {n + 1} WHERE number = {n}" for n in range(RECORDS, 5, -1)]
    meddle(log, *move)
    forge(log, 6, log.audit.query()[4].hash)
    assert _fault(log) == (FaultKind.INSERTED, 6)


def test_a_record_put_at_the_end_is_named_unless_it_fits(log: Registry) -> None:
    forge(log, RECORDS + 1, "f" * 64)
    assert _fault(log) == (FaultKind.INSERTED, RECORDS + 1)


def test_a_cut_tail_is_seen_with_an_anchor_only(log: Registry, tmp_path: Path) -> None:
    log.audit.anchor(tmp_path / "anchor")
    meddle(log, f"DELETE FROM demur_audit WHERE number > {RECORDS - 3}")
    assert log.audit.verify() is None
    fault = log.audit.verify(read_anchor(tmp_path / "anchor"))
    assert fault is not None and fault[:2] == (FaultKind.CUT, RECORDS - 2)


def test_a_log_written_anew_is_seen_with_an_anchor_only(log: Registry, tmp_path: Path) -> None:
    log.audit.anchor(tmp_path / "anchor")
    head = GENESIS
    for record in log.audit.query():
        rewrite(log, record.number, caller="nobody", previous=head)
        head = log.audit.query()[record.number - 1].hash
    assert log.audit.verify() is None
    fault = log.audit.verify(read_anchor(tmp_path / "anchor"))
    assert fault is not None and fault[:2] == (FaultKind.REWRITTEN, RECORDS)


def test_an_anchor_still_holds_when_the_log_grows(log: Registry, intent: Intent, tmp_path: Path) -> None:
    anchor = log.audit.anchor(tmp_path / "anchor")
    log.append_action(intent.intent_id, call("look"), effect=EffectClass.READ)
    assert log.audit.verify(anchor) is None
    assert log.audit.anchor(tmp_path / "anchor").count == anchor.count + 1


def test_a_cut_log_is_not_anchored_over_the_anchor_that_shows_it(log: Registry, tmp_path: Path) -> None:
    anchor = log.audit.anchor(tmp_path / "anchor")
    meddle(log, f"DELETE FROM demur_audit WHERE number = {RECORDS}")
    with pytest.raises(ValueError, match="shows that the log was changed"):
        log.audit.anchor(tmp_path / "anchor")
    assert read_anchor(tmp_path / "anchor") == anchor


def test_a_signed_anchor_needs_its_key(log: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "anchor"
    monkeypatch.setenv(KEY_VARIABLE, "a secret")
    anchor = log.audit.anchor(path)
    assert read_anchor(path) == anchor
    assert "a secret" not in path.read_text()
    path.write_text(anchor.model_copy(update={"count": 3}).model_dump_json())
    with pytest.raises(ValueError, match="do not trust it"):
        read_anchor(path)
    path.write_text(anchor.model_copy(update={"signature": None}).model_dump_json())
    with pytest.raises(ValueError, match="do not trust it"):
        read_anchor(path)
    path.write_text(anchor.model_dump_json())
    monkeypatch.delenv(KEY_VARIABLE)
    with pytest.raises(ValueError, match=f"set {KEY_VARIABLE}"):
        read_anchor(path)


@pytest.mark.parametrize("content", ["", "{}", '{"count": -1, "head": "x", "time": ""}', "\xff"])
def test_a_file_that_is_no_anchor_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "anchor").write_text(content, encoding="latin-1")
    with pytest.raises(ValueError, match="not an anchor"):
        read_anchor(tmp_path / "anchor")


def test_the_log_is_queried_by_what_happened(log: Registry, intent: Intent, clock: Clock) -> None:
    clock.pass_by(60)
    moment = clock.now
    other = log.register(intent.contract)
    log.append_action(other.intent_id, call("order", name="nails", count=1), effect=EffectClass.PERSISTENT_WRITE)
    assert [r.event for r in log.audit.query(intent_id=other.intent_id)] == ["registered", "action"]
    (ordered,) = log.audit.query(tool="order")
    assert ordered.digest == digest({"count": 1, "name": "nails"})
    assert ordered.caller == "tests"
    assert len(log.audit.query(since=moment)) == 2
    assert len(log.audit.query(until=moment)) == RECORDS
    assert log.audit.query(since=moment + timedelta(seconds=1)) == []
    assert log.audit.query(verdict="block") == []


def test_an_exported_log_can_be_checked_elsewhere(log: Registry, tmp_path: Path) -> None:
    assert log.audit.export(tmp_path / "audit.jsonl") == RECORDS
    rows = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    anchor = log.audit.anchor(tmp_path / "anchor")
    assert first_fault(rows, anchor, lambda hashed: None) is None
    rows[3]["tool"] = "drop"
    fault = first_fault(rows, anchor, lambda hashed: None)
    assert fault is not None and fault.number == 4


def test_a_failed_write_leaves_no_record(log: Registry, intent: Intent) -> None:
    def fail() -> None:
        with log.database.write() as write:
            write.audit("status", intent.intent_id)
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert len(log.audit.query()) == RECORDS
    assert log.audit.verify() is None


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.booleans())))
def test_the_digest_does_not_depend_on_the_order_of_arguments(arguments: dict[str, object]) -> None:
    assert digest(arguments) == digest(dict(reversed(arguments.items())))
    assert json.loads(canonical(arguments)) == arguments


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (1, "1"), (None, "null"), ([1], [[1]])])
def test_the_digest_tells_values_apart(one: object, other: object) -> None:
    assert digest({"a": one}) != digest({"a": other})


@given(st.integers(0, 10), st.text(max_size=20))
def test_an_anchors_signature_covers_every_field(count: int, head: str) -> None:
    anchor = Anchor(count=count, head=head, time="t").signed(b"key")
    assert anchor.signed_by(b"key") and not anchor.signed_by(b"another")
    for change in ({"count": count + 1}, {"head": head + "0"}, {"time": "u"}):
        assert not anchor.model_copy(update=change).signed_by(b"key")


def _fault(registry: Registry) -> tuple[FaultKind, int] | None:
    fault = registry.audit.verify()
    return None if fault is None else (fault.kind, fault.number)


def test_two_registries_of_one_database_write_one_chain(open_registry: Callable[[], Registry], intent: Intent) -> None:
    first, second = open_registry(), open_registry()
    for n in range(10):
        (first, second)[n % 2].append_action(intent.intent_id, call("look", n=n), effect=EffectClass.READ)
    assert [r.number for r in first.audit.query()] == list(range(1, 13))
    assert first.audit.verify() is None
