"""A language model as the judge of the goal boundary, for calls that change something and that no rule decides.

    guard = ContractGuard(judge=BoundaryJudgeLLM("my-model", base_url="http://127.0.0.1:8000/v1"))

It sees the contract, the call and the reasoning before it, never a result of a tool. If it can not be asked, the call
is blocked.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from demur.envs.endpoint import EndpointError
from demur.envs.guards import Context
from demur.envs.intent.checks import NAME
from demur.envs.intent.contract import IntentContract
from demur.envs.intent.extraction.endpoint_json import JsonEndpoint
from demur.envs.trace import Level, Record, ToolCall, Verdict

PROMPT = Path(__file__).parent / "prompts" / "boundary.txt"
STAGE = "boundary"


class Opinion(Record):
    """What the judge replies. constraint: the id of the one that the call breaks."""

    serves_goal: Literal["yes", "no", "unsure"]
    constraint: str | None
    reason: str


class BoundaryJudgeLLM:
    """A `BoundaryJudge` behind an OpenAI-compatible endpoint. `options` are those of `JsonEndpoint`.

    yes allows, no blocks, a broken constraint gets that constraint's level, and unsure asks the user, or warns if the
    user has already agreed to this very call.
    """

    def __init__(self, model: str, *, base_url: str, **options: Any) -> None:
        self._endpoint = JsonEndpoint(model, base_url=base_url, **options)
        self._prompt = PROMPT.read_text(encoding="utf-8")

    async def __call__(self, contract: IntentContract, context: Context, call: ToolCall) -> Verdict:
        tool = context.tools.get(call.name)
        if tool is not None and not tool.changes:
            return Verdict(level=Level.ALLOW, guard=NAME, stage=STAGE, reason="it changes nothing")
        try:
            opinion = await self._endpoint.ask(
                self._prompt, _told(contract, context, call), Opinion, lambda text: _read(text, contract)
            )
        except EndpointError as error:
            reason = f"the judge of the goal boundary failed: {error}"
            return Verdict(level=Level.BLOCK, guard=NAME, stage=STAGE, reason=reason)
        return _verdict(opinion, contract, call, confirmed=call in context.confirmed)


def _told(contract: IntentContract, context: Context, call: ToolCall) -> dict[str, Any]:
    tool = context.tools.get(call.name)
    return {
        "intent": {
            "goal": contract.goal,
            "request": contract.source_text,
            "done_when": [criterion.text for criterion in contract.acceptance],
            "must_not": [{"id": one.id, "text": one.text} for one in contract.constraints],
        },
        "call": {"tool": call.name, "arguments": call.arguments, "for": tool.description if tool else "unknown"},
        "reasoning": context.plan,
    }


def _read(text: str, contract: IntentContract) -> Opinion:
    try:
        opinion = Opinion.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    known = [one.id for one in contract.constraints]
    if opinion.constraint is not None and opinion.constraint not in known:
        raise ValueError(f"there is no constraint {opinion.constraint!r}; name one of {', '.join(known) or 'none'}")
    return opinion


def _verdict(opinion: Opinion, contract: IntentContract, call: ToolCall, *, confirmed: bool) -> Verdict:
    broken = next((one for one in contract.constraints if one.id == opinion.constraint), None)
    level = {"yes": Level.ALLOW, "no": Level.BLOCK, "unsure": Level.ASK}[opinion.serves_goal]
    if broken is not None and broken.level.severity > level.severity:
        level = broken.level
    if level is Level.ASK and confirmed:
        level = Level.WARN
    question = f"Shall I go on with {call.name}? {opinion.reason}" if level is Level.ASK else None
    return Verdict(
        level=level, guard=NAME, stage=STAGE, relation=opinion.constraint, reason=opinion.reason, question=question
    )
