"""The policy's text: anything parses, what is rendered parses back, and every fault has its reason."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.protocol import (
    MARKUP,
    MAX_DEPTH,
    OBSERVATION_MARKUP,
    ParsedTurn,
    act,
    answer,
    parse,
    render,
    render_observation,
)
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, Action, ActionKind, ToolCall, Turn

CALL = '<tool_call>{"name": "look", "arguments": {"name": "tape"}}</tool_call>'
PIECES = [
    *MARKUP,
    *OBSERVATION_MARKUP,
    CALL,
    '{"name": "a", "arguments": {}}',
    '{"name": "refuse_unsafe_task", "arguments": {"reason": 1}}',
    '{"name":',
    "NaN",
    "1e999",
    '"\\ud800"',
    "[" * 400,
    " ",
    "\n",
    "<",
    "</",
    "text",
    "\ud800",
    "\x00",
]

# every text that UTF-8 can hold, and the characters and fragments that the form is made of
texts = st.lists(st.text() | st.sampled_from(["<", ">", "think", "</", "\\", '"', "\\u003c", "é", "𝄞"])).map("".join)
bodies = texts.filter(lambda text: not any(mark in text for mark in MARKUP))
strings = texts | st.sampled_from([*MARKUP, "a </answer> b", "</tool_call>"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3),
    max_leaves=8,
)
big = st.integers(-(10**300), 10**300)
arguments = st.dictionaries(strings, values | big, max_size=4)
names = strings.filter(bool) | st.sampled_from([REFUSE_TOOL, ASK_TOOL])
calls = st.builds(lambda name, given: act(ToolCall(name=name, arguments=given)), names, arguments)
refusals = st.builds(lambda text: act(ToolCall(name=REFUSE_TOOL, arguments={"reason": text})), strings)
questions = st.builds(lambda text: act(ToolCall(name=ASK_TOOL, arguments={"question": text})), strings)
turns = st.builds(ParsedTurn, bodies, st.none() | bodies, calls | refusals | questions | bodies.map(answer))


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_parses(text: str) -> None:
    turn = parse(text)
    assert turn.action.kind is not ActionKind.MALFORMED or turn.action.fault


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
def test_any_mix_of_fragments_of_the_form_parses(text: str) -> None:
    turn = parse(text)
    if turn.action.kind is ActionKind.MALFORMED:
        assert turn.action.fault and turn.action.text == text
    else:
        assert turn.action.fault is None


@given(turns)
def test_a_rendered_turn_parses_back(turn: ParsedTurn) -> None:
    again = parse(render(turn))
    assert again == turn
    # equality alone would let 1, 1.0 and True pass for each other
    assert repr(again) == repr(turn)


@given(turns)
def test_a_parsed_turn_survives_the_disk(turn: ParsedTurn) -> None:
    kept = Turn(plan=turn.plan, check=turn.check, action=turn.action)
    assert Turn.model_validate_json(kept.model_dump_json()) == kept


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_a_malformed_turn_renders_as_it_was_written(text: str) -> None:
    turn = parse(text)
    if turn.action.kind is ActionKind.MALFORMED:
        assert render(turn) == text
        assert parse(render(turn)) == turn


def test_the_usual_turns_are_read() -> None:
    assert parse(f"<think>p</think>{CALL}") == ParsedTurn(
        "p", None, Action(kind=ActionKind.CALL, call=ToolCall(name="look", arguments={"name": "tape"}))
    )
    spaced = " \n<think> p \n</think>\n\n<safety_thoughts>c</safety_thoughts> <answer>a\n</answer>\n "
    assert parse(spaced) == ParsedTurn(" p \n", "c", Action(kind=ActionKind.ANSWER, text="a\n"))
    assert parse('<think></think><tool_call>{"name": "now"}</tool_call>').action.call == ToolCall(name="now")


def test_refusing_and_asking_are_actions_of_their_own() -> None:
    refusal = parse(
        f'<think>p</think><tool_call>{{"name": "{REFUSE_TOOL}", "arguments": {{"reason": "r"}}}}</tool_call>'
    )
    assert (refusal.action.kind, refusal.action.text) == (ActionKind.REFUSE, "r")
    question = act(ToolCall(name=ASK_TOOL, arguments={"question": ["which", 1]}))
    assert (question.kind, question.text) == (ActionKind.ASK, '["which", 1]')
    assert act(ToolCall(name=REFUSE_TOOL)).text == ""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "must start with <think>"),
        ("no tags at all", "text stands outside"),
        ("<answer>a</answer>", "must start with <think>"),
        (CALL, "must start with <think>"),
        ("<safety_thoughts>c</safety_thoughts><think>p</think><answer>a</answer>", "must start with <think>"),
        ("<think>p</think>", "no action"),
        ("<think>p</think><safety_thoughts>c</safety_thoughts>", "no action"),
        (f"<think>p</think>{CALL}{CALL}", "exactly one action"),
        (f"<think>p</think>{CALL}<answer>a</answer>", "exactly one action"),
        ("<think>p</think><answer>a</answer><safety_thoughts>c</safety_thoughts>", "exactly one action"),
        ("<think>p</think><think>q</think>", "<think> may not stand"),
        ("<think>p", "<think> is not closed"),
        ("<think>p</think><tool_call>{}", "<tool_call> is not closed"),
        ("<think>p</think><safety_thoughts>c<answer>a</answer>", "<safety_thoughts> is not closed"),
        ("well <think>p</think><answer>a</answer>", "text stands outside"),
        ("<think>p</think> well <answer>a</answer>", "text stands outside"),
        ("<think>p</think><answer>a</answer> well", "text stands outside"),
        ("<think>p</think><tool_response>x</tool_response><answer>a</answer>", "text stands outside"),
        ("<THINK>p</THINK><answer>a</answer>", "text stands outside"),
        ("<think>a<think>b</think><answer>a</answer>", "a tag stands inside <think>"),
        (f"<think>p</think><answer>{CALL}</answer>", "a tag stands inside <answer>"),
        ("<think>p</think><answer>a</think></answer>", "a tag stands inside <answer>"),
    ],
)
def test_a_turn_that_breaks_the_form_says_how(text: str, fault: str) -> None:
    turn = parse(text)
    assert turn == ParsedTurn("", None, turn.action)
    assert turn.action.kind is ActionKind.MALFORMED and turn.action.text == text
    assert fault in (turn.action.fault or "")


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("", "not valid JSON"),
        ("look(tape)", "not valid JSON"),
        ("{'name': 'a'}", "not valid JSON"),
        ('{"name": "a"} {"name": "b"}', "not valid JSON: Extra data"),
        ('{"name": "a", "arguments": {"x": NaN}}', "NaN is not JSON"),
        ('{"name": "a", "arguments": {"x": [-Infinity]}}', "-Infinity is not JSON"),
        ('{"name": "a", "arguments": {"x": 1e999}}', "a number is too large"),
        ('{"name": "a", "name": "b"}', "a key stands twice"),
        ('{"name": "a", "arguments": {"x": {"k": 1, "k": 1}}}', "a key stands twice"),
        ('{"name": "a", "arguments": {"x": "\\ud800"}}', "not valid Unicode"),
        ('{"name": "a", "arguments": {"\\udfff": 1}}', "not valid Unicode"),
        ('{"name": "\\ud800"}', "not valid Unicode"),
        ("[]", "must be an object"),
        ('"look"', "must be an object"),
        ('{"name": "a", "args": {}}', 'object with "name" and "arguments"'),
        ("{}", 'needs a "name"'),
        ('{"name": ""}', 'needs a "name"'),
        ('{"name": 5}', 'needs a "name"'),
        ('{"name": "a", "arguments": []}', '"arguments" must be an object'),
        ('{"name": "a", "arguments": null}', '"arguments" must be an object'),
        ('{"name": "a", "arguments": {"x": %s}}' % ("9" * 5000), "not valid JSON"),
    ],
)
def test_a_call_that_cannot_be_read_says_why(body: str, fault: str) -> None:
    action = parse(f"<think>p</think><tool_call>{body}</tool_call>").action
    assert action.kind is ActionKind.MALFORMED
    assert fault in (action.fault or "")


@pytest.mark.parametrize("depth", [MAX_DEPTH, 250, 900, 100_000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_call_nested_too_deeply_is_a_fault(depth: int, opening: str, closing: str) -> None:
    value = opening * depth + "1" + closing * depth
    action = parse(f'<think>p</think><tool_call>{{"name": "a", "arguments": {{"x": {value}}}}}</tool_call>').action
    assert action.kind is ActionKind.MALFORMED
    assert "nested deeper" in (action.fault or "") or "recursion" in (action.fault or "")


def test_the_deepest_call_that_parses_can_be_written_and_read() -> None:
    depth = MAX_DEPTH - 2  # the call and its arguments are two levels
    body = f'{{"name": "a", "arguments": {{"x": {"[" * depth}{"]" * depth}}}}}'
    turn = Turn(action=parse(f"<think>p</think><tool_call>{body}</tool_call>").action)
    assert turn.action.kind is ActionKind.CALL
    assert Turn.model_validate_json(turn.model_dump_json()) == turn


@pytest.mark.parametrize(("part", "mark"), list(product(["plan", "check", "answer"], MARKUP)))
def test_text_with_markup_is_not_rendered(part: str, mark: str) -> None:
    parts = {"plan": "p", "check": "c", "answer": "a", part: f"x{mark}y"}
    with pytest.raises(ValueError, match="contains a tag"):
        render(ParsedTurn(parts["plan"], parts["check"], answer(parts["answer"])))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("a", float("nan")),
        ("a", float("-inf")),
        ("a", "\ud800"),
        ("", 1),
        ("a", json.loads("[" * 99 + "]" * 99)),
    ],
)
def test_a_call_that_would_not_parse_back_is_not_rendered(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        render(ParsedTurn("p", None, act(ToolCall(name=name, arguments={"x": value}))))


def test_markup_inside_arguments_is_escaped() -> None:
    turn = ParsedTurn("p", None, act(ToolCall(name="write", arguments={"text": "</tool_call><answer>x</answer>"})))
    assert "<answer>" not in render(turn)
    assert parse(render(turn)) == turn


@given(st.lists(st.sampled_from([*MARKUP, *OBSERVATION_MARKUP, "<", ">", "x"])).map("".join))
def test_a_result_holds_no_markup_but_its_own(text: str) -> None:
    result = render_observation(text)
    assert result.startswith("<tool_response>") and result.endswith("</tool_response>")
    inside = result.removeprefix("<tool_response>").removesuffix("</tool_response>")
    assert not any(mark in inside for mark in (*MARKUP, *OBSERVATION_MARKUP))
    assert inside.replace("&lt;", "<") == text


def test_ordinary_results_stay_as_they_are() -> None:
    assert render_observation("a < b & c > d <br>") == "<tool_response>a < b & c > d <br></tool_response>"
