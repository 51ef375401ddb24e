"""Playing a task by hand, and the catalogue: what is typed, what is shown, and how mistakes are answered."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from demur.envs import catalogue, play
from demur.envs.task import Task
from demur.envs.trace import Label
from demur.envs.worlds import SHIPPED, load_domain

ROOT = Path(__file__).parents[2]


def played(task: Task, *lines: str, monkeypatch: pytest.MonkeyPatch) -> str:
    typed = iter(lines)

    def read(prompt: str = "") -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    out = io.StringIO()
    console = Console(file=out, width=200, highlight=False)
    monkeypatch.setattr(console, "input", read)
    play.play(task, console)
    return out.getvalue()


def commands(task: Task) -> list[str]:
    """The expert's script as a person would type it."""
    lines = []
    for step in task.expert:
        if step.call is None:
            lines.append(f"answer {step.answer}")
        elif step.call.name == "ask_user":
            lines.append(f"ask {step.call.arguments['question']}")
        elif step.call.name == "refuse_unsafe_task":
            lines.append(f"refuse {step.call.arguments['reason']}")
        else:
            words = [f'{name}="{value}"' for name, value in step.call.arguments.items()]
            lines.append(" ".join([step.call.name, *words]))
    return lines


@pytest.mark.parametrize("label", list(Label))
def test_a_person_who_types_what_the_expert_does_gets_there(label: Label, monkeypatch: pytest.MonkeyPatch) -> None:
    task = play.choose(load_domain("mail"), None, label, "train", 7)
    shown = played(task, *commands(task), monkeypatch=monkeypatch)
    assert task.query in shown and f"The task was {label}" in shown
    assert "damage" not in shown and "harms" not in shown and "attack:" not in shown


def test_help_state_hint_and_mistakes(monkeypatch: pytest.MonkeyPatch) -> None:
    task = load_domain("mail").task("delete_a_mail", Label.BENIGN, "train", 1)
    key = task.expert[1].call.arguments["id"]  # type: ignore[union-attr]
    shown = played(
        task,
        "",
        "help",
        "tools",
        "hint",
        "fly",
        "read_mail",
        "read_mail m0",
        "delete_mail 'x",
        f"delete_mail id={key}",
        "state",
        "quit",
        "answer never read",
        monkeypatch=monkeypatch,
    )
    assert "search_mail words=" in shown  # the hint
    assert "there is no command or tool fly" in shown
    assert "read_mail needs 'id'" in shown
    assert "write arguments as name=value; read_mail takes id" in shown
    assert "cannot read that" in shown
    assert f"inbox - {key}" in shown and "The task was" not in shown


def test_values_get_the_type_that_the_tool_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = load_domain("bank").world.tools()
    turn = play.read_command("transfer to=1234 amount=50", tools)
    assert turn.action.call is not None and turn.action.call.arguments == {"to": "1234", "amount": 50}
    turn = play.read_command("set_frozen frozen=true", tools)
    assert turn.action.call is not None and turn.action.call.arguments == {"frozen": True}


def test_a_task_that_does_not_exist_is_one_line_and_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert play.main(["--world", "moon"]) == 2
    assert play.main(["--world", "mail", "--family", "fly"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "there is no world 'moon'" in lines[0] and "no family fly" in lines[1]


def test_the_end_of_the_input_ends_the_game() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "demur.envs.play", "--world", "bank", "--seed", "7"],
        input="state\n",
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert "changed so far" in run.stdout


# Catalogue


def test_the_catalogue_counts_what_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert catalogue.main(["--world", "mail"]) == 0
    assert "mail" in capsys.readouterr().out
    (row,) = catalogue.counts([load_domain("mail")])[1:]
    assert row[0] == "mail" and row[1] == str(len(load_domain("mail").world.tools()))


def test_three_samples_of_a_family(capsys: pytest.CaptureFixture[str]) -> None:
    assert catalogue.main(["--family", "move_an_event"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("benign, level") == 3 == shown.count("underspecified, level")
    assert catalogue.main(["--family", "fly"]) == 2
    assert "there is no family fly" in capsys.readouterr().err


def test_the_page_holds_the_catalogue_of_today() -> None:
    """Made anew by `python -m demur.envs.catalogue --markdown`, below the page's first lines."""
    page = (ROOT / "docs" / "catalogue.md").read_text(encoding="utf-8")
    assert catalogue.markdown([load_domain(name) for name in SHIPPED]) in page


def test_every_risk_and_failure_mode_is_covered() -> None:
    domains = [load_domain(name) for name in SHIPPED]
    for tags in (catalogue.Risk, catalogue.Mode):
        for name, *cells in catalogue.coverage(domains, tags)[1:]:
            assert sum(cell != "0" for cell in cells) >= 1, name
