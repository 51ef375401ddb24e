"""The contract model: what can be written down, what contradicts itself, and what renaming tools changes."""

import pytest
from pydantic import ValidationError

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
    Precondition,
)
from demur.envs.trace import Level

PAY = CallPattern(tool="pay", where=(Between(argument="amount", maximum=50),))
FULL = IntentContract(
    goal="pay the rent",
    scope={"account": ("me-*",)},
    constraints=(Constraint(id="c1", text="never more", forbid=CallPattern(tool="pay_all"), level=Level.ASK),),
    acceptance=(Criterion(id="a1", text="the rent is paid", done_when=PAY),),
    allowed=(CallPattern(tool="look"), PAY),
    approval=(CallPattern(tool="pay"),),
    order=(Precondition(id="p1", before=PAY, first=CallPattern(tool="look")),),
)


def test_a_contract_is_data_that_reads_back_as_it_was() -> None:
    assert IntentContract.model_validate_json(FULL.model_dump_json()) == FULL


def test_a_pattern_spells_itself_for_people() -> None:
    assert str(PAY) == "pay(amount from None to 50.0)"
    assert str(CallPattern(where=(Equals(argument="to", value="x", negated=True),))) == "*(not to = 'x')"
    assert str(CallPattern(where=(Compared(argument="a", relation="<", other="state:b"),))) == "*(a < state:b)"


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"allowed": (PAY,), "constraints": (Constraint(id="c", text="", forbid=PAY),)},
            r"pay\(.*\) is allowed, and constraint 'c' forbids it",
        ),
        ({"constraints": (Constraint(id="c", text=""),) * 2}, "two rules of the kind constraint have the id 'c'"),
        (
            {"acceptance": (Criterion(id="a", text="", done_when=PAY),)},
            "criterion 'a' can never be met: no allowed pattern has pay",
        ),
        (
            {
                "order": (
                    Precondition(id="p", before=PAY, first=CallPattern(tool="look")),
                    Precondition(id="q", before=CallPattern(tool="look"), first=PAY),
                )
            },
            "precondition 'p' waits for itself",
        ),
        ({"confidence": 1.5}, "less than or equal to 1"),
    ],
)
def test_what_contradicts_itself_is_refused_and_named(fields: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        IntentContract(goal="g", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Matches(argument="a", pattern="(x"), r"the pattern '\(x' does not compile"),
        (lambda: Criterion(id="a", text="", result="(x"), r"the pattern '\(x' does not compile"),
        (lambda: Between(argument="a", minimum=2, maximum=1), "no number of 'a' is from 2"),
        (lambda: Compared(argument="a", relation="<", other="b"), "compare with 'argument:NAME' or 'state:PATH'"),
        (lambda: CallPattern(tool="x", wehre=()), "Extra inputs"),  # type: ignore[call-arg]
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(make: object, sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        make()  # type: ignore[operator]


def test_renaming_tools_changes_each_rule_and_no_glob() -> None:
    renamed = FULL.renamed({"pay": "fn_a", "pay_all": "fn_b", "look": "fn_c"})
    text = renamed.model_dump_json()
    assert '"pay"' not in text and '"pay_all"' not in text and '"look"' not in text
    assert (renamed.order[0].before.tool, renamed.order[0].first.tool) == ("fn_a", "fn_c")
    assert renamed.allowed[1].where == PAY.where
    globbed = IntentContract(goal="g", allowed=(CallPattern(tool="pay*"),))
    assert globbed.renamed({"pay": "fn_a"}) == globbed


def test_constraints_that_no_rule_expresses_are_kept_for_the_judge() -> None:
    kept = Constraint(id="kind", text="be kind")
    assert IntentContract(goal="g", constraints=(kept,)).for_judge == (kept,)


def test_a_glob_and_a_name_share_a_tool() -> None:
    assert CallPattern(tool="pay*").shares_tools(PAY) and PAY.shares_tools(CallPattern(tool="*"))
    assert not CallPattern(tool="look", where=(Like(argument="a", pattern="*"),)).shares_tools(PAY)
