"""Why a run went wrong: the questions to ask of an intent and its actions, in the order that finds it soonest.

    for finding in diagnose(registry.get(intent_id), registry.actions(intent_id)):
        print(finding.question, "fine" if finding.fine else "look here", *finding.lines, sep="\\n  ")

The order: how was the intent read, did warnings pile up, did the agent give reasons, is the goal reached, did
anything write past the guard; and which action was the first off the contract.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from demur.envs.intent.checks import ASK_BELOW, Checker, PastCall
from demur.envs.intent.contract import IntentContract
from demur.envs.intent.registry.intent import ActionRecord, Intent
from demur.envs.tool import EffectClass, Tool
from demur.envs.trace import Level

DENSE_SHARE: Final = 0.3
DENSE_RUN: Final = 3
"""Warnings are dense from this share of the checked actions on, or this many one after another."""


class Finding(NamedTuple):
    """One question and its answer. fine: nothing to look into."""

    question: str
    fine: bool
    lines: tuple[str, ...]


def diagnose(intent: Intent, actions: Sequence[ActionRecord]) -> list[Finding]:
    """One finding a question. What depends on the environment's state is not known here, and counts as unmet."""
    return [
        _contract(intent),
        _warnings(actions),
        _reasoning(actions),
        _acceptance(intent, actions),
        _unguarded(actions),
        _drift(actions),
    ]


def spelled(action: ActionRecord) -> str:
    """One line about an action: its number, the call, what was said of it and what came of it."""
    arguments = ", ".join(f"{name}={value!r}" for name, value in action.arguments.items())
    verdict = action.verdict
    if verdict is None:
        said = "never decided"
    else:
        said = " ".join(part for part in (verdict.level, verdict.stage, verdict.relation) if part)
    came = {None: "not reported", True: "ran", False: "ran and failed"}[action.ok]
    marks = [] if action.guarded else ["checked only afterwards"]
    marks += [f"by {action.approver}"] if action.approver else []
    return f"#{action.number} {action.tool}({arguments}): {'; '.join([said, came, *marks])}"


def contract_lines(contract: IntentContract) -> Iterator[str]:
    """A contract in a line a rule."""
    yield f"goal: {contract.goal}"
    if contract.source_text not in ("", contract.goal):
        yield f"from: {contract.source_text}"
    for metric in contract.metrics:
        yield f"metric: {', '.join(part for part in (metric.name, metric.period, metric.scope) if part)}"
    for pattern in contract.allowed:
        yield f"allowed: {pattern}{f', at most {pattern.at_most} times' if pattern.at_most else ''}"
    for name, globs in contract.scope.items():
        yield f"scope: {name} like {' or '.join(globs)}"
    for constraint in contract.constraints:
        rule = f"{constraint.level} {constraint.forbid}" if constraint.forbid else "for the judge"
        yield f"constraint {constraint.id}: {constraint.text} ({rule})"
    for needed in contract.approval:
        yield f"approval: {needed}"
    for precondition in contract.order:
        yield f"order {precondition.id}: {precondition.first} before {precondition.before}"
    for criterion in contract.acceptance:
        yield f"done when {criterion.id}: {criterion.text}{'' if criterion.by_rule else ' (for the judge)'}"
    yield f"confidence: {contract.confidence:.2f}"


def _contract(intent: Intent) -> Finding:
    contract, doubts = intent.contract, []
    if not contract.allowed:
        doubts.append("! no tool is allowed, so every call is blocked")
    if not contract.acceptance:
        doubts.append("! nothing says when it is done, so it is never completed")
    doubts += [f"! only a judge can tell: {c.text}" for c in contract.acceptance if not c.by_rule]
    doubts += [f"! no rule expresses the constraint: {constraint.text}" for constraint in contract.for_judge]
    if contract.confidence < ASK_BELOW:
        doubts.append(f"! the reading is unsure ({contract.confidence:.2f} < {ASK_BELOW})")
    return Finding("Was the intent read as it was meant?", not doubts, (*contract_lines(contract), *doubts))


def _warnings(actions: Sequence[ActionRecord]) -> Finding:
    levels = [action.verdict.level for action in actions if action.guarded and action.verdict is not None]
    counts = Counter(levels)
    said = ", ".join(f"{counts[level]} {level}" for level in Level if counts[level]) or "no action was checked"
    longest = max((len(list(run)) for level, run in groupby(levels) if level is Level.WARN), default=0)
    dense = longest >= DENSE_RUN or (bool(levels) and counts[Level.WARN] / len(levels) >= DENSE_SHARE)
    lines = [said] if not dense else [said, f"! warnings are dense: {counts[Level.WARN]} of {len(levels)} actions"]
    return Finding("Did warnings pile up?", not dense, tuple(lines))


def _reasoning(actions: Sequence[ActionRecord]) -> Finding:
    silent = [a for a in actions if not a.plan.strip() and not (a.check or "").strip()]
    share = f"{len(silent)} of {len(actions)} actions came without a plan or a check"
    return Finding("Did the agent give its reasons?", not silent, (share, *(f"! {spelled(a)}" for a in silent)))


def _acceptance(intent: Intent, actions: Sequence[ActionRecord]) -> Finding:
    # what kind of change a tool makes was recorded with each action
    tools = {a.tool: Tool(name=a.tool, description="", changes=_writes(a), kind=a.effect) for a in actions}
    done = [PastCall(action.call, bool(action.ok), action.result) for action in actions if action.ran]
    unmet = Checker(intent.contract, tools).unmet(done)
    met = sum(criterion.by_rule for criterion in intent.contract.acceptance) - len(unmet)
    lines = [f"{met} of {len(intent.contract.acceptance)} criteria are met by what ran; the status is {intent.status}"]
    lines += [f"! open: {c.text} ({c.id}){', which needs the state' if c.state else ''}" for c in unmet]
    return Finding("Is the goal reached?", not unmet, tuple(lines))


def _unguarded(actions: Sequence[ActionRecord]) -> Finding:
    past = [a for a in actions if a.ran and (not a.guarded or a.verdict is None or not a.verdict.level.lets_run)]
    bad = any(map(_writes, past))
    lines = [f"{'! ' if _writes(a) else ''}{spelled(a)}" for a in past] or ["everything that ran had been let through"]
    return Finding("Did anything write past the guard?", not bad, tuple(lines))


def _drift(actions: Sequence[ActionRecord]) -> Finding:
    first = next((i for i, action in enumerate(actions) if _off(action)), None)
    if first is None:
        return Finding("Where did it leave the contract?", True, ("nowhere",))
    action = actions[first]
    lines = [f"! action {first + 1} of {len(actions)}: {spelled(action)}"]
    lines += [f"its plan: {action.plan}"] if action.plan else []
    lines += [f"why it is off: {action.verdict.reason}"] if action.verdict and action.verdict.reason else []
    return Finding("Where did it leave the contract?", False, tuple(lines))


def _off(action: ActionRecord) -> bool:
    """Off the contract: warned of or blocked, by something else than the intent's status."""
    verdict = action.verdict
    return verdict is not None and verdict.level in (Level.WARN, Level.BLOCK) and verdict.stage != "status"


def _writes(action: ActionRecord) -> bool:
    return action.effect is not EffectClass.READ
