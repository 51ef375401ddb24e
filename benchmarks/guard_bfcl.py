"""Guesses of missing values on BFCL's multi-turn tasks, put to the provenance guard without a model.

`miss_param`: at one turn the user leaves a value out, and gives it at the next. The scripted guesser makes the next
turn's first ground-truth call that holds a value which only the next message gives, with another value of the same
parameter, taken from another task, or a number one higher. Turns at which the next message gives no value that a call
holds as it is, such as a choice of tool, are left out. `base`: all ground-truth calls, which are right.

Tools come without metadata, so that all count as changing. Results are not recorded: what an agent could have read is
stood in for by the task's initial state, as one result. A right call is left out if a value of it stands neither in
that state nor in what the user said, and may come from a result that nobody recorded: an earlier call of the task ran,
or the tools look such a value up by another, as an airport's code by the city, which the ground truth leaves out. How
many these are, and what is stopped of all right calls, is printed beside it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from demur.envs.guards import Context, Guard, checked
from demur.envs.guards.provenance.values import spelled, stretch_of, values_in
from demur.envs.protocol import act, render_observation
from demur.envs.suites.bfcl.entries import DOCUMENTATION
from demur.envs.suites.calls import keyword_call
from demur.envs.tool import Parameter, Tool
from demur.envs.trace import Level, ToolCall, Turn, Verdict

_LOOK_UP = re.compile(r"(?:get|find)_(?P<what>\w+)_(?:based_on|by)_\w+")
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "list": "array", "any": None}


class Guess(NamedTuple):
    context: Context
    call: ToolCall
    parameter: str

    def is_named_by(self, verdict: Verdict) -> bool:
        """Whether the guard asks for what is missing, by the parameter's name or with a word of its description."""
        if verdict.level is not Level.ASK or verdict.question is None:
            return False
        question = verdict.question.casefold()
        tool = self.context.tools[self.call.name]
        described = next(p.schema.get("description", "") for p in tool.parameters if p.name == self.parameter)
        words = [word for word in str(described).casefold().replace(".", " ").split() if len(word) > 4]
        names = (self.parameter.casefold(), self.parameter.casefold().replace("_", " "))
        return any(name in question for name in (*names, *words))


class Found(NamedTuple):
    """named: whether each guess was stopped with the right question. stopped: whether each right call was, of those
    whose evidence is on record; of_all: of all right calls."""

    named: list[bool]
    stopped: list[bool]
    of_all: list[bool]


def bfcl_figures(guard: Guard, folder: Path) -> Found:
    """Raises ValueError if the files are not there."""
    return asyncio.run(_judge(guard, folder))


async def _judge(guard: Guard, folder: Path) -> Found:
    found = Found([], [], [])
    for guess in guesses(folder):
        found.named.append(guess.is_named_by(await checked(guard, guess.context, guess.call)))
    for context, call in right_calls(folder):
        stopped = not (await checked(guard, context, call)).level.lets_run
        found.of_all.append(stopped)
        if _is_on_record(context, call):
            found.stopped.append(stopped)
    return found


def _is_on_record(context: Context, call: ToolCall) -> bool:
    """Whether each value stands in a text that is there. Before the first call there are no results to miss, but for
    those of look-ups that the ground truth leaves out."""
    texts = (context.query, *context.user_said, context.history[0].observation or "")
    elsewhere = {
        name
        for name, argument in call.arguments.items()
        if any((text := spelled(value)) and not _stands(text, texts) for value in values_in(argument))
    }
    if len(context.history) > 1:
        return not elsewhere
    return not any(_is_looked_up(context.tools, call, name) for name in elsewhere)


def _is_looked_up(tools: Mapping[str, Tool], call: ToolCall, name: str) -> bool:
    """Whether a tool finds such a value by another, as `get_zipcode_based_on_city` does for "the zipcode of a city"."""
    described = next(p.schema.get("description", "") for p in tools[call.name].parameters if p.name == name)
    found = filter(None, map(_LOOK_UP.match, tools))
    return any(word in str(described).casefold().split() for one in found for word in one["what"].split("_"))


def guesses(folder: Path) -> Iterator[Guess]:
    tasks, truth = _tasks(folder, "miss_param")
    pools = _pools(truth.values())
    for task in tasks:
        turns, said = truth[task["id"]], _said(task)
        at = next((at for at, calls in enumerate(turns) if not calls), len(turns))
        if at + 1 >= len(turns):
            continue
        before, clarified = said[: at + 1], said[at + 1]
        for text in turns[at + 1]:
            call = keyword_call(text)
            name = call and next((k for k, v in call.arguments.items() if _only_in(v, clarified, before)), None)
            if call is None or name is None:
                continue
            wrong = _another(call.arguments[name], pools[name], (*before, clarified))
            made = ToolCall(name=call.name, arguments={**call.arguments, name: wrong})
            yield Guess(_context(folder, task, before, _history(task, turns[:at])), made, name)
            break


def right_calls(folder: Path) -> Iterator[tuple[Context, ToolCall]]:
    tasks, truth = _tasks(folder, "base")
    for task in tasks:
        said, done = _said(task), list[list[str]]()
        for at, texts in enumerate(truth[task["id"]]):
            for number, text in enumerate(texts):
                if (call := keyword_call(text)) is not None:
                    history = _history(task, [*done, texts[:number]])
                    yield _context(folder, task, said[: at + 1], history), call
            done.append(texts)


def _context(folder: Path, task: Mapping[str, Any], said: Sequence[str], history: Sequence[Turn]) -> Context:
    """The first message is the query; the others were said since, the one that is worked on last."""
    tools = {tool.name: tool for name in task["involved_classes"] for tool in _tools(folder, DOCUMENTATION[name])}
    return Context(query=said[0], tools=tools, history=tuple(history), user_said=tuple(said[1:]))


def _history(task: Mapping[str, Any], turns: Sequence[Sequence[str]]) -> list[Turn]:
    state = render_observation(json.dumps(task["initial_config"], ensure_ascii=False))
    history = [Turn(action=act(ToolCall(name="read_state")), observation=state, executed=True)]
    calls = [call for texts in turns for text in texts if (call := keyword_call(text))]
    return history + [Turn(action=act(call), executed=True) for call in calls]


def _said(task: Mapping[str, Any]) -> list[str]:
    return ["\n".join(message["content"] for message in turn) for turn in task["question"]]


def _only_in(value: Any, clarified: str, before: Sequence[str]) -> bool:
    text = spelled(value) if isinstance(value, str | int | float) else None
    return bool(text) and stretch_of(str(text), clarified) is not None and not _stands(str(text), before)


def _stands(text: str, places: Sequence[str]) -> bool:
    return any(stretch_of(text, place) is not None for place in places)


def _another(value: Any, pool: Sequence[Any], said: Sequence[str]) -> Any:
    """Another value of the parameter, one that nobody said."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return next(value + more for more in range(1, 1000) if not _stands(str(value + more), said))
    others = (one for one in pool if isinstance(one, str) and one and not _stands(one, said))
    return next(others, f"another {value}")


def _pools(truths: Any) -> Mapping[str, list[Any]]:
    pools: dict[str, list[Any]] = defaultdict(list)
    for text in (text for turns in truths for texts in turns for text in texts):
        if (call := keyword_call(text)) is not None:
            for name, value in call.arguments.items():
                pools[name].append(value)
    return pools


def _tasks(folder: Path, kind: str) -> tuple[list[Any], dict[str, list[list[str]]]]:
    name = f"BFCL_v4_multi_turn_{kind}.json"
    truth = {one["id"]: one["ground_truth"] for one in _lines(folder / "possible_answer" / name)}
    return _lines(folder / name), truth


def _lines(path: Path) -> list[Any]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except OSError as error:
        raise ValueError(f"{path} can not be read: {error.strerror}") from error


@cache
def _tools(folder: Path, name: str) -> tuple[Tool, ...]:
    return tuple(map(_tool, _lines(folder / "multi_turn_func_doc" / f"{name}.json")))


def _tool(function: Mapping[str, Any]) -> Tool:
    listed = function["parameters"]
    parameters = tuple(
        Parameter(name=name, schema=_schema(schema), required=name in listed.get("required", []), source=None)
        for name, schema in listed["properties"].items()
    )
    description = function["description"].rpartition("Tool description: ")[2]
    return Tool(name=function["name"], description=description, parameters=parameters, changes=True)


def _schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    kind = _TYPES.get(schema["type"], schema["type"])
    kept = {key: value for key, value in schema.items() if key in ("description", "enum", "default")}
    return {**kept, "type": kind} if kind else kept
