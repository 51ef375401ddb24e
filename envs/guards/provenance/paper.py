"""The pipeline of ProvenanceGuard (arXiv 2607.01236) as published: each relation is asked of a language model.

    guard = paper_guard(Endpoint("my-model", base_url="http://127.0.0.1:8000/v1"))

A checked action costs: RelevantTo · the derivable parameters, once a tool · their evidence · CanAddress · the blind
question. Code decides only SpecifiedBy and the filter of calls that change nothing.
"""

from __future__ import annotations

from typing import Any

from demur.envs.guards.provenance.guard import Mode, PlanOf, ProvenanceGuard
from demur.envs.guards.provenance.models import Asker, Model, ModelDecider, ModelParameters, ModelUnique
from demur.envs.guards.provenance.parameters import Once
from demur.envs.guards.provenance.relations import Relation


def paper_guard(
    model: Model, mode: Mode = "block", *, plan_of: PlanOf | None = None, **options: Any
) -> ProvenanceGuard:
    """The paper's guard. A turn without a plan is blocked unless `plan_of` gives one; options go to the model."""
    asker = Asker(model, **options)
    chain = (ModelDecider(asker, signature_only=True),)
    asked = (Relation.RELEVANT_TO, Relation.DERIVED_FROM, Relation.APPEAR_IN, Relation.CAN_ADDRESS)
    return ProvenanceGuard(
        dict.fromkeys(asked, chain),
        (ModelUnique(asker),),
        Once(ModelParameters(asker)),
        mode=mode,
        together=False,
        plan_of=plan_of,
        model=asker,
    )
