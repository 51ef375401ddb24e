"""The guard of a live agent: what the registry does not vouch for does not run, and all of it is written down."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from demur.envs.guards import Context, check_sync, checked
from demur.envs.intent.contract import CallPattern, IntentContract
from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.intent import ActionRecord, Intent, IntentStatus
from demur.envs.intent.registry.session import IntentGuard
from demur.envs.tool import EffectClass
from demur.envs.trace import Level, ToolCall, Verdict
from tests.envs.helpers import Shop, call
from tests.envs.intent.registry.helpers import NAILS, Clock

TOOLS = Shop.tools()
CONTEXT = Context(query="order nails", tools=TOOLS, plan="I look first", check="that is harmless")
LOOK, ORDER, DROP = call("look", name="nails"), call("order", name="nails", count=1), call("drop", id="i2")
OPEN = call("open_at", part="morning")


class Session:
    """A guard with the steps of a test in short."""

    def __init__(self, registry: Registry, intent_id: str, **options: object) -> None:
        self.registry, self.intent_id = registry, intent_id
        self.guard = IntentGuard(registry, intent_id, TOOLS, **options)  # type: ignore[arg-type]

    def check(self, what: ToolCall, *confirmed: ToolCall) -> Verdict:
        context = Context(query="q", tools=TOOLS, plan="p", check="c", confirmed=confirmed)
        return check_sync(self.guard, context, what)

    def ran(self, what: ToolCall, result: str = "done", ok: bool = True) -> Intent:
        return asyncio.run(self.guard.ran(what, result, ok))

    def do(self, what: ToolCall) -> Intent:
        """Check a call that has to be let through, and report it."""
        verdict = self.check(what)
        assert verdict.level.lets_run, verdict
        return self.ran(what)

    def decide(self, what: ToolCall, decision: str) -> None:
        approval = self.registry.approvals.find(self.intent_id, what)
        assert approval is not None
        self.registry.approvals.decide(approval.approval_id, decision, "ann", "it is safe")  # type: ignore[arg-type]

    @property
    def actions(self) -> list[ActionRecord]:
        return self.registry.actions(self.intent_id)


@pytest.fixture
def session(registry: Registry, intent: Intent) -> Session:
    return Session(registry, intent.intent_id)


def test_an_unknown_intent_blocks_and_is_logged(registry: Registry) -> None:
    verdict = check_sync(IntentGuard(registry, "nobody", TOOLS), CONTEXT, LOOK)
    assert (verdict.level, verdict.stage) == (Level.BLOCK, "unknown_intent")
    (line,) = registry.audit.query()
    assert (line.event, line.intent_id, line.tool, line.verdict) == ("unknown", "nobody", "look", "block")


@pytest.mark.parametrize("status", [s for s in IntentStatus if s is not IntentStatus.ACTIVATED])
def test_an_intent_that_is_not_activated_blocks(registry: Registry, intent: Intent, status: IntentStatus) -> None:
    if status is IntentStatus.CREATED:
        intent = registry.register(NAILS)
    else:
        registry.update_status(intent.intent_id, status)
    verdict = Session(registry, intent.intent_id).check(LOOK)
    assert (verdict.level, verdict.stage) == (Level.BLOCK, "status")
    assert f"the intent is {status}" in verdict.reason


def test_a_call_is_recorded_before_its_verdict(registry: Registry, intent: Intent, session: Session) -> None:
    assert check_sync(session.guard, CONTEXT, LOOK).level is Level.ALLOW
    (action,) = session.actions
    assert (action.call, action.plan, action.check) == (LOOK, CONTEXT.plan, CONTEXT.check)
    assert (action.effect, action.verdict and action.verdict.level, action.ok) == (EffectClass.READ, Level.ALLOW, None)
    assert [line.event for line in registry.audit.query(tool="look")] == ["action", "checked"]


def test_a_call_whose_check_crashes_is_on_record_and_blocked(registry: Registry, intent: Intent) -> None:
    def broken() -> dict[str, object]:
        raise RuntimeError("no state")

    session = Session(registry, intent.intent_id, state=broken)
    assert session.check(LOOK).level is Level.BLOCK
    (action,) = session.actions
    assert (action.tool, action.verdict) == ("look", None)


def test_a_stopped_write_names_its_constraint_and_the_intent_goes_on(registry: Registry, session: Session) -> None:
    verdict = session.check(call("drop", id="i1"))
    assert (verdict.level, verdict.stage, verdict.relation) == (Level.BLOCK, "constraint", "keep-i1")
    (line,) = registry.audit.query(verdict="block")
    assert (line.rule, line.detail, line.caller) == ("keep-i1", "constraint", "tests")
    assert registry.get(session.intent_id).status is IntentStatus.ACTIVATED


def test_order_is_judged_by_what_really_ran(session: Session) -> None:
    assert session.check(ORDER).stage == "order"
    assert session.check(LOOK).level is Level.ALLOW
    assert session.check(ORDER).stage == "order"  # let through, but nobody says that it ran
    session.ran(LOOK, "Error: no", ok=False)
    assert session.check(ORDER).stage == "order"
    session.do(LOOK)
    assert session.check(ORDER).level is Level.ALLOW


def test_the_intent_is_completed_once_its_criteria_are_met(session: Session) -> None:
    session.do(LOOK)
    assert session.do(ORDER).status is IntentStatus.ACTIVATED
    assert session.do(ORDER).status is IntentStatus.COMPLETED
    assert session.check(LOOK).stage == "status"


def test_two_processes_together_keep_to_a_limit(open_registry: Callable[[], Registry], intent: Intent) -> None:
    one, other = (Session(open_registry(), intent.intent_id) for _ in range(2))
    one.do(LOOK)
    assert other.check(ORDER).level is Level.ALLOW
    assert one.check(ORDER).level is Level.ALLOW
    for session in (one, other):  # two are under way, and two are allowed
        verdict = session.check(ORDER)
        assert (verdict.level, verdict.stage) == (Level.BLOCK, "allowed_tools")
    one.ran(ORDER, "Error: sold out", ok=False)
    assert other.check(ORDER).level is Level.ALLOW


def test_what_another_process_did_counts(open_registry: Callable[[], Registry], intent: Intent) -> None:
    one, other = (Session(open_registry(), intent.intent_id) for _ in range(2))
    assert other.check(ORDER).stage == "order"
    one.do(LOOK)
    assert other.check(ORDER).level is Level.ALLOW


def test_an_approval_pauses_the_intent_and_lets_one_call_run(registry: Registry, session: Session) -> None:
    assert session.check(DROP).level is Level.REQUIRE_APPROVAL
    assert registry.get(session.intent_id).status is IntentStatus.PAUSED
    assert session.check(LOOK).stage == "status"
    session.decide(DROP, "approve")
    assert session.check(call("drop", id="i9")).level is Level.REQUIRE_APPROVAL
    session.decide(call("drop", id="i9"), "reject")
    assert session.check(DROP).level.lets_run
    assert session.actions[-1].approver == "ann"
    assert session.check(DROP).level is Level.REQUIRE_APPROVAL


def test_a_rejected_call_stays_rejected(registry: Registry, session: Session) -> None:
    session.check(DROP)
    session.decide(DROP, "reject")
    for _ in range(2):
        verdict = session.check(DROP)
        assert (verdict.level, verdict.stage) == (Level.BLOCK, "approval")
        assert verdict.reason == "ann rejected it: it is safe"
    assert registry.approvals.pending() == []


def test_a_request_that_nobody_answers_is_asked_again(registry: Registry, session: Session, clock: Clock) -> None:
    session.check(DROP)
    clock.pass_by(601)
    assert session.check(LOOK).level is Level.ALLOW
    assert session.check(DROP).level is Level.REQUIRE_APPROVAL
    assert len(registry.approvals.pending(session.intent_id)) == 1


def test_no_approval_lifts_a_block(session: Session) -> None:
    kept = call("drop", id="i1")
    session.registry.approvals.request(session.intent_id, kept, Verdict(level=Level.REQUIRE_APPROVAL, guard="x"))
    session.decide(kept, "approve")
    assert session.check(kept).level is Level.BLOCK
    approval = session.registry.approvals.find(session.intent_id, kept)
    assert approval is not None and approval.status == "approved"  # unused


def test_a_confirmation_lifts_a_question_for_one_call(session: Session) -> None:
    assert session.check(OPEN).level is Level.ASK
    assert session.check(OPEN, call("open_at", part="all day")).level is Level.ASK
    assert session.check(OPEN, OPEN).level.lets_run
    assert session.actions[-1].approver == "user"
    assert session.check(OPEN, OPEN).level is Level.ASK
    assert session.check(OPEN, OPEN, OPEN).level.lets_run


def test_a_confirmation_is_no_approval(session: Session) -> None:
    assert session.check(DROP, DROP).level is Level.REQUIRE_APPROVAL


def test_a_forbidden_call_that_ran_all_the_same_violates_the_intent(registry: Registry, session: Session) -> None:
    kept = call("drop", id="i1")
    session.check(kept)
    assert session.ran(kept).status is IntentStatus.VIOLATED
    (action,) = session.actions
    assert (action.ok, action.guarded) == (True, True)


def test_a_call_that_ran_without_a_check_is_on_record_as_such(registry: Registry, session: Session) -> None:
    assert session.ran(LOOK, "20 nails").status is IntentStatus.ACTIVATED
    assert session.ran(call("drop", id="i1")).status is IntentStatus.VIOLATED
    look, drop = session.actions
    assert (look.guarded, look.ok, look.result) == (False, True, "20 nails")
    assert (drop.guarded, drop.verdict and drop.verdict.relation) == (False, "keep-i1")
    assert [line.tool for line in registry.audit.query(event="unguarded")] == ["look", "drop"]


def test_confidence_follows_the_verdicts(registry: Registry, session: Session) -> None:
    session.check(ORDER)  # out of order: blocked
    assert registry.get(session.intent_id).confidence == pytest.approx(0.5)
    for _ in range(4):
        session.do(LOOK)
    assert registry.get(session.intent_id).confidence == pytest.approx(5 / 6)


def test_low_confidence_asks_before_a_change(registry: Registry) -> None:
    contract = IntentContract(goal="tidy", allowed=(CallPattern(),), confidence=0.4)
    intent = registry.register(contract)
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    session = Session(registry, intent.intent_id)
    assert session.check(LOOK).level is Level.ALLOW
    verdict = session.check(DROP)
    assert (verdict.level, verdict.stage) == (Level.ASK, "confidence")


@pytest.mark.parametrize("level", list(Level))
def test_the_judge_stands_in_for_the_warning(registry: Registry, level: Level) -> None:
    intent = registry.register(IntentContract(goal="tidy", allowed=(CallPattern(),)))
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)

    async def judge(contract: IntentContract, context: Context, what: ToolCall) -> Verdict:
        assert contract == intent.contract
        return Verdict(level=level, guard="judge", reason="so it is")

    session = Session(registry, intent.intent_id, judge=judge)
    assert session.check(LOOK).level is Level.ALLOW
    assert session.check(DROP).level is level
    assert session.actions[-1].verdict == Verdict(level=level, guard="judge", reason="so it is")
    assert bool(registry.approvals.pending()) is (level is Level.REQUIRE_APPROVAL)
    if level is Level.REQUIRE_APPROVAL:
        session.decide(DROP, "approve")
        assert session.check(DROP).level.lets_run
    if level is Level.ASK:
        assert session.check(DROP, DROP).level.lets_run


def test_a_judge_that_fails_blocks_and_the_record_says_so(registry: Registry) -> None:
    intent = registry.register(IntentContract(goal="tidy", allowed=(CallPattern(),)))
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)

    async def judge(contract: IntentContract, context: Context, what: ToolCall) -> Verdict:
        raise TimeoutError("no answer")

    session = Session(registry, intent.intent_id, judge=judge)
    verdict = session.check(DROP)
    assert (verdict.level, verdict.reason) == (Level.BLOCK, "the judge failed: TimeoutError: no answer")
    assert session.actions[-1].verdict == verdict


def test_a_registry_that_is_gone_blocks_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "intents.db"
    with Registry(f"sqlite:///{path}") as registry:
        intent = registry.register(NAILS)
        registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
        session = Session(registry, intent.intent_id)
        assert session.check(LOOK).level is Level.ALLOW
        path.unlink()
        verdict = session.check(LOOK)
        assert (verdict.level, verdict.stage) == (Level.BLOCK, "error")
        assert "RegistryUnavailable: the registry" in verdict.reason


def test_arguments_that_are_no_json_block(session: Session) -> None:
    verdict = session.check(call("look", name=object()))
    assert verdict.level is Level.BLOCK
    assert "cannot be written as JSON" in verdict.reason


def test_a_tool_that_nobody_described_may_change_things(session: Session) -> None:
    session.check(call("mystery"))
    assert session.actions[-1].effect is EffectClass.PERSISTENT_WRITE


def test_many_checks_at_once_are_each_recorded(registry: Registry, session: Session) -> None:
    async def many() -> list[Verdict]:
        return await asyncio.gather(*(checked(session.guard, CONTEXT, call("look", n=n)) for n in range(12)))

    assert {verdict.level for verdict in asyncio.run(many())} == {Level.ALLOW}
    assert sorted(action.arguments["n"] for action in session.actions) == list(range(12))
    assert registry.audit.verify() is None
