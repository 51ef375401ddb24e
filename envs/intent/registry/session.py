"""The guard of a live agent: one intent of a registry, its contract, its history and its approvals.

    guard = IntentGuard(registry, intent_id, tools)
    verdict = await checked(guard, context, call)     # records the call, then what is said of it
    await guard.ran(call, result, ok=True)            # records what came of it; the intent may be completed

Each call is recorded before it is checked. Unknown intents and intents that are not activated block. A registry that
cannot be reached raises, which `checked` turns into a block. Other processes may work on the same intent: what they
append counts, and a call that was let through but not reported yet counts for limits, though not as done.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from demur.envs.guards import Context
from demur.envs.intent.checks import Checker, PastCall, State, confidence_now
from demur.envs.intent.guard import BoundaryJudge
from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approvals import Approval, Approvals, ApprovalStatus, latest
from demur.envs.intent.registry.chain import digest
from demur.envs.intent.registry.database import Write
from demur.envs.intent.registry.intent import TRANSITIONS, ActionRecord, Intent, IntentStatus
from demur.envs.intent.registry.rows import (
    UnknownIntent,
    add_action,
    add_result,
    add_verdict,
    change_intent,
    load_actions,
    load_intent,
    newest,
    set_status,
)
from demur.envs.tool import EffectClass, Tool
from demur.envs.trace import Level, ToolCall, Verdict

NAME: Final = "intent"


class IntentGuard:
    """Checks the calls made for one intent. tools: as they are offered; one that is not among them may change things.

    judge: is asked about changes that no rule decides. state: the facts that rules compare arguments with.
    approvals: the registry's own unless given; a call that needs one is asked for there and the intent is paused.
    """

    name = NAME

    def __init__(
        self,
        registry: Registry,
        intent_id: str,
        tools: Mapping[str, Tool],
        *,
        judge: BoundaryJudge | None = None,
        state: Callable[[], State] = dict,
        approvals: Approvals | None = None,
    ) -> None:
        self._database = registry.database
        self._intent_id = intent_id
        self._tools = tools
        self._judge = judge
        self._state = state
        self._approvals = approvals or registry.approvals
        self._past = History()
        self._checker: Checker | None = None  # made once: a registered contract does not change
        self._confirmed: Counter[tuple[str, str]] = Counter()
        self._one_at_a_time = threading.Lock()

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        """Raises RegistryUnavailable, and ValueError if the arguments are no JSON; the call must not run then."""
        action = await asyncio.to_thread(self._record, context, call)
        if action is None:
            reason = f"intent {self._intent_id!r} is not in the registry"
            return Verdict(level=Level.BLOCK, guard=self.name, stage="unknown_intent", reason=reason)
        verdict, intent = await asyncio.to_thread(self._decide, context, action)
        if self._judge is None or verdict.stage != "boundary" or verdict.level is not Level.WARN:
            return verdict
        try:
            judged = await self._judge(intent.contract, context, call)
        except Exception as error:  # it must be written down as stopped, since the warning lets it run
            judged = _block("judge", f"the judge failed: {type(error).__name__}: {error}")
        return await asyncio.to_thread(self._take_over, context, action, judged)

    async def ran(self, call: ToolCall, result: str, ok: bool = True) -> Intent:
        """Tell what came of a call that was carried out; returns the intent as it is then.

        A call that was never let through is recorded as such, and if a constraint forbids it the intent is violated.
        Raises RegistryUnavailable, and UnknownIntent.
        """
        return await asyncio.to_thread(self._report, call, result, ok)

    def _record(self, context: Context, call: ToolCall) -> ActionRecord | None:
        effect = self._effect(call)
        with self._database.write() as write:
            try:
                return add_action(write, self._intent_id, call, effect=effect, plan=context.plan, check=context.check)
            except UnknownIntent:
                hashed = digest(call.arguments)
                write.audit("unknown", self._intent_id, tool=call.name, digest=hashed, verdict=Level.BLOCK)
                return None

    def _decide(self, context: Context, action: ActionRecord) -> tuple[Verdict, Intent]:
        state = self._state()  # it may be slow, and nobody else writes during what follows
        with self._one_at_a_time, self._database.write() as write:
            self._past.catch_up(write, self._intent_id)
            intent = self._intent(write)

            def by_rule(lifted: frozenset[Level]) -> Verdict:
                return self._by_rule(intent, action, state, lifted)

            return self._settle(write, intent, context, action, by_rule), intent

    def _take_over(self, context: Context, action: ActionRecord, judged: Verdict) -> Verdict:
        """Write down the judge's verdict in place of the warning."""
        allowed = Verdict(level=Level.ALLOW, guard=judged.guard, stage=judged.stage)
        with self._one_at_a_time, self._database.write() as write:
            intent = self._intent(write)
            return self._settle(write, intent, context, action, lambda lifted: allowed if lifted else judged)

    def _intent(self, write: Write) -> Intent:
        """The intent as of now: what it waits for may have expired."""
        intent = load_intent(write.connection, self._intent_id)
        if intent.status is not IntentStatus.PAUSED:
            return intent
        self._approvals.settle(write)
        return load_intent(write.connection, self._intent_id)

    def _by_rule(self, intent: Intent, action: ActionRecord, state: State, lifted: frozenset[Level]) -> Verdict:
        checker, confidence = self._checker_for(intent), confidence_now(intent.contract, self._past.levels())
        done, under_way = self._past.done(), self._past.under_way()
        # a call under way may use up a limit, and must not count as done where order matters
        histories = [done, done + under_way] if under_way else [done]
        verdicts = [checker.check(action.call, past, state, confidence=confidence, lifted=lifted) for past in histories]
        return max(verdicts, key=lambda verdict: verdict.level.severity)

    def _settle(
        self,
        write: Write,
        intent: Intent,
        context: Context,
        action: ActionRecord,
        check: Callable[[frozenset[Level]], Verdict],
    ) -> Verdict:
        """Decide, write it down, and ask for an approval that is needed. check: the verdict with some levels lifted."""
        if intent.status is not IntentStatus.ACTIVATED:
            verdict = _block("status", f"the intent is {intent.status}; calls run while it is activated")
            add_verdict(write, action, verdict)
            return verdict
        verdict, approver = self._lifted(write, context, action, check)
        add_verdict(write, action, verdict, approver=approver)
        if verdict.level is Level.REQUIRE_APPROVAL:
            self._approvals.request_in(write, self._intent_id, action.call, verdict)
        confidence = confidence_now(intent.contract, self._past.levels({action.number: verdict.level}))
        if confidence != intent.confidence:
            change_intent(write, self._intent_id, confidence=confidence)
            write.audit("confidence", self._intent_id, detail=f"{confidence:.4f}")
        return verdict

    def _lifted(
        self, write: Write, context: Context, action: ActionRecord, check: Callable[[frozenset[Level]], Verdict]
    ) -> tuple[Verdict, str]:
        """The verdict once a confirmation and a grant count, each for one call, and who gave them."""
        key = (action.tool, digest(action.arguments))
        confirmed = self._confirmed[key] < _confirmations(context, key)
        lifted: frozenset[Level] = frozenset()
        grant: Approval | None = None
        while not (verdict := check(lifted)).level.lets_run:
            if verdict.level is Level.ASK and confirmed and Level.ASK not in lifted:
                lifted |= {Level.ASK}
            elif verdict.level is Level.REQUIRE_APPROVAL and grant is None:
                self._approvals.settle(write)
                grant = latest(write.connection, self._intent_id, action.call)
                if grant is not None and grant.status is ApprovalStatus.REJECTED:
                    return _block("approval", f"{grant.approver} rejected it: {grant.reason or 'no reason given'}"), ""
                if grant is None or grant.status is not ApprovalStatus.APPROVED:
                    return verdict, ""
                lifted |= {Level.REQUIRE_APPROVAL}
            else:
                return verdict, ""
        if Level.ASK in lifted:
            self._confirmed[key] += 1
        if grant is not None:
            self._approvals.take_in(write, grant)
            return verdict, grant.approver
        return verdict, "user" if lifted else ""

    def _report(self, call: ToolCall, result: str, ok: bool) -> Intent:
        state = self._state()
        with self._one_at_a_time, self._database.write() as write:
            intent = load_intent(write.connection, self._intent_id)
            self._past.catch_up(write, self._intent_id)
            action = self._past.open_for(call) or self._unguarded(write, intent, call, state)
            add_result(write, action, result, ok)
            done = [*self._past.done(), PastCall(call, ok, result)]
            ending = self._ending(intent, action, done, state)
            if ending is not None and ending in TRANSITIONS[intent.status]:
                set_status(write, intent, ending)
            return load_intent(write.connection, self._intent_id)

    def _unguarded(self, write: Write, intent: Intent, call: ToolCall, state: State) -> ActionRecord:
        """A call that ran without a check is checked now, so that it is known what it was."""
        action = add_action(write, self._intent_id, call, effect=self._effect(call), guarded=False)
        verdict = self._checker_for(intent).check(call, self._past.done(), state)
        add_verdict(write, action, verdict)
        return action.model_copy(update={"verdict": verdict})

    def _ending(
        self, intent: Intent, action: ActionRecord, done: Sequence[PastCall], state: State
    ) -> IntentStatus | None:
        """What the intent has come to with this action, if to its end."""
        verdict = action.verdict
        if verdict is not None and verdict.level is Level.BLOCK and verdict.stage == "constraint":
            return IntentStatus.VIOLATED
        return IntentStatus.COMPLETED if self._checker_for(intent).completed(done, state) else None

    def _checker_for(self, intent: Intent) -> Checker:
        if self._checker is None:
            self._checker = Checker(intent.contract, self._tools)
        return self._checker

    def _effect(self, call: ToolCall) -> EffectClass:
        tool = self._tools.get(call.name)
        return tool.effect if tool else EffectClass.PERSISTENT_WRITE


class History:
    """What the registry knows of an intent's actions, kept up to date by reading only what is new."""

    def __init__(self) -> None:
        self._seen = 0
        self._actions: dict[int, ActionRecord] = {}
        self._done: dict[int, PastCall] = {}
        self._open: dict[int, ActionRecord] = {}  # a verdict, and no result yet
        self._levels: dict[int, Level] = {}

    def catch_up(self, write: Write, intent_id: str) -> None:
        """Read what other writes than this one told of the intent's actions."""
        changed = load_actions(write.connection, intent_id, self._seen)
        self._seen = newest(changed, self._seen)
        for _, action in changed:
            self._take(action)

    def done(self) -> list[PastCall]:
        """The calls that ran."""
        return list(self._done.values())

    def under_way(self) -> list[PastCall]:
        """The calls that were let through, and of which nothing is known yet."""
        return [PastCall(action.call) for action in self._open.values() if _let_through(action)]

    def levels(self, more: Mapping[int, Level] | None = None) -> list[Level]:
        """What was said of the calls so far, by number of the action, while the intent was activated."""
        return list({**self._levels, **(more or {})}.values())

    def open_for(self, call: ToolCall) -> ActionRecord | None:
        """The action that a reported call belongs to: the first one let through, else the last one stopped."""
        same = [a for a in self._open.values() if a.tool == call.name and digest(a.arguments) == digest(call.arguments)]
        let_through = [action for action in same if _let_through(action)]
        return let_through[0] if let_through else same[-1] if same else None

    def _take(self, action: ActionRecord) -> None:
        number = action.number
        self._open.pop(number, None)
        if action.ok is not None:
            self._done[number] = PastCall(action.call, action.ok, action.result)
        elif action.verdict is not None:
            self._open[number] = action
        if action.guarded and action.verdict is not None and action.verdict.stage != "status":
            self._levels[number] = action.verdict.level


def _let_through(action: ActionRecord) -> bool:
    return action.verdict is not None and action.verdict.level.lets_run


def _confirmations(context: Context, key: tuple[str, str]) -> int:
    """How often the user agreed to exactly this call."""
    return sum((call.name, digest(call.arguments)) == key for call in context.confirmed)


def _block(stage: str, reason: str) -> Verdict:
    return Verdict(level=Level.BLOCK, guard=NAME, stage=stage, reason=reason)
