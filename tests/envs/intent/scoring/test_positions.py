"""Where a turn is scored: the sentence rule, ends of parts, actions, and texts that are still growing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.intent.scoring.positions import FORMATS, Position, positions_of
from demur.envs.protocol import ParsedTurn, act, answer, render
from demur.envs.trace import ToolCall


def read(raw: str) -> list[tuple[str, str]]:
    """Part and last eight characters read, of each position."""
    return [(p.part, raw[: p.end][-8:]) for p in positions_of(raw)]


CALL = '<tool_call>{"name": "look", "arguments": {}}</tool_call>'


def test_each_completed_sentence_and_the_action_are_positions() -> None:
    raw = f"<think>Look at it. Then pay! Ok? Done</think>\n{CALL}"
    assert read(raw) == [("plan", "k at it."), ("plan", "hen pay!"), ("plan", "pay! Ok?"), ("action", "/think>\n")]


def test_with_a_check_the_end_of_the_plan_is_a_position_of_its_own() -> None:
    raw = f"<think>Go on</think>\n<safety_thoughts>No harm. All fine.</safety_thoughts>\n{CALL}"
    assert read(raw) == [("plan", "nk>Go on"), ("check", "No harm."), ("action", "oughts>\n")]


@pytest.mark.parametrize(
    ("plan", "ends"),
    [
        ("Send 3. then stop", 0),  # behind a digit
        ("Version 2.5 is out", 0),  # not before a blank
        ("See a.b.c now", 0),
        ("Wait... no", 1),
        ("One\nTwo", 1),
        ("One.\nTwo", 1),
        ("One. \n\n Two", 1),
        ("付钱。 然后 stop", 1),
        (" \n Go", 0),  # nothing has been said yet
        ("", 0),
    ],
)
def test_the_sentence_rule(plan: str, ends: int) -> None:
    assert len(positions_of(f"<think>{plan}</think>{CALL}")) == ends + 1


def test_a_growing_text_has_only_what_is_completed() -> None:
    raw = f"<think>Look at it. Then pay.</think>\n<safety_thoughts>Fine.</safety_thoughts>\n{CALL}"
    grown = [len(positions_of(raw[:length])) for length in range(len(raw) + 1)]
    assert grown[len("<think>Look at it.")] == 0 and grown[len("<think>Look at it. ")] == 1
    assert grown[-1] == 3 and [p.part for p in positions_of(raw)] == ["plan", "plan", "action"]
    assert positions_of(raw[: raw.index("<tool_call>")])[-1].part == "check"


@pytest.mark.parametrize(
    "raw", ["", "hello", "<tool_call>{}</tool_call>", "<safety_thoughts>x.</safety_thoughts>", "<think>a"]
)
def test_what_is_no_turn_has_no_position(raw: str) -> None:
    assert positions_of(raw) == []


def test_a_turn_without_an_action_has_no_action_position() -> None:
    assert [p.part for p in positions_of("<think>A. B</think> and then")] == ["plan", "plan"]


def test_the_tail_closes_what_is_open_and_opens_a_call() -> None:
    tails = {part: Position(turn=0, part=part, end=1).tail(FORMATS["demur"]) for part in ("plan", "check", "action")}
    assert tails["plan"] == '</think>\n<tool_call>{"name": "'
    assert tails["check"] == '</safety_thoughts>\n<tool_call>{"name": "'
    assert tails["action"] == '<tool_call>{"name": "'
    assert Position(turn=0, part="plan", end=1).tail(FORMATS["qwen3"]) == '\n</think>\n\n<tool_call>\n{"name": "'


@pytest.mark.parametrize("part", ["plan", "action"])
def test_our_format_is_what_the_protocol_writes(part: str) -> None:
    raw = render(ParsedTurn("Go", None, act(ToolCall(name="look"))))
    (position,) = positions_of(raw)
    cut = raw[: position.end] if part == "action" else raw[: raw.index("</think>")]
    tail = position.model_copy(update={"part": part}).tail(FORMATS["demur"])
    assert raw.startswith(cut + tail + "look" + FORMATS["demur"].closer)


@given(plan=st.text(max_size=60), check=st.none() | st.text(max_size=60), acts=st.booleans())
def test_positions_rise_and_lie_within_the_text(plan: str, check: str | None, acts: bool) -> None:
    try:
        raw = render(ParsedTurn(plan, check, act(ToolCall(name="look")) if acts else answer("ok")))
    except ValueError:  # a tag in the text
        return
    found = positions_of(raw, turn=3)
    ends = [p.end for p in found]
    assert ends == sorted(set(ends)) and all(0 < end <= len(raw) for end in ends)
    assert found[-1].part == "action" and {p.turn for p in found} == {3}
    assert raw[found[-1].end :].startswith(("<tool_call>", "<answer>"))


@given(st.text(alphabet="ab.!? \n3<>/think", max_size=80))
def test_any_text_can_be_asked(raw: str) -> None:
    for text in (raw, f"<think>{raw}"):
        assert all(0 < p.end <= len(text) for p in positions_of(text))
