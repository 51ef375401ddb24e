"""The trajectories that the report's browser shows, as data for its script.

All texts in it were written by models, tools or users. They travel as JSON in which no character can end
the element that holds it, and the script puts them on the page as text only.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

from markupsafe import Markup

from demur.envs.protocol import OBSERVATION_MARKUP
from demur.envs.trace import ActionKind, Label, Trajectory, Turn, Verdict
from demur.eval.results import change, result_of

LONGEST_TEXT = 4000
ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


class Pair(NamedTuple):
    """Two trajectories on the same task."""

    before: Trajectory
    after: Trajectory


def pairs_of(before: Sequence[Trajectory], after: Sequence[Trajectory]) -> list[Pair]:
    """The first trajectories of each task that both sides have, in the order of `before`."""
    first = {t.task_id: t for t in reversed(before)}
    second = {t.task_id: t for t in reversed(after)}
    tasks = dict.fromkeys(t.task_id for t in before)
    return [Pair(first[task], second[task]) for task in tasks if task in second]


def choose(pairs: Sequence[Pair], most: int) -> list[Pair]:
    """At most `most` pairs, as many of each label and world as there are, sorted by label.

    The choice goes by a hash of the task's id, so that it depends neither on results nor on order.
    """
    strata: dict[tuple[Label, str], list[Pair]] = defaultdict(list)
    for pair in sorted(pairs, key=lambda pair: hashlib.sha256(pair.before.task_id.encode()).digest()):
        strata[pair.before.label, pair.before.world].append(pair)
    in_turn = chain.from_iterable(zip_longest(*(strata[key] for key in sorted(strata))))
    chosen = [pair for pair in in_turn if pair is not None][:most]
    order = [Label.HARMFUL, Label.BENIGN, Label.INJECTED, Label.UNDERSPECIFIED]
    return sorted(chosen, key=lambda pair: order.index(pair.before.label))


def script_json(value: Any) -> Markup:
    """JSON that can stand inside a <script> element, whatever texts it holds."""
    return Markup(json.dumps(value, separators=(",", ":"), allow_nan=False).translate(ESCAPES))


def browser_data(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """What the script needs of each pair."""
    return [
        {
            "id": pair.before.task_id,
            "label": pair.before.label,
            "world": pair.before.world,
            "family": pair.before.family,
            "query": _clip(pair.before.query),
            "change": change(result_of(pair.before), result_of(pair.after)),
            "before": _side(pair.before),
            "after": _side(pair.after),
        }
        for pair in pairs
    ]


def _side(t: Trajectory) -> dict[str, Any]:
    text, tone = result_of(t)
    return {
        "result": text,
        "tone": tone,
        "ending": t.ending.replace("_", " "),
        "error": _clip(t.error or ""),
        "tokens": sum(turn.tokens.total for turn in t.turns),
        "limit": t.turn_limit,
        "facts": _facts(t),
        "turns": [_turn(turn) for turn in t.turns],
    }


def _facts(t: Trajectory) -> list[list[str]]:
    """[tone, text] pairs: what the world's checks found."""
    o = t.outcome
    facts = [["bad", f"harm: {harm}"] for harm in o.harms]
    facts += [["bad", f"damage: {damage}"] for damage in o.damage]
    facts += [["bad", f"leaked: {leak}"] for leak in o.leaks]
    if o.attack > 0:
        facts.append(["bad", f"attack reached: {o.attack:.0%}"])
    if t.label is not Label.HARMFUL:
        facts.append(["good" if o.goal >= 1 else "neutral", f"goal reached: {o.goal:.0%}"])
    if o.asked_needed:
        facts.append(["good", "asked for what was missing"])
    if o.asked_needless:
        facts.append(["bad" if t.label is Label.BENIGN else "neutral", f"needless questions: {o.asked_needless}"])
    facts.append(["neutral", "changed the environment" if o.changed else "changed nothing"])
    return [[tone, _clip(text)] for tone, text in facts]


def _turn(turn: Turn) -> dict[str, Any]:
    action, call = turn.action, turn.action.call
    return {
        "plan": _clip(turn.plan),
        "check": None if turn.check is None else _clip(turn.check),
        "kind": action.kind,
        "tool": call.name if call and action.kind is ActionKind.CALL else "",
        "arguments": [[k, _clip(json.dumps(v, ensure_ascii=False))] for k, v in call.arguments.items()]
        if call and action.kind is ActionKind.CALL
        else [],
        "text": _clip(action.text),
        "fault": action.fault or "",
        "ran": turn.executed,
        "result": None if turn.observation is None else _clip(_unwrapped(turn.observation)),
        "asked": action.kind is ActionKind.ASK,
        "verdicts": [_verdict(verdict) for verdict in turn.verdicts],
        "tokens": turn.tokens.total,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "level": verdict.level.replace("_", " "),
        "guard": verdict.guard,
        "where": " · ".join(part for part in (verdict.stage, verdict.relation) if part),
        "reason": _clip(verdict.reason),
        "evidence": [_clip(item) for item in verdict.evidence],
        "lets_run": verdict.level.lets_run,
    }


def _unwrapped(observation: str) -> str:
    opening, closing = OBSERVATION_MARKUP
    return observation.removeprefix(opening).removesuffix(closing)


def _clip(text: str) -> str:
    if len(text) <= LONGEST_TEXT:
        return text
    return f"{text[:LONGEST_TEXT]} … ({len(text) - LONGEST_TEXT} more characters in trajectories.jsonl)"
