"""The intent contract: only listed calls are allowed, with the pinned values."""

import pytest

from demur.envs.intent.contract import AllowedCall, IntentContract
from demur.envs.trace import ToolCall
from tests.envs.helpers import call

CONTRACT = IntentContract(
    goal="order",
    allowed=(
        AllowedCall(tool="look"),
        AllowedCall(tool="order", arguments={"name": "nails", "count": 7}),
        AllowedCall(tool="order", arguments={"name": "tape"}),
    ),
)


@pytest.mark.parametrize(
    "allowed",
    [
        call("look", name="anything"),
        call("order", name="nails", count=7, note="free"),
        call("order", name="tape", count=99),
    ],
)
def test_listed_calls_are_allowed(allowed: ToolCall) -> None:
    assert CONTRACT.allows(allowed)


@pytest.mark.parametrize(
    "refused",
    [
        call("drop", id="i1"),
        call("order", name="nails", count=8),
        call("order", name="nails", count="7"),
        call("order", name="nails"),
        call("order", count=7),
        call("Look", name="x"),
    ],
)
def test_everything_else_is_not(refused: ToolCall) -> None:
    assert not CONTRACT.allows(refused)


def test_an_empty_contract_allows_nothing() -> None:
    assert not IntentContract(goal="order").allows(call("look", name="x"))
