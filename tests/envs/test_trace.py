"""The trajectory schema: what a judge sees of it, and what is on disk."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from demur.envs.protocol import parse
from demur.envs.trace import (
    Action,
    ActionKind,
    Ending,
    Label,
    Level,
    Outcome,
    TokenCounts,
    ToolCall,
    Trajectory,
    Turn,
    Verdict,
    read_jsonl,
    write_jsonl,
)
from tests.envs.helpers import make_trajectory

short = st.text(max_size=12)
verdicts = st.builds(
    Verdict,
    level=st.sampled_from(Level),
    guard=short,
    reason=short,
    stage=st.none() | short,
    evidence=st.lists(short, max_size=2).map(tuple),
)
actions = st.sampled_from(
    [
        parse('<think>p</think><tool_call>{"name": "a", "arguments": {"x": [1.5, null, "\\u2028"]}}</tool_call>'),
        parse("<think>p</think><answer>\r\n \x85</answer>"),
        parse("broken"),
    ]
)
turns = st.builds(
    lambda parsed, **rest: Turn(plan=parsed.plan, check=parsed.check, action=parsed.action, **rest),
    actions,
    raw=short,
    observation=st.none() | short,
    executed=st.booleans(),
    verdicts=st.lists(verdicts, max_size=2).map(tuple),
    tokens=st.builds(TokenCounts, *[], plan=st.integers(0, 9), total=st.integers(0, 99)),
)
outcomes = st.builds(
    Outcome,
    goal=st.floats(0, 1),
    harms=st.lists(short, max_size=2).map(tuple),
    attack=st.floats(0, 1),
    refused=st.booleans(),
    refusal_turn=st.none() | st.integers(0, 7),
    well_formed=st.booleans(),
)
trajectories = st.builds(
    Trajectory,
    task_id=short,
    world=short,
    family=short,
    label=st.sampled_from(Label),
    split=short,
    query=short,
    turns=st.lists(turns, max_size=3).map(tuple),
    ending=st.sampled_from(Ending),
    outcome=outcomes,
    turn_limit=st.integers(1, 20),
    acted_intent=st.none() | st.floats(0, 1),
    error=st.none() | short,
)


@given(st.lists(trajectories, max_size=3))
def test_trajectories_survive_the_disk(tmp_path_factory: Any, kept: list[Trajectory]) -> None:
    path = tmp_path_factory.mktemp("jsonl") / "new" / "rollouts.jsonl"
    write_jsonl(path, kept)
    assert list(read_jsonl(path)) == kept
    assert path.read_bytes().count(b"\n") == len(kept)
    assert [file.name for file in path.parent.iterdir()] == ["rollouts.jsonl"]


@pytest.mark.parametrize("bad", [b"{}", b"", b"not json", b'{"task_id": "\xff"}', b"[1, 2]", b'{"label": "odd"}'])
def test_a_bad_line_names_the_file_and_the_line(tmp_path: Path, bad: bytes) -> None:
    path = tmp_path / "rollouts.jsonl"
    write_jsonl(path, [make_trajectory(), make_trajectory()])
    good, _ = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([good, bad, good]))
    lines = read_jsonl(path)
    assert next(lines) == make_trajectory()
    with pytest.raises(ValueError, match=r"rollouts\.jsonl:2 is not a trajectory"):
        next(lines)


def test_keys_that_the_schema_does_not_know_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "rollouts.jsonl"
    line = make_trajectory().model_dump_json()
    path.write_text(line[:-1] + ', "surprise": 1}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="surprise"):
        list(read_jsonl(path))


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rollouts.jsonl"
    write_jsonl(path, [make_trajectory(query="old")])
    really_open = Path.open

    def opened(self: Path, *arguments: Any, **options: Any) -> Any:
        file = really_open(self, *arguments, **options)
        really_write = file.write

        def write(text: str) -> int:
            really_write(text[: len(text) // 2])
            file.flush()
            raise OSError(errno.ENOSPC, "No space left on device")

        file.write = write
        return file

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opened)
        with pytest.raises(OSError, match="No space left"):
            write_jsonl(path, [make_trajectory(query="new")])
    assert [file.name for file in tmp_path.iterdir()] == ["rollouts.jsonl"]
    assert [one.query for one in read_jsonl(path)] == ["old"]


def test_trajectories_that_stop_coming_leave_no_half_file(tmp_path: Path) -> None:
    def failing() -> Iterator[Trajectory]:
        yield make_trajectory()
        raise RuntimeError("the rollout died")

    with pytest.raises(RuntimeError, match="died"):
        write_jsonl(tmp_path / "rollouts.jsonl", failing())
    assert list(tmp_path.iterdir()) == []


def test_a_view_shows_what_was_said_and_nothing_about_the_task() -> None:
    hidden = Verdict(level=Level.WARN, guard="GUARD-NAME", reason="HIDDEN-REASON", evidence=("HIDDEN-EVIDENCE",))
    acted = Action(kind=ActionKind.CALL, call=ToolCall(name="look"))
    trajectory = make_trajectory(
        Label.HARMFUL,
        task_id="TASK-ID",
        family="FAMILY-NAME",
        split="SPLIT-NAME",
        query="the query",
        policy="POLICY-NAME",
        guard="GUARD-NAME",
        error="THE-ERROR",
        outcome=Outcome(harms=("HARM-DONE",), damage=("DAMAGE-DONE",), leaks=("LEAKED-SECRET",)),
        turns=(
            Turn(action=acted, raw="first raw", observation="an observation", verdicts=(hidden,), executed=True),
            Turn(action=Action(kind=ActionKind.ANSWER, text="a"), raw="second raw"),
        ),
    )
    view = trajectory.view()
    assert view == [
        {"role": "user", "content": "the query"},
        {"role": "assistant", "content": "first raw"},
        {"role": "user", "content": "an observation"},
        {"role": "assistant", "content": "second raw"},
    ]
    facts = ["TASK-ID", "NAME", "HIDDEN", "DONE", "LEAKED", "THE-ERROR", "harmful"]
    assert not [fact for fact in facts if fact in str(view)]


def test_calls_are_those_that_ran() -> None:
    ran, stopped = ToolCall(name="a"), ToolCall(name="b")
    turns = (
        Turn(action=Action(kind=ActionKind.CALL, call=ran), executed=True),
        Turn(action=Action(kind=ActionKind.CALL, call=stopped)),
        Turn(action=Action(kind=ActionKind.MALFORMED, fault="x")),
    )
    trajectory = make_trajectory(turns=turns)
    assert trajectory.calls == [ran]
    assert trajectory.valid_turns == 2


def test_only_the_mild_levels_let_a_call_run() -> None:
    assert [level for level in Level if level.lets_run] == [Level.ALLOW, Level.WARN]
    assert sorted(Level, key=lambda level: level.severity)[-1] is Level.BLOCK


def test_only_an_error_is_an_error() -> None:
    assert [ending for ending in Ending if ending.is_error] == [Ending.ERROR]


@pytest.mark.parametrize(("one", "other"), [({"x": 1}, {"x": 2}), ({"x": 1}, {}), ({}, {"y": None})])
def test_calls_are_the_same_by_name_and_arguments(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert ToolCall(name="a", arguments=one).same_as(ToolCall(name="a", arguments=dict(one)))
    assert not ToolCall(name="a", arguments=one).same_as(ToolCall(name="a", arguments=other))
    assert not ToolCall(name="a", arguments=one).same_as(ToolCall(name="b", arguments=one))


def test_records_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        make_trajectory().query = "other"
