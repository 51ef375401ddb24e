"""Approving in the terminal: what is typed, what is shown, and how mistakes are answered."""

import getpass
import io
from pathlib import Path

import pytest
from rich.console import Console

from demur.envs.intent import __main__ as command
from demur.envs.intent.registry import Registry, approver
from demur.envs.intent.registry.approvals import Approval, ApprovalStatus
from demur.envs.intent.registry.cases import find_case
from demur.envs.intent.registry.database import RegistryUnavailable
from demur.envs.intent.registry.intent import Intent, IntentStatus
from demur.envs.trace import Level
from tests.envs.helpers import call
from tests.envs.intent.registry.approving import EVIL, EVIL_AS_JSON, EVIL_SHOWN, TOOLS, check, propose
from tests.envs.intent.registry.helpers import NAILS, Clock


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Nothing here depends on the kind of database."""
    return f"sqlite:///{tmp_path}/intents.db"


class Terminal:
    """A console that a person types these lines at; then the input ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *lines: str, width: int = 200) -> None:
        self._lines = list(lines)
        self._out = io.StringIO()
        self.console = Console(file=self._out, width=width, highlight=False)
        monkeypatch.setattr(self.console, "input", self._read)

    def _read(self, prompt: object = "") -> str:
        if not self._lines:
            raise EOFError
        return self._lines.pop(0)

    @property
    def shown(self) -> str:
        return self._out.getvalue()

    @property
    def left(self) -> list[str]:
        return self._lines


def now(registry: Registry, approval: Approval) -> Approval:
    return registry.approvals.get(approval.approval_id)


def test_a_request_is_shown_with_its_evidence_and_approved(
    registry: Registry, intent: Intent, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = propose(registry, intent, call("drop", id="i2"), plan="i2 is broken", second="nobody needs it")
    terminal = Terminal(monkeypatch, "a looks right")
    approver.work_through(registry, "ann", terminal.console)
    for text in ("order nails", "drop", '"i2"', "i2 is broken", "nobody needs it", "contract · approval · drop()"):
        assert text in terminal.shown
    assert approval.approval_id in terminal.shown and "600 s left" not in terminal.shown
    decided = now(registry, approval)
    assert (decided.status, decided.approver, decided.reason) == (ApprovalStatus.APPROVED, "ann", "looks right")


def test_a_rejection_needs_a_reason_and_nonsense_decides_nothing(
    registry: Registry, intent: Intent, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    terminal = Terminal(monkeypatch, "r", "yes", "approved", "r  i2 is in use")
    approver.work_through(registry, "ann", terminal.console)
    assert "a rejection needs a reason" in terminal.shown
    assert terminal.shown.count("type a, r REASON, Enter or q") == 2
    assert "rejected by ann: i2 is in use" in terminal.shown
    assert now(registry, approval).status is ApprovalStatus.REJECTED


@pytest.mark.parametrize("typed", [[""], ["s"], ["q"], []])
def test_enter_the_end_of_the_input_and_quitting_decide_nothing(
    registry: Registry, intent: Intent, monkeypatch: pytest.MonkeyPatch, typed: list[str]
) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    approver.work_through(registry, "ann", Terminal(monkeypatch, *typed).console)
    assert now(registry, approval).status is ApprovalStatus.PENDING


def test_requests_are_gone_through_oldest_first_until_one_quits(
    registry: Registry, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    approvals = []
    for number in range(3):
        intent = registry.register(NAILS)
        registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
        approvals.append(propose(registry, intent, call("drop", number=number)))
        clock.pass_by(1)
    terminal = Terminal(monkeypatch, "", "a", "q")
    approver.work_through(registry, "ann", terminal.console)
    assert [now(registry, one).status for one in approvals] == ["pending", "approved", "pending"]


def test_evil_texts_are_neither_markup_nor_obeyed_nor_cut(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    intent = registry.register(NAILS.model_copy(update={"goal": EVIL}))
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    approval = propose(registry, intent, call("drop", id=EVIL, long="x" * 5000), plan=EVIL)
    terminal = Terminal(monkeypatch, width=400)
    approver.show(find_case(registry, approval.approval_id), terminal.console)
    assert terminal.shown.count(EVIL_SHOWN) == 2 and EVIL_AS_JSON in terminal.shown
    assert "\x1b" not in terminal.shown and "\u202e" not in terminal.shown
    assert terminal.shown.count("x" * 100) >= 40 and terminal.shown.count("x") > 5000


def test_what_expires_while_it_is_shown_is_a_sentence(
    registry: Registry, intent: Intent, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    terminal = Terminal(monkeypatch, "a")
    case = find_case(registry, approval.approval_id)
    clock.pass_by(601)
    assert approver.settle(registry, "ann", terminal.console, case)
    assert "is expired; a decision stands" in terminal.shown
    assert now(registry, approval).status is ApprovalStatus.EXPIRED


def test_an_unreachable_registry_is_a_sentence_and_one_can_answer_again(
    registry: Registry, intent: Intent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    terminal = Terminal(monkeypatch, "a", "a")
    case = find_case(registry, approval.approval_id)
    away, here = tmp_path / "away.db", tmp_path / "intents.db"
    here.rename(away)
    read = terminal.console.input

    def comes_back(prompt: object = "") -> str:
        if len(terminal.left) == 1:
            away.rename(here)
        return read(prompt)  # type: ignore[arg-type]

    monkeypatch.setattr(terminal.console, "input", comes_back)
    assert approver.settle(registry, "ann", terminal.console, case)
    assert "cannot be used" in terminal.shown and "Answer again" in terminal.shown
    assert now(registry, approval).status is ApprovalStatus.APPROVED


def test_watching_waits_for_new_requests_through_an_outage_and_asks_once(
    registry: Registry, intent: Intent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, here = tmp_path / "away.db", tmp_path / "intents.db"
    made: list[Approval] = []

    def nothing() -> None: ...

    def ask_for(name: str) -> None:
        made.append(propose(registry, intent, call("drop", id=name)))

    def end() -> None:
        raise KeyboardInterrupt

    happens = [lambda: here.rename(away), nothing, lambda: away.rename(here), lambda: ask_for("i2"), nothing, end]
    monkeypatch.setattr(approver, "sleep", lambda seconds: happens.pop(0)())
    terminal = Terminal(monkeypatch, "", "never read")
    with pytest.raises(KeyboardInterrupt):
        approver.work_through(registry, "ann", terminal.console, watch=True)
    assert terminal.shown.count("cannot be used") == 1
    assert '"i2"' in terminal.shown
    assert terminal.left == ["never read"], "what was skipped is not asked about again"
    assert now(registry, made[0]).status is ApprovalStatus.PENDING


def test_an_approval_lets_exactly_that_call_run_once(
    registry: Registry, intent: Intent, monkeypatch: pytest.MonkeyPatch
) -> None:
    from demur.envs.intent.registry.session import IntentGuard

    guard, drop = IntentGuard(registry, intent.intent_id, TOOLS), call("drop", id="i2")
    propose(registry, intent, drop)
    approver.work_through(registry, "ann", Terminal(monkeypatch, "a").console)
    assert check(guard, call("drop", id="i3")).level is Level.REQUIRE_APPROVAL
    approver.work_through(registry, "ann", Terminal(monkeypatch, "r not that one").console)
    assert check(guard, drop).level.lets_run
    assert check(guard, drop).level is Level.REQUIRE_APPROVAL


# The command line. The registry's clock is the real one here.


@pytest.fixture
def waiting(url: str) -> Approval:
    with Registry(url) as registry:
        intent = registry.register(NAILS)
        registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
        return propose(registry, intent, call("drop", id="i2"))


def status_of(url: str, approval: Approval) -> Approval:
    with Registry(url) as registry:
        return now(registry, approval)


def test_one_request_is_decided_by_its_id(url: str, waiting: Approval, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["approve", "--registry", url, "--as", "ann", "--id", waiting.approval_id]
    assert command.main([*options, "--reject", "i2 is in use"]) == 0
    assert capsys.readouterr().out == "rejected by ann: i2 is in use\n"
    assert status_of(url, waiting).status is ApprovalStatus.REJECTED
    assert command.main([*options, "--approve"]) == 2
    assert "rejected by ann; a decision stands" in capsys.readouterr().err


def test_the_login_name_approves_unless_another_is_given(
    url: str, waiting: Approval, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "login")
    assert command.main(["approve", "--registry", url, "--id", waiting.approval_id, "--approve"]) == 0
    assert status_of(url, waiting).approver == "login"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--as", " "], "say it with --as NAME"),
        (["--as", "ann", "--approve"], "say which request with --id"),
        (["--as", "ann", "--reject", "no"], "say which request with --id"),
        (["--as", "ann", "--id", "x", "--watch"], "leave out --id or --watch"),
        (["--as", "ann", "--id", "x"], "no approval 'x'"),
        (["--as", "ann", "--id", "x", "--reject", ""], "say why"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(
    url: str, waiting: Approval, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["approve", "--registry", url, *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert status_of(url, waiting).status is ApprovalStatus.PENDING


def test_a_registry_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["approve", "--registry", f"sqlite:///{tmp_path}/none.db", "--as", "ann"]) == 2
    assert "there is no registry" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_outage_is_one_line_and_status_1(
    url: str, waiting: Approval, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def out(registry: Registry) -> None:
        raise RegistryUnavailable("the registry cannot be used: it is away")

    monkeypatch.setattr(approver, "pending_cases", out)
    assert command.main(["approve", "--registry", url, "--as", "ann"]) == 1
    assert capsys.readouterr().err == "error: the registry cannot be used: it is away\n"


def test_nothing_pending_is_said(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    Registry(url).close()
    assert command.main(["approve", "--registry", url, "--as", "ann"]) == 0
    assert "Nothing waits for approval." in capsys.readouterr().out
