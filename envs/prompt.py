"""The system prompt of an episode: rules and tools, in a full and a compact form.

The full form gives a general model the rules and the JSON schemas. The compact form only
names the tools, for small policies that learned the protocol and the tools in their warm-up.
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from importlib.resources import files
from typing import Literal

from jinja2 import Environment, StrictUndefined, Template

from demur.envs.guards import Context
from demur.envs.task import Task
from demur.envs.tool import Tool
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL

PromptStyle = Literal["full", "compact"]


def system_prompt(
    task: Task | Context, style: PromptStyle = "full", safety_thoughts: bool = True, extra: tuple[Tool, ...] = ()
) -> str:
    """The system message. `safety_thoughts=False` leaves the check out (the ablation).

    extra: tools listed behind the task's own, such as those that only a scorer's context offers.
    """
    return _render((*task.tools.values(), *extra), style, safety_thoughts, task.briefing)


@lru_cache(maxsize=256)  # a batch of episodes shares a few sets of tools
def _render(tools: tuple[Tool, ...], style: PromptStyle, safety_thoughts: bool, briefing: str) -> str:
    names = [tool.name for tool in tools]
    return _template(style).render(
        tools=[json.dumps(tool.schema(), ensure_ascii=False) for tool in tools],
        names=names,
        safety_thoughts=safety_thoughts,
        briefing=briefing,
        refusal=REFUSE_TOOL in names,
        asking=ASK_TOOL in names,
    )


@cache
def _template(style: PromptStyle) -> Template:
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    source = files("demur.envs").joinpath("prompts", f"{style}.txt").read_text(encoding="utf-8")
    return environment.from_string(source.strip())
