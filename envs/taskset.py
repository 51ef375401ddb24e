"""Sets of tasks drawn from domains: the same arguments always give the same tasks.

tasks = make_tasks(["mail", "bank"], "train", {Label.BENIGN: 200, Label.HARMFUL: 200}, seed=1)
easy = make_tasks(["mail", "bank"], "train", {Label.BENIGN: 200}, mix=Mix(levels=(1, 2), weights=(2, 1)))
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random

from demur.envs.family import Domain
from demur.envs.presentation import present
from demur.envs.task import Task
from demur.envs.trace import Label
from demur.envs.verify import verify
from demur.envs.worlds import load_domain

LEVELS = (1, 2, 3, 4, 5)
PATIENCE = 20
"""After so many tasks in a row at other levels, or seen before, a family is passed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """How a set is mixed, beyond the counts by label.

    weights: a share for each world, by default the same for all. levels: of difficulty, 1 to 5.
    languages: shares by language, such as {"en": 3, "zh": 1}; a world without a language is left out
    of its share. curriculum: easy tasks first, in place of a mixed order. rename_tools, shuffle_tools:
    other names and another order of the tools in every task. offered_tools: how many tools of the world are
    on offer in a task, 0 for all; those that its scripts need always are.
    """

    weights: Sequence[float] = ()
    levels: Sequence[int] = LEVELS
    languages: Mapping[str, float] | None = None
    curriculum: bool = False
    rename_tools: bool = False
    shuffle_tools: bool = False
    offered_tools: int = 0

    def __post_init__(self) -> None:
        if not self.levels or not set(self.levels) <= set(LEVELS):
            raise ValueError(f"levels must be some of {LEVELS}, not {tuple(self.levels)}")


def make_tasks(
    worlds: Sequence[str], split: str, counts: Mapping[Label, int], seed: int = 0, mix: Mix | None = None
) -> list[Task]:
    """Draw tasks in a mixed order: for each label `counts[label]`, spread over worlds, then over families.

    No two tasks of a set put the same query to the same state, and each is checked: raises FamilyError if one
    does not hold together, and ValueError if a label cannot be made by any of the worlds.
    """
    mix = mix or Mix()
    tasks = []
    for task in stream_tasks(worlds, split, counts, seed, mix):
        verify(task)
        tasks.append(task)
    Random(f"order/{split}/{seed}").shuffle(tasks)
    return sorted(tasks, key=lambda task: task.level) if mix.curriculum else tasks


def stream_tasks(
    worlds: Sequence[str], split: str, counts: Mapping[Label, int], seed: int = 0, mix: Mix | None = None
) -> Iterator[Task]:
    """The tasks of `make_tasks`, label by label and one at a time, for sets that memory does not hold.

    They are not verified: whoever plays one calls `verify` first. Raises ValueError as `make_tasks` does.
    """
    mix = mix or Mix()
    shares = _shares(worlds, mix.weights)
    seen: set[bytes] = set()
    for label, wanted in counts.items():
        stream = _Stream(shares, label, split, seed, mix, seen)
        for _ in range(wanted):
            yield next(stream)


class _Turns:
    """Gives names in turn, in proportion to their weights, always in the same order."""

    def __init__(self, weights: Mapping[str, float]) -> None:
        self._weights = dict(weights)
        self._credit = dict.fromkeys(weights, 0.0)

    def next(self, among: Sequence[str]) -> str:
        for name in among:
            self._credit[name] += self._weights[name]
        chosen = max(among, key=lambda name: self._credit[name])
        self._credit[chosen] -= sum(self._weights[name] for name in among)
        return chosen


class _Stream(Iterator[Task]):
    """Tasks of one label: worlds by weight, their families in turn, their languages by weight."""

    def __init__(
        self,
        shares: Mapping[str, tuple[Domain, float]],
        label: Label,
        split: str,
        seed: int,
        mix: Mix,
        seen: set[bytes],
    ) -> None:
        self._label, self._split, self._mix, self._seen = label, split, mix, seen
        self._domains = {name: domain for name, (domain, _) in shares.items()}
        self._families = {
            name: [f.name for f in domain.families.values() if label in f.labels]
            for name, domain in self._domains.items()
        }
        self._worlds = _Turns({name: weight for name, (_, weight) in shares.items()})
        languages = mix.languages or {"en": 1.0}
        self._languages = {name: _Turns(languages) for name in shares}
        # seeds of different sets lie far apart, so that sets do not overlap
        self._seeds = {name: {family: count(seed * 1_000_000) for family in self._families[name]} for name in shares}
        self._drawn = dict.fromkeys(shares, 0)
        self._all_levels = set(mix.levels) == set(LEVELS)

    def __next__(self) -> Task:
        while open_worlds := [name for name, families in self._families.items() if families]:
            world = self._worlds.next(open_worlds)
            families = self._families[world]
            family = families[self._drawn[world] % len(families)]
            self._drawn[world] += 1
            task = self._draw(world, family)
            if task is not None:
                return task
            families.remove(family)
        levels = "" if self._all_levels else f" of level {', '.join(map(str, self._mix.levels))}"
        raise ValueError(f"none of the worlds {', '.join(self._domains)} makes enough {self._label} tasks{levels}")

    def _draw(self, world: str, family: str) -> Task | None:
        """The family's next task that fits, or None if it has too few."""
        domain, mix = self._domains[world], self._mix
        languages = [name for name in mix.languages or {"en": 1.0} if name in domain.languages]
        if not languages:
            raise ValueError(f"{domain.name} has no queries in {', '.join(mix.languages or ())}")
        language = self._languages[world].next(languages)
        for _ in range(PATIENCE):
            task = domain.task(family, self._label, self._split, next(self._seeds[world][family]), language)
            task = present(task, rename=mix.rename_tools, shuffle=mix.shuffle_tools, offered=mix.offered_tools)
            if not self._all_levels and task.level not in mix.levels:
                continue
            content = f"{task.query}\0{task.initial.model_dump_json()}".encode(errors="surrogatepass")
            digest = hashlib.blake2b(content, digest_size=16).digest()  # the texts themselves would fill the memory
            if digest not in self._seen:
                self._seen.add(digest)
                return task
        return None


def _shares(worlds: Sequence[str], weights: Sequence[float]) -> dict[str, tuple[Domain, float]]:
    """The worlds with their weights; those of weight 0 are left out."""
    if weights and len(weights) != len(worlds):
        raise ValueError(f"there are {len(weights)} weights for {len(worlds)} worlds: give one each, or none")
    if any(weight < 0 for weight in weights):
        raise ValueError(f"weights must not be below 0: {', '.join(map(str, weights))}")
    pairs = zip(worlds, weights or [1.0] * len(worlds), strict=True)
    shares = {name: (load_domain(name), weight) for name, weight in pairs if weight > 0}
    if not shares:
        raise ValueError("the weights of the worlds sum to nothing: set one above 0")
    return shares
