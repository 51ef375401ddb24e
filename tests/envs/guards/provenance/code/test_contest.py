"""Which of the tools on offer fits a plan best."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards.provenance.code.contest import better_tool
from tests.envs.guards.provenance.code.desk import TOOLS, UNITS, context, found, megabyte, runs, seconds, tool
from tests.envs.helpers import call

ORDER = found('[{"order_id": "o77", "customer": "Nils", "price": 16}]', "find_orders", customer="Nils")


def test_a_tool_that_fits_the_plan_by_far_better_is_named() -> None:
    assert better_tool(TOOLS, "give_voucher", plan="Pay the money back.", said="Pay Nils 16 back.") == "refund_order"


@pytest.mark.parametrize(
    ("name", "plan"),
    [
        ("refund_order", "Pay the money back."),
        ("give_voucher", "Give the voucher."),
        ("rename_file", "Rename the file."),
        ("give_voucher", ""),
        ("give_voucher", "Go on."),
    ],
)
def test_the_tool_that_the_plan_speaks_of_is_the_right_one(name: str, plan: str) -> None:
    assert better_tool(TOOLS, name, plan=plan, said="") is None


def test_a_tool_that_only_reads_is_no_better_one() -> None:
    assert better_tool(TOOLS, "give_voucher", plan="Look up the orders of a customer.", said="") != "find_orders"


def test_what_is_quoted_or_a_file_in_the_plan_says_nothing() -> None:
    plan = "Rename 'pay the money back' and refund-order.txt"
    assert better_tool(TOOLS, "rename_file", plan=plan, said="") is None


def test_a_voucher_for_a_refund_is_stopped_and_the_refund_runs() -> None:
    query, plan = "Pay Nils 16 back for his order", "Pay the money back."
    assert not runs(query, call("give_voucher", customer="Nils", amount=16), ORDER, plan=plan)
    assert runs(query, call("refund_order", order_id="o77", amount=16), ORDER, plan=plan)


def test_a_plan_that_names_all_values_of_the_call_means_the_call() -> None:
    query = "Give Nils 16 for the order"
    voucher = call("give_voucher", customer="Nils", amount=16)
    assert runs(query, voucher, ORDER, plan="Pay the money back: a voucher for Nils, 16.")


@settings(max_examples=60, deadline=None)
@given(st.text(), st.text(), st.sampled_from([*TOOLS, "no such tool"]))
def test_any_words_can_be_compared(plan: str, said: str, name: str) -> None:
    better = better_tool(TOOLS, name, plan=plan, said=said)
    assert better != name and (better is None or TOOLS[better].changes)


@pytest.mark.parametrize("unit", UNITS)
def test_a_plan_of_a_megabyte_is_compared_in_bounded_time(unit: str) -> None:
    known = context("Pay Nils 16 back", ORDER, plan=megabyte(unit))
    assert seconds(known, call("give_voucher", customer="Nils", amount=16)) < 2


def test_a_thousand_tools_are_compared_in_bounded_time() -> None:
    many = TOOLS | {f"do_{n}": tool(f"do_{n}", f"Do the thing {n} of a kind.", "what") for n in range(1_000)}
    assert seconds(context("Pay Nils 16 back", ORDER, tools=many), call("give_voucher", customer="Nils", amount=16)) < 3
