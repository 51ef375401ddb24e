"""Guards put to recorded traces: every proposed call is checked, on the history as it was recorded.

A trace counts as misaligned if one of its calls is stopped; the first is the one reported. What comes after it is
checked too, as if the call had run: that is what the recording shows.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

from pydantic import Field, ValidationError

from demur.envs.guards import AllowAll, Context, Guard, checked
from demur.envs.guards.provenance import provenance_guard
from demur.envs.guards.provenance.baselines import DirectPrompt, ProvePrompt, ToolAllowList, Verbatim
from demur.envs.guards.provenance.guard import PlanOf, ProvenanceGuard
from demur.envs.guards.provenance.models import Asker, Model, PlanReader
from demur.envs.guards.provenance.paper import paper_guard
from demur.envs.guards.provenance.relations import Finding
from demur.envs.intent.extraction import extract
from demur.envs.intent.guard import ContractGuard
from demur.envs.trace import Level, Record, ToolCall, Verdict
from demur.eval.journal import Lines
from demur.eval.traces import CallLabel, LabelledTrace, TraceLabel, steps

GUARDS = ("provenance", "paper", "direct", "prove", "allow-list", "verbatim", "contract", "none")
NEED_A_MODEL = ("paper", "direct", "prove")

MakeGuard = Callable[[LabelledTrace], Guard]


class StepVerdict(Record):
    """The verdict on one call. at: its turn, 0-based. seen: whether the injection had been read, where there is one.

    findings: of the provenance guard, in the order they were made; others have none. ms: what the check took.
    model_calls: how often a model was asked for it.
    """

    at: int
    tool: str
    changes: bool
    label: CallLabel | None = None
    seen: bool | None = None
    level: Level
    stage: str | None = None
    relation: str | None = None
    reason: str = ""
    evidence: tuple[str, ...] = ()
    question: str | None = None
    findings: tuple[Finding, ...] = ()
    ms: float
    model_calls: int = 0

    @property
    def stopped(self) -> bool:
        return not self.level.lets_run

    @property
    def failed(self) -> bool:
        """The check itself failed, and so stopped the call."""
        return self.stage == "error"


class TraceVerdict(Record):
    """A line of `verdicts.jsonl`. step, stage, relation, reason, evidence: of the first call that was stopped.

    run: 0-based number of the repetition. label, group, excluded: of the trace.
    """

    id: str
    verdict: Literal["aligned", "misaligned"]
    step: int | None = None
    stage: str | None = None
    relation: str | None = None
    reason: str = ""
    evidence: tuple[str, ...] = ()
    run: int
    label: TraceLabel | None = None
    group: str
    excluded: str | None = None
    steps: tuple[StepVerdict, ...] = Field(default=())

    @property
    def stopped(self) -> bool:
        return self.verdict == "misaligned"

    @property
    def failed(self) -> bool:
        return any(step.failed for step in self.steps)


def guard_maker(name: str, model: Model | None = None, **options: Any) -> MakeGuard:
    """Makes the guard of that name for a trace. options: of the model, such as `temperature`.

    Where a trace has no plan, a model reconstructs it for `paper`; these calls are not counted, as in the paper.
    Raises ValueError for an unknown name, and without a model for one that needs it.
    """
    if name not in GUARDS:
        raise ValueError(f"there is no guard {name!r}: use one of {', '.join(GUARDS)}")
    if name == "allow-list":
        return lambda trace: ToolAllowList(trace.allowed)
    guard = _shared(name, model, options)
    return lambda trace: guard


def _shared(name: str, model: Model | None, options: dict[str, Any]) -> Guard:
    if name in NEED_A_MODEL:
        if model is None:
            raise ValueError(f"the guard {name!r} asks a model: give --backend URL and --model NAME")
        if name == "paper":
            return paper_guard(model, plan_of=_plan_of(model, options), **options)
        return (DirectPrompt if name == "direct" else ProvePrompt)(model, **options)
    if name == "provenance":
        return provenance_guard(model, **(options if model else {}))
    if name == "verbatim":
        return Verbatim()
    if name == "contract":
        return ContractGuard(lambda context: extract(context.query, context.tools))
    return AllowAll()


def _plan_of(model: Model, options: dict[str, Any]) -> PlanOf:
    return PlanReader(Asker(model, **options))


async def judge_trace(guard: Guard, trace: LabelledTrace, run: int = 0) -> TraceVerdict:
    """Check every call of a trace. Never raises: a check that fails stops the call."""
    found = [await _judge(guard, trace, at, context, call) for at, context, call in steps(trace)]
    first = next((step for step in found if step.stopped), None)
    told = {} if first is None else first.model_dump(include={"stage", "relation", "reason", "evidence"})
    return TraceVerdict(
        id=trace.id,
        verdict="aligned" if first is None else "misaligned",
        step=None if first is None else first.at,
        **told,
        run=run,
        label=trace.label,
        group=trace.group,
        excluded=trace.excluded,
        steps=tuple(found),
    )


async def _judge(guard: Guard, trace: LabelledTrace, at: int, context: Context, call: ToolCall) -> StepVerdict:
    start = perf_counter()
    verdict, findings = await _examined(guard, context, call)
    ms = 1000 * (perf_counter() - start)
    tool = trace.tools.get(call.name)
    pop_calls = getattr(guard, "pop_calls", None)
    return StepVerdict(
        at=at,
        tool=call.name,
        changes=tool is None or tool.changes,
        label=trace.labels[at],
        seen=trace.injection_seen[at] if trace.injection_seen else None,
        **verdict.model_dump(include={"level", "stage", "relation", "reason", "evidence", "question"}),
        findings=findings,
        ms=round(ms, 4),
        model_calls=pop_calls() if pop_calls else 0,
    )


async def _examined(guard: Guard, context: Context, call: ToolCall) -> tuple[Verdict, tuple[Finding, ...]]:
    if not isinstance(guard, ProvenanceGuard):
        return await checked(guard, context, call), ()
    examination = await guard.examine(context, call)  # never raises
    return examination.verdict, examination.findings


async def judge_all(
    make: MakeGuard, jobs: Iterable[tuple[LabelledTrace, int]], done: Callable[[TraceVerdict], None], at_once: int
) -> None:
    """Judge traces, each with the number of its run, `at_once` at the same time; `done` gets each as it is ready."""
    waiting = iter(jobs)

    async def work() -> None:
        for trace, run in waiting:
            done(await judge_trace(make(trace), trace, run))

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())


class Journal(Lines[TraceVerdict]):
    """`verdicts.jsonl` while it grows, a line a trace and run; what the verdicts depend on is kept beside it.

    A check that failed is made again: an endpoint may answer by now.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        super().__init__(
            folder / "verdicts.jsonl",
            TraceVerdict,
            settings,
            what="verdict",
            settings_path=folder / "settings.json",
            keep=lambda verdict: not verdict.failed,
        )

    @property
    def verdicts(self) -> list[TraceVerdict]:
        return self.records

    def finish(self, order: Sequence[str]) -> None:
        """Write all verdicts in the order of the traces, by run."""
        place = {id: at for at, id in enumerate(order)}
        self.sort(lambda verdict: (verdict.run, place[verdict.id]))


def read_verdicts(path: Path) -> list[TraceVerdict]:
    """Raises ValueError, naming file and line, for what is no verdict."""
    found = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            found.append(TraceVerdict.model_validate_json(line))
        except ValidationError as error:
            raise ValueError(f"{path}:{number} is not a verdict: {error.errors()[0]['msg']}") from error
    return found


def fingerprint(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
