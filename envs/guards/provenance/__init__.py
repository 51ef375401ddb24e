"""The provenance guard: where does a proposed call come from?

    guard = provenance_guard()                                   # code only
    guard = provenance_guard(Endpoint("my-model", base_url=URL))  # a model where code cannot tell
    run_lockstep(episodes, policy, guard)

Stages and relations stand in `guard` and `relations`, the published pipeline in `paper`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from demur.envs.guards.provenance.code import code_deciders, unique_deciders
from demur.envs.guards.provenance.deciders import Decider, Default, OnlyAgainst
from demur.envs.guards.provenance.guard import Mode, PlanOf, ProvenanceGuard
from demur.envs.guards.provenance.models import Asker, Model, ModelDecider, ModelParameters, ModelUnique
from demur.envs.guards.provenance.parameters import FromAnnotations, FromNames
from demur.envs.guards.provenance.relations import Relation
from demur.envs.guards.provenance.settled import OneCandidate
from demur.envs.guards.provenance.sources import Plugin

__all__ = ["ProvenanceGuard", "provenance_guard"]

_DEFAULTS: Final = {
    Relation.RELEVANT_TO: Default(None),
    Relation.DERIVED_FROM: Default(False),
    Relation.APPEAR_IN: Default(False),
    Relation.CAN_ADDRESS: Default(None),
}
"""What counts where nothing could decide: a value without a source stops the call; the rest passes and is reported."""


def provenance_guard(
    model: Model | None = None,
    mode: Mode = "ask",
    *,
    plan_of: PlanOf | None = None,
    plugins: Sequence[Plugin] = (),
    trusted: Collection[str] = (),
    timeout: float = 60.0,
    **options: Any,
) -> ProvenanceGuard:
    """The shipped configuration: code first, then the model if there is one, then the stated default.

    Without a model the verdict's reason names the relations that could not be decided. With one a check costs at most
    two calls: none if code rejects in stage I or II; one for what it leaves open there; and a blind one for stage
    III, unless the look-ups left a single candidate. A tool without annotations costs one more, once. What code
    rejects the model cannot overrule. The other parameters are those of `ProvenanceGuard`; options, such as
    `temperature`, go to the model.
    """
    asker = None if model is None else Asker(model, **options)
    by_code = dict(code_deciders())
    if asker is not None:
        # code looks at the record that a call is about, and not at the rest of it, such as an amount
        by_code[Relation.CAN_ADDRESS] = OnlyAgainst(by_code[Relation.CAN_ADDRESS])
    by_model = () if asker is None else (ModelDecider(asker),)
    unique = unique_deciders() if asker is None else (*unique_deciders(), OneCandidate(), ModelUnique(asker))

    def chain(relation: Relation) -> tuple[Decider, ...]:
        first = (by_code[relation],) if relation in by_code else ()
        return (*first, *by_model, _DEFAULTS[relation])

    return ProvenanceGuard(
        {relation: chain(relation) for relation in _DEFAULTS},
        (*unique, Default(None)),
        FromAnnotations(FromNames() if asker is None else ModelParameters(asker)),
        mode=mode,
        plan_of=plan_of,
        plugins=plugins,
        trusted=trusted,
        timeout=timeout,
        model=asker,
    )
