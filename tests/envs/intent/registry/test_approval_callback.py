"""A live agent that waits for approvals: one yes lets one call run, everything else none."""

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demur.envs.guards import Guard, compose
from demur.envs.guards.decorator import ApprovalRequired, CallBlocked, GuardSession, guarded
from demur.envs.intent.guard import ContractGuard
from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approval_callback import approve_by
from demur.envs.intent.registry.approvals import Approval, ApprovalError, ApprovalStatus
from demur.envs.intent.registry.database import RegistryUnavailable
from demur.envs.intent.registry.intent import Intent, IntentStatus
from demur.envs.intent.registry.session import IntentGuard
from demur.envs.trace import Level, ToolCall, Verdict
from tests.envs.helpers import Asks, call
from tests.envs.intent.registry.approving import TOOLS
from tests.envs.intent.registry.helpers import Clock

POLL = 0.01
NEEDED = Verdict(level=Level.REQUIRE_APPROVAL, guard="other", reason="it is late")


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Nothing here depends on the kind of database."""
    return f"sqlite:///{tmp_path}/intents.db"


class Agent:
    """A session with a tool that notes what it dropped."""

    def __init__(self, registry: Registry, intent: Intent, guard: Guard, timeout: float = 20.0) -> None:
        self.dropped: list[str] = []
        approve = approve_by(registry, intent.intent_id, poll=POLL)
        session = GuardSession(
            guard, "q", contract=intent.contract, tools=dict(TOOLS), approve=approve, timeout=timeout
        )

        @guarded(session)
        async def drop(id: str) -> str:
            self.dropped.append(id)
            return "done"

        self.drop = drop


def by_intent(registry: Registry, intent: Intent) -> Guard:
    return IntentGuard(registry, intent.intent_id, TOOLS)


def by_contract(registry: Registry, intent: Intent) -> Guard:
    return ContractGuard()


def by_both(registry: Registry, intent: Intent) -> Guard:
    return compose(Asks(Level.REQUIRE_APPROVAL), by_intent(registry, intent))


guards = pytest.mark.parametrize("guard", [by_intent, by_contract, by_both])
MakeGuard = Callable[[Registry, Intent], Guard]


async def next_request(registry: Registry, known: int = 0) -> list[Approval]:
    """What is pending, as soon as it is more than was known."""
    async with asyncio.timeout(20):
        while len(pending := await asyncio.to_thread(registry.approvals.pending)) <= known:
            await asyncio.sleep(POLL)
    return pending


async def decide_next(registry: Registry, decision: str, reason: str = "") -> Approval:
    (approval,) = await next_request(registry)
    return registry.approvals.decide(approval.approval_id, decision, "ann", reason)  # type: ignore[arg-type]


@guards
def test_one_approval_lets_one_call_run(registry: Registry, intent: Intent, guard: MakeGuard) -> None:
    agent = Agent(registry, intent, guard(registry, intent))

    async def run() -> None:
        for number in (1, 2):  # the second call is the same, and needs an approval of its own
            _, approval = await asyncio.gather(agent.drop("i2"), decide_next(registry, "approve"))
            assert agent.dropped == ["i2"] * number
            assert registry.approvals.get(approval.approval_id).status is ApprovalStatus.USED
        assert registry.approvals.pending() == []

    asyncio.run(run())


@guards
def test_a_rejected_call_does_not_run_and_stays_rejected(registry: Registry, intent: Intent, guard: MakeGuard) -> None:
    agent = Agent(registry, intent, guard(registry, intent))

    async def run() -> None:
        waiting = asyncio.create_task(agent.drop("i2"))
        await decide_next(registry, "reject", "i2 is in use")
        with pytest.raises(ApprovalRequired):
            await waiting
        with pytest.raises((ApprovalRequired, CallBlocked)):
            await agent.drop("i2")

    asyncio.run(run())
    assert agent.dropped == []
    assert registry.approvals.pending() == []


def test_the_agent_is_told_why_when_it_tries_again(registry: Registry, intent: Intent) -> None:
    agent = Agent(registry, intent, by_intent(registry, intent))

    async def run() -> None:
        waiting = asyncio.create_task(agent.drop("i2"))
        await decide_next(registry, "reject", "i2 is in use")
        with pytest.raises(ApprovalRequired):
            await waiting
        with pytest.raises(CallBlocked, match="ann rejected it: i2 is in use"):
            await agent.drop("i2")

    asyncio.run(run())


@guards
def test_no_answer_before_the_session_times_out_takes_the_request_back(
    registry: Registry, intent: Intent, guard: MakeGuard
) -> None:
    agent = Agent(registry, intent, guard(registry, intent), timeout=0.3)
    with pytest.raises(ApprovalRequired) as caught:
        asyncio.run(agent.drop("i2"))
    assert isinstance(caught.value.__cause__, TimeoutError)
    assert agent.dropped == []
    found = registry.approvals.find(intent.intent_id, call("drop", id="i2"))
    assert found is not None and found.status is ApprovalStatus.EXPIRED
    assert registry.get(intent.intent_id).status is IntentStatus.ACTIVATED


def test_a_wait_that_is_cancelled_while_it_files_its_request_takes_it_back(
    registry: Registry, intent: Intent, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = registry.approvals.request
    started = threading.Event()

    def slow(*arguments: Any) -> Approval:
        started.set()
        time.sleep(0.1)
        return request(*arguments)

    async def run() -> None:
        waiting = asyncio.ensure_future(approve_by(registry, intent.intent_id)(call("drop", id="i2"), NEEDED))
        await asyncio.to_thread(started.wait, 20)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert waiting.cancelled()

    monkeypatch.setattr(registry.approvals, "request", slow)
    asyncio.run(run())
    found = registry.approvals.find(intent.intent_id, call("drop", id="i2"))
    assert found is not None and found.status is ApprovalStatus.EXPIRED
    assert registry.get(intent.intent_id).status is IntentStatus.ACTIVATED


def test_an_expired_request_is_a_no(registry: Registry, intent: Intent, clock: Clock) -> None:
    approve = approve_by(registry, intent.intent_id, poll=POLL)

    async def run() -> bool:
        waiting = asyncio.ensure_future(approve(call("drop", id="i2"), NEEDED))
        await next_request(registry)
        clock.pass_by(600)
        return await waiting

    assert asyncio.run(run()) is False


@pytest.mark.parametrize(("decision", "answer"), [("approve", True), ("reject", False)])
def test_a_decision_that_was_faster_than_the_wait_counts(
    registry: Registry, intent: Intent, decision: str, answer: bool
) -> None:
    approval = registry.approvals.request(intent.intent_id, call("drop", id="i2"), NEEDED)
    registry.approvals.decide(approval.approval_id, decision, "ann")  # type: ignore[arg-type]
    approve = approve_by(registry, intent.intent_id, poll=POLL)
    assert asyncio.run(approve(call("drop", id="i2"), NEEDED)) is answer  # type: ignore[arg-type]
    assert registry.approvals.pending() == []


def test_other_tasks_go_on_meanwhile(registry: Registry, intent: Intent) -> None:
    agent = Agent(registry, intent, by_intent(registry, intent))

    async def run() -> int:
        waiting = asyncio.create_task(agent.drop("i2"))
        (approval,) = await next_request(registry)
        turns = 0
        while turns < 50:
            await asyncio.sleep(0)
            turns += not waiting.done()
        registry.approvals.decide(approval.approval_id, "approve", "ann")
        await waiting
        return turns

    assert asyncio.run(run()) == 50
    assert agent.dropped == ["i2"]


def test_a_grant_waits_until_the_other_approval_of_the_intent_is_decided(registry: Registry, intent: Intent) -> None:
    agent = Agent(registry, intent, ContractGuard())

    async def run() -> None:
        waiting = [asyncio.create_task(agent.drop(name)) for name in ("i2", "i3")]
        pending = await next_request(registry, known=1)
        registry.approvals.decide(pending[0].approval_id, "approve", "ann")
        await asyncio.sleep(5 * POLL)
        assert agent.dropped == []
        registry.approvals.decide(pending[1].approval_id, "reject", "ann", "no")
        done = await asyncio.gather(*waiting, return_exceptions=True)
        assert sorted(isinstance(one, ApprovalRequired) for one in done) == [False, True]
        assert agent.dropped == [pending[0].arguments["id"]]

    asyncio.run(run())


def test_two_that_wait_for_one_approval_share_no_grant(registry: Registry, intent: Intent) -> None:
    approve = approve_by(registry, intent.intent_id, poll=POLL)
    drop = call("drop", id="i2")

    async def run() -> list[bool]:
        waiting = [asyncio.ensure_future(approve(drop, NEEDED)) for _ in range(3)]
        await decide_next(registry, "approve")
        return list(await asyncio.gather(*waiting))

    assert sorted(asyncio.run(run())) == [False, False, True]


def test_an_approval_is_for_exactly_the_call(registry: Registry, intent: Intent) -> None:
    approve = approve_by(registry, intent.intent_id, poll=POLL)

    async def run() -> None:
        one = asyncio.ensure_future(approve(call("drop", id="1"), NEEDED))
        (first,) = await next_request(registry)
        other = asyncio.ensure_future(approve(ToolCall(name="drop", arguments={"id": 1}), NEEDED))
        pending = await next_request(registry, known=1)
        registry.approvals.decide(pending[1].approval_id, "reject", "ann")
        registry.approvals.decide(first.approval_id, "approve", "ann")
        assert await asyncio.gather(one, other) == [True, False]

    asyncio.run(run())


def test_what_cannot_be_asked_is_an_error_and_never_a_yes(registry: Registry, intent: Intent, tmp_path: Path) -> None:
    approve = approve_by(registry, intent.intent_id, poll=POLL)
    registry.update_status(intent.intent_id, IntentStatus.ABANDONED)
    with pytest.raises(ApprovalError, match="abandoned"):
        asyncio.run(approve(call("drop", id="i2"), NEEDED))
    (tmp_path / "intents.db").unlink()
    with pytest.raises(RegistryUnavailable):
        asyncio.run(approve(call("drop", id="i2"), NEEDED))
