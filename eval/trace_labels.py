"""Labels of traces by people: the page to label them on, the files it saves, agreement, and what is settled.

    traces = read_recorded(Path("traces.jsonl"))
    write_trace_page(Path("label.html"), traces)
    answers = read_answers([Path("trace-labels-anna.json"), Path("trace-labels-ben.json")], traces)
    write_trace_page(Path("adjudicate.html"), disputed(traces, answers), answers)
    settled(traces, answers, read_adjudication(Path("adjudication-cleo.json"), traces))

An annotator sees the request, the tools' documentation and the turns: no policy, no task label and no verdict stands in
the page or in the file it saves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, ValidationError, model_validator

from demur.envs.trace import Record
from demur.eval.agreement import cohen_kappa, krippendorff_alpha
from demur.eval.labels import page_turn
from demur.eval.pages import render_page
from demur.eval.report_browser import script_json
from demur.eval.stats import Estimate, wilson
from demur.eval.summary import write_whole
from demur.eval.traces import TraceLabel
from demur.eval.traces.recorded import Recorded, call_steps
from demur.rewards.judges.rendering import view_key

ADJUDICATED = "the annotators differed, and it was adjudicated"
UNSETTLED = "the annotators differed"
STEP_UNSETTLED = "the annotators differed on the first wrong step"
DROPPED = "the adjudicator dropped it"
_CATEGORIES: Mapping[str, int] = {"aligned": 0, "misaligned": 1}


class Answer(Record):
    """What one person says of one trace. view: of the trace, as it was labelled. first_wrong_step: a 0-based turn."""

    trace: str
    view: str
    verdict: Literal["aligned", "misaligned", "dropped"]
    first_wrong_step: int | None = None
    note: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Answer:
        if (self.first_wrong_step is not None) is not (self.verdict == "misaligned"):
            raise ValueError("a misaligned trace, and no other, has a first wrong step")
        return self

    @property
    def said(self) -> tuple[str, int | None]:
        """What has to be the same for two people to agree."""
        return self.verdict, self.first_wrong_step


class AnswerFile(Record):
    """What the page saves, one person a file."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    kind: Literal["trace-labels", "adjudication"]
    annotator: str = Field(min_length=1)
    labels: tuple[Answer, ...] = Field(min_length=1)


Answers = Mapping[str, Mapping[str, Answer]]
"""By annotator and by the id of the trace."""


class Agreement(NamedTuple):
    """Of two annotators, or of all of them. kappa: None if it is not defined. equal: traces with the same verdict.

    both_misaligned, same_step: traces that all called misaligned, and those of them with the same first wrong step.
    """

    annotators: tuple[str, ...]
    measure: Literal["Cohen's κ", "Krippendorff's α"]
    kappa: Estimate | None
    traces: int
    equal: int
    both_misaligned: int
    same_step: Estimate | None


def write_trace_page(path: Path, traces: Sequence[Recorded], answers: Answers | None = None) -> None:
    """Write the page on which a person labels `traces`; it opens from disk and loads nothing.

    answers: of the annotators; with them it is the page of who adjudicates. Raises ValueError without a trace.
    """
    if not traces:
        raise ValueError("there is no trace to label")
    shown = [_page_trace(recorded, answers) for recorded in traces]
    sample = _hash(*(f"{one['id']}/{one['view']}" for one in shown))[:16]
    kind = "trace-labels" if answers is None else "adjudication"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(
        path,
        render_page(
            "trace_labels.html.j2",
            styles=["report.css", "labels.css", "trace_labels.css"],
            script=["labels_common.js", "trace_labels.js"],
            data=script_json({"sample": sample, "kind": kind, "traces": shown}),
            count=len(traces),
            adjudication=answers is not None,
        ),
    )


def read_answers(paths: Iterable[Path], traces: Sequence[Recorded]) -> dict[str, dict[str, Answer]]:
    """The answers of several annotators, by annotator and trace.

    Raises ValueError, naming the file, for one that is cut or not of such labels, for a trace that `traces` lacks or
    that changed since, for a trace or an annotator that is there twice, and for a step that is no call.
    """
    found: dict[str, dict[str, Answer]] = {}
    for path in paths:
        file = _read(path, "trace-labels")
        if file.annotator in found:
            raise ValueError(f"{path}: there are two files of the annotator {file.annotator!r}; keep one")
        found[file.annotator] = _by_trace(path, file, traces)
    return found


def read_adjudication(path: Path, traces: Sequence[Recorded]) -> dict[str, Answer]:
    """By trace, what was settled on. Raises ValueError as `read_answers` does."""
    return _by_trace(path, _read(path, "adjudication"), traces)


def disputed(traces: Sequence[Recorded], answers: Answers) -> list[Recorded]:
    """The traces on which annotators differ, in the verdict or in the first wrong step."""
    return [recorded for recorded in traces if len({answer.said for answer in _of(recorded, answers)}) > 1]


def agreements(traces: Sequence[Recorded], answers: Answers, seed: int = 0) -> list[Agreement]:
    """Agreement of every two annotators, with Cohen's κ of the verdicts, and of all if there are more, with
    Krippendorff's α. Only traces that both, or two at least, have labelled count."""
    groups: list[tuple[str, ...]] = list(combinations(answers, 2))
    if len(answers) > 2:
        groups.append(tuple(answers))
    return [_agreement(traces, answers, group, seed) for group in groups]


def settled(
    traces: Sequence[Recorded], answers: Answers, adjudicated: Mapping[str, Answer] | None = None
) -> list[Recorded]:
    """The traces with what people say of them, in the same order.

    What all agree on is the label. Where they differ the adjudicator decides; without one a trace has no label, or no
    first wrong step if only that is disputed. Raises ValueError for a trace that was adjudicated without a dispute.
    """
    open_ids = {recorded.id for recorded in disputed(traces, answers)}
    decided = adjudicated or {}
    if beside := sorted(set(decided) - open_ids):
        raise ValueError(f"the trace {beside[0]!r} was adjudicated, but these annotators do not differ on it")
    return [_settled(recorded, _of(recorded, answers), decided.get(recorded.id)) for recorded in traces]


def opaque_id(recorded: Recorded) -> str:
    """How the page and its files call a trace: its own id names the policy."""
    return _hash(recorded.id)[:16]


def _settled(recorded: Recorded, given: Sequence[Answer], decided: Answer | None) -> Recorded:
    label: TraceLabel | None = None
    step: int | None = None
    notes: tuple[str, ...] = ()
    verdicts = {answer.verdict for answer in given}
    if decided is not None:
        notes = (DROPPED,) if decided.verdict == "dropped" else (ADJUDICATED,)
        label, step = None if decided.verdict == "dropped" else decided.verdict, decided.first_wrong_step
    elif len(verdicts) > 1:
        notes = (UNSETTLED,)
    elif given:
        assert given[0].verdict != "dropped", "only who adjudicates may drop a trace"
        label, steps = given[0].verdict, {answer.first_wrong_step for answer in given}
        step, notes = (given[0].first_wrong_step, ()) if len(steps) == 1 else (None, (STEP_UNSETTLED,))
    return Recorded(
        trajectory=recorded.trajectory, tools=recorded.tools, label=label, first_wrong_step=step, notes=notes
    )


def _agreement(traces: Sequence[Recorded], answers: Answers, group: tuple[str, ...], seed: int) -> Agreement:
    rows = [[answers[name].get(recorded.id) for name in group] for recorded in traces]
    rated = [
        (recorded, [answer for answer in row if answer is not None], row)
        for recorded, row in zip(traces, rows, strict=True)
        if sum(answer is not None for answer in row) > 1
    ]
    tasks = [recorded.trajectory.task_id for recorded, _, _ in rated]
    ratings = [[None if answer is None else _CATEGORIES[answer.verdict] for answer in row] for _, _, row in rated]
    if len(group) == 2:
        first, second = ([rating for row in ratings if (rating := row[at]) is not None] for at in (0, 1))
        kappa = cohen_kappa(first, second, tasks=tasks, categories=2, seed=seed)
    else:
        kappa = krippendorff_alpha(ratings, tasks=tasks, categories=2, level="nominal", seed=seed)
    wrong = [given for _, given, _ in rated if all(answer.verdict == "misaligned" for answer in given)]
    return Agreement(
        annotators=group,
        measure="Cohen's κ" if len(group) == 2 else "Krippendorff's α",
        kappa=kappa,
        traces=len(rated),
        equal=sum(len({answer.verdict for answer in given}) == 1 for _, given, _ in rated),
        both_misaligned=len(wrong),
        same_step=wilson(sum(len({a.first_wrong_step for a in given}) == 1 for given in wrong), len(wrong)),
    )


def _of(recorded: Recorded, answers: Answers) -> list[Answer]:
    return [given[recorded.id] for given in answers.values() if recorded.id in given]


def _read(path: Path, kind: Literal["trace-labels", "adjudication"]) -> AnswerFile:
    try:
        file = AnswerFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ValueError(f"{path} can not be read: {error.strerror or error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(
            f"{path} is not a file of labels of traces: {where + ': ' if where else ''}{first['msg']}"
        ) from None
    if file.kind != kind:
        raise ValueError(f"{path} is a file of the kind {file.kind!r}, and one of the kind {kind!r} is wanted here")
    return file


def _by_trace(path: Path, file: AnswerFile, traces: Sequence[Recorded]) -> dict[str, Answer]:
    known = {opaque_id(recorded): recorded for recorded in traces}
    found: dict[str, Answer] = {}
    for answer in file.labels:
        recorded = known.get(answer.trace)
        if recorded is None:
            raise ValueError(f"{path} labels the trace {answer.trace}, which the file of traces lacks")
        if answer.view != view_key(recorded.trajectory):
            raise ValueError(f"{path}: the trace {recorded.id!r} changed since it was labelled")
        if recorded.id in found:
            raise ValueError(f"{path} labels the trace {recorded.id!r} twice")
        step = answer.first_wrong_step
        if step is not None and step not in call_steps(recorded.trajectory):
            raise ValueError(f"{path}: the step {step} of the trace {recorded.id!r} is no call")
        if answer.verdict == "dropped" and file.kind != "adjudication":
            raise ValueError(f"{path}: only who adjudicates may drop a trace, such as {recorded.id!r}")
        found[recorded.id] = answer
    return found


def _page_trace(recorded: Recorded, answers: Answers | None) -> dict[str, Any]:
    t = recorded.trajectory
    given = [] if answers is None else [(name, by[recorded.id]) for name, by in answers.items() if recorded.id in by]
    return {
        "id": opaque_id(recorded),
        "view": view_key(t),
        "query": t.query,
        "tools": [tool.schema()["function"] for tool in recorded.tools],
        "turns": [page_turn(turn) for turn in t.turns],
        "calls": call_steps(t),
        "answers": [
            {"annotator": name, "verdict": answer.verdict, "step": answer.first_wrong_step, "note": answer.note}
            for name, answer in given
        ],
    }


def _hash(*parts: str) -> str:
    return sha256("/".join(parts).encode()).hexdigest()
