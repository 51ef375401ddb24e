"""The published pipeline with a scripted model: which calls are made, in which order, and what each is told."""

import asyncio
import json
from typing import Any

import pytest

from demur.envs.guards import Context
from demur.envs.guards.provenance.models import Asker, PlanReader
from demur.envs.guards.provenance.paper import paper_guard
from demur.envs.guards.provenance.relations import Examination
from demur.envs.trace import Level, ToolCall
from tests.envs.guards.provenance.scripted import ADDRESS, MAIL, SEND, ScriptedModel, context, result
from tests.envs.helpers import call

ALL = ["RelevantTo", "derivable", "DerivedFrom+AppearIn", "CanAddress", "unique"]


def examine(
    model: ScriptedModel, proposed: ToolCall = MAIL, known: Context | None = None, **options: Any
) -> Examination:
    return asyncio.run(paper_guard(model, **options).examine(known or context(), proposed))


def test_a_call_that_passes_is_asked_about_in_the_order_of_the_stages() -> None:
    model = ScriptedModel()
    done = examine(model)
    assert model.kinds == ALL
    assert (done.verdict.level, done.stage) == (Level.ALLOW, "III")
    assert [f.decided_by for f in done.findings] == ["rule", "rule"] + ["model"] * 7
    assert done.verdict.evidence == ("query[9:12] Ann",)


@pytest.mark.parametrize(
    ("no", "calls", "stage", "relation"),
    [
        ("RelevantTo", 1, "I", "RelevantTo"),
        ("DerivedFrom", 3, "II", "DerivedFrom"),
        ("AppearIn", 3, "II", "AppearIn"),
        ("day", 3, "II", "DerivedFrom"),
        ("CanAddress", 4, "II", "CanAddress"),
        ("unique", 5, "III", "CanAddress"),
    ],
)
def test_the_first_relation_that_does_not_hold_rejects_and_nothing_else_is_asked(
    no: str, calls: int, stage: str, relation: str
) -> None:
    model = ScriptedModel(no)
    done = examine(model)
    assert model.kinds == ALL[:calls]
    assert done.verdict.level is Level.BLOCK
    assert (done.verdict.stage, done.verdict.relation) == (stage, relation)
    assert done.verdict.reason


def test_an_unknown_tool_is_rejected_and_a_read_only_one_passes_without_a_model() -> None:
    model = ScriptedModel()
    unknown, reading = examine(model, call("sned")), examine(model, call("find", name="anybody"))
    assert (unknown.verdict.level, unknown.stage, unknown.verdict.relation) == (Level.BLOCK, "I", "SpecifiedBy")
    assert (reading.verdict.level, reading.stage) == (Level.ALLOW, "filter")
    assert model.asked == []


def test_a_tool_without_derivable_parameters_goes_on_to_stage_three() -> None:
    model = ScriptedModel(replies={"derivable": {"parameters": []}})
    assert examine(model, call("ping")).verdict.level is Level.ALLOW
    assert model.kinds == ["RelevantTo", "derivable", "unique"]


def test_each_question_holds_the_arguments_of_its_relation_and_no_more() -> None:
    model = ScriptedModel()
    examine(model)
    assert {kind: set(data) for kind, _, data in model.asked} == {
        "RelevantTo": {"tool", "subtask", "questions"},
        "derivable": {"tool"},
        "DerivedFrom+AppearIn": {"call", "sources", "questions"},
        "CanAddress": {"tool", "subtask", "call", "questions"},
        "unique": {"request", "subtask", "sources", "tools"},
    }
    # the plan is the agent's own, and the documentation does not say what the annotations do
    assert model.data("RelevantTo")["subtask"] == context().plan
    assert model.data("derivable") == {"tool": SEND.schema()["function"]}
    asked = model.data("DerivedFrom+AppearIn")
    assert [(q["relation"], q["parameter"]) for q in asked["questions"]] == [
        ("DerivedFrom", "to"),
        ("AppearIn", "to"),
        ("DerivedFrom", "day"),
        ("AppearIn", "day"),
    ]
    assert [source["id"] for source in asked["sources"]] == ["query", "result:0"]
    for relation in ("RelevantTo", "CanAddress"):
        assert f"- {relation}:" in model.prompt(relation)
        assert "- DerivedFrom:" not in model.prompt(relation)


def test_stage_three_never_sees_the_proposed_call() -> None:
    # two people of one name: the plan, the check and an earlier try all tell which one the agent picked
    other = "ann.holm@nord.example"
    refused = result("Not carried out: no source for marbles", MAIL, executed=False)
    known = context(
        history=(result(f"Ann Berg {ADDRESS}\nAnn Holm {other}"), refused),
        check=f"mailing {ADDRESS} is fine",
        confirmed=(MAIL.model_copy(update={"arguments": {"to": ADDRESS}}),),
    )
    model = ScriptedModel()
    examine(model, known=known)
    said = json.dumps(model.data("unique"), ensure_ascii=False)
    assert model.data("unique")["subtask"] == "send the mail to […] now"
    assert said.count(ADDRESS) == said.count(other) == 1  # in the result of the look-up only
    assert "marbles" not in said and "is fine" not in said and "monday" not in said


def test_derivable_parameters_are_asked_once_a_tool_also_by_calls_checked_at_once() -> None:
    model = ScriptedModel()
    guard = paper_guard(model)

    async def check_many() -> None:
        await asyncio.gather(*(guard.check(context(), MAIL) for _ in range(3)))

    asyncio.run(check_many())
    asyncio.run(check_many())
    assert model.kinds.count("derivable") == 1
    assert model.kinds.count("CanAddress") == 6
    assert guard.pop_calls() == len(model.asked) == 25
    assert guard.pop_calls() == 0


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("reply", [RuntimeError("no model"), "no JSON", '{"answers": []}', "{}"])
def test_a_model_that_fails_or_cannot_be_read_blocks_in_every_mode(kind: str, reply: Any) -> None:
    for mode in ("block", "ask", "record"):
        model = ScriptedModel(replies={kind: reply})
        done = examine(model, mode=mode)
        assert (done.verdict.level, done.stage) == (Level.BLOCK, "error")
        assert model.kinds == ALL[: ALL.index(kind) + 1]


def test_answers_that_are_missing_or_about_unknown_parameters_block() -> None:
    one = {"answers": [{"number": 0, "evidence": [], "reason": "", "holds": True}]}
    for replies in ({"DerivedFrom+AppearIn": one}, {"derivable": {"parameters": ["colour"]}}):
        done = examine(ScriptedModel(replies=replies))
        assert (done.verdict.level, done.stage) == (Level.BLOCK, "error")
        assert "cannot be read" in done.verdict.reason


def test_a_failed_listing_is_asked_again_for_the_next_call() -> None:
    model = ScriptedModel(replies={"derivable": "no JSON"})
    guard = paper_guard(model)
    assert asyncio.run(guard.check(context(), MAIL)).level is Level.BLOCK
    model.replies.clear()
    assert asyncio.run(guard.check(context(), MAIL)).level is Level.ALLOW


def test_a_model_that_does_not_answer_in_time_blocks() -> None:
    async def never(_: object) -> str:
        await asyncio.sleep(60)
        return ""

    guard = paper_guard(ScriptedModel(replies={"RelevantTo": never}))
    guard._timeout = 0.01
    done = asyncio.run(guard.examine(context(), MAIL))
    assert (done.verdict.level, done.stage) == (Level.BLOCK, "error")
    assert "TimeoutError" in done.verdict.reason


def test_without_a_plan_the_call_is_blocked_unless_one_is_read_from_the_trace() -> None:
    model = ScriptedModel()
    blocked = examine(model, known=context(plan=" "))
    assert (blocked.verdict.level, blocked.stage, model.asked) == (Level.BLOCK, "error", [])
    assert "plan_of" in blocked.verdict.reason
    assert examine(model, known=context(plan=""), plan_of=PlanReader(Asker(model))).verdict.level is Level.ALLOW
    assert model.kinds == ["plan", *ALL]
    assert model.data("RelevantTo")["subtask"] == "write to Ann"
    assert set(model.data("plan")) == {"request", "tool", "call", "sources"}


def test_a_confirmed_call_passes_without_a_model() -> None:
    model = ScriptedModel()
    done = examine(model, known=context(confirmed=[MAIL]))
    assert (done.verdict.level, done.stage, model.asked) == (Level.ALLOW, "filter", [])


def test_words_that_a_model_quotes_from_nowhere_are_kept_without_a_place() -> None:
    quote = {"source": "result:0", "text": "not there"}
    answers = [{"number": n, "evidence": [quote], "reason": "", "holds": True} for n in range(4)]
    done = examine(ScriptedModel(replies={"DerivedFrom+AppearIn": {"answers": answers}}))
    assert done.verdict.level is Level.ALLOW  # the paper believes the model
    assert done.verdict.evidence == ("result:0[-1:-1] not there",)
