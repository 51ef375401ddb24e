"""Reading Agent-SafetyBench: which cases, with which tools, and what is said of files that are none."""

import json
from pathlib import Path
from typing import Any

import pytest

from demur.envs.suites.agent_safetybench import read_cases
from tests.envs.suites.agent_safetybench.helpers import TOOLS, data_folder, released

DATA = Path(__file__).parents[5] / "shared" / "data" / "agent_safetybench"


def test_cases_of_the_failure_mode_are_read_in_order(tmp_path: Path) -> None:
    empty = {"environments": [{"name": "", "tools": [], "parameters": {}}]}
    folder = data_folder(
        tmp_path,
        [
            released(7),
            released(3, "1,2"),
            released(4, "1"),
            released(5, **empty),
            released(6, dialog=[{"role": "user"}]),
        ],
    )
    cases = read_cases(folder)
    assert [case.id for case in cases] == [7, 3]
    assert cases[1].failure_modes == {1, 2} and not cases[1].fulfillable
    assert [case.id for case in read_cases(folder, {1})] == [3, 4]


def test_a_case_offers_its_tools_as_documented_and_keeps_its_state(tmp_path: Path) -> None:
    environments = [
        {"name": "Home", "tools": ["search_guests"], "parameters": None},
        {"name": "Email", "tools": ["send_email"], "parameters": {"inbox": []}},
    ]
    (case,) = read_cases(data_folder(tmp_path, [released(1, environments=environments)]))
    assert list(case.tools) == ["search_guests", "send_email"]
    assert case.tools["send_email"].schema()["function"] == TOOLS["Email"][0]
    assert case.state == {"Home": {}, "Email": {"inbox": []}}


def test_a_tool_only_reads_if_its_name_and_its_description_say_so(tmp_path: Path) -> None:
    home = {"name": "Home", "tools": ["search_guests", "remove_access", "get_notes"]}
    (case,) = read_cases(data_folder(tmp_path, [released(1, environments=[home])]))
    assert {name: tool.changes for name, tool in case.tools.items()} == {
        "search_guests": False,
        "remove_access": True,
        "get_notes": True,
    }


@pytest.mark.parametrize(
    ("cases", "said"),
    [
        ([released(1), released(1)], "holds the case 1 twice"),
        ([released(1, "3")], "no case of failure mode 2"),
        ([released(1, "two")], "0.failure_modes"),
        ([released(1, instruction="")], "0.instruction"),
        ([released(1, environments=[{"name": "Home", "tools": ["fly"]}])], "offers 'fly' of 'Home'"),
        ([released(1, environments=[{"name": "Mars", "tools": ["fly"]}])], "offers 'fly' of 'Mars'"),
        ([released(1, environments=[{"name": "Email", "tools": ["send_email"]}] * 2)], "two tools named 'send_email'"),
    ],
)
def test_what_is_wrong_with_a_case_is_said_with_the_file(tmp_path: Path, cases: list[Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        read_cases(data_folder(tmp_path, cases))
    assert "released_data.json" in str(raised.value)


def test_missing_and_cut_files_and_unknown_modes_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"environment_tools.json can not be read"):
        read_cases(tmp_path)
    folder = data_folder(tmp_path)
    with pytest.raises(ValueError, match="no failure mode 11"):
        read_cases(folder, {2, 11})
    for name in ("released_data.json", "environment_tools.json"):
        path = data_folder(tmp_path) / name
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(ValueError, match=f"{name} is not of Agent-SafetyBench"):
            read_cases(folder)


@pytest.mark.skipif(not DATA.exists(), reason="Agent-SafetyBench is not beside the repository")
def test_the_released_cases_of_mode_2_all_have_tools_that_are_documented() -> None:
    cases = read_cases(DATA)
    whole = json.loads((DATA / "released_data.json").read_bytes())
    assert len(cases) == sum("2" in case["failure_modes"].split(",") for case in whole) >= 188
    assert all(case.tools for case in cases)
    tools = [tool for case in cases for tool in case.tools.values()]
    assert 0.3 < sum(tool.changes for tool in tools) / len(tools) < 0.7
    assert all(tool.changes for tool in tools if tool.name.startswith(("adjust", "delete", "send", "update")))
