"""Guard the tools of an agent framework where they are registered, so that no way to run them goes around the guard::

    agent = create_agent(model, guard_tools(session, tools, reading={"query_orders"}))

LangChain (any `BaseTool`) and LlamaIndex (`FunctionTool`). Neither has to be installed to import this module.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from demur.envs.guards.calls import signature_of
from demur.envs.guards.decorator import under_guard
from demur.envs.guards.session import GuardSession
from demur.envs.tool import Parameter, Tool


def guard_tools(session: GuardSession, tools: Sequence[Any], *, reading: Collection[str] = ()) -> list[Any]:
    """Guarded copies of a framework's tools, in order; the originals stay as they are.

    reading: names of the tools that change nothing. Of every other one it is assumed that it may, unless the
    session's `tools` describe it. Raises ValueError for another kind of tool, and for names that no tool has.
    """
    hooks = [(_hook_for(tool), tool) for tool in tools]
    if unknown := set(reading) - {_name_of(tool) for tool in tools}:
        raise ValueError(f"reading={sorted(unknown)} names no tool; there are {sorted(map(_name_of, tools))}")
    return [hook(session, tool, _name_of(tool) not in reading) for hook, tool in hooks]


Hook = Callable[[GuardSession, Any, bool], Any]


def _hook_for(tool: Any) -> Hook:
    for base in type(tool).__mro__:
        package = base.__module__.partition(".")[0]
        if (package, base.__name__) in _HOOKS:
            return _HOOKS[package, base.__name__]
    raise ValueError(f"{tool!r} is no tool of LangChain or LlamaIndex; put a plain function under guarded(session)")


def _name_of(tool: Any) -> str:
    return str(tool.metadata.get_name() if _hook_for(tool) is _llama_index else tool.name)


def _langchain(session: GuardSession, tool: Any, changes: bool) -> Any:
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.tools import Tool as SingleInputTool
    from langchain_core.utils.function_calling import convert_to_openai_tool

    _keeps(tool, "langchain_core", "invoke", "ainvoke", "run", "arun")
    kind = next((kind for kind in (StructuredTool, SingleInputTool) if isinstance(tool, kind)), BaseTool)
    own = type(tool)._run is not kind._run or type(tool)._arun is not kind._arun
    # a function that can be called past `_run` is guarded itself; where `_run` is the tool's own, there is none
    names = ("_run", "_arun") if own or kind is BaseTool else ("func", "coroutine")
    found = {name: function for name in names if (function := getattr(tool, name)) is not None}
    signatures = {name: signature_of(function) for name, function in found.items()}
    if type(tool)._arun is BaseTool._arun:
        signatures["_arun"] = signature_of(tool._run)  # it only passes on what it gets
    schema = convert_to_openai_tool(tool)["function"]["parameters"]
    if kind is SingleInputTool and not own:  # the schema calls the one input something that the function does not
        first = next(iter(next(iter(signatures.values())).parameters))
        schema = {"properties": {first: {"type": "string"}}, "required": [first]}
    _add(session, tool.name, tool.description, schema, changes)
    guarded = tool.model_copy()
    for name, function in found.items():
        hidden = _not_in(schema, signatures[name])
        # the original's methods stay unguarded, so that a `_run` which calls `_arun` is one call
        guarded.__dict__[name] = under_guard(session, function, tool.name, hidden=hidden, signature=signatures[name])
    return guarded


def _llama_index(session: GuardSession, tool: Any, changes: bool) -> Any:
    _keeps(tool, "llama_index", "__call__", "call", "acall")
    metadata, signature = tool.metadata, signature_of(tool.real_fn)
    hidden = {tool.ctx_param_name} if tool.requires_context else set()
    name = metadata.get_name()
    _add(session, name, metadata.description, metadata.get_parameters_dict(), changes)
    guarded = copy.copy(tool)
    for attribute in ("_fn", "_async_fn"):
        function = getattr(tool, attribute)
        setattr(guarded, attribute, under_guard(session, function, name, hidden=hidden, signature=signature))
    guarded._real_fn = guarded._async_fn if inspect.iscoroutinefunction(tool.real_fn) else guarded._fn
    if guarded.fn is tool.fn or guarded.async_fn is tool.async_fn or guarded.real_fn is tool.real_fn:
        raise ValueError(f"{name}: this version of LlamaIndex keeps functions where they can't be guarded")
    return guarded


_HOOKS: Mapping[tuple[str, str], Hook] = {
    ("langchain_core", "BaseTool"): _langchain,
    ("llama_index", "FunctionTool"): _llama_index,
}


def _keeps(tool: Any, package: str, *methods: str) -> None:
    """Raises ValueError if the tool's class has ways of its own to run it."""
    own = [name for name in methods if getattr(type(tool), name).__module__.partition(".")[0] != package]
    if own:
        raise ValueError(f"{tool!r} overrides {own[0]}, which may go around the guard; override what that calls")


def described(name: str, description: str, schema: Mapping[str, Any], *, changes: bool) -> Tool:
    """A tool as its framework describes it. schema: the JSON schema of its arguments, an object."""
    required = schema.get("required", ())
    parameters = tuple(
        Parameter(name=key, schema=part if isinstance(part, dict) else {}, required=key in required, source=None)
        for key, part in schema.get("properties", {}).items()
    )
    return Tool(name=name, description=description, parameters=parameters, changes=changes, reversible=False)


def _add(session: GuardSession, name: str, description: str, schema: Mapping[str, Any], changes: bool) -> None:
    session.add(session.tools.get(name, described(name, description, schema, changes=changes)))


def _not_in(schema: Mapping[str, Any], signature: inspect.Signature) -> set[str]:
    """Parameters that the framework fills in: a run's configuration, callbacks, the agent's state."""
    named = {p.name for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}
    return named - set(schema.get("properties", {}))
