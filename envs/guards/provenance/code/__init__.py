"""Relations decided by code. What a decider cannot tell it leaves to the rest of the chain."""

from __future__ import annotations

from collections.abc import Mapping

from demur.envs.guards.provenance.code.candidates import Addresses, OneReading
from demur.envs.guards.provenance.code.derived import TracedAppears, TracedDerived, Tracers
from demur.envs.guards.provenance.code.relevance import VerbRelevance
from demur.envs.guards.provenance.deciders import Decider
from demur.envs.guards.provenance.relations import Relation


def code_deciders() -> Mapping[Relation, Decider]:
    """The decider of each relation."""
    tracers = Tracers()
    return {
        Relation.RELEVANT_TO: VerbRelevance(tracers),
        Relation.DERIVED_FROM: TracedDerived(tracers),
        Relation.APPEAR_IN: TracedAppears(tracers),
        Relation.CAN_ADDRESS: Addresses(tracers),
    }


def unique_deciders() -> tuple[Decider, ...]:
    """What code can tell of stage III, whose question does not hold the proposed call."""
    return (OneReading(),)
