"""The benchmark's backends and its two checks, from the package `bfcl-eval`; its heavy parts stay unimported."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from decimal import localcontext
from importlib import import_module
from typing import Any, Final

from demur.envs.suites.bfcl.entries import DOCUMENTATION, Entry
from demur.envs.tool import ToolError
from demur.envs.trace import ToolCall

INSTALL: Final = "pip install --no-deps bfcl-eval==2026.3.23 mpmath==1.3.0"
FAILED: Final = "Error during execution: "
_PACKAGE: Final = "bfcl_eval.eval_checker.multi_turn_eval"
_MOST_BITS: Final = 1_000_000
_MOST_DIGITS: Final = 1_000


class Backends:
    """The backends of an entry, each as the entry starts them. Calls go to their methods; no text is evaluated."""

    def __init__(self, entry: Entry) -> None:
        """Raises ValueError, with what to install, if the package is not there."""
        self.entry = entry
        self.instances = {name: _start(name, entry) for name in entry.backends}

    def copied(self) -> Backends:
        other = copy.copy(self)
        other.instances = copy.deepcopy(self.instances)
        return other

    def run(self, call: ToolCall) -> str:
        """The result as the benchmark spells it. Raises ToolError where the backend raises, with its text.

        A tool that only can not do what was asked says so in its result. Arguments are not checked before: a wrong
        one is the backend's to refuse, as upstream.
        """
        if call.name not in self.entry.tools:
            raise ToolError(f"{FAILED}name '{call.name}' is not defined")
        owner = next(one for one in self.instances.values() if hasattr(one, call.name))
        if _is_costly(call):
            raise ToolError(f"{FAILED}the numbers are too large")
        try:
            with localcontext():  # some tools set the precision of the whole process
                result = getattr(owner, call.name)(**copy.deepcopy(call.arguments))
        except Exception as error:  # whatever a backend raises is the call's result
            raise ToolError(f"{FAILED}{error}") from error
        return _spelled(result)

    def result(self, call: ToolCall) -> str:
        """The same, with an error as the result."""
        try:
            return self.run(call)
        except ToolError as error:
            return str(error)


def same_state(one: Backends, other: Backends) -> bool:
    """The benchmark's check of states: all attributes that do not start with an underscore."""
    return bool(_module("multi_turn_checker").state_checker(one.instances, other.instances)["valid"])


def holds_all(results: Sequence[str], wanted: Sequence[str]) -> bool:
    """The benchmark's check of results: each wanted one came up, in any order and beside others."""
    return bool(_module("multi_turn_checker").response_checker(list(results), list(wanted), 0)["valid"])


def check_installed() -> None:
    """Raises ValueError, with what to install, if the package is not there."""
    _module("multi_turn_checker")


def _start(name: str, entry: Entry) -> Any:
    instance = getattr(_module(f"func_source_code.{DOCUMENTATION[name]}"), name)()
    if hasattr(instance, "_load_scenario"):  # one has no state
        config = copy.deepcopy(entry.config.get(name, {}))
        instance._load_scenario(config, long_context=entry.category == "long_context")
    return instance


def _module(name: str) -> Any:
    try:
        return import_module(f"{_PACKAGE}.{name}")
    except ImportError as error:
        raise ValueError(f"BFCL is played on the backends of its package ({error}): {INSTALL}") from error


def _spelled(result: object) -> str:
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except (TypeError, ValueError):
            return str(result)
    return str(result)


def _is_costly(call: ToolCall) -> bool:
    """Whether a tool of numbers would compute for minutes: the benchmark sets no bound, a policy may."""
    base, exponent = call.arguments.get("base"), call.arguments.get("exponent")
    if isinstance(base, int) and isinstance(exponent, int) and base.bit_length() * exponent > _MOST_BITS:
        return True
    precision = call.arguments.get("precision")
    return isinstance(precision, int) and precision > _MOST_DIGITS
