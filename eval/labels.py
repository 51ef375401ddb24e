"""Human labels of pairs of trajectories: which pairs, the page to label them on, and the files it saves.

    pairs = task_pairs(trajectories)
    write_labels_page(Path("labels.html"), choose_pairs(pairs, 60, seed=0))
    labels = read_labels([Path("labels-anna.json"), Path("labels-ben.json")], pairs)   # {annotator: {pair id: verdict}}

An annotator sees what a judge sees: no label, outcome or policy stands in the page or in the file it saves.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations, zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, Field

from demur.envs.protocol import OBSERVATION_MARKUP, parse
from demur.envs.trace import ActionKind, Label, Record, Trajectory, Turn
from demur.eval.pages import render_page
from demur.eval.report_browser import script_json
from demur.eval.summary import write_whole
from demur.rewards.judges import Pair
from demur.rewards.judges.rendering import view_key

Side = Literal["first", "second"]
VALUES: Mapping[str, float] = {"first": 1.0, "tie": 0.5, "second": 0.0}


class TaskPair(NamedTuple):
    """Two trajectories of a task. id: tells nothing of them. views: their `view_key`s."""

    id: str
    first: Trajectory
    second: Trajectory
    views: tuple[str, str]

    @property
    def both(self) -> Pair:
        return self.first, self.second

    @property
    def swapped(self) -> Pair:
        return self.second, self.first


class PairLabel(Record):
    """left: which of the pair stood on the left. views: of the first and the second, as they were labelled."""

    pair: str
    views: tuple[str, str]
    left: Side
    verdict: Literal["first", "second", "tie"]
    note: str = ""


class LabelFile(Record):
    """What the page saves, one annotator a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    annotator: str = Field(min_length=1)
    labels: tuple[PairLabel, ...] = Field(min_length=1)


def task_pairs(trajectories: Iterable[Trajectory]) -> list[TaskPair]:
    """All pairs of trajectories of one task, each in an order that follows from a hash of its id.

    Left out: trajectories that an error of the policy's backend ended, and pairs that look the same to a judge.
    Raises ValueError if there are none.
    """
    groups: dict[str, list[Trajectory]] = defaultdict(list)
    for t in trajectories:
        groups[t.task_id].append(t)
    pairs = []
    for task_id, group in groups.items():
        keys = [view_key(t) for t in group]
        for i, j in combinations(range(len(group)), 2):
            if group[i].query != group[j].query:
                raise ValueError(
                    f"the trajectories of the task {task_id} have different queries: give one set of tasks"
                )
            if keys[i] == keys[j] or group[i].ending.is_error or group[j].ending.is_error:
                continue
            # by place in the file: policies and samples need not tell two of them apart
            digest = _hash(task_id, i, j)
            a, b = (j, i) if int(digest, 16) % 2 else (i, j)
            pairs.append(TaskPair(digest[:16], group[a], group[b], (keys[a], keys[b])))
    if not pairs:
        raise ValueError("there is no pair to compare: give a file with two different trajectories of a task")
    return pairs


def choose_pairs(
    pairs: Sequence[TaskPair], most: int, *, seed: int, disputed: Mapping[str, bool] | None = None
) -> list[TaskPair]:
    """At most `most` pairs, as many of each label and of disputed and undisputed ones as there are.

    disputed: by pair id, those that judges or orders disagree on. Tasks come in turn, and all of it is shuffled by a
    hash with the seed.
    """
    if most < 1:
        raise ValueError(f"at least one pair has to be chosen, not {most}")
    strata: dict[tuple[Label, bool], list[tuple[int, str, TaskPair]]] = defaultdict(list)
    seen: dict[str, int] = defaultdict(int)
    for pair in sorted(pairs, key=lambda pair: _hash(seed, pair.id)):
        turn = seen[pair.first.task_id] = seen[pair.first.task_id] + 1
        strata[pair.first.label, (disputed or {}).get(pair.id, False)].append((turn, _hash(seed, pair.id), pair))
    rows = [[pair for *_, pair in sorted(strata[key])] for key in sorted(strata)]
    chosen = [pair for pair in chain.from_iterable(zip_longest(*rows)) if pair is not None][:most]
    return sorted(chosen, key=lambda pair: _hash(seed, "order", pair.id))


def write_labels_page(path: Path, pairs: Sequence[TaskPair]) -> None:
    """Write the page on which a person labels `pairs`; it opens from disk and loads nothing."""
    sample = _hash(*(part for pair in pairs for part in (pair.id, *pair.views)))[:16]
    data = script_json({"sample": sample, "pairs": [_page_pair(pair) for pair in pairs]})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(
        path,
        render_page(
            "labels.html.j2",
            styles=["report.css", "labels.css"],
            script=["labels_common.js", "labels.js"],
            data=data,
            count=len(pairs),
        ),
    )


def read_labels(paths: Iterable[Path], pairs: Iterable[TaskPair]) -> dict[str, dict[str, float]]:
    """By annotator and pair id, 1.0: the first is better, 0.0: the second, 0.5: a tie.

    Raises ValueError, naming the file, for one that is not of labels or holds a pair twice, for a pair that `pairs`
    lacks, for a trajectory that changed since, and for two files of one annotator.
    """
    known = {pair.id: pair for pair in pairs}
    found: dict[str, dict[str, float]] = {}
    for path in paths:
        try:
            file = LabelFile.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is not a file of labels: {error}") from error
        if file.annotator in found:
            raise ValueError(f"{path}: there are two files of the annotator {file.annotator!r}; keep one")
        verdicts: dict[str, float] = {}
        for label in file.labels:
            if label.pair not in known:
                raise ValueError(f"{path} labels the pair {label.pair}, which the trajectories do not have")
            if label.views != known[label.pair].views:
                raise ValueError(f"{path}: a trajectory of the pair {label.pair} changed since it was labelled")
            if label.pair in verdicts:
                raise ValueError(f"{path} labels the pair {label.pair} twice")
            verdicts[label.pair] = VALUES[label.verdict]
        found[file.annotator] = verdicts
    return found


def majority(labels: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """By pair id the verdict of most annotators; where none has the most, the side of their mean, or a tie."""
    by_pair: dict[str, list[float]] = defaultdict(list)
    for verdicts in labels.values():
        for pair, value in verdicts.items():
            by_pair[pair].append(value)
    return {pair: _majority(values) for pair, values in by_pair.items()}


def _majority(values: Sequence[float]) -> float:
    (verdict, most), *others = Counter(values).most_common()
    if all(count < most for _, count in others):
        return verdict
    mean = sum(values) / len(values)
    return 0.5 if mean == 0.5 else float(mean > 0.5)


def _hash(*parts: object) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()


def _page_pair(pair: TaskPair) -> dict[str, Any]:
    sides = [
        {"view": key, "turns": [page_turn(turn) for turn in t.turns]}
        for key, t in zip(pair.views, pair.both, strict=True)
    ]
    return {"id": pair.id, "query": pair.first.query, "sides": sides}


def page_turn(turn: Turn) -> dict[str, Any]:
    """What the raw text says, read again: fields of a turn that are not part of the view stay out of the page."""
    plan, check, action = parse(turn.raw)
    call = action.call if action.kind is ActionKind.CALL else None
    opening, closing = OBSERVATION_MARKUP
    return {
        "plan": plan,
        "check": check,
        "kind": action.kind,
        "tool": call.name if call else "",
        "arguments": [[k, json.dumps(v, ensure_ascii=False)] for k, v in call.arguments.items()] if call else [],
        "text": action.text,
        "reply": None if turn.observation is None else turn.observation.removeprefix(opening).removesuffix(closing),
    }
