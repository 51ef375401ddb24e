"""Comparing two readings: whatever the later one allows beyond the earlier one is said, and equal ones say nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.intent.checks import Checker
from demur.envs.intent.contract import (
    Between,
    CallPattern,
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
from demur.envs.intent.registry.widening import covers, widened
from demur.envs.tool import EffectClass
from demur.envs.trace import Level
from tests.envs.helpers import call
from tests.envs.intent.registry.helpers import NAILS


def allowing(*patterns: CallPattern) -> IntentContract:
    return IntentContract(goal="g", allowed=patterns)


def days(low: float | None, high: float | None) -> CallPattern:
    return CallPattern(tool="query", where=(Between(argument="days", minimum=low, maximum=high),))


def test_a_contract_is_no_wider_than_itself() -> None:
    assert widened(NAILS, NAILS) == []


def test_each_kind_of_rule_that_goes_is_said() -> None:
    bare = IntentContract(goal="order nails", allowed=NAILS.allowed, scope={"region": ("eu*",)})
    lines = widened(NAILS, bare)
    assert [line.split(":")[0] for line in lines] == [
        "constraint dropped or weakened",
        "constraint dropped or weakened",
        "approval no longer needed",
        "order no longer kept",
        "criterion dropped or changed",
    ]
    assert widened(bare, NAILS) == ["scope dropped: region was like eu*"]


def test_a_scope_with_more_globs_is_wider() -> None:
    earlier = IntentContract(goal="g", scope={"region": ("eu*",)})
    later = IntentContract(goal="g", scope={"region": ("eu*", "us*")})
    assert widened(earlier, later) == ["scope wider: region may be like us* too"]
    assert widened(later, earlier) == []


def test_a_milder_constraint_is_weaker() -> None:
    def forbidding(level: Level) -> IntentContract:
        rule = Constraint(id="c", text="no drops", forbid=CallPattern(tool="drop"), level=level)  # type: ignore[arg-type]
        return IntentContract(goal="g", constraints=(rule,))

    assert widened(forbidding(Level.BLOCK), forbidding(Level.ASK)) == ["constraint dropped or weakened: no drops (c)"]
    assert widened(forbidding(Level.ASK), forbidding(Level.BLOCK)) == []


@pytest.mark.parametrize(
    ("earlier", "later", "wider"),
    [
        (days(None, 7), days(None, 30), True),
        (days(None, 30), days(None, 7), False),
        (days(1, 7), days(0, 7), True),
        (days(1, 7), days(1, None), True),
        (days(None, None), days(1, 7), False),
        (CallPattern(tool="look"), CallPattern(tool="drop"), True),
        (CallPattern(tool="get_*"), CallPattern(tool="get_order"), False),
        (CallPattern(tool="get_order"), CallPattern(tool="get_*"), True),
        (CallPattern(tool="get_*"), CallPattern(tool="get_o*"), False),
        (CallPattern(tool="a?c"), CallPattern(tool="a*c"), True),
        (CallPattern(), CallPattern(tool="[ab]*"), False),
        (CallPattern(tool="a", at_most=2), CallPattern(tool="a", at_most=1), False),
        (CallPattern(tool="a", at_most=2), CallPattern(tool="a", at_most=3), True),
        (CallPattern(tool="a", at_most=2), CallPattern(tool="a"), True),
        (CallPattern(effect=EffectClass.READ), CallPattern(), True),
        (CallPattern(), CallPattern(effect=EffectClass.READ), False),
    ],
)
def test_tools_ranges_and_limits_are_compared(earlier: CallPattern, later: CallPattern, wider: bool) -> None:
    assert bool(widened(allowing(earlier), allowing(later))) is wider


def test_a_new_tool_and_a_wider_range_are_told_apart() -> None:
    later = allowing(days(None, 30), CallPattern(tool="drop"))
    assert widened(allowing(days(None, 7)), later) == [
        "tool allowed: query(days from None to 30.0): wider than query(days from None to 7.0)",
        "tool allowed: drop(): was not allowed at all",
    ]


@pytest.mark.parametrize(
    ("wide", "narrow", "expected"),
    [
        (OneOf(argument="a", values=("x", "y")), Equals(argument="a", value="x"), True),
        (OneOf(argument="a", values=("x", "y")), OneOf(argument="a", values=("x", "z")), False),
        (Like(argument="a", pattern="x*"), Equals(argument="a", value="xy"), True),
        (Matches(argument="a", pattern="x+"), OneOf(argument="a", values=("x", "xx")), True),
        (Matches(argument="a", pattern="x+"), Like(argument="a", pattern="x"), False),
        (Between(argument="a", maximum=5), Equals(argument="a", value=5), True),
        (Between(argument="a", maximum=5), Equals(argument="a", value="5"), False),
        (Equals(argument="a", value="x", negated=True), Equals(argument="a", value="y"), True),
        (Equals(argument="a", value="x", negated=True), Equals(argument="a", value="x"), False),
        (Equals(argument="a", value=1), Equals(argument="a", value=True), False),
        (Equals(argument="a", value="x"), Equals(argument="b", value="x"), False),
    ],
)
def test_conditions_are_compared(wide: Predicate, narrow: Predicate, expected: bool) -> None:
    assert covers(CallPattern(where=(wide,)), CallPattern(where=(narrow,))) is expected


_predicates = st.one_of(
    st.builds(Equals, argument=st.just("a"), value=st.integers(0, 4), negated=st.booleans()),
    st.builds(
        OneOf, argument=st.just("a"), values=st.lists(st.integers(0, 4), max_size=3).map(tuple), negated=st.booleans()
    ),
    st.tuples(st.integers(0, 2), st.integers(2, 4)).map(lambda r: Between(argument="a", minimum=r[0], maximum=r[1])),
)
_patterns = st.builds(
    CallPattern,
    tool=st.sampled_from(["t", "t*", "*", "u"]),
    where=st.lists(_predicates, max_size=2).map(tuple),
)


@given(_patterns, _patterns, st.sampled_from(["t", "u", "tt"]), st.integers(0, 5))
def test_what_a_covered_pattern_allows_the_covering_one_allows_too(
    wide: CallPattern, narrow: CallPattern, tool: str, value: int
) -> None:
    def allows(pattern: CallPattern) -> bool:
        return Checker(allowing(pattern), {}).check(call(tool, a=value)).stage != "allowed_tools"

    if covers(wide, narrow) and allows(narrow):
        assert allows(wide)


def test_an_order_that_asks_for_less_is_wider() -> None:
    def ordered(first: str) -> IntentContract:
        rule = Precondition(id="o", before=CallPattern(tool="pay"), first=CallPattern(tool=first))
        return IntentContract(goal="g", order=(rule,))

    assert widened(ordered("look"), ordered("look")) == []
    assert len(widened(ordered("look"), ordered("*"))) == 1


def test_a_criterion_may_be_worded_anew() -> None:
    def done(text: str, times: int) -> IntentContract:
        criterion = Criterion(id="c", text=text, done_when=CallPattern(tool="pay"), times=times)
        return IntentContract(goal="g", allowed=(CallPattern(tool="pay"),), acceptance=(criterion,))

    assert widened(done("paid", 2), done("it is paid", 2)) == []
    assert len(widened(done("paid", 2), done("paid", 1))) == 1
