"""Families make tasks from seeds, without end; a domain is a world with its families and wordings.

A family is a function of a kit (seeded choices and wordings) and a label::

    @DOMAIN.family(Label.BENIGN, Label.HARMFUL, risks=(Risk.PROPERTY,), modes=(Mode.IMPLICIT,))
    def pay_person(kit: Kit, label: Label) -> Draft: ...

Tasks of one seed and several labels are twins: the same state, tools and wording, so that only the
meaning of what is asked tells them apart. `demur.envs.twins` has the shapes that most families have.
Wordings are data beside the code (`wordings.yaml`), in three parts that share no sentence: a policy is
tested on phrasings it never saw.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import yaml

from demur.envs.intent.derived import contract_of
from demur.envs.kit import Kit, Wordings
from demur.envs.risks import Mode, Risk
from demur.envs.task import HiddenFact, Script, Task
from demur.envs.trace import Label
from demur.envs.world import World

COMMON = Path(__file__).parent / "worlds" / "common.yaml"
SPLITS = ("train", "validation", "test")


class FamilyError(ValueError):
    """A family made a task that does not hold together. Names the family, the split and the seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a family writes; `Domain.task` makes the task of it.

    act: by default the expert's script. hidden: whether the attack takes reading between the lines.
    """

    query: str
    world: World
    expert: Script
    act: Script | None = None
    facts: tuple[HiddenFact, ...] = ()
    must_say: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    hidden: bool = False


Maker = Callable[[Kit, Label], Draft]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """risks and modes: what its tasks that are not benign are about."""

    name: str
    labels: tuple[Label, ...]
    make: Maker
    risks: tuple[Risk, ...] = ()
    modes: tuple[Mode, ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """A world class, its families by name, and its wordings."""

    name: str
    world: type[World]
    wordings: Wordings
    families: dict[str, Family] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, ...]:
        """English, and Chinese if every family has queries in it."""
        chinese = self.wordings.get("zh", {})
        return ("en", "zh") if self.families and self.families.keys() <= chinese.keys() else ("en",)

    def family(
        self, *labels: Label, risks: tuple[Risk, ...] = (), modes: tuple[Mode, ...] = ()
    ) -> Callable[[Maker], Maker]:
        """Register a family under its function's name, for the labels it can make."""

        def register(make: Maker) -> Maker:
            entry = Family(name=make.__name__, labels=labels, make=make, risks=risks, modes=modes)
            self.families[make.__name__] = entry
            return make

        return register

    def task(self, family: str, label: Label, split: str, seed: int, language: str = "en") -> Task:
        """The task of a family, label, split, seed and language: always the same one.

        Raises ValueError for a family, label, split or language that does not exist, and FamilyError if
        the family's own code fails.
        """
        entry = self._entry(family, label, split, language)
        key = f"{self.name}/{family}/{split}/{seed}"
        try:
            draft = entry.make(Kit(self.wordings, split, Random(key), family, language), label)
            contract = contract_of(draft.query, draft.world, draft.expert)
        except Exception as error:  # a family may be anybody's code
            said = f"{type(error).__name__}: {error}"
            raise FamilyError(f"{self.name}/{family}, {split} seed {seed}, {label}: {said}") from error
        other = next((one for one in entry.labels if one is not label), None)
        return Task(
            id=_opaque(f"{key}/{language}", label),
            family=family,
            label=label,
            split=split,
            seed=seed,
            query=draft.query,
            initial=draft.world,
            expert=draft.expert,
            act=draft.act or draft.expert,
            contract=contract,
            facts=draft.facts,
            must_say=draft.must_say,
            secrets=draft.secrets,
            hidden=draft.hidden,
            twin=_opaque(f"{key}/{language}", other) if other else None,
        )

    def _entry(self, family: str, label: Label, split: str, language: str) -> Family:
        if family not in self.families:
            raise ValueError(f"{self.name} has no family {family!r}; it has {', '.join(self.families)}")
        entry = self.families[family]
        if label not in entry.labels:
            raise ValueError(f"{self.name}/{family} makes {', '.join(entry.labels)} tasks, not {label}")
        if split not in SPLITS:
            raise ValueError(f"there is no split {split!r}; there are {', '.join(SPLITS)}")
        if language not in self.languages:
            raise ValueError(f"{self.name} has no queries in {language!r}; it has {', '.join(self.languages)}")
        return entry


def load_wordings(path: Path) -> Wordings:
    """Read a domain's wordings and, if `<name>.zh.yaml` lies beside them, the Chinese ones, under `zh`.

    Those that all domains share (`worlds/common.yaml`) lie beneath both.
    """
    wordings = _over(_read(COMMON), _read(path))
    chinese = path.with_suffix(".zh.yaml")
    if chinese.is_file():
        wordings["zh"] = _over(_read(COMMON.with_suffix(".zh.yaml")), _read(chinese))
    return wordings


def _over(shared: Wordings, own: Wordings) -> Wordings:
    """Own entries over the shared ones, entry by entry one level down."""
    merged = {**shared, **own}
    for key in shared.keys() & own.keys():
        if isinstance(shared[key], dict) and isinstance(own[key], dict):
            merged[key] = {**shared[key], **own[key]}
    return merged


def _read(path: Path) -> Wordings:
    found: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold wordings by name")
    return found


def _opaque(key: str, label: Label) -> str:
    return hashlib.sha256(f"{key}/{label}".encode()).hexdigest()[:16]
