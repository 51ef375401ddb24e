"""When stage III needs no model: only where the look-ups left nothing to choose."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.guards import Context
from demur.envs.guards.provenance import provenance_guard
from demur.envs.guards.provenance.blind import blind
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.paper import paper_guard
from demur.envs.guards.provenance.relations import Examination, Finding, Origin, Relation
from demur.envs.guards.provenance.settled import OneCandidate
from demur.envs.guards.provenance.sources import Plugin, Source, sources_of
from demur.envs.trace import Level, Turn
from tests.envs.guards.provenance.scripted import ADDRESS, MAIL, PING, TOOLS, ScriptedModel, context, result
from tests.envs.helpers import call

BERG = {"name": "Ann Berg", "address": ADDRESS}
HOLM = {"name": "Ann Holm", "address": "ann.holm@nord.example"}
VISITS = json.dumps({"2023-11-25": 20.5, "2023-11-26": 25})


def found(*records: Any, **changes: Any) -> Turn:
    return result(json.dumps(records), **changes)


def decided(*history: Turn, plugins: list[Plugin] | None = None, **changes: Any) -> Finding:
    hidden = blind(context(history=history, **changes), MAIL, "").context
    question = Question(relation=Relation.CAN_ADDRESS, context=hidden, call=None)
    return asyncio.run(OneCandidate().decide(question, sources_of(hidden, plugins or [])))


def examine(model: ScriptedModel, known: Context, **options: Any) -> Examination:
    return asyncio.run(provenance_guard(model, **options).examine(known, MAIL))


def test_one_record_found_settles_which_is_meant_and_is_the_evidence() -> None:
    finding = decided(found(BERG))
    assert (finding.holds, finding.decided_by, finding.subject) == (True, "code", "interpretation")
    assert [span.text for span in finding.spans] == [f'Ann Berg", "address": "{ADDRESS}']


@pytest.mark.parametrize(
    "history",
    [
        [result(ADDRESS)],
        [found(ADDRESS)],
        [result(json.dumps(BERG))],
        [found(BERG), found(BERG)],  # looked up twice
        [found(), found(BERG)],  # the first search found nothing
        [found(BERG), result(VISITS, call("count"))],  # measurements are no records
        [found(BERG), result("Done: rang 2 bells.", call("ping"))],  # what a change said is no look-up
        [found({**BERG, "since": "2023-11-25", "until": "2023-11-26", "number": "00000012", "days": "30"})],
    ],
)
def test_what_adds_no_other_candidate_leaves_it_settled(history: list[Turn]) -> None:
    tools = {**TOOLS, "count": replace(TOOLS["find"], name="count"), "ping": PING}
    assert decided(*history, tools=tools).holds is True


@pytest.mark.parametrize(
    "history",
    [
        [],
        [found()],
        [result(VISITS)],
        [found(BERG, HOLM)],
        [found(BERG), found(HOLM)],
        [found(BERG, HOLM), found(BERG)],
        [result(f"Ann Berg {ADDRESS}")],
        [result("Ann Berg or Ann Holm")],
        [result("安娜和安妮都在名单上")],
        [result("ann,anna")],
        [found("Ann Berg or Ann Holm")],
        [found("Ann Berg", "Ann Holm")],
        [found({"people": ["Ann Berg", "Ann Holm"]})],
        [found({"office": "Oslo", "staff": [BERG, HOLM]})],
        [found({"of": ADDRESS, "for": "ann.holm@nord.example"})],
        [result(json.dumps([BERG, HOLM])[:-60])],  # cut off
        [found(BERG), result("no such person")],
        [found(BERG, executed=False)],
        [found({**BERG, "note": "x" * 30_000})],
        [result("[" * 5_000)],
        [result('{"number": ' + "9" * 5_000 + "}")],
    ],
)
def test_whatever_could_hold_another_candidate_is_left_to_the_model(history: list[Turn]) -> None:
    assert decided(*history).holds is None


def test_a_result_known_in_part_or_a_source_beside_the_calls_is_left_to_the_model() -> None:
    def memory(_: Context) -> list[Source]:
        return [Source(id="memory", origin=Origin.TRUSTED, text=json.dumps(HOLM))]

    assert decided(found(BERG), partial=frozenset({0})).holds is None
    assert decided(found(BERG), plugins=[memory]).holds is None


def test_a_tool_that_nobody_knows_is_no_look_up() -> None:
    assert decided(result(ADDRESS, call("unknown"))).holds is None


VALUES = st.text() | st.integers() | st.booleans() | st.none()
RECORDS = st.dictionaries(st.text(min_size=1), VALUES, min_size=1, max_size=4)


@given(st.lists(RECORDS, min_size=2, max_size=5, unique_by=lambda one: json.dumps(list(one.values()))))
def test_several_records_are_never_settled(records: list[dict[str, Any]]) -> None:
    assert decided(found(*records)).holds is None
    assert decided(*(found(record) for record in records)).holds is None


@given(st.text())
def test_any_text_is_settled_or_left_open_and_never_an_error(text: str) -> None:
    assert decided(result(text)).holds in (True, None)


# In the guard


def test_a_settled_call_is_asked_about_once() -> None:
    model = ScriptedModel()
    done = examine(model, context(history=(found(BERG),)))
    assert model.kinds == ["RelevantTo+CanAddress"]
    assert (done.verdict.level, done.stage, done.undecided) == (Level.ALLOW, "III", ())


def test_with_several_candidates_the_model_is_asked_again_blind() -> None:
    model = ScriptedModel("unique")
    query = "Write to Ann, Berg or Holm, on Monday."
    done = examine(model, context(query=query, history=(found(BERG), found(HOLM))))
    assert model.kinds == ["RelevantTo+CanAddress", "unique"]
    assert set(model.data("unique")) == {"request", "subtask", "sources", "tools"}
    assert "monday" not in json.dumps(model.data("unique"))
    assert (done.verdict.level, done.stage, done.verdict.question) == (Level.ASK, "III", "Which Ann?")


def test_a_settled_call_can_still_be_rejected_in_the_one_call() -> None:
    model = ScriptedModel("CanAddress")
    done = examine(model, context(history=(found(BERG),)))
    assert (model.kinds, done.verdict.level, done.stage) == (["RelevantTo+CanAddress"], Level.ASK, "II")


def test_a_request_that_leaves_open_what_it_speaks_of_is_not_settled_by_a_look_up() -> None:
    model = ScriptedModel()
    done = examine(model, context(query="Write to Ann about a specific person on Monday.", history=(found(BERG),)))
    assert (done.verdict.level, done.stage, done.verdict.relation) == (Level.ASK, "III", "CanAddress")
    assert model.kinds == ["RelevantTo+CanAddress"]  # code rejects before the second call


def test_a_model_that_fails_blocks_a_settled_call_too() -> None:
    model = ScriptedModel(replies={"RelevantTo+CanAddress": RuntimeError("no model")})
    done = examine(model, context(history=(found(BERG),)))
    assert (done.verdict.level, done.stage) == (Level.BLOCK, "error")


def test_without_a_model_stage_three_stays_open() -> None:
    done = asyncio.run(provenance_guard().examine(context(history=(found(BERG),)), MAIL))
    assert done.findings[-1].decided_by == "default"
    assert done.findings[-1].holds is None


def test_the_published_pipeline_asks_all_the_same() -> None:
    model = ScriptedModel()
    asyncio.run(paper_guard(model).examine(context(history=(found(BERG),)), MAIL))
    assert model.kinds == ["RelevantTo", "derivable", "DerivedFrom+AppearIn", "CanAddress", "unique"]
