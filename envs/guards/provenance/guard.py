"""The provenance guard: three stages before every call that changes something, each may reject it.

I: the tool exists, and is relevant to the agent's subtask. II: each derivable value derives from evidence that appears
in the query or the history, and the call can address the subtask. III: no other action could address it as well;
this question is asked blind, without the proposed call. After arXiv 2607.01236, section 3.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, Literal, Protocol, get_args

from demur.envs.guards import Context
from demur.envs.guards.calls import exactly
from demur.envs.guards.provenance.blind import blind
from demur.envs.guards.provenance.deciders import Decider, Question, Specified, decide_all
from demur.envs.guards.provenance.parameters import Parameters
from demur.envs.guards.provenance.relations import Examination, Finding, Relation, Stage
from demur.envs.guards.provenance.sources import Plugin, Source, sources_of
from demur.envs.guards.provenance.values import values_in
from demur.envs.guards.provenance.verdicts import question_for, reason_for, shown
from demur.envs.trace import Level, ToolCall, Verdict

NAME: Final = "provenance"
MAX_VALUES: Final = 500
"""A call with more values, those inside lists and objects counted, is blocked: each costs a search of all sources."""

Mode = Literal["block", "ask", "record"]
PlanOf = Callable[[Context, ToolCall], str | Awaitable[str]]
"""The subtask behind a call, for traces that have no plan."""

_LEVELS: Final[Mapping[Mode, Level]] = {"block": Level.BLOCK, "ask": Level.ASK, "record": Level.WARN}
_ASKED = (Relation.RELEVANT_TO, Relation.DERIVED_FROM, Relation.APPEAR_IN, Relation.CAN_ADDRESS)
_STAGES: Final[Mapping[Relation, Stage]] = {
    Relation.SPECIFIED_BY: "I",
    Relation.CONTRIBUTE_TO: "I",
    Relation.RELEVANT_TO: "I",
    Relation.DERIVED_FROM: "II",
    Relation.APPEAR_IN: "II",
    Relation.CAN_ADDRESS: "II",
}


class Metered(Protocol):
    """What counts its calls of a model."""

    def pop_calls(self) -> int: ...


class _Rejected(Exception):
    """Early rejection: no later question is asked."""

    def __init__(self, stage: Stage, finding: Finding) -> None:
        super().__init__(stage, finding)
        self.stage: Stage = stage
        self.finding = finding


class ProvenanceGuard:
    """Checks where a call comes from: its tool, its values, and whether it is the only reading.

    chains: who decides RelevantTo, DerivedFrom, AppearIn and CanAddress, in order. unique: the same for stage III.
    parameters: which are derivable. mode: what becomes of a call that is misaligned: `block` stops it, `ask` puts a
    question to the user, `record` lets it run with a warning; a check that fails blocks in every mode. together: code
    looks at all of stages I and II before a model is asked, once for both; otherwise stage after stage.
    plan_of: asked where the turn has no plan. plugins, trusted: see `sources_of`. timeout: seconds for one check.
    model: whose calls `pop_calls` counts. Raises ValueError for a missing chain or an unknown mode.
    """

    name = NAME

    def __init__(
        self,
        chains: Mapping[Relation, Sequence[Decider]],
        unique: Sequence[Decider],
        parameters: Parameters,
        *,
        mode: Mode = "ask",
        together: bool = True,
        plan_of: PlanOf | None = None,
        plugins: Sequence[Plugin] = (),
        trusted: Collection[str] = (),
        timeout: float = 60.0,
        model: Metered | None = None,
    ) -> None:
        if mode not in _LEVELS:
            raise ValueError(f"there is no mode {mode!r} of the guard; use one of {', '.join(get_args(Mode))}")
        if missing := [relation for relation in _ASKED if not chains.get(relation)]:
            raise ValueError(f"nothing decides {', '.join(missing)}: give each a chain of at least one decider")
        if not unique:
            raise ValueError("nothing decides stage III: give `unique` at least one decider")
        self._chains = {Relation.SPECIFIED_BY: (Specified(),), **chains}
        self._unique = {Relation.CAN_ADDRESS: unique}
        self._parameters, self._mode, self._together = parameters, mode, together
        self._plan_of, self._plugins, self._trusted = plan_of, plugins, trusted
        self._timeout, self._model = timeout, model

    async def check(self, context: Context, call: ToolCall) -> Verdict:
        return (await self.examine(context, call)).verdict

    async def examine(self, context: Context, call: ToolCall) -> Examination:
        """All that was found out, and the verdict. Never raises: a check that fails, or takes too long, blocks."""
        findings: list[Finding] = []
        try:
            async with asyncio.timeout(self._timeout):
                return await self._stages(context, call, findings)
        except _Rejected as rejected:
            return self._examination(findings, rejected.stage, self._against(call, rejected))
        except Exception as error:  # any failure of a check must block
            said = str(error)[:500] or f"the limit is {self._timeout:g} s"
            reason = f"the check failed: {type(error).__name__}: {said}"
            return self._examination(findings, "error", Verdict(level=Level.BLOCK, guard=NAME, reason=reason))

    def pop_calls(self) -> int:
        """Calls of the model since this was last asked."""
        return self._model.pop_calls() if self._model else 0

    async def _stages(self, context: Context, call: ToolCall, findings: list[Finding]) -> Examination:
        specified = Question(relation=Relation.SPECIFIED_BY, context=context, call=call)
        await self._ask([specified], (), findings)
        if any(exactly(call) == exactly(one) for one in context.confirmed):
            return self._passed(findings, "filter", "the user confirmed exactly this call")
        if not context.tools[call.name].changes:
            return self._passed(findings, "filter", "it changes nothing")
        if sum(1 for _ in islice(values_in(call.arguments), MAX_VALUES + 1)) > MAX_VALUES:
            raise ValueError(f"the call holds more than {MAX_VALUES} values; split it into smaller ones")
        sources = sources_of(context, self._plugins, trusted=self._trusted)
        subtask = await self._subtask(context, call, findings)
        first = Question(relation=Relation.RELEVANT_TO, context=context, call=call, subtask=subtask)
        if not self._together:
            await self._ask([first], sources, findings)
        evidence, address = await self._second(first)
        if self._together:
            await self._ask([first, *evidence, *address], sources, findings)
        else:
            await self._ask(evidence, sources, findings)
            await self._ask(address, sources, findings)
        hidden = blind(context, call, subtask)
        third = Question(relation=Relation.CAN_ADDRESS, context=hidden.context, call=None, subtask=hidden.subtask)
        # the same where nothing is hidden: a plug-in may look at the plan
        is_same = not self._plugins and not context.confirmed and len(hidden.context.history) == len(context.history)
        known = sources if is_same else sources_of(hidden.context, self._plugins, trusted=self._trusted)
        await self._ask([third], known, findings, self._unique)
        return self._passed(findings, "III", reason_for(findings))

    async def _subtask(self, context: Context, call: ToolCall, findings: list[Finding]) -> str:
        """ContributeTo: taken from the agent's plan of the turn, never made up by the guard."""
        plan = context.plan
        if not plan.strip() and self._plan_of:
            told = self._plan_of(context, call)
            plan = await told if inspect.isawaitable(told) else told
        question = Question(relation=Relation.CONTRIBUTE_TO, context=context, call=call)
        has_plan = True if plan.strip() else None
        findings.append(question.finding(has_plan, "rule", "the agent's plan" if has_plan else "the turn has no plan"))
        return plan

    async def _second(self, first: Question) -> tuple[list[Question], list[Question]]:
        """Stage II's questions: the evidence of each derivable value, and whether the call can address the subtask."""
        tool, call = first.tool, first.proposed
        derivable = await self._parameters.derivable(tool)
        generative = {p.name for p in tool.parameters} - derivable

        def ask(relation: Relation, parameter: str | None = None) -> Question:
            return Question(
                relation=relation, context=first.context, call=call, parameter=parameter, subtask=first.subtask
            )

        # an argument that the documentation does not know has to come from somewhere too
        names = [name for name in call.arguments if name not in generative]
        evidence = [ask(r, name) for name in names for r in (Relation.DERIVED_FROM, Relation.APPEAR_IN)]
        # without a derivable parameter the paper goes on to stage III
        return evidence, [ask(Relation.CAN_ADDRESS)] if derivable or names else []

    async def _ask(
        self,
        questions: Sequence[Question],
        sources: Sequence[Source],
        findings: list[Finding],
        chains: Mapping[Relation, Sequence[Decider]] | None = None,
    ) -> None:
        """Adds the findings. Raises _Rejected if one does not hold."""
        told = await decide_all(questions, sources, self._chains if chains is None else chains)
        findings += told
        if against := next((finding for finding in told if finding.holds is False), None):
            raise _Rejected("III" if questions[0].blind else _STAGES[against.relation], against)

    def _against(self, call: ToolCall, rejected: _Rejected) -> Verdict:
        finding = rejected.finding
        # a user's yes makes no tool
        level = _LEVELS[self._mode]
        if finding.relation is Relation.SPECIFIED_BY and level is Level.ASK:
            level = Level.BLOCK
        return Verdict(
            level=level,
            guard=NAME,
            relation=finding.relation,
            reason=f"{finding.relation}({finding.subject}) does not hold: {finding.reason or 'no reason given'}",
            evidence=shown([finding]),
            question=question_for(call, finding) if level is Level.ASK else None,
        )

    def _passed(self, findings: Sequence[Finding], stage: Stage, reason: str) -> Examination:
        verdict = Verdict(level=Level.ALLOW, guard=NAME, reason=reason, evidence=shown(findings))
        return self._examination(findings, stage, verdict)

    def _examination(self, findings: Iterable[Finding], stage: Stage, verdict: Verdict) -> Examination:
        staged = verdict.model_copy(update={"stage": stage})
        return Examination(findings=tuple(findings), stage=stage, verdict=staged)
