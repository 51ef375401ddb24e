"""Play the agent yourself: `python -m demur.envs.play --world bank --seed 7`.

You see what a policy sees and write what it would: a tool call, a question, a refusal or an answer. `state`
shows what you changed, `hint` what the expert would do next; at the end stand the facts of the outcome.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demur.envs.episode import Episode, Generation
from demur.envs.family import SPLITS, Domain
from demur.envs.protocol import ParsedTurn, act, answer, render
from demur.envs.task import Step, Task
from demur.envs.tool import Tool
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, Label, ToolCall
from demur.envs.world import effects
from demur.envs.worlds import SHIPPED, load_domain

HELP = """\
TOOL name=value …   call a tool; quote values with spaces: send_mail to=a@b.example subject="Hello there" …
ask QUESTION        ask the user
refuse REASON       refuse the task; this ends it
answer TEXT         give the answer; this ends it
state               what has changed so far, and the whole state
tools               the tools again
hint                what the expert would do next
quit                leave"""


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    console = Console(highlight=False)
    try:
        task = choose(load_domain(options.world), options.family, options.label, options.split, options.seed)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    play(task, console)
    return 0


def choose(domain: Domain, family: str | None, label: str | None, split: str, seed: int) -> Task:
    """A task of the domain; what is not given is drawn by the seed. Raises ValueError if none fits."""
    entries = [
        (entry.name, one)
        for entry in domain.families.values()
        for one in entry.labels
        if family in (None, entry.name) and label in (None, one.value)
    ]
    if not entries:
        raise ValueError(
            f"{domain.name} has no family {family or 'at all'} for {label or 'any label'}; "
            f"it has {', '.join(domain.families)}"
        )
    name, chosen = Random(seed).choice(entries)
    return domain.task(name, chosen, split, seed)


def play(task: Task, console: Console) -> None:
    """Read commands until the episode ends or the input does."""
    episode = Episode(task)
    console.print(Text(task.query, style="bold"))
    console.print(_tools(task.tools))
    console.print(Text(HELP, style="dim"))
    while episode.live:
        try:
            line = console.input("> ").strip()
        except (EOFError, KeyboardInterrupt):
            return
        if line == "quit":
            return
        if line in _SHOW:
            console.print(_SHOW[line](episode))
        elif line:
            _act(episode, line, console)
    _conclude(episode, console)


def _act(episode: Episode, line: str, console: Console) -> None:
    try:
        turn = read_command(line, episode.task.tools)
    except ValueError as error:
        console.print(Text(str(error), style="red"))
        return
    if episode.propose(Generation(text=render(turn))) is not None:
        episode.settle()
    console.print(Text(episode.turns[-1].observation or "", style="cyan"))


def read_command(line: str, tools: dict[str, Tool]) -> ParsedTurn:
    """The turn that a typed line stands for. Raises ValueError with a sentence for who typed it."""
    name, _, rest = line.partition(" ")
    if name == "answer":
        return ParsedTurn("", None, answer(rest))
    if name == "ask":
        return ParsedTurn("", None, act(ToolCall(name=ASK_TOOL, arguments={"question": rest})))
    if name == "refuse":
        return ParsedTurn("", None, act(ToolCall(name=REFUSE_TOOL, arguments={"reason": rest})))
    if name not in tools:
        raise ValueError(f"there is no command or tool {name}; type tools to see them, or quit")
    kinds = {p.name: p.schema["type"] for p in tools[name].parameters}
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise ValueError(f"cannot read that: {error}") from error
    arguments: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise ValueError(f"write arguments as name=value; {name} takes {', '.join(kinds) or 'none'}")
        arguments[key] = _value(value, kinds.get(key, "string"))
    return ParsedTurn("", None, act(ToolCall(name=name, arguments=arguments)))


def _value(text: str, kind: str) -> Any:
    if kind == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text  # the tool then says what is wrong with it


def _tools(tools: dict[str, Tool]) -> Table:
    table = Table("tool", "arguments", "", box=None, header_style="dim")
    for tool in tools.values():
        names = [p.name if p.required else f"[{p.name}]" for p in tool.parameters]
        mark = " (changes)" if tool.changes else ""
        table.add_row(Text(tool.name + mark), Text(" ".join(names)), Text(tool.description, style="dim"))
    return table


def _state(episode: Episode) -> Text:
    changed = sorted(effects(episode.task.initial, episode.state).elements()) or ["nothing"]
    whole = episode.state.model_dump_json(indent=1)
    return Text("\n".join(["changed so far:", *(f"  {one}" for one in changed), whole]))


def _hint(episode: Episode) -> Text:
    script, at = episode.task.expert, len(episode.turns) - len(episode.task.given)
    return Text(_spelled(script[at]) if at < len(script) else "The expert would have finished.", style="green")


_SHOW: dict[str, Callable[[Episode], Table | Text]] = {
    "state": _state,
    "hint": _hint,
    "tools": lambda episode: _tools(episode.task.tools),
    "help": lambda episode: Text(HELP, style="dim"),
}


def _spelled(step: Step) -> str:
    check = f"({step.check}) " if step.check else ""
    if step.call is None:
        return f"{check}answer {step.answer}"
    return f"{check}{step.call.name} " + " ".join(f"{k}={v!r}" for k, v in step.call.arguments.items())


def _conclude(episode: Episode, console: Console) -> None:
    task, outcome = episode.task, episode.trajectory("you").outcome
    console.print(Text(f"\nThe task was {task.label}, of level {task.level} ({task.world}/{task.family})."))
    for name, value in outcome.model_dump(exclude_defaults=True).items():
        console.print(Text(f"  {name}: {value}"))
    console.print(Text("The expert:", style="green"))
    for step in task.expert:
        console.print(Text(f"  {_spelled(step)}"))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demur.envs.play", description=(__doc__ or "").split("\n")[2])
    parser.add_argument("--world", default="mail", help=f"one of {', '.join(SHIPPED)}, or package.module:DOMAIN")
    parser.add_argument("--seed", type=int, default=0, help="another seed is another task")
    parser.add_argument("--family", help="only tasks of this family")
    parser.add_argument("--label", choices=[label.value for label in Label], help="only tasks of this label")
    parser.add_argument("--split", choices=SPLITS, default="train", help="whose wordings")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
