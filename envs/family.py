"""Families make tasks from seeds, without end; a domain is a world with its families and wordings.

A family is a function of a kit (seeded choices and wordings) and a label::

    @DOMAIN.family(Label.BENIGN, Label.HARMFUL)
    def pay_person(kit: Kit, label: Label) -> Draft: ...

Tasks of one seed and several labels are twins: the same state, tools and wording, so that only the
meaning of what is asked tells them apart. Wordings are data beside the code (`wordings.yaml`), in three
parts that share no sentence: a policy is tested on phrasings it never saw.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import yaml

from demur.envs.intent.contract import AllowedCall, IntentContract
from demur.envs.task import HiddenFact, Script, Step, Task
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, Label, ToolCall
from demur.envs.world import World

COMMON = Path(__file__).parent / "worlds" / "common.yaml"
SPLITS = ("train", "validation", "test")

T = TypeVar("T")
_ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")
Wordings = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a family writes; `Domain.task` makes the task of it. act: by default the expert's script."""

    query: str
    world: World
    expert: Script
    act: Script | None = None
    facts: tuple[HiddenFact, ...] = ()
    must_say: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


class Kit:
    """Seeded choices and the domain's wordings, for one task."""

    def __init__(self, wordings: Wordings, split: str, rng: Random) -> None:
        self.rng = rng
        self._wordings = wordings
        self._split = split

    def pick(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """Distinct choices."""
        return self.rng.sample(options, count)

    def words(self, key: str, **slots: object) -> str:
        """One wording of `key` (dots go down the file), held out by split where the data says so.

        `[tell me|say]` inside a wording stands for one of the alternatives; one may be empty.
        """
        template = self.pick(self.options(key))
        # one draw, however many alternatives there are, so that twins go on drawing the same
        inside = Random(self.rng.getrandbits(32))
        return _ALTERNATIVES.sub(lambda found: inside.choice(found[1].split("|")), template).format(**slots)

    def options(self, key: str) -> list[str]:
        node: Any = self._wordings
        for part in key.split("."):
            node = node[part]
        if isinstance(node, dict):
            node = node[self._split]
        assert isinstance(node, list), f"wordings {key!r} must be a list, or lists by split"
        return node

    def call(self, tool: str, /, check: str | None = None, **arguments: Any) -> Step:
        """A scripted call; its plan is the tool's line under `plans`."""
        plan = self.words(f"plans.{tool}", **arguments)
        return Step(plan=plan, check=check, call=ToolCall(name=tool, arguments=arguments))

    def answer(self, text: str, check: str | None = None) -> Step:
        return Step(plan=self.words("plans.answer"), check=check, answer=text)

    def refuse(self, key: str = "harm") -> Step:
        """A refusal with the check that led to it; `key` names the lines under `checks` and `refusals`."""
        call = ToolCall(name=REFUSE_TOOL, arguments={"reason": self.words(f"refusals.{key}")})
        return Step(plan=self.words("plans.refuse"), check=self.words(f"checks.{key}"), call=call)

    def ask(self, question: str, check: str | None = None) -> Step:
        call = ToolCall(name=ASK_TOOL, arguments={"question": question})
        return Step(plan=self.words("plans.ask"), check=check, call=call)


Maker = Callable[[Kit, Label], Draft]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    name: str
    labels: tuple[Label, ...]
    make: Maker


@dataclass(frozen=True, slots=True)
class Domain:
    """A world class, its families by name, and its wordings."""

    name: str
    world: type[World]
    wordings: Wordings
    families: dict[str, Family] = field(default_factory=dict)

    def family(self, *labels: Label) -> Callable[[Maker], Maker]:
        """Register a family under its function's name, for the labels it can make."""

        def register(make: Maker) -> Maker:
            self.families[make.__name__] = Family(name=make.__name__, labels=labels, make=make)
            return make

        return register

    def task(self, family: str, label: Label, split: str, seed: int) -> Task:
        """The task of a family, label, split and seed: always the same one.

        Raises ValueError for a family, label or split that does not exist.
        """
        if family not in self.families:
            raise ValueError(f"{self.name} has no family {family!r}; it has {', '.join(self.families)}")
        entry = self.families[family]
        if label not in entry.labels:
            raise ValueError(f"{self.name}/{family} makes {', '.join(entry.labels)} tasks, not {label}")
        if split not in SPLITS:
            raise ValueError(f"there is no split {split!r}; there are {', '.join(SPLITS)}")
        key = f"{self.name}/{family}/{split}/{seed}"
        draft = entry.make(Kit(self.wordings, split, Random(key)), label)
        other = next((one for one in entry.labels if one is not label), None)
        return Task(
            id=_opaque(key, label),
            family=family,
            label=label,
            split=split,
            query=draft.query,
            initial=draft.world,
            expert=draft.expert,
            act=draft.act or draft.expert,
            contract=_contract(draft),
            facts=draft.facts,
            must_say=draft.must_say,
            secrets=draft.secrets,
            twin=_opaque(key, other) if other else None,
        )


def load_wordings(path: Path) -> Wordings:
    """Read a domain's wordings; the shared ones (`worlds/common.yaml`) lie beneath them."""
    shared = yaml.safe_load(COMMON.read_text(encoding="utf-8"))
    own = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {**shared, **own, "plans": {**shared["plans"], **own["plans"]}}


def _opaque(key: str, label: Label) -> str:
    return hashlib.sha256(f"{key}/{label}".encode()).hexdigest()[:16]


def _contract(draft: Draft) -> IntentContract:
    """Least privilege for a task: reading is allowed, changing only as the expert does."""
    tools = draft.world.tools()
    reading = [AllowedCall(tool=tool.name) for tool in tools.values() if not tool.changes]
    changing = [
        AllowedCall(tool=tool.name, arguments=_pinned(step.call.arguments, tool.derivable))
        for step in draft.expert
        if step.call is not None and (tool := tools.get(step.call.name)) is not None and tool.changes
    ]
    return IntentContract(goal=draft.query, allowed=(*reading, *changing))


def _pinned(arguments: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name in names}
