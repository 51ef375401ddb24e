"""Worlds: what changed between two states, spelled so that equal changes are equal."""

import pytest

from demur.envs.tool import ToolError
from demur.envs.world import effects, new_texts
from tests.envs.helpers import Item, call, shop


def test_each_kind_of_change_is_an_effect() -> None:
    after = shop()
    after.run(call("order", name="glue", count=2, note="soon"))
    after.run(call("drop", id="i1"))
    after.run(call("open_at", part="morning"))
    after.stock["i2"].count = 9
    assert dict(effects(shop(), after)) == {
        "stock + name='glue', count=2": 1,
        "stock - i1": 1,
        "stock i2.count = 9": 1,
        "opened = 'morning'": 1,
    }


def test_the_same_states_have_no_effects() -> None:
    assert not effects(shop(), shop())
    assert new_texts(shop(), shop()) == []


def test_what_is_done_twice_counts_twice() -> None:
    after = shop()
    for _ in range(2):
        after.run(call("order", name="glue", count=2))
    assert effects(shop(), after)["stock + name='glue', count=2"] == 2


def test_neither_the_key_nor_free_text_makes_a_difference() -> None:
    one, other = shop(), shop()
    one.stock["a"] = Item(name="glue", count=1, note="x")
    other.stock["b"] = Item(name="glue", count=1, note="y")
    assert effects(shop(), one) == effects(shop(), other)
    assert new_texts(shop(), one) == ["x"]


def test_changed_free_text_is_text_that_left_but_no_effect() -> None:
    after = shop()
    after.stock["i2"].note = "hello"
    assert not effects(shop(), after)
    assert new_texts(shop(), after) == ["hello"]


def test_a_copy_shares_nothing_with_the_original() -> None:
    first = shop()
    second = first.copy_state()
    second.run(call("drop", id="i1"))
    assert first == shop() != second


def test_an_unknown_tool_is_an_error_for_the_policy() -> None:
    with pytest.raises(ToolError, match="there is no tool 'steal'"):
        shop().run(call("steal"))
