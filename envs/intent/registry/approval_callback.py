"""Approvals of a registry for a `GuardSession`: its `approve` callback.

session = GuardSession(guard, query, approve=approve_by(registry, intent_id))
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approvals import Approval, ApprovalStatus
from demur.envs.intent.registry.cases import asked_for
from demur.envs.trace import ToolCall, Verdict


def approve_by(
    registry: Registry, intent_id: str, *, poll: float = 0.2
) -> Callable[[ToolCall, Verdict], Awaitable[bool]]:
    """A callback that asks for an approval and waits until it is decided or expires; only an approval is a yes.

    It goes with an `IntentGuard` of the same intent, which uses the grant itself when it checks the call again, and
    with any other guard, for which the callback uses it: either way it lets one call run. A wait that is cancelled,
    such as by the session's `timeout`, takes the request back. poll: seconds between two looks.
    Raises RegistryUnavailable, UnknownIntent, and ApprovalError if the intent is finished.
    """

    async def approve(call: ToolCall, verdict: Verdict) -> bool:
        # a thread goes on when its wait is cancelled, so that it has to be known what it filed
        filing = asyncio.ensure_future(asyncio.to_thread(_file, registry, intent_id, call, verdict))
        try:
            approval = await asyncio.shield(filing)
            guard_takes = await asyncio.to_thread(_asked_by_guard, registry, approval)
            approval = await registry.approvals.wait(approval.approval_id, poll=poll)
        except asyncio.CancelledError:
            filed = await asyncio.shield(filing)
            await asyncio.shield(registry.approvals.wait(filed.approval_id, timeout=0))
            raise
        while approval.status is ApprovalStatus.APPROVED:
            if guard_takes or await asyncio.to_thread(registry.approvals.take, intent_id, call) is not None:
                return True
            # granted, but the intent still waits for another approval
            await asyncio.sleep(poll)
            approval = await asyncio.to_thread(registry.approvals.get, approval.approval_id)
        return False

    return approve


def _file(registry: Registry, intent_id: str, call: ToolCall, verdict: Verdict) -> Approval:
    """The request for a call. One that the guard filed, and that may have been answered, is not filed again."""
    approval = registry.approvals.find(intent_id, call)
    if approval is None or approval.status in (ApprovalStatus.EXPIRED, ApprovalStatus.USED):
        return registry.approvals.request(intent_id, call, verdict)
    return approval


def _asked_by_guard(registry: Registry, approval: Approval) -> bool:
    """Whether the intent's own guard filed the request, when it recorded this verdict."""
    return any(action.verdict == approval.verdict for action in asked_for(registry, approval))
