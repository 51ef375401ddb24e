"""What the tests of approving share: an agent that proposes a call, and texts that attack who looks at them."""

from __future__ import annotations

import asyncio
from typing import Final

from demur.envs.guards import Context, checked
from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approvals import Approval
from demur.envs.intent.registry.intent import Intent
from demur.envs.intent.registry.session import IntentGuard
from demur.envs.tool import EffectClass, Tool
from demur.envs.trace import ToolCall, Verdict

TOOLS: Final = {
    "look": Tool(name="look", description="Look."),
    "drop": Tool(name="drop", description="Drop it.", changes=True, reversible=False, kind=EffectClass.DELETE),
}
EVIL: Final = (
    "<script>window.pwned=1</script>\"><img src=x onerror='window.pwned=1'> [red]x[/red] \x1b[2J\u202e {{ 'xy'*3 }}"
)
EVIL_SHOWN: Final = EVIL.replace("\x1b", "\\u001b").replace("\u202e", "\\u202e")
EVIL_AS_JSON: Final = '"' + EVIL_SHOWN.replace('"', '\\"') + '"'


def check(guard: IntentGuard, call: ToolCall, plan: str = "", second: str | None = None) -> Verdict:
    """What the guard says of a call. second: the agent's safety check."""
    return asyncio.run(checked(guard, Context(query="q", tools=TOOLS, plan=plan, check=second), call))


def propose(registry: Registry, intent: Intent, call: ToolCall, plan: str = "", second: str | None = None) -> Approval:
    """The approval that an agent's call has to wait for."""
    check(IntentGuard(registry, intent.intent_id, TOOLS), call, plan, second)
    (approval,) = registry.approvals.pending(intent.intent_id)
    return approval
