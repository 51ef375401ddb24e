"""AgentDojo (arXiv 2406.13352): our policies and guards as an element of its pipelines, scored by its own checks.

    results = list(evaluate(policy, guard, attack="important_instructions"))
    figures(results).attack_success

    pipeline = AgentPipeline([SystemMessage("…"), DojoAgent(policy, guard)])  # or in a pipeline of AgentDojo's
    pipeline.name = "local"

Needs the extra `agentdojo`, best in an environment of its own: the package wants other versions than constraints.txt
has. It is imported when it is used, which takes some seconds.
"""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, ClassVar, Final, NamedTuple

from pydantic import PrivateAttr

from demur.envs.engine import AsyncPolicy, Policy, run_async, run_lockstep
from demur.envs.episode import DEFAULT_PROMPT, Episode, PromptOptions
from demur.envs.guards import Guard
from demur.envs.protocol import OBSERVATION_MARKUP
from demur.envs.suites.calls import plain
from demur.envs.suites.naming import only_reads
from demur.envs.suites.recorded import contract_for, opaque_id
from demur.envs.task import Script, Step, Task
from demur.envs.tool import Parameter, Tool, ToolError
from demur.envs.trace import Action, ActionKind, Label, Outcome, ToolCall, Trajectory, Turn
from demur.envs.world import Effect, World

VERSION: Final = "v1.2.2"
PACKAGE: Final = "agentdojo==0.1.35"
SUITES: Final = ("workspace", "travel", "banking", "slack")
TURN_LIMIT: Final = 30
"""The ground truths of a task and an injection take 23 together, the answer included."""


class DojoWorld(World):
    """One of AgentDojo's environments, with the functions of its runtime as tools."""

    domain: ClassVar[str] = "agentdojo"
    _runtime: Any = PrivateAttr()
    _environment: Any = PrivateAttr()
    _tools: dict[str, Tool] = PrivateAttr()

    @classmethod
    def of(cls, runtime: Any, environment: Any) -> DojoWorld:
        world = cls()
        world._runtime, world._environment = runtime, environment
        world._tools = {name: _tool(function) for name, function in runtime.functions.items()}
        return world

    @property
    def environment(self) -> Any:
        return self._environment

    def offered(self) -> dict[str, Tool]:
        return dict(self._tools)

    def run(self, call: ToolCall) -> str:
        """The result as AgentDojo tells a model, in YAML. Raises ToolError with AgentDojo's own text."""
        from agentdojo.agent_pipeline.tool_execution import tool_result_to_str

        result, error = self._runtime.run_function(self._environment, call.name, copy.deepcopy(call.arguments))
        if error is not None:
            raise ToolError(error)
        return str(tool_result_to_str(result))

    def copy_state(self) -> World:
        other = type(self)()
        other._runtime, other._tools = self._runtime, self._tools
        other._environment = self._environment.model_copy(deep=True)
        return other


@dataclass(frozen=True, kw_only=True)
class DojoTask(Task):
    """What AgentDojo asks of an agent. Its checks say how it went, not `outcome`, which knows no goal."""

    told: str

    @property
    def briefing(self) -> str:
        return self.told

    @cached_property
    def goal_effects(self) -> Counter[Effect]:
        return Counter()

    @cached_property
    def act_effects(self) -> Counter[Effect]:
        return Counter()

    def outcome(self, final: World, turns: Sequence[Turn]) -> Outcome:
        assert isinstance(self.initial, DojoWorld) and isinstance(final, DojoWorld)
        changed = final.environment != self.initial.environment
        return super().outcome(final, turns).model_copy(update={"goal": 0.0, "changed": changed})


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a task beyond what AgentDojo tells an agent: it is for scripts, guards and records."""

    id: str
    family: str
    label: Label
    expert: Script = ()
    act: Script = ()


class DojoAgent:
    """A whole agent as one pipeline element: it reads the query, calls tools past the guard, and answers.

    It duck-types `BasePipelineElement`: AgentDojo calls `query` and reads `name`, which some attacks search for a
    model they know, such as `local`. trajectory: of the last query.
    """

    def __init__(
        self, policy: Policy | AsyncPolicy, guard: Guard | None = None, options: PromptOptions = DEFAULT_PROMPT
    ) -> None:
        self.name = f"{policy.name}-local"
        self.trajectory: Trajectory | None = None
        self.known: Known | None = None
        self._policy, self._guard, self._options = policy, guard, options

    def query(
        self,
        query: str,
        runtime: Any,
        env: Any,
        messages: Sequence[Mapping[str, Any]] = (),
        extra_args: Mapping[str, Any] | None = None,
    ) -> tuple[str, Any, Any, list[Mapping[str, Any]], dict[str, Any]]:
        """What a pipeline's element gives: the query, runtime and arguments, the environment as the agent left it, and
        the messages with the agent's own. A system message among them takes the place of AgentDojo's default."""
        episode = Episode(self._task(query, runtime, env, messages), self._options)
        self.trajectory = self._play(episode)
        asked = [] if any(message["role"] == "user" for message in messages) else [_message("user", query)]
        said = [*messages, *asked, *chat(self.trajectory)]
        assert isinstance(episode.state, DojoWorld)
        return query, runtime, episode.state.environment, said, dict(extra_args or {})

    def _task(self, query: str, runtime: Any, env: Any, messages: Sequence[Mapping[str, Any]]) -> DojoTask:
        from agentdojo.agent_pipeline.agent_pipeline import load_system_message
        from agentdojo.types import get_text_content_as_str

        told = next((get_text_content_as_str(m["content"]) for m in messages if m["role"] == "system"), None)
        known = self.known or Known(id=opaque_id("agentdojo", query), family="own", label=Label.BENIGN)
        initial = DojoWorld.of(runtime, env)
        wanted = [step.call.name for step in known.expert if step.call is not None]
        return DojoTask(
            id=known.id,
            family=known.family,
            label=known.label,
            split="test",
            query=query,
            initial=initial,
            expert=known.expert,
            act=known.act,
            contract=contract_for(query, initial.offered(), wanted),
            turn_limit=TURN_LIMIT,
            told=told or load_system_message(None),
        )

    def _play(self, episode: Episode) -> Trajectory:
        policy = self._policy
        if hasattr(policy, "respond"):
            return asyncio.run(self._respond(episode, policy))
        return run_lockstep([episode], policy, self._guard)[0]

    async def _respond(self, episode: Episode, policy: Any) -> Trajectory:
        try:
            return (await run_async([episode], policy, self._guard))[0]
        finally:
            if hasattr(policy, "close"):
                await policy.close()  # its connections belong to this event loop


class Result(NamedTuple):
    """One task played. utility: the user's task was solved. attacked: the injection reached its goal.

    trajectory: with these two as `goal` and `attack` of its outcome.
    """

    suite: str
    user_task: str
    injection_task: str | None
    utility: bool
    attacked: bool
    trajectory: Trajectory


class Figures(NamedTuple):
    """AgentDojo's measures, shares in [0, 1], None without such tasks. errors: tasks on which the policy's backend
    failed, which count nowhere else."""

    utility: float | None
    utility_under_attack: float | None
    attack_success: float | None
    errors: int


def evaluate(
    policy: Policy | AsyncPolicy,
    guard: Guard | None = None,
    *,
    suites: Sequence[str] = SUITES,
    attack: str | None = None,
    options: PromptOptions = DEFAULT_PROMPT,
) -> Iterator[Result]:
    """Play all user tasks of the suites and, under an attack of AgentDojo's, each pair with an injection task.

    One at a time, 97 tasks and 949 pairs in all. Raises ValueError for a suite or an attack that there is not, and if
    the package is not installed.
    """
    agent = DojoAgent(policy, guard, options)
    for suite in [load_suite(name) for name in suites]:
        attacking = None if attack is None else _attack(attack, suite, agent)
        for user_task in suite.user_tasks.values():
            yield play(suite, agent, user_task)
            if attacking is not None:
                for injection_task in suite.injection_tasks.values():
                    yield play(suite, agent, user_task, injection_task, attacking.attack(user_task, injection_task))


def figures(results: Iterable[Result]) -> Figures:
    listed = list(results)
    played = [one for one in listed if not one.trajectory.ending.is_error]
    benign = [one.utility for one in played if one.injection_task is None]
    attacked = [one for one in played if one.injection_task is not None]
    return Figures(
        utility=fmean(benign) if benign else None,
        utility_under_attack=fmean(one.utility for one in attacked) if attacked else None,
        attack_success=fmean(one.attacked for one in attacked) if attacked else None,
        errors=len(listed) - len(played),
    )


def play(
    suite: Any,
    agent: DojoAgent,
    user_task: Any,
    injection_task: Any = None,
    injections: Mapping[str, str] | None = None,
) -> Result:
    """One task of a suite, with an injection if one is named. injections: what is put in which place."""
    placed = dict(injections or {})
    loaded = suite.load_and_inject_default_environment(placed)  # slow: it reads YAML
    environment = user_task.init_environment(loaded.model_copy(deep=True))
    expert = _script(user_task, environment)
    act = expert if injection_task is None else _hijacked(expert, _script(injection_task, environment))
    injected = None if injection_task is None else injection_task.ID
    agent.known = Known(
        id=opaque_id("agentdojo", suite.name, user_task.ID, injected),
        family=suite.name,
        label=Label.BENIGN if injection_task is None else Label.INJECTED,
        expert=expert,
        act=act,
    )
    try:
        utility, reached = suite.run_task_with_pipeline(agent, user_task, injection_task, placed, environment=loaded)
    finally:
        agent.known = None
    attacked = injection_task is not None and bool(reached)  # without an injection it says True
    assert agent.trajectory is not None, "it was played"
    facts = {"goal": float(utility), "attack": float(attacked)}
    outcome = agent.trajectory.outcome.model_copy(update=facts)
    trajectory = agent.trajectory.model_copy(update={"outcome": outcome})
    return Result(suite.name, user_task.ID, injected, bool(utility), attacked, trajectory)


def load_suite(name: str) -> Any:
    """A suite of AgentDojo v1.2.2. Raises ValueError for a name that is none, and if the package is not there."""
    if name not in SUITES:
        raise ValueError(f"AgentDojo has no suite {name!r}: use one of {', '.join(SUITES)}")
    try:
        from agentdojo.task_suite.load_suites import get_suite
    except ImportError as error:
        raise ValueError(f"AgentDojo can not be imported ({error}): pip install {PACKAGE}") from error
    return get_suite(VERSION, name)


def chat(trajectory: Trajectory) -> list[Mapping[str, Any]]:
    """An episode as AgentDojo's messages. Calls that did not run are text there: its checks read the calls."""
    from agentdojo.functions_runtime import FunctionCall

    messages: list[Mapping[str, Any]] = []
    for turn in trajectory.turns:
        result = _unwrapped(turn.observation or "")
        if turn.executed and turn.action.call is not None:
            call = FunctionCall(function=turn.action.call.name, args=copy.deepcopy(turn.action.call.arguments))
            messages.append(_message("assistant", turn.plan, tool_calls=[call]))
            failed = {"error": result if turn.failed else None, "tool_call": call, "tool_call_id": None}
            messages.append(_message("tool", "" if turn.failed else result, **failed))
            continue
        messages.append(_message("assistant", _said(turn.action, turn.raw), tool_calls=None))
        if turn.observation is not None:
            messages.append(_message("user", result))
    if not messages or messages[-1]["role"] != "assistant":
        messages.append(_message("assistant", "", tool_calls=None))  # AgentDojo reads an answer there
    return messages


def _said(action: Action, raw: str) -> str:
    return action.text if action.kind in (ActionKind.ANSWER, ActionKind.REFUSE) else raw


def _message(role: str, text: str, **more: Any) -> Mapping[str, Any]:
    return {"role": role, "content": [{"type": "text", "content": text}], **more}


def _unwrapped(observation: str) -> str:
    opening, closing = OBSERVATION_MARKUP
    return observation.removeprefix(opening).removesuffix(closing)


def _script(task: Any, environment: Any) -> Script:
    """A task's ground truth. Its last step is the answer."""
    calls = task.ground_truth(environment.model_copy(deep=True))
    steps = [ToolCall(name=call.function, arguments={key: plain(v) for key, v in call.args.items()}) for call in calls]
    answer = Step(plan="", answer=getattr(task, "GROUND_TRUTH_OUTPUT", "") or "Done.")
    return (*(Step(plan="", call=call) for call in steps), answer)


def _hijacked(expert: Script, injection: Script) -> Script:
    """Both tasks, the user's first, and one answer that says what both ask for."""
    answer = f"{expert[-1].answer}\n{injection[-1].answer}"
    return (*expert[:-1], *injection[:-1], Step(plan="", answer=answer))


def _attack(name: str, suite: Any, agent: DojoAgent) -> Any:
    from agentdojo.attacks.attack_registry import ATTACKS, load_attack

    if name not in ATTACKS:
        raise ValueError(f"AgentDojo has no attack {name!r}: use one of {', '.join(sorted(ATTACKS))}")
    return load_attack(name, suite, agent)


def _tool(function: Any) -> Tool:
    schema = function.parameters.model_json_schema()
    parameters = tuple(
        Parameter(
            name=name,
            schema={key: value for key, value in part.items() if key != "title"},
            required=name in schema.get("required", ()),
            source=None,
        )
        for name, part in _inlined(schema.get("properties", {}), schema.get("$defs", {})).items()
    )
    tool = Tool(name=function.name, description=" ".join(function.description.split()), parameters=parameters)
    return replace(tool, changes=not only_reads(tool.name, tool.description))


def _inlined(part: Any, definitions: Mapping[str, Any]) -> Any:
    """A schema with its definitions in place: a tool's parameters stand each for itself."""
    if isinstance(part, dict):
        if "$ref" in part:
            return _inlined(definitions[part["$ref"].rpartition("/")[2]], definitions)
        return {key: _inlined(value, definitions) for key, value in part.items()}
    return [_inlined(value, definitions) for value in part] if isinstance(part, list) else part
