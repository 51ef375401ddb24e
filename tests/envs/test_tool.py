"""Tools: what a signature says becomes the schema, and arguments that do not fit are named."""

from typing import Any

import pytest

from demur.envs.tool import ASK, REFUSE, ToolError, tool, tools_of
from tests.envs.helpers import Shop, call, shop

TOOLS = Shop.tools()


def test_a_schema_follows_from_the_signature() -> None:
    assert TOOLS["order"].schema() == {
        "type": "function",
        "function": {
            "name": "order",
            "description": "Order goods.",
            "parameters": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "count": {"type": "integer"},
                    "note": {"type": "string"},
                },
                "required": ["name", "count"],
            },
        },
    }
    properties = TOOLS["open_at"].schema()["function"]["parameters"]["properties"]
    assert properties == {
        "part": {"type": "string", "enum": ["all day", "morning"]},
        "price": {"type": "number"},
        "loud": {"type": "boolean"},
    }


def test_tools_come_in_the_order_they_are_written_with_one_line_of_description() -> None:
    assert list(TOOLS) == ["look", "order", "drop", "open_at"]
    assert TOOLS["look"].description == "Say how many there are of a kind."


def test_annotations_are_kept() -> None:
    assert [t.changes for t in TOOLS.values()] == [False, True, True, True]
    assert [t.reversible for t in TOOLS.values()] == [True, True, False, True]
    assert TOOLS["order"].derivable == {"name", "count"}
    sources = {p.name: p.source for p in TOOLS["order"].parameters}
    assert sources["note"] == "generative"
    assert REFUSE.derivable == ASK.derivable == frozenset()
    assert not REFUSE.changes and not ASK.changes


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("look", {}, "look needs 'name'"),
        ("look", {"name": "tape", "size": 1}, "look has no parameter 'size'"),
        ("look", {"self": 1, "name": "tape"}, "no parameter 'self'"),
        ("look", {"name": 3}, "'name' must be of type string"),
        ("look", {"name": None}, "'name' must be of type string"),
        ("order", {"name": "nails", "count": "7"}, "'count' must be of type integer"),
        ("order", {"name": "nails", "count": 7.0}, "'count' must be of type integer"),
        ("order", {"name": "nails", "count": True}, "'count' must be of type integer"),
        ("open_at", {"part": "morning", "price": False}, "'price' must be of type number"),
        ("open_at", {"part": "morning", "loud": 1}, "'loud' must be of type boolean"),
        ("open_at", {"part": "night"}, "'part' must be one of all day, morning"),
        ("open_at", {"part": ["morning"]}, "'part' must be of type string"),
    ],
)
def test_arguments_that_do_not_fit_are_named_and_change_nothing(
    name: str, arguments: dict[str, Any], fault: str
) -> None:
    assert fault in (TOOLS[name].fault(arguments) or "")
    state = shop()
    with pytest.raises(ToolError, match=fault.replace("[", r"\[")):
        state.run(call(name, **arguments)) if "self" not in arguments else state.run(
            call(name).model_copy(update={"arguments": arguments})
        )
    assert state == shop()


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("look", {"name": ""}),
        ("order", {"name": "nails", "count": -(10**30)}),
        ("order", {"name": "nails", "count": 1, "note": "x"}),
        ("open_at", {"part": "morning", "price": 2}),
        ("open_at", {"part": "all day", "price": 0.5, "loud": True}),
    ],
)
def test_arguments_that_fit_have_no_fault(name: str, arguments: dict[str, Any]) -> None:
    assert TOOLS[name].fault(arguments) is None


def test_a_tool_without_description_is_a_mistake_of_its_author() -> None:
    class Bare:
        @tool(changes=False)
        def nothing(self) -> str:
            return ""

    with pytest.raises(AssertionError, match="needs a docstring"):
        tools_of(Bare)


def test_methods_that_are_not_marked_are_no_tools() -> None:
    with pytest.raises(ToolError, match="no tool 'copy_state'"):
        shop().run(call("copy_state"))
