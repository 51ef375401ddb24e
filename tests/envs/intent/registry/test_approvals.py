"""Approvals: one person's yes lets exactly one call run, and no answer is a no."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approvals import Approval, ApprovalError, Approvals, ApprovalStatus
from demur.envs.intent.registry.intent import Intent, IntentStatus
from demur.envs.intent.registry.rows import UnknownIntent
from demur.envs.trace import Level, ToolCall, Verdict
from tests.envs.helpers import call
from tests.envs.intent.registry.helpers import NAILS, Clock

NEEDED = Verdict(level=Level.REQUIRE_APPROVAL, guard="contract", stage="approval", relation="drop()")
DROP = call("drop", id="i2")


def ask(registry: Registry, intent: Intent, what: ToolCall = DROP) -> Approval:
    return registry.approvals.request(intent.intent_id, what, NEEDED)


def status(registry: Registry, intent: Intent) -> IntentStatus:
    return registry.get(intent.intent_id).status


def test_a_request_pauses_its_intent_and_no_other(registry: Registry, intent: Intent) -> None:
    other = registry.register(NAILS)
    registry.update_status(other.intent_id, IntentStatus.ACTIVATED)
    approval = ask(registry, intent)
    assert (approval.status, approval.call, approval.verdict) == (ApprovalStatus.PENDING, DROP, NEEDED)
    assert status(registry, intent) is IntentStatus.PAUSED
    assert status(registry, other) is IntentStatus.ACTIVATED
    assert registry.approvals.pending() == registry.approvals.pending(intent.intent_id) == [approval]
    assert registry.approvals.pending(other.intent_id) == []


@pytest.mark.parametrize(("decision", "after"), [("approve", "approved"), ("reject", "rejected")])
def test_the_intent_goes_on_after_the_last_decision(
    registry: Registry, intent: Intent, decision: str, after: str
) -> None:
    first, second = ask(registry, intent), ask(registry, intent, call("drop", id="i3"))
    decided = registry.approvals.decide(first.approval_id, decision, "ann", "because")  # type: ignore[arg-type]
    assert (decided.status, decided.approver, decided.reason) == (after, "ann", "because")
    assert status(registry, intent) is IntentStatus.PAUSED
    registry.approvals.decide(second.approval_id, "reject", "bob")
    assert status(registry, intent) is IntentStatus.ACTIVATED


def test_a_second_request_for_the_same_call_is_the_first(registry: Registry, intent: Intent) -> None:
    assert ask(registry, intent) == ask(registry, intent)


def test_a_grant_is_good_for_one_call(registry: Registry, intent: Intent) -> None:
    registry.approvals.decide(ask(registry, intent).approval_id, "approve", "ann")
    taken = registry.approvals.take(intent.intent_id, DROP)
    assert taken is not None and (taken.status, taken.approver) == (ApprovalStatus.USED, "ann")
    assert registry.approvals.take(intent.intent_id, DROP) is None


@pytest.mark.parametrize(
    "other",
    [call("drop", id="i3"), call("drop", id="i2", also=1), call("drop"), call("order", id="i2"), call("drop", id=2)],
)
def test_a_grant_is_for_those_arguments_only(registry: Registry, intent: Intent, other: ToolCall) -> None:
    registry.approvals.decide(ask(registry, intent).approval_id, "approve", "ann")
    assert registry.approvals.take(intent.intent_id, other) is None
    assert registry.approvals.take(intent.intent_id, DROP) is not None


def test_a_grant_is_for_that_intent_only(registry: Registry, intent: Intent) -> None:
    other = registry.register(NAILS)
    registry.update_status(other.intent_id, IntentStatus.ACTIVATED)
    registry.approvals.decide(ask(registry, intent).approval_id, "approve", "ann")
    assert registry.approvals.take(other.intent_id, DROP) is None


def test_what_was_not_approved_is_not_taken(registry: Registry, intent: Intent) -> None:
    assert registry.approvals.take(intent.intent_id, DROP) is None
    approval = ask(registry, intent)
    assert registry.approvals.take(intent.intent_id, DROP) is None
    registry.approvals.decide(approval.approval_id, "reject", "ann")
    assert registry.approvals.take(intent.intent_id, DROP) is None


def test_of_many_takers_one_gets_the_grant(open_registry: Callable[[], Registry], intent: Intent) -> None:
    registries = [open_registry() for _ in range(4)]
    approval = ask(registries[0], intent)
    registries[0].approvals.decide(approval.approval_id, "approve", "ann")
    taken: list[Approval | None] = []
    start = threading.Barrier(8)

    def take(registry: Registry) -> None:
        start.wait()
        taken.append(registry.approvals.take(intent.intent_id, DROP))

    threads = [threading.Thread(target=take, args=(registry,)) for registry in registries * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 8
    assert sum(approval is not None for approval in taken) == 1


def test_of_two_deciders_the_first_counts(registry: Registry, intent: Intent) -> None:
    approval = ask(registry, intent)
    registry.approvals.decide(approval.approval_id, "reject", "ann")
    with pytest.raises(ApprovalError, match="rejected by ann; a decision stands"):
        registry.approvals.decide(approval.approval_id, "approve", "bob")
    assert registry.approvals.get(approval.approval_id).status is ApprovalStatus.REJECTED


def test_no_answer_in_time_is_a_no(registry: Registry, intent: Intent, clock: Clock) -> None:
    approval = ask(registry, intent)
    clock.pass_by(599)
    assert registry.approvals.get(approval.approval_id).status is ApprovalStatus.PENDING
    clock.pass_by(1)
    with pytest.raises(ApprovalError, match="is expired"):
        registry.approvals.decide(approval.approval_id, "approve", "ann")
    assert status(registry, intent) is IntentStatus.ACTIVATED
    assert registry.approvals.take(intent.intent_id, DROP) is None
    assert ask(registry, intent).approval_id != approval.approval_id


def test_a_grant_ends_too(registry: Registry, intent: Intent, clock: Clock) -> None:
    approval = ask(registry, intent)
    clock.pass_by(599)
    registry.approvals.decide(approval.approval_id, "approve", "ann")
    clock.pass_by(599)
    assert registry.approvals.get(approval.approval_id).status is ApprovalStatus.APPROVED
    clock.pass_by(1)
    assert registry.approvals.take(intent.intent_id, DROP) is None
    assert registry.approvals.get(approval.approval_id).status is ApprovalStatus.EXPIRED


@pytest.mark.parametrize("seen", [True, False])
def test_a_clock_that_jumps_back_revives_no_grant(registry: Registry, intent: Intent, clock: Clock, seen: bool) -> None:
    approval = ask(registry, intent)
    registry.approvals.decide(approval.approval_id, "approve", "ann")
    clock.pass_by(700)
    if seen:
        assert registry.approvals.get(approval.approval_id).status is ApprovalStatus.EXPIRED
    else:  # the registry knows how late it is from any other event
        registry.register(NAILS)
    clock.pass_by(-700)
    assert registry.approvals.take(intent.intent_id, DROP) is None
    assert registry.approvals.get(approval.approval_id).status is ApprovalStatus.EXPIRED


def test_a_clock_that_was_ahead_once_makes_no_grant_endless(registry: Registry, intent: Intent, clock: Clock) -> None:
    clock.pass_by(10**9)
    registry.register(NAILS)
    clock.pass_by(-(10**9))
    registry.approvals.decide(ask(registry, intent).approval_id, "approve", "ann")
    clock.pass_by(600)
    assert registry.approvals.take(intent.intent_id, DROP) is None


@pytest.mark.parametrize("end", [IntentStatus.COMPLETED, IntentStatus.ABANDONED, IntentStatus.VIOLATED])
def test_a_finished_intent_has_nothing_to_approve(registry: Registry, intent: Intent, end: IntentStatus) -> None:
    approval = ask(registry, intent)
    registry.update_status(intent.intent_id, end)
    with pytest.raises(ApprovalError, match=f"is {end}: its approvals are void"):
        registry.approvals.decide(approval.approval_id, "approve", "ann")
    with pytest.raises(ApprovalError, match="nothing can be approved"):
        ask(registry, intent, call("drop", id="i9"))
    assert status(registry, intent) is end


def test_a_grant_of_an_intent_that_ended_is_not_taken(registry: Registry, intent: Intent) -> None:
    registry.approvals.decide(ask(registry, intent).approval_id, "approve", "ann")
    registry.update_status(intent.intent_id, IntentStatus.ABANDONED)
    assert registry.approvals.take(intent.intent_id, DROP) is None


def test_what_a_person_paused_no_approval_sets_going(registry: Registry, intent: Intent) -> None:
    registry.update_status(intent.intent_id, IntentStatus.PAUSED)
    registry.approvals.decide(ask(registry, intent).approval_id, "approve", "ann")
    assert status(registry, intent) is IntentStatus.PAUSED


def test_bad_requests_and_decisions_say_what_is_wrong(registry: Registry, intent: Intent) -> None:
    approvals = registry.approvals
    approval = ask(registry, intent)
    for bad in (lambda: approvals.get("none"), lambda: approvals.decide("none", "approve", "ann")):
        with pytest.raises(ApprovalError, match="no approval 'none'"):
            bad()
    with pytest.raises(ApprovalError, match="needs the name"):
        approvals.decide(approval.approval_id, "approve", "  ")
    with pytest.raises(ApprovalError, match="not 'maybe'"):
        approvals.decide(approval.approval_id, "maybe", "ann")  # type: ignore[arg-type]
    with pytest.raises(UnknownIntent):
        approvals.request("none", DROP, NEEDED)
    with pytest.raises(ApprovalError, match="is created"):
        ask(registry, registry.register(NAILS))
    with pytest.raises(ValueError, match="not for 0 seconds"):
        Approvals(registry.database, 0)


def test_who_waits_learns_of_the_decision(open_registry: Callable[[], Registry], intent: Intent) -> None:
    agent, desk = open_registry(), open_registry()
    approval = ask(agent, intent)

    async def both() -> Approval:
        waiting = asyncio.create_task(agent.approvals.wait(approval.approval_id, poll=0.01))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        await asyncio.to_thread(desk.approvals.decide, approval.approval_id, "approve", "ann")
        return await asyncio.wait_for(waiting, 10)

    assert asyncio.run(both()).status is ApprovalStatus.APPROVED


def test_who_stops_waiting_gets_a_no_that_stays(registry: Registry, intent: Intent) -> None:
    approval = ask(registry, intent)
    waited = asyncio.run(registry.approvals.wait(approval.approval_id, 0.05, poll=0.01))
    assert waited.status is ApprovalStatus.EXPIRED
    with pytest.raises(ApprovalError, match="expired"):
        registry.approvals.decide(approval.approval_id, "approve", "ann")
    assert status(registry, intent) is IntentStatus.ACTIVATED


def test_every_step_of_an_approval_is_in_the_log(registry: Registry, intent: Intent) -> None:
    approval = ask(registry, intent)
    registry.approvals.decide(approval.approval_id, "approve", "ann")
    registry.approvals.take(intent.intent_id, DROP)
    lines = [r for r in registry.audit.query(tool="drop") if r.detail == approval.approval_id]
    assert [(r.event, r.approver) for r in lines] == [("requested", ""), ("approved", "ann"), ("used", "ann")]
    assert {(r.verdict, r.rule, r.digest) for r in lines} == {("require_approval", "drop()", approval.digest)}
    assert registry.audit.verify() is None
