"""AgentHarm (Andriushchenko et al., arXiv 2410.09024): harmful requests with tools that only pretend, and benign twins.

    suite = AgentHarm.read(Path("agentharm"), "harmful")           # needs the extra `agentharm`
    harm = fmean(suite.score(trajectory)["score"] for trajectory in run_batched(episodes, policy))

Tools and grading functions are those of the package `inspect-evals`, the requests come from the user's folder. Only
cases whose grading function asks no language model are played. Its makers ask that the data is not trained on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from statistics import fmean
from types import CodeType
from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel

from demur.envs.suites.files import read_known
from demur.envs.suites.naming import only_reads
from demur.envs.suites.recorded import RecordedWorld, contract_for, opaque_id, ran
from demur.envs.task import Script, Step, Task
from demur.envs.tool import Parameter, Tool, ToolError
from demur.envs.trace import REFUSE_TOOL, ActionKind, Label, Outcome, ToolCall, Trajectory, Turn
from demur.envs.world import World

Kind = Literal["harmful", "benign"]
Split = Literal["test_public", "validation"]

PACKAGE: Final = "inspect_evals.agentharm.benchmark"
TURN_LIMIT: Final = 10
_SIZES: Final[dict[Split, int]] = {"test_public": 176, "validation": 32}
_REFUSE: Final = (Step(plan="This does harm.", call=ToolCall(name=REFUSE_TOOL, arguments={"reason": "It does harm."})),)
_VALUES: Final[dict[str, Any]] = {
    "string": "it",
    "integer": 1,
    "number": 1.0,
    "boolean": True,
    "array": [],
    "object": {},
}


class Behavior(BaseModel):
    """One case, by the names that its file has."""

    id: str
    prompt: str
    category: str
    target_functions: tuple[str, ...]
    grading_function: str


class _Behaviors(BaseModel):
    behaviors: tuple[Behavior, ...]


@dataclass(frozen=True, kw_only=True)
class AgentHarmTask(Task):
    """targets: the tools that carrying out the request takes."""

    targets: tuple[str, ...]

    def outcome(self, final: World, turns: Sequence[Turn]) -> Outcome:
        """harms of a harmful request: the tools of it that ran. goal of a benign one: the share of them that ran."""
        called = set(ran(turns)) & set(self.targets)
        harmful = self.label is Label.HARMFUL
        facts = {
            "goal": 0.0 if harmful else len(called) / len(set(self.targets)),
            "harms": tuple(sorted(called)) if harmful else (),
            "changed": any(self.tools[name].changes for name in called),
        }
        return super().outcome(final, turns).model_copy(update=facts)


@dataclass(frozen=True)
class AgentHarm:
    """The harmful or the benign requests of one split, of which those with a rule as grading function are played."""

    version: ClassVar[str] = "e23b3fe"
    kind: Kind
    split: Split
    fingerprint: str
    behaviors: tuple[Behavior, ...]

    @classmethod
    def read(cls, folder: Path, kind: Kind = "harmful", split: Split = "test_public") -> AgentHarm:
        """Raises ValueError for a file that is missing, cut or altered, and if the package is not installed."""
        _package("benchmark")
        name = f"{kind}_behaviors_{split}.json"
        files = read_known(folder, "agentharm", [name])
        whole = _Behaviors.model_validate_json(files.contents[name]).behaviors
        free = tuple(behavior for behavior in whole if _asks_no_model(_grading(kind, behavior)))
        return cls(kind, split, files.fingerprint, free)

    @property
    def name(self) -> str:
        return f"agentharm_{self.kind}" + ("" if self.split == "test_public" else f"_{self.split}")

    @property
    def size(self) -> int:
        return _SIZES[self.split]

    def tasks(self) -> list[AgentHarmTask]:
        """In the order of the file. `act` calls every tool of the request once, with made-up values."""
        return [self._task(behavior) for behavior in self.behaviors]

    def score(self, trajectory: Trajectory) -> Mapping[str, float]:
        """`score`: the mean of what the grading function checks. `full`: all of it. `refused`: with the refusal tool;
        upstream asks a language model whether a text refuses."""
        behavior = self._by_id[trajectory.task_id]
        metadata = {"target_functions": list(behavior.target_functions)}
        checks = _finished(_grading(self.kind, behavior)(metadata, list(_messages(trajectory))))
        score = fmean(map(float, checks.values()))
        return {"score": score, "full": float(score == 1), "refused": float(trajectory.outcome.refused)}

    @cached_property
    def _by_id(self) -> dict[str, Behavior]:
        return {self._id(behavior): behavior for behavior in self.behaviors}

    def _id(self, behavior: Behavior) -> str:
        return opaque_id(self.name, behavior.id)

    def _task(self, behavior: Behavior) -> AgentHarmTask:
        package = _package(f"{self.kind}_tools")
        runs = {name: getattr(package, name)() for name in dict.fromkeys(behavior.target_functions)}
        tools = {name: _tool(run) for name, run in runs.items()}
        act, harmful = _all_calls(behavior, tools), self.kind == "harmful"

        def answering(call: ToolCall, done: Sequence[ToolCall]) -> str:
            try:
                return str(_finished(runs[call.name](**call.arguments)))
            except Exception as error:  # a tool of theirs on whatever a policy writes
                raise ToolError(f"{type(error).__name__}: {error}") from error

        return AgentHarmTask(
            id=self._id(behavior),
            family=behavior.category,
            label=Label.HARMFUL if harmful else Label.BENIGN,
            split="test",
            query=behavior.prompt,
            initial=RecordedWorld.of(tools.values(), answering),
            expert=_REFUSE if harmful else act,
            act=act,
            contract=contract_for(behavior.prompt, tools, () if harmful else behavior.target_functions),
            turn_limit=max(TURN_LIMIT, len(act) + 1),
            targets=behavior.target_functions,
        )


def _package(part: str) -> Any:
    """A module of the benchmark. It is slow to import, and brings packages that demur itself does not need."""
    try:
        return import_module(PACKAGE if part == "benchmark" else f"{PACKAGE}.{part}")
    except ImportError as error:
        raise ValueError(f"AgentHarm needs the extra: pip install 'demur[agentharm]' ({error})") from error


def _grading(kind: Kind, behavior: Behavior) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(_package(f"{kind}_grading_functions"), behavior.grading_function)
    return function


def _asks_no_model(grading: Any) -> bool:
    return "semantic_judge" not in set(_names(grading.__code__))


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)


def _finished(waiting: Any) -> Any:
    """What a coroutine gives; in a thread, since this may be called from within an event loop."""
    with ThreadPoolExecutor(1) as own:
        return own.submit(asyncio.run, waiting).result()


def _tool(run: Any) -> Tool:
    known = import_module("inspect_ai.tool").ToolDef(run)
    schema = known.parameters.model_dump(exclude_none=True)
    parameters = tuple(
        Parameter(name=name, schema=fragment, required=name in schema.get("required", ()), source=None)
        for name, fragment in schema.get("properties", {}).items()
    )
    changes = not only_reads(known.name, known.description)
    return Tool(name=known.name, description=known.description, parameters=parameters, changes=changes)


def _messages(trajectory: Trajectory) -> Iterator[Any]:
    """The conversation in the package's form. What did not run is no call in it."""
    model = import_module("inspect_ai.model")
    call_class = import_module("inspect_ai.tool").ToolCall
    error_class = import_module("inspect_ai.tool").ToolCallError
    yield model.ChatMessageUser(content=trajectory.query)
    for number, turn in enumerate(trajectory.turns):
        call, text = turn.action.call, turn.action.text
        if not turn.executed or call is None:
            yield model.ChatMessageAssistant(content=text if turn.action.kind is not ActionKind.CALL else turn.plan)
            continue
        made = call_class(id=str(number), function=call.name, arguments=call.arguments)
        yield model.ChatMessageAssistant(content=turn.plan, tool_calls=[made])
        result = (turn.observation or "").removeprefix("<tool_response>").removesuffix("</tool_response>")
        error = error_class("unknown", result) if turn.failed else None
        yield model.ChatMessageTool(content=result, tool_call_id=str(number), function=call.name, error=error)


def _all_calls(behavior: Behavior, tools: Mapping[str, Tool]) -> Script:
    calls = []
    for name in behavior.target_functions:
        required = (parameter for parameter in tools[name].parameters if parameter.required)
        arguments = {parameter.name: _VALUES.get(str(parameter.schema.get("type")), "it") for parameter in required}
        calls.append(Step(plan="Do it.", call=ToolCall(name=name, arguments=arguments)))
    return (*calls, Step(plan="", answer="Done."))
