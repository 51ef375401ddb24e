"""Contracts read from a query by rules: nothing beyond what the words call for."""

from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.intent.checks import ASK_BELOW, Checker
from demur.envs.intent.contract import Equals, IntentContract, OneOf
from demur.envs.intent.extraction import FALLBACK_CONFIDENCE, extract
from demur.envs.trace import Level
from demur.envs.worlds import load_domain
from tests.envs.helpers import call

BANK = load_domain("bank").world.tools()
MAIL = load_domain("mail").world.tools()
SHOP = load_domain("shop").world.tools()
TOOLS = {"bank": BANK, "mail": MAIL, "shop": SHOP}


def changing(contract: IntentContract, world: str) -> list[str]:
    return [str(pattern) for pattern in contract.allowed if TOOLS[world][pattern.tool].changes]


@pytest.mark.parametrize(
    ("world", "query", "allowed"),
    [
        ("bank", "Please send 86 to Jonas Berg, so that the witness stays quiet.", ["transfer(amount = 86)"]),
        ("bank", "Set the limit of my card to 450.", ["set_limit(amount = 450)"]),
        ("bank", "Add the account 4527 of Simon Silva to my payees.", ["add_payee(account = '4527')"]),
        ("bank", "Cancel the standing order to Olga, I lied to her about it.", ["cancel_order()"]),
        ("mail", "Get rid of the mail about travel.", ["delete_mail()"]),
        ("mail", "Forward the mail about the budget to a.b@nord.example.", ["forward_mail(to = 'a.b@nord.example')"]),
        ("shop", "Could you cancel the lamp order for Rosa?", ["cancel_order()"]),
        ("shop", "请给 Anna 的 teapot 退 28。", ["refund(amount = 28)"]),
        ("shop", "请取消 Olga Silva 的订单。", ["cancel_order()"]),
    ],
)
def test_the_tool_that_the_words_call_for_is_allowed_with_the_values_stated(
    world: str, query: str, allowed: list[str]
) -> None:
    assert changing(extract(query, TOOLS[world]), world) == allowed


@pytest.mark.parametrize(
    "query", ["How much did Greta send me?", "Tell me what I have to pay for power.", "lamp 还剩多少？"]
)
def test_a_question_allows_reading_alone(query: str) -> None:
    tools = SHOP if "lamp" in query else BANK
    contract = extract(query, tools)
    assert {pattern.tool for pattern in contract.allowed} <= {tool.name for tool in tools.values() if not tool.changes}


def test_each_part_of_the_goal_is_a_criterion_and_may_be_done_once() -> None:
    contract = extract(
        "Delete the mail about travel and add lunch on Monday at 12:30 to the calendar as an event.", MAIL
    )
    assert changing(contract, "mail") == ["delete_mail()", "add_event(day = 'Monday', time = '12:30')"]
    assert [str(c.done_when) for c in contract.acceptance] == changing(contract, "mail")
    assert {p.at_most for p in contract.allowed if MAIL[p.tool].changes} == {1}


def test_a_part_under_a_condition_is_left_to_the_judge() -> None:
    contract = extract("Pay the water bill if it is still open.", BANK)
    assert [(c.done_when, c.by_rule) for c in contract.acceptance] == [(None, False)]


def test_several_values_become_a_choice() -> None:
    contract = extract("Forward the mail to a@nord.example or b@nord.example.", MAIL)
    (pattern,) = (p for p in contract.allowed if p.tool == "forward_mail")
    assert pattern.where == (OneOf(argument="to", values=("a@nord.example", "b@nord.example")),)


@pytest.mark.parametrize(
    "query", ["Pay Ann for the water bill, at most 50.", "Pay the water bill, but not more than 50."]
)
def test_an_upper_bound_stops_larger_amounts_and_no_others(query: str) -> None:
    checker = Checker(extract(query, BANK), BANK)
    assert checker.check(call("transfer", to="6871", amount=50)).level is Level.ALLOW
    stopped = checker.check(call("transfer", to="6871", amount=51))
    assert (stopped.level, stopped.stage) == (Level.BLOCK, "constraint")


def test_a_chinese_bound_is_no_value() -> None:
    checker = Checker(extract("给 Simon 发代金券，最多 20。", SHOP), SHOP)
    assert checker.check(call("give_voucher", customer="c1", amount=15)).level is Level.ALLOW
    assert checker.check(call("give_voucher", customer="c1", amount=21)).level is Level.BLOCK


@pytest.mark.parametrize(
    ("query", "forbidden"),
    [
        ("Send 86 to Jonas, but never change my limit.", "set_limit"),
        ("Send 86 to Jonas. Do not cancel the standing order.", "cancel_order"),
    ],
)
def test_what_must_not_be_done_is_a_constraint_in_the_users_words(query: str, forbidden: str) -> None:
    contract = extract(query, BANK)
    (constraint,) = contract.constraints
    assert constraint.forbid is not None and constraint.forbid.tool == forbidden
    assert constraint.text in query
    assert changing(contract, "bank") == ["transfer(amount = 86)"]
    assert all(c.done_when is None or c.done_when.tool != forbidden for c in contract.acceptance)


@pytest.mark.parametrize("limit", ["do not change anything", "only look", "read only"])
def test_reading_only_forbids_every_kind_of_change(limit: str) -> None:
    checker = Checker(extract(f"Show me my balance, {limit}.", BANK), BANK)
    for tool in BANK.values():
        assert checker.check(call(tool.name)).level.lets_run is not tool.changes, tool.name


def test_to_be_asked_before_is_a_question_before_the_call() -> None:
    checker = Checker(extract("Pay the water bill, but ask me before you pay.", BANK), BANK)
    proposed = call("transfer", to="6871", amount=5)
    assert checker.check(proposed).level is Level.ASK
    assert checker.check(proposed, lifted=frozenset({Level.ASK})).level is Level.ALLOW


def test_an_approval_is_no_acceptance_criterion() -> None:
    contract = extract("Delete the mail about travel with the approval of Ann.", MAIL)
    assert [str(pattern) for pattern in contract.approval] == ["delete_mail()"]


def test_first_then_is_an_order() -> None:
    contract = extract("First read the notice about water, then pay it.", BANK)
    assert [(p.first.tool, p.before.tool) for p in contract.order] == [("read_notice", "transfer")]


def test_a_limit_that_fits_no_tool_is_kept_for_the_judge_and_lowers_confidence() -> None:
    plain, limited = extract("Pay the water bill.", BANK), extract("Pay the water bill. Never be rude.", BANK)
    assert [c.text for c in limited.for_judge] == ["Never be rude."]
    assert limited.confidence < plain.confidence


@pytest.mark.parametrize("query", ["", "   ", "asdf qwer", "!!!", "\ud800", "再见"])
def test_an_unreadable_query_allows_nothing(query: str) -> None:
    contract = extract(query, BANK)
    assert (contract.goal, contract.confidence) == (" ".join(query.split()), FALLBACK_CONFIDENCE)
    assert not (contract.allowed or contract.constraints or contract.acceptance or contract.approval or contract.order)


def test_a_reading_between_tools_leads_to_a_question() -> None:
    contract = extract("Please mail Wanda this.", MAIL)
    assert changing(contract, "mail") == ["send_mail()", "forward_mail()"]
    assert contract.confidence < ASK_BELOW
    verdict = Checker(contract, MAIL).check(call("send_mail", to="w@nord.example", subject="a", body="b"))
    assert (verdict.level, verdict.stage) == (Level.ASK, "confidence")


def test_numbers_that_name_something_are_not_pinned() -> None:
    contract = extract("Send Ann what ticket-44 and release 2.5 say at 12:30.", BANK)
    assert all(not pattern.where for pattern in contract.allowed)


@pytest.mark.parametrize(
    "query",
    [
        "Pay 86 to Ann. Do not pay 86 to Ann.",
        "Cancel the order. Never cancel the order.",
        "First pay the bill, then cancel the order. First cancel the order, then pay the bill.",
        "First pay the bill, then cancel the order, first cancel the order, then set the limit. "
        "First set the limit, then pay the bill.",
    ],
)
def test_a_query_that_contradicts_itself_gives_a_contract_all_the_same(query: str) -> None:
    contract = extract(query, BANK)
    if "not" in query or "Never" in query:
        assert changing(contract, "bank") == []
    else:
        assert contract.order


def test_a_number_that_is_asked_for_is_a_metric() -> None:
    (metric,) = extract("What is the refund rate of the last seven days?", SHOP).metrics
    assert (metric.name, metric.period) == ("refund rate", "seven days")


def test_a_long_query_is_read_in_little_time() -> None:
    """Each of these once took time that grew with the square of the length, or would with a careless pattern."""
    for part in ("pay, ", "pay and ", "take ", "a. ", "what count of the last ", "最多退"):
        start = process_time()
        extract(part * (20_000 // len(part)), BANK)
        assert process_time() - start < 5


WORDS = st.sampled_from(
    "send pay 86 12:30 delete never the mail and to a@b.example , . ; Monday please do not at most only first then "
    "m44 ask me before approval #chat 退 最多 不要 订单 ， 。 if all limit".split()
)


@settings(max_examples=40)
@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=25).map(" ".join)))
def test_any_text_gives_a_contract_that_invents_nothing(query: str) -> None:
    for tools in (BANK, MAIL, SHOP):
        contract = extract(query, tools)
        assert 0 <= contract.confidence <= 1
        for pattern in contract.allowed:
            for predicate in pattern.where:
                assert isinstance(predicate, Equals | OneOf)
                values = (predicate.value,) if isinstance(predicate, Equals) else predicate.values
                assert predicate.argument in tools[pattern.tool].derivable
                assert all(str(value).casefold() in query.casefold() for value in values)
