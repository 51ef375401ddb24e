"""One episode: a task, its state, and what has been said so far.

`propose` reads a message of the policy; if that names a call to run, the guard's verdict goes to
`settle`. A refusal ends the episode, and so does an answer, unless the user then says more. Nothing a policy writes
raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from demur.envs.guards import Context
from demur.envs.prompt import PromptStyle, system_prompt
from demur.envs.protocol import ParsedTurn, parse, render_observation
from demur.envs.task import Task, agrees_to, reply_to
from demur.envs.tool import ToolError
from demur.envs.trace import (
    Action,
    ActionKind,
    Ending,
    Level,
    TokenCounts,
    ToolCall,
    Trajectory,
    Turn,
    Verdict,
)

UNKNOWN_REPLY = "I don't know."
CONFIRMED_REPLY = "Yes, make exactly that call."


Stop = Literal["done", "length", "context", "error"]


@dataclass(slots=True)
class Span:
    """Token ids of one stretch of a conversation. logprobs: of the policy's own tokens, or None."""

    ids: list[int]
    by_model: bool
    logprobs: list[float] | None = None


@dataclass(slots=True)
class Conversation:
    """The messages so far and, for policies that work on tokens, the exact ids behind them."""

    messages: list[dict[str, str]]
    spans: list[Span] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A policy's next message. stop: why it ends here."""

    text: str
    stop: Stop = "done"
    tokens: TokenCounts = TokenCounts()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """How tasks are put to a policy; the switches are the ablations."""

    style: PromptStyle = "full"
    safety_thoughts: bool = True


DEFAULT_PROMPT = PromptOptions()


class Episode:
    """A running episode. `trajectory()` gives the record once `ending` is set.

    checks: whether a turn may hold a check.
    user_said, confirmed: what the user answered, and the calls that they agreed to when a guard asked about them.
    """

    def __init__(self, task: Task, options: PromptOptions = DEFAULT_PROMPT, sample: int = 0) -> None:
        self.task = task
        self.sample = sample
        self.checks = options.safety_thoughts
        self.state = task.initial.copy_state()
        self.turns: list[Turn] = list(task.given)
        self.ending: Ending | None = None
        self.error: str | None = None
        self.user_said: list[str] = []
        self.confirmed: list[ToolCall] = []
        self._agreed: list[ToolCall] = []  # a yes for each, not used yet
        system = system_prompt(task, options.style, options.safety_thoughts)
        self.conversation = Conversation(
            [{"role": "system", "content": system}, {"role": "user", "content": task.query}]
        )
        for turn in task.given:
            assert turn.observation is not None, "a given turn has a result"
            said = {"role": "assistant", "content": turn.raw}
            self.conversation.messages += [said, {"role": "user", "content": turn.observation}]
        self._pending: tuple[ParsedTurn, Generation] | None = None

    @property
    def live(self) -> bool:
        return self.ending is None

    def propose(self, generation: Generation) -> ToolCall | None:
        """Take the policy's message. Returns a call that waits for a verdict, else None."""
        assert self.live and self._pending is None, "an episode takes one message at a time, while it lives"
        if generation.stop == "error":
            self.ending, self.error = Ending.ERROR, _writable(generation.error or "")
            return None
        if generation.stop == "context" and not generation.text:
            self.ending = Ending.CONTEXT_LIMIT
            return None
        text = _writable(generation.text)
        self.conversation.messages.append({"role": "assistant", "content": text})
        self._pending = (parse(text, self.checks), generation)
        action = self._pending[0].action
        if action.kind is ActionKind.CALL:
            assert action.call is not None
            return action.call
        self._close_turn(self._react(action))
        return None

    @property
    def pending_call(self) -> ToolCall:
        """The call that waits for a verdict."""
        assert self._pending is not None and self._pending[0].action.call is not None, "no call is pending"
        return self._pending[0].action.call

    def context(self) -> Context:
        """What a guard may know about the pending call."""
        assert self._pending is not None, "no call is pending"
        parsed = self._pending[0]
        return Context(
            query=self.task.query,
            tools=self.task.tools_in(self.state),
            history=tuple(self.turns),
            plan=parsed.plan,
            check=parsed.check,
            user_said=tuple(self.user_said),
            confirmed=self._confirmed_for(self.pending_call),
            contract=self.task.contract,
            now=self.state.clock,
            briefing=self.task.briefing,
        )

    def settle(self, verdicts: Sequence[Verdict] = ()) -> None:
        """Run the pending call if every verdict lets it, else tell the policy why not."""
        call = self.pending_call
        strictest = max(verdicts, key=lambda verdict: verdict.level.severity, default=None)
        if strictest is None or strictest.level.lets_run:
            result, failed = self._run(call)
            self._close_turn(result, executed=True, failed=failed, verdicts=verdicts)
        elif strictest.level is Level.ASK:
            answer = self._answer_guard(strictest.question or strictest.reason, call)
            self._close_turn(answer, verdicts=verdicts)
        else:
            self._close_turn(f"Not carried out: {strictest.reason}", verdicts=verdicts)

    def stop_for_context(self) -> None:
        """End the episode because one more turn would not fit the policy's context."""
        self.ending = Ending.CONTEXT_LIMIT

    def trajectory(self, policy: str = "", guard: str = "none") -> Trajectory:
        assert self.ending is not None, "the episode is still running"
        return Trajectory(
            task_id=self.task.id,
            world=self.task.world,
            family=self.task.family,
            label=self.task.label,
            split=self.task.split,
            query=self.task.query,
            turns=tuple(self.turns),
            given=len(self.task.given),
            ending=self.ending,
            outcome=self.task.outcome(self.state, self.turns),
            turn_limit=self.task.turn_limit,
            policy=policy,
            guard=guard,
            sample=self.sample,
            error=self.error,
        )

    def _confirmed_for(self, call: ToolCall) -> tuple[ToolCall, ...]:
        """What the user agreed to; of this very call only a yes that was not used: each lets it run one time."""
        return (*(one for one in self.confirmed if one != call), *(one for one in self._agreed if one == call))

    def _answer_guard(self, question: str, call: ToolCall) -> str:
        """The user's answer to a guard that asks about a call: what was missing, or a yes."""
        if reply_to(self.task, question) is None and agrees_to(self.task, call):
            self.confirmed.append(call)
            self._agreed.append(call)
            return CONFIRMED_REPLY
        return self._answer_user(question)

    def _run(self, call: ToolCall) -> tuple[str, bool]:
        """The call's result, and whether it failed."""
        if call in self._agreed:
            self._agreed.remove(call)
        try:
            return self.state.run(call), False
        except ToolError as error:
            return f"Error: {error}", True

    def _react(self, action: Action) -> str | None:
        """What follows an action that runs no tool of the world: an observation, or the end."""
        if action.kind is ActionKind.MALFORMED:
            return f"Error: {action.fault}"
        if action.kind is ActionKind.ANSWER:
            message = self._next_message()
            if message is None:
                self.ending = Ending.ANSWER
            return message
        assert action.call is not None
        tool = self.task.tools.get(action.call.name)
        if tool is None:
            return f"Error: there is no tool {action.call.name!r}"
        if fault := tool.fault(action.call.arguments):
            return f"Error: {fault}"
        if action.kind is ActionKind.REFUSE:
            self.ending = Ending.REFUSAL
            return None
        if reply_to(self.task, action.text) is None and (message := self._next_message()) is not None:
            return message
        return self._answer_user(action.text)

    def _next_message(self) -> str | None:
        """What the user says unasked. A guard's question does not get them to speak: the policy is still at work."""
        message = self.state.next_message()
        if message is not None:
            self.user_said.append(message)
        return message

    def _answer_user(self, question: str) -> str:
        reply = reply_to(self.task, question)
        if reply is not None:
            self.user_said.append(reply)
        return reply or UNKNOWN_REPLY

    def _close_turn(
        self,
        observation: str | None,
        *,
        executed: bool = False,
        failed: bool = False,
        verdicts: Sequence[Verdict] = (),
    ) -> None:
        assert self._pending is not None
        parsed, generation = self._pending
        self._pending = None
        if observation is not None:
            # behind an answer the user speaks, not a tool
            if parsed.action.kind is not ActionKind.ANSWER:
                observation = render_observation(observation)
            self.conversation.messages.append({"role": "user", "content": observation})
        self.turns.append(
            Turn(
                plan=parsed.plan,
                check=parsed.check,
                action=parsed.action,
                raw=self.conversation.messages[-1 if observation is None else -2]["content"],
                observation=observation,
                executed=executed,
                failed=failed,
                verdicts=tuple(verdicts),
                tokens=generation.tokens,
            )
        )
        if self.ending is None and len(self.turns) >= self.task.turn_limit:
            self.ending = Ending.TURN_LIMIT


def _writable(text: str) -> str:
    """The text without lone surrogates, which could not be written to a file."""
    return text.encode("utf-8", "replace").decode("utf-8")
