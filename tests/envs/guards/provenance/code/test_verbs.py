"""Words by their stems, what tools are about, and the effects of verbs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.guards.provenance.code.verbs import effects_in, effects_of_word, objects_of, stem, words_of


@pytest.mark.parametrize(
    "words",
    [
        "reserve reserves reserved reserving reservation reservations",
        "pin pins pinned pinning",
        "cancel cancels cancelled cancelling cancellation",
        "pay pays payment payments paying",
        "party parties",
        "address addresses",
        "access",
    ],
)
def test_forms_of_a_word_have_one_stem(words: str) -> None:
    assert len(set(map(stem, words.split()))) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("user", "use"), ("mail", "mall"), ("access", "acc"), ("bill", "bil"), ("order", "border")]
)
def test_other_words_keep_apart(one: str, other: str) -> None:
    assert stem(one) != stem(other)


@pytest.mark.parametrize(
    ("name", "objects"),
    [
        ("send_mail", {"mail"}),
        ("deleteCalendarEvent", {"calendar", "event"}),
        ("calendar.delete_events", {"event"}),
        ("lock_all_doors", {"all", "door"}),
        ("stop", set()),
    ],
)
def test_a_tool_is_about_the_words_of_its_name_but_the_verb(name: str, objects: set[str]) -> None:
    assert objects_of(name) == objects


def test_back_is_no_order_to_run_something() -> None:
    assert not effects_of_word("back")
    assert "run" in effects_of_word("backup")


def test_a_verb_counts_in_each_of_its_forms() -> None:
    assert all("delete" in effects_in(f"the mail {word}") for word in ("removed", "deleting", "cancellation", "删除"))
    assert not effects_in("the weather of yesterday")


@given(st.text())
def test_any_text_has_words_with_stems(text: str) -> None:
    words = words_of(text)
    assert all(stem(word) and len(stem(word)) <= len(word) for word in words)
    assert objects_of(text) <= set(map(stem, words))
    effects_in(text)
