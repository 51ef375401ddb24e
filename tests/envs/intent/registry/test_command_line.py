"""The command line: what is found is printed and is status 1, bad input is one line and status 2."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text

from demur.envs.intent.__main__ import main
from demur.envs.intent.contract import IntentContract
from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.intent import Intent, IntentStatus, utc_now
from demur.envs.tool import EffectClass
from demur.envs.trace import Level, Verdict
from tests.envs.helpers import call
from tests.envs.intent.registry.helpers import NAILS, Clock

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(registry: Registry, url: str, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on the registry; gives its status and what it printed, on both channels."""

    def run_one(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        status = main([*arguments, "--registry", url])
        printed = capsys.readouterr()
        assert bool(printed.err) is (status == 2)
        return status, printed.out + printed.err

    return run_one


def test_intents_are_listed(run: Run, registry: Registry, intent: Intent) -> None:
    other = registry.register(IntentContract(goal="something else"))
    status, printed = run("list")
    assert status == 0
    assert intent.intent_id in printed and "order nails" in printed and other.intent_id in printed
    assert other.intent_id not in run("list", "--status", "activated")[1]


def test_an_intent_is_shown_with_its_rules_and_actions(
    run: Run, registry: Registry, intent: Intent, clock: Clock
) -> None:
    clock.now = utc_now()  # by the command line's clock the request has not expired
    registry.append_action(intent.intent_id, call("look", name="nails"), effect=EffectClass.READ)
    needed = Verdict(level=Level.REQUIRE_APPROVAL, guard="contract")
    approval = registry.approvals.request(intent.intent_id, call("drop", id="i2"), needed)
    status, printed = run("show", intent.intent_id)
    assert status == 0
    for part in ("paused", "constraint keep-i1: keep i1. (block drop(id = 'i1'))", "look(name='nails')"):
        assert part in printed
    assert f"waits for approval {approval.approval_id} of drop" in printed


def test_a_diagnosis_that_finds_something_is_status_1(run: Run, intent: Intent) -> None:
    status, printed = run("diagnose", intent.intent_id)
    assert status == 1
    assert "4. Is the goal reached? look here" in printed
    assert "open: two orders (nails)" in printed


def test_a_wider_contract_is_status_1(run: Run, registry: Registry, intent: Intent) -> None:
    wider = registry.register(NAILS.model_copy(update={"constraints": ()}))
    status, printed = run("compare", intent.intent_id, wider.intent_id)
    assert (status, printed.count("constraint dropped")) == (1, 2)
    assert run("compare", wider.intent_id, intent.intent_id)[0] == 0


def test_a_log_is_anchored_verified_and_found_cut(run: Run, registry: Registry, intent: Intent, tmp_path: Path) -> None:
    anchor = str(tmp_path / "anchor")
    assert run("audit", "anchor", anchor)[0] == 0
    assert run("audit", "verify", "--anchor", anchor) == (0, "the log is one whole chain, and the anchor at 2 holds\n")
    with registry.database.write() as write:
        write.connection.execute(text("DELETE FROM demur_audit WHERE number = 2"))
    status, printed = run("audit", "verify", "--anchor", anchor)
    assert status == 1
    assert printed.startswith("cut: the log ends at 1")


def test_the_log_is_queried_and_exported(run: Run, intent: Intent, tmp_path: Path) -> None:
    status, printed = run("audit", "query", "--intent", intent.intent_id, "--event", "status")
    assert status == 0
    assert "activated" in printed and "registered" not in printed
    assert intent.intent_id not in run("audit", "query", "--since", "2027-01-01")[1]
    assert run("audit", "export", str(tmp_path / "log.jsonl"))[0] == 0
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["registered", "status"]


def test_a_stale_intent_is_named(run: Run, registry: Registry, intent: Intent, clock: Clock) -> None:
    clock.now = utc_now()
    fresh = registry.register(NAILS)
    registry.update_status(fresh.intent_id, IntentStatus.ACTIVATED)
    status, printed = run("remind", "--hours", "1")
    assert status == 1
    assert intent.intent_id in printed and fresh.intent_id not in printed
    assert run("remind", "--hours", "1e6") == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "nobody"), "no intent 'nobody'"),
        (("compare", "nobody", "nobody"), "no intent 'nobody'"),
        (("audit", "verify", "--anchor", "/nowhere/anchor"), "cannot be read"),
        (("remind", "--hours", "-1"), "0 or more"),
    ],
)
def test_bad_input_is_one_line_and_status_2(run: Run, arguments: tuple[str, ...], message: str) -> None:
    status, printed = run(*arguments)
    assert status == 2
    assert message in printed and printed.count("\n") == 1


def test_a_registry_that_is_not_there_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--registry", f"sqlite:///{tmp_path}/none.db"]) == 2
    assert "there is no registry" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_cannot_be_reached_is_status_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--registry", f"postgresql://me:hunter2@/db?host={tmp_path}"]) == 1
    printed = capsys.readouterr().err
    assert "cannot be used" in printed and "hunter2" not in printed


def test_texts_of_users_and_agents_are_shown_and_not_obeyed(run: Run, registry: Registry) -> None:
    evil = registry.register(IntentContract(goal="[red]x[/red] \x1b[2J \u202e"))
    for arguments in (("list",), ("show", evil.intent_id), ("diagnose", evil.intent_id)):
        printed = run(*arguments)[1]
        assert "\x1b" not in printed and "\u202e" not in printed
        assert "[red]x[/red] \\u001b[2J" in printed


def test_help_teaches_each_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "demur.envs.intent", "--help"], capture_output=True, text=True, check=True
    )
    for name in ("list", "show", "diagnose", "compare", "audit verify", "audit export", "audit query", "remind"):
        assert name in done.stdout
