"""The checks before a call: their order, what they name, and that doubt counts against the call."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.intent.checks import Checker, PastCall, confidence_now
from demur.envs.intent.contract import (
    Between,
    CallPattern,
    Compared,
    Constraint,
    Criterion,
    Equals,
    IntentContract,
    Like,
    Matches,
    OneOf,
    Precondition,
    Predicate,
)
from demur.envs.tool import EffectClass, Tool
from demur.envs.trace import Level, ToolCall, Verdict
from tests.envs.helpers import call

TOOLS = {
    name: Tool(name=name, description="d", changes=kind is not EffectClass.READ, kind=kind)
    for name, kind in {
        "look": EffectClass.READ,
        "pay": EffectClass.PAY,
        "drop": EffectClass.DELETE,
        "note": EffectClass.TEMPORARY_WRITE,
    }.items()
}
ANY = (CallPattern(),)
PAID = Criterion(id="paid", text="it is paid", done_when=CallPattern(tool="pay"))


def checked(contract: dict[str, Any], proposed: ToolCall, *past: PastCall, **options: Any) -> Verdict:
    return Checker(IntentContract(goal="g", **contract), TOOLS).check(proposed, past, **options)


def decided(predicate: Predicate, arguments: dict[str, Any], state: dict[str, Any] | None = None) -> tuple[bool, bool]:
    """Whether the call is let run where the predicate allows it, and where it forbids it."""
    pattern = CallPattern(tool="look", where=(predicate,))
    proposed = ToolCall(name="look", arguments=arguments)
    allowed = checked({"allowed": (pattern,)}, proposed, state=state)
    forbidden = {"allowed": ANY, "constraints": (Constraint(id="c", text="no", forbid=pattern),)}
    return allowed.level.lets_run, checked(forbidden, proposed, state=state).level.lets_run


# Predicates: (argument, state) -> fulfilled; None where it cannot be told
CASES: list[tuple[Predicate, Any, bool | None]] = [
    (Equals(argument="a", value=1), 1, True),
    (Equals(argument="a", value=1), "1", False),
    (Equals(argument="a", value=1), True, False),
    (Equals(argument="a", value=1, negated=True), 2, True),
    (OneOf(argument="a", values=("x", "y")), "y", True),
    (OneOf(argument="a", values=("x", "y")), "z", False),
    (Between(argument="a", minimum=1, maximum=2), 2, True),
    (Between(argument="a", minimum=1, maximum=2), 2.1, False),
    (Between(argument="a", minimum=1, maximum=2), "2", None),
    (Between(argument="a", minimum=1), float("nan"), None),
    (Between(argument="a", maximum=1), True, None),
    (Matches(argument="a", pattern="[a-z]+"), "abc", True),
    (Matches(argument="a", pattern="[a-z]+"), "abc1", False),
    (Matches(argument="a", pattern="[a-z]+"), 3, None),
    (Like(argument="a", pattern="r/*.csv"), "r/x.csv", True),
    (Like(argument="a", pattern="r/*.csv"), "R/x.csv", False),
    (Compared(argument="a", relation="<=", other="argument:b.c"), 4, True),
    (Compared(argument="a", relation="<=", other="argument:b.c"), 6, False),
    (Compared(argument="a", relation="<=", other="state:limits.day"), 7, True),
    (Compared(argument="a", relation="<=", other="state:limits.day"), 8, False),
    (Compared(argument="a", relation="<", other="state:limits.week"), 1, None),
    (Compared(argument="a", relation="<", other="state:limits.day"), "1", None),
]


@pytest.mark.parametrize(("predicate", "value", "fulfilled"), CASES, ids=str)
def test_what_cannot_be_told_counts_against_the_call(predicate: Predicate, value: Any, fulfilled: bool | None) -> None:
    arguments = {"a": value, "b": {"c": 5}}
    runs = decided(predicate, arguments, {"limits": {"day": 7}})
    assert runs == {True: (True, False), False: (False, True), None: (False, False)}[fulfilled]


@pytest.mark.parametrize("predicate", [case[0] for case in CASES], ids=str)
def test_an_absent_argument_fulfils_nothing(predicate: Predicate) -> None:
    assert decided(predicate, {}, {}) == ((True, False) if predicate.negated else (False, True))


def test_a_path_reaches_into_nested_arguments() -> None:
    assert decided(Equals(argument="a.b", value=1), {"a": {"b": 1}}) == (True, False)
    assert decided(Equals(argument="a.b", value=1), {"a.b": 1}) == (True, False)
    assert decided(Equals(argument="a.b", value=1), {"a": 1}) == (False, True)


def test_an_endless_pattern_is_stopped_and_raises() -> None:
    rule = Matches(argument="a", pattern="(a+)+b")
    with pytest.raises(TimeoutError):
        decided(rule, {"a": "a" * 5000 + "c"})


# The checks


def test_an_empty_list_allows_nothing() -> None:
    verdict = checked({}, call("look"))
    assert (verdict.level, verdict.stage, verdict.relation) == (Level.BLOCK, "allowed_tools", "look")


def test_the_arguments_that_do_not_fit_are_named() -> None:
    pattern = CallPattern(tool="pay", where=(Equals(argument="to", value="ann"), Between(argument="sum", maximum=5)))
    verdict = checked({"allowed": (pattern,)}, call("pay", to="ann", sum=9))
    assert verdict.evidence == ("sum=9",) and "only as pay(to = 'ann', sum from None to 5.0)" in verdict.reason
    assert checked({"allowed": (pattern,)}, call("pay", to="ann")).evidence == ("sum is missing",)


def test_a_limited_call_can_be_made_so_often_and_failed_ones_do_not_count() -> None:
    contract = {"allowed": (CallPattern(tool="pay", at_most=2),), "acceptance": (PAID,)}
    past = [PastCall(call("pay", to="a")), PastCall(call("pay", to="b"), ok=False)]
    assert checked(contract, call("pay", to="c"), *past).level is Level.ALLOW
    verdict = checked(contract, call("pay", to="c"), *past, PastCall(call("pay", to="d")))
    assert verdict.level is Level.BLOCK and "2 times" in verdict.reason


def test_a_precondition_wants_an_earlier_call_that_was_carried_out() -> None:
    order = Precondition(
        id="look-first",
        before=CallPattern(effect=EffectClass.PAY),
        first=CallPattern(tool="look", where=(Equals(argument="id", value=1),)),
    )
    contract = {"allowed": ANY, "order": (order,), "acceptance": (PAID,)}
    for past in ([], [PastCall(call("look", id=2))], [PastCall(call("look", id=1), ok=False)]):
        verdict = checked(contract, call("pay", to="a"), *past)
        assert (verdict.level, verdict.stage, verdict.relation) == (Level.BLOCK, "order", "look-first")
    assert checked(contract, call("pay", to="a"), PastCall(call("look", id=1))).level is Level.ALLOW
    assert checked(contract, call("look", id=3)).level is Level.ALLOW


@pytest.mark.parametrize("level", [Level.WARN, Level.ASK, Level.REQUIRE_APPROVAL, Level.BLOCK])
def test_a_constraint_gives_its_level_and_names_itself(level: Level) -> None:
    big = CallPattern(tool="look", where=(Between(argument="n", minimum=6),))
    rule = Constraint(id="big", text="not more than 5", forbid=big, level=level)  # type: ignore[arg-type]
    verdict = checked({"allowed": ANY, "constraints": (rule,)}, call("look", n=7))
    assert (verdict.level, verdict.stage, verdict.relation) == (level, "constraint", "big")
    assert verdict.evidence == ("n=7",) and "not more than 5" in verdict.reason
    assert (verdict.question is not None) is (level is Level.ASK)
    assert checked({"allowed": ANY, "constraints": (rule,)}, call("look", n=5)).level is Level.ALLOW


def test_a_pattern_can_be_about_the_kind_of_effect() -> None:
    contract = {
        "allowed": ANY,
        "constraints": (Constraint(id="keep", text="delete nothing", forbid=CallPattern(effect=EffectClass.DELETE)),),
    }
    assert checked(contract, call("drop", id=1)).relation == "keep"
    assert checked(contract, call("note", id=1)).level is Level.WARN, "not a deletion, and no criterion needs it"


def test_a_tool_that_nobody_described_counts_as_one_that_changes_something() -> None:
    assert checked({"allowed": ANY}, call("unheard_of")).stage == "boundary"


def test_a_grant_lifts_the_approval_and_nothing_else() -> None:
    contract = {"allowed": ANY, "approval": (CallPattern(tool="pay"),), "acceptance": (PAID,)}
    assert checked(contract, call("pay")).level is Level.REQUIRE_APPROVAL
    assert checked(contract, call("pay"), lifted=frozenset({Level.REQUIRE_APPROVAL})).level is Level.ALLOW
    blocked = {**contract, "constraints": (Constraint(id="c", text="no", forbid=CallPattern(tool="pay")),)}
    assert checked(blocked, call("pay"), lifted=frozenset({Level.REQUIRE_APPROVAL})).level is Level.BLOCK


def test_what_lies_outside_the_scope_is_blocked_for_reading_too() -> None:
    contract = {"allowed": ANY, "scope": {"table": ("orders", "refunds_*")}}
    assert checked(contract, call("look", table="refunds_2026")).level is Level.ALLOW
    verdict = checked(contract, call("look", table="salaries"))
    assert (verdict.stage, verdict.relation, verdict.evidence) == ("boundary", "scope:table", ("table='salaries'",))


def test_a_change_that_no_criterion_needs_runs_with_a_warning() -> None:
    assert checked({"allowed": ANY}, call("pay")).level is Level.WARN
    assert checked({"allowed": ANY, "acceptance": (PAID,)}, call("pay")).level is Level.ALLOW
    assert checked({"allowed": ANY}, call("look")).level is Level.ALLOW


def test_an_unsure_reading_asks_before_it_changes_anything() -> None:
    contract = {"allowed": ANY, "confidence": 0.3, "acceptance": (PAID,)}
    verdict = checked(contract, call("pay", to="ann"))
    assert (verdict.level, verdict.question) == (Level.ASK, "Shall I go on with pay(to='ann')?")
    assert checked(contract, call("look")).level is Level.ALLOW
    assert checked(contract, call("pay"), lifted=frozenset({Level.ASK})).level is Level.ALLOW
    assert checked(contract, call("pay"), confidence=0.9).level is Level.ALLOW


def test_the_checks_come_in_the_order_of_the_article() -> None:
    rule = CallPattern(tool="pay")
    contract: dict[str, Any] = {
        "constraints": (Constraint(id="c", text="no", forbid=rule),),
        "approval": (rule,),
        "order": (Precondition(id="p", before=rule, first=CallPattern(tool="look")),),
        "scope": {"to": ("b*",)},
        "confidence": 0.1,
    }
    seen = []
    for key, value in [("allowed", ANY), ("order", ()), ("constraints", ()), ("approval", ()), ("confidence", 1.0)]:
        seen.append(checked(contract, call("pay", to="ann")).stage)
        contract[key] = value
    seen.append(checked(contract, call("pay", to="ann")).stage)
    assert seen == ["allowed_tools", "order", "constraint", "approval", "confidence", "boundary"]


# Acceptance and confidence


def test_criteria_are_met_by_calls_results_and_state() -> None:
    contract = IntentContract(
        goal="g",
        allowed=ANY,
        acceptance=(
            Criterion(id="rate", text="", done_when=CallPattern(tool="look"), result="rate: [0-9.]+"),
            Criterion(id="twice", text="", done_when=CallPattern(tool="pay"), times=2),
            Criterion(id="low", text="", state=(Between(argument="account.balance", maximum=10),)),
        ),
    )
    checker = Checker(contract, TOOLS)
    open_after = lambda *past, **state: [c.id for c in checker.unmet(past, state)]  # noqa: E731
    assert open_after() == ["rate", "twice", "low"]
    looked, paid = PastCall(call("look"), result="the rate: 2.5"), PastCall(call("pay"))
    assert open_after(looked, PastCall(call("look"), result="none"), paid) == ["twice", "low"]
    assert open_after(PastCall(call("look"), ok=False, result="rate: 1")) == ["rate", "twice", "low"]
    assert open_after(looked, paid, paid, account={"balance": 3}) == []
    assert checker.completed([looked, paid, paid], {"account": {"balance": 3}})


def test_an_intent_without_criteria_or_with_one_for_the_judge_is_never_completed_by_rules() -> None:
    assert not Checker(IntentContract(goal="g"), TOOLS).completed([])
    contract = IntentContract(goal="g", acceptance=(Criterion(id="kind", text="she is happy"),))
    assert not Checker(contract, TOOLS).completed([]) and not Checker(contract, TOOLS).unmet([])


def test_confidence_is_looked_at_again_after_the_first_call_and_after_every_fifth() -> None:
    contract = IntentContract(goal="g", confidence=0.9)
    allowed, warned = [Level.ALLOW], [Level.WARN]
    assert confidence_now(contract, []) == 0.9 == confidence_now(contract, allowed)
    assert confidence_now(contract, warned) == 0.45 == confidence_now(contract, warned + 3 * allowed)
    assert confidence_now(contract, warned + 4 * allowed) == pytest.approx(0.75)


values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers())
calls = st.builds(
    ToolCall,
    name=st.sampled_from([*TOOLS, "other"]),
    arguments=st.dictionaries(st.sampled_from("abc"), values, max_size=3),
)
predicates = st.sampled_from([case[0] for case in CASES])
patterns = st.builds(
    CallPattern,
    tool=st.sampled_from(["*", "pay", "l*"]),
    where=st.lists(predicates, max_size=2).map(tuple),
    effect=st.none() | st.sampled_from(EffectClass),
)


@given(calls, patterns, st.lists(calls.map(PastCall), max_size=3))
def test_whatever_the_call_there_is_a_verdict_and_more_constraints_never_loosen_it(
    proposed: ToolCall, pattern: CallPattern, past: list[PastCall]
) -> None:
    before = checked({"allowed": ANY}, proposed, *past)
    stricter = (
        {"allowed": ANY, "constraints": (Constraint(id="c", text="t", forbid=pattern),)} if pattern != ANY[0] else {}
    )
    assert checked(stricter, proposed, *past).level.severity >= before.level.severity
    assert checked({"allowed": (pattern,)}, proposed, *past).level.severity >= before.level.severity
