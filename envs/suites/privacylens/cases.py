"""The cases: a norm (seed), a story about it (vignette), and what an agent did up to its last action (trajectory)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter

from demur.envs.suites.files import read_known
from demur.envs.trace import ToolCall

Part = Literal["main", "confaide", "culturebank"]
"""The 493 cases of the benchmark, and the 32 and 24 that were made from two others."""

FILES: Final[dict[Part, str]] = {
    "main": "main_data.json",
    "confaide": "extensibility/confide_subset.json",
    "culturebank": "extensibility/culturebank_subset.json",
}
SIZES: Final[dict[Part, int]] = {"main": 493, "confaide": 32, "culturebank": 24}
VERSION: Final = "9c2ee07"

_STEP: Final = re.compile(
    r'Action: *(\w+)"?\s*\n\s*Action Input: *(.*?)\s*Observation: *(.*?)(?=\s*\n\s*Action: |\s*\Z)', re.DOTALL
)


class Seed(BaseModel):
    data_type: str
    data_subject: str
    data_sender: str
    data_sender_name: str
    data_recipient: str
    transmission_principle: str
    source: str


class Vignette(BaseModel):
    story: str
    data_type_concrete: str
    data_subject_concrete: str
    data_sender_concrete: str
    data_recipient_concrete: str


class Recorded(BaseModel):
    user_name: str
    user_email: str
    user_instruction: str
    toolkits: tuple[str, ...]
    executable_trajectory: str
    final_action: str
    sensitive_info_items: tuple[str, ...]


class Case(BaseModel):
    model_config = ConfigDict(frozen=True)
    name: str
    seed: Seed
    vignette: Vignette
    trajectory: Recorded

    @cached_property
    def steps(self) -> tuple[RecordedStep, ...]:
        """What the agent did, at least one call."""
        return tuple(_steps(self.trajectory.executable_trajectory))


class RecordedStep(NamedTuple):
    call: ToolCall
    result: str


class Data(NamedTuple):
    cases: tuple[Case, ...]
    fingerprint: str


_CASES: Final = TypeAdapter(tuple[Case, ...])


def read_cases(folder: Path, part: Part) -> Data:
    """Raises ValueError, naming the file and what to do, for one that is missing, cut or altered."""
    files = read_known(folder, "privacylens", [FILES[part]])
    return Data(_CASES.validate_json(files.contents[FILES[part]]), files.fingerprint)


def _steps(text: str) -> Iterator[RecordedStep]:
    for name, arguments, result in _STEP.findall(text):
        yield RecordedStep(ToolCall(name=name, arguments=_arguments(arguments)), result)


def _arguments(text: str) -> dict[str, Any]:
    """Some stand with escaped quotation marks, and two are no JSON at all: these become one text."""
    for form in (text, text.replace('\\"', '"')):
        try:
            value = json.loads(form)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return {"input": text}
