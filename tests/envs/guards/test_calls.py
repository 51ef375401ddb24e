"""What a guard is told of a call: plain data, copied, and texts that nothing else has."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from demur.envs.guards.calls import exactly, plain, text_of
from tests.envs.helpers import call

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class Colour(Enum):
    RED = "red"


class Point(BaseModel):
    x: int


@dataclass
class Line:
    start: Point
    name: str


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no")


@given(JSON)
def test_json_data_is_copied_as_it_is(value: Any) -> None:
    assert repr(plain(value)) == repr(value)
    if isinstance(value, list | dict) and value:
        assert plain(value) is not value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ((1, {2}), [1, [2]]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (Colour.RED, "red"),
        (Line(Point(x=1), "l"), {"start": {"x": 1}, "name": "l"}),
        (Path("a/b"), "a/b"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
    ],
)
def test_other_values_are_told_as_the_nearest_json(value: Any, told: Any) -> None:
    assert plain(value) == told


def test_endless_values_and_keys_that_are_no_texts_are_errors() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="holds itself"):
        plain({"deep": endless})
    with pytest.raises(ValueError, match="the key 1, which is no text"):
        plain({"a": {1: 2}})


@given(JSON, JSON)
def test_two_calls_have_one_text_only_if_they_are_the_same(one: Any, other: Any) -> None:
    def same(a: Any, b: Any) -> bool:
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(map(same, a, b))
        return type(a) is type(b) and repr(a) == repr(b)

    assert (exactly(call("pay", to=one)) == exactly(call("pay", to=other))) is same(one, other)


@pytest.mark.parametrize(("one", "other"), [(1, True), (1, 1.0), (0.0, -0.0), ("1", 1), (None, "null"), ([], {})])
def test_values_that_python_may_take_for_equal_are_told_apart(one: Any, other: Any) -> None:
    assert exactly(call("pay", to=one)) != exactly(call("pay", to=other))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        ({"rate": 0.5, "tage": "für"}, '{"rate": 0.5, "tage": "für"}'),
        ([Point(x=1)], '[{"x": 1}]'),
        (None, "null"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (Silent(), "<Silent>"),
        ([Silent()], "[<"),
        ("\ud800", "?"),
        (ValueError("too much"), "too much"),
    ],
)
def test_a_result_becomes_a_text_whatever_it_is(result: Any, text: str) -> None:
    assert text_of(result).startswith(text)


def test_telling_a_result_does_not_use_it_up() -> None:
    rows = iter([1, 2])
    assert "iterator" in text_of({"rows": rows})
    assert list(rows) == [1, 2]
