"""A guard as it acts on a live agent: its mode, its time limit, and the log of what it said."""

import asyncio
import json
from pathlib import Path

import pytest

from demur.envs.guards import Context, check_sync, compose
from demur.envs.guards.adapters.audit import AuditFile, enforced
from demur.envs.guards.decorator import CallBlocked, CallNeedsConfirmation, GuardSession, guarded
from demur.envs.trace import Level, ToolCall, Verdict
from tests.envs.helpers import Asks, Broken, Says

pytest.importorskip("sqlalchemy", reason="the audit log needs the package sqlalchemy")

CALL = ToolCall(name="pay", arguments={"to": "Ann", "amount": 3})
EMPTY = Context(query="q", tools={})


class Slow:
    name = "slow"

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        await asyncio.sleep(60)
        return Verdict(level=Level.ALLOW, guard=self.name)


def test_each_mode_does_what_it_says() -> None:
    def levels(mode: str) -> list[Level]:
        guards = [enforced(Says(level), mode=mode) for level in Level]  # type: ignore[arg-type]
        return [check_sync(guard, EMPTY, CALL).level for guard in guards]

    assert levels("ask") == list(Level)
    assert levels("block") == [Level.ALLOW, Level.WARN, Level.BLOCK, Level.BLOCK, Level.BLOCK]
    assert levels("record") == [Level.ALLOW, Level.WARN, Level.WARN, Level.WARN, Level.WARN]
    with pytest.raises(ValueError, match="use one of block, ask, record"):
        enforced(Says(Level.ALLOW), mode="off")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", ["ask", "block", "record"])
def test_a_guard_that_fails_or_takes_too_long_blocks_in_every_mode(mode: str) -> None:
    for guard, reason in ((Broken(), "the guard failed"), (Slow(), "no verdict within 0.01 s")):
        verdict = check_sync(enforced(guard, mode=mode, timeout=0.01), EMPTY, CALL)  # type: ignore[arg-type]
        assert verdict.level is Level.BLOCK and verdict.stage == "error" and reason in verdict.reason


def test_the_log_holds_what_was_said_and_what_ran_but_no_argument(tmp_path: Path) -> None:
    log = AuditFile(tmp_path / "audit.jsonl", caller="me")
    session = GuardSession(
        enforced(Asks(Level.ASK), log=log), "q", confirm=lambda _, call: call.arguments["to"] == "Ann"
    )

    @guarded(session)
    def pay(to: str) -> str:
        return f"paid {to}"

    pay("Ann")
    with pytest.raises(CallNeedsConfirmation):
        pay("Eve")
    log.close()
    rows = [json.loads(line) for line in log.path.read_text().splitlines()]
    told = [(row["event"], row["verdict"], row["approver"], row["caller"]) for row in rows]
    asked = ("checked", "ask", "", "me")
    assert told == [asked, ("checked", "allow", "user", "me"), ("ran", "", "", "me"), asked]
    assert rows[0]["digest"] == rows[1]["digest"] != rows[3]["digest"]
    assert "Ann" not in log.path.read_text()
    assert AuditFile.verify(log.path) is None


def test_a_composed_guard_is_told_what_ran() -> None:
    class Told(Says):
        def ran(self, call: ToolCall, result: str, ok: bool) -> None:
            seen.append((result, ok))

    seen: list[tuple[str, bool]] = []
    session = GuardSession(enforced(compose(Told(Level.ALLOW), Says(Level.ALLOW))), "q")
    guarded(session, name="look")(lambda: "3 nails")()
    assert seen == [("3 nails", True)]


def test_a_log_goes_on_where_it_stopped_and_shows_each_change(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    for _ in range(2):
        log = AuditFile(path)
        log.append("checked", CALL, verdict="allow")
        log.append("ran", CALL)
        log.close()
    lines = path.read_text().splitlines(keepends=True)
    assert [json.loads(line)["number"] for line in lines] == [1, 2, 3, 4] and AuditFile.verify(path) is None
    changed = [
        [lines[0].replace("allow", "block"), *lines[1:]],
        [lines[0], *lines[2:]],
        [lines[1], lines[0], *lines[2:]],
    ]
    for each in changed:
        path.write_text("".join(each))
        assert AuditFile.verify(path) is not None
        with pytest.raises(ValueError, match="was changed"):
            AuditFile(path)
    path.write_text(lines[0] + lines[1][:40])
    with pytest.raises(ValueError, match=r"audit.jsonl:2 is no record of an audit log"):
        AuditFile(path)


def test_two_writers_of_one_log_are_refused(tmp_path: Path) -> None:
    log = AuditFile(tmp_path / "audit.jsonl")
    with pytest.raises(ValueError, match="written by another process"):
        AuditFile(log.path)
    log.close()
    AuditFile(log.path).close()
    with pytest.raises(ValueError, match="cannot be written"):
        AuditFile(tmp_path / "none" / "audit.jsonl")


def test_a_call_that_cannot_be_written_down_is_not_made(tmp_path: Path) -> None:
    log = AuditFile(tmp_path / "audit.jsonl")
    session = GuardSession(enforced(Says(Level.ALLOW), mode="record", log=log), "q")
    log.close()
    with pytest.raises(CallBlocked, match="the guard failed"):
        guarded(session, name="look")(lambda: "3 nails")()
    assert not session.history[0].executed
