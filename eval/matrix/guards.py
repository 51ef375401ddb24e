"""The guards of the matrix, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from demur.envs.guards import Context, Guard, compose
from demur.envs.guards.provenance import provenance_guard
from demur.envs.intent.decoys import decoys_for
from demur.envs.intent.guard import ContractGuard
from demur.envs.tool import Tool
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL
from demur.envs.worlds import load_domain
from demur.eval.matrix.options import Options


def make_guard(name: str, options: Options) -> Guard | None:
    """None for `none`. `both` is the contract and the provenance guard, of which the stricter verdict counts.

    Raises ValueError for a name that is none, and for a model of the monitor that cannot be loaded.
    """
    if name == "none":
        return None
    if name == "contract":
        return ContractGuard()
    if name == "provenance":
        return provenance_guard()
    if name == "both":
        return compose(ContractGuard(), provenance_guard())
    if name == "monitor":
        return _monitor(options)
    raise ValueError(f"there is no guard {name!r}")


def _monitor(options: Options) -> Guard:
    """Reads with the held-out intent tools: those that no policy is trained against by default."""
    from demur.envs.intent.scoring.local import LocalScorer
    from demur.envs.policies.loading import load_model, load_tokenizer
    from demur.eval.monitor import MonitorGuard

    model = options.monitor_model
    assert model is not None, "the options were checked"
    scorer = LocalScorer(load_model(model), load_tokenizer(model), name=Path(model).name)
    tools = {name: frozenset(load_domain(name).world.tools()) for name in options.worlds}

    def decoys_of(context: Context) -> Sequence[Tool]:
        offered = context.tools.keys() - {ASK_TOOL, REFUSE_TOOL}
        world = next((name for name, known in tools.items() if offered <= known), None)
        if world is None:
            raise ValueError("no world has all the tools of this context")
        return decoys_for(world, "held_out")

    return MonitorGuard(scorer, decoys_of, mode=options.monitor_mode, options=options.prompting)
