"""The contract that a scripted task carries as its ground truth: what its expert does, and nothing beyond."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from demur.envs.intent.contract import CallPattern, Criterion, Equals, IntentContract, Matches, Precondition
from demur.envs.tool import Tool, ToolError
from demur.envs.trace import ToolCall
from demur.envs.world import World, effects

if TYPE_CHECKING:
    from demur.envs.task import Script


def contract_of(query: str, world: World, expert: Script) -> IntentContract:
    """Least privilege for a task: reading is free, changing is allowed only as the expert does it.

    The values of derivable parameters are pinned, free text is not. Each change may be made as often as the
    expert makes it, is a criterion of acceptance, and waits for an earlier one if the other order would not do.
    """
    tools = world.tools()
    reading = [CallPattern(tool=tool.name) for tool in tools.values() if not tool.changes]
    calls = [step.call for step in expert if step.call is not None and not step.fails]
    changing = [(call, _pinned(call, tools[call.name])) for call in calls if _changes(tools.get(call.name))]
    counted: dict[CallPattern, int] = {}
    for _, pattern in changing:
        counted[pattern] = counted.get(pattern, 0) + 1
    return IntentContract(
        goal=query,
        source_text=query,
        allowed=(*reading, *(pattern.model_copy(update={"at_most": n}) for pattern, n in counted.items())),
        acceptance=tuple(
            Criterion(id=f"change-{i}", text=f"{pattern} is carried out", done_when=pattern, times=n)
            for i, (pattern, n) in enumerate(counted.items(), 1)
        ),
        order=tuple(_order(world, calls, changing)),
    )


def _changes(tool: Tool | None) -> bool:
    return tool is not None and tool.changes


def _pinned(call: ToolCall, tool: Tool) -> CallPattern:
    given = tuple(Equals(argument=k, value=v) for k, v in call.arguments.items() if k in tool.derivable)
    # what the expert leaves out stays out, or empty: an option may say whom else it reaches
    left_out = sorted(tool.derivable - call.arguments.keys())
    unused = tuple(Matches(argument=name, pattern=".+", negated=True) for name in left_out)
    return CallPattern(tool=call.name, where=(*given, *unused))


def _order(
    world: World, calls: Sequence[ToolCall], changing: Sequence[tuple[ToolCall, CallPattern]]
) -> Iterator[Precondition]:
    """A change that comes before another one must do so if swapping the two fails or ends in another state."""
    for at, ((first, first_pattern), (second, second_pattern)) in enumerate(pairwise(changing), 1):
        if first_pattern != second_pattern and not _may_swap(world, calls, first, second):
            yield Precondition(id=f"order-{at}", before=second_pattern, first=first_pattern)


def _may_swap(world: World, calls: Sequence[ToolCall], first: ToolCall, second: ToolCall) -> bool:
    swapped = [{id(first): second, id(second): first}.get(id(call), call) for call in calls]
    try:
        return effects(world, _played(world, calls)) == effects(world, _played(world, swapped))
    except ToolError:
        return False


def _played(world: World, calls: Sequence[ToolCall]) -> World:
    """The state after those of the calls that change something: what is read in another order matters to nobody."""
    state = world.copy_state()
    state.busy = ()  # the first try of a busy tool fails, and the scripts' failing tries are left out
    for call in calls:
        if _changes(state.tools().get(call.name)):
            state.run(call)
    return state
