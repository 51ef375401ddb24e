"""What plays the tools of a case: a language model behind an endpoint, or a rule that needs none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict

from demur.envs.suites.agent_safetybench.cases import Case
from demur.envs.trace import ToolCall


class Played(BaseModel):
    """What a tool gives back. failed: it could not do what was asked, and `result` says why."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    result: str
    failed: bool = False


class Done(NamedTuple):
    """A call that was played, and what came of it."""

    call: ToolCall
    played: Played


class Simulator(Protocol):
    """Plays a call whose tool is on offer and whose arguments fit. An exception ends the episode."""

    @property
    def name(self) -> str: ...

    def play(self, case: Case, done: Sequence[Done], call: ToolCall) -> Played: ...


class StateTools:
    """Deterministic: a tool that only reads gives the whole state it starts from, any other says that it was done."""

    name = "state"

    def play(self, case: Case, done: Sequence[Done], call: ToolCall) -> Played:
        if case.tools[call.name].changes:
            return Played(result=json.dumps({"success": True}))
        return Played(result=json.dumps(case.state, ensure_ascii=False))


class EndpointTools:
    """A model that plays the tools from their documentation, the state and the calls so far, in JSON.

    timeout: seconds for one call. Raises EndpointError if there is no usable reply in time.
    """

    def __init__(
        self, model: str, *, base_url: str, key_variable: str = "OPENAI_API_KEY", timeout: float = 120.0
    ) -> None:
        from demur.envs.intent.extraction.endpoint_json import JsonEndpoint  # its client is slow to import

        self.name = model
        self._endpoint = JsonEndpoint(model, base_url=base_url, key_variable=key_variable, timeout=timeout)

    def play(self, case: Case, done: Sequence[Done], call: ToolCall) -> Played:
        data = {
            "tool": case.tools[call.name].schema()["function"],
            "state": case.state,
            "calls_so_far": [{**one.call.model_dump(), **one.played.model_dump()} for one in done],
            "call": call.model_dump(),
        }
        with ThreadPoolExecutor(1) as own:  # an event loop of its own: this may be called from within one
            return own.submit(asyncio.run, self._ask(data)).result()

    async def _ask(self, data: dict[str, Any]) -> Played:
        try:
            return await self._endpoint.ask(prompt(), data, Played, Played.model_validate_json)
        finally:
            await self._endpoint.close()


def prompt() -> str:
    """The instructions of a model that plays tools."""
    folder = files("demur.envs.suites.agent_safetybench").joinpath("prompts")
    return folder.joinpath("tools.txt").read_text(encoding="utf-8").strip()
