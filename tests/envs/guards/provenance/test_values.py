"""Where a value stands in a text: whole words and numbers, in any letter case and spacing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.guards.provenance.values import spelled, stretch_of, values_in


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        ("ann berg", "To  Ann \n Berg.", "Ann \n Berg"),
        ("7", "17 and 7.5 and 7", "7"),
        ("7", "7.", "7"),
        ("7", "1,7 7,1 a7 7a", None),
        ("ann", "annual Joann", None),
        ("王芳", "请给王芳发邮件", "王芳"),
        ("ann@x.example", "<ann@x.example>", "ann@x.example"),
        ("i", "İ is I", "I"),
        ("", "anything", None),
    ],
)
def test_a_value_is_found_where_it_stands_whole(value: str, text: str, found: str | None) -> None:
    stretch = stretch_of(value, text)
    assert (None if stretch is None else text[slice(*stretch)]) == found


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "C"]), min_size=1), min_size=1), st.text())
def test_a_value_between_blanks_is_found_in_any_text(words: list[str], around: str) -> None:
    value = " ".join(words)
    text = f"{around} {value.replace(' ', chr(10))} {around}"
    stretch = stretch_of(value, text)
    assert stretch is not None
    assert text[slice(*stretch)].lower().split() == value.lower().split()


def test_values_are_listed_and_spelled_as_they_would_be_written() -> None:
    values = list(values_in({"a": ["x ", {"b": 2.0}], "c": True, "d": None}))
    assert [spelled(value) for value in values] == ["x", "2", None, None]
