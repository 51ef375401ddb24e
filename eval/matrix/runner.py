"""One evaluation from its options to its files: plan, play what is missing, measure, compare, write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, Field
from rich.console import Console

from demur.envs.trace import Record
from demur.eval.manifest import manifest
from demur.eval.matrix.cells import CellFile, CellRecord, locked
from demur.eval.matrix.comparisons import Comparison, Place, comparisons
from demur.eval.matrix.measures import Measures, measure, rows_of
from demur.eval.matrix.options import Options
from demur.eval.matrix.play import Job, Players, play, settings_of
from demur.eval.matrix.policies import PolicySpec, read_policies
from demur.eval.matrix.suites import Source, load_source
from demur.eval.matrix.tables import Watch, change_table, failure_lines, suite_tables
from demur.eval.matrix.workers import play_in_processes
from demur.eval.summary import Summary, write_summary, write_whole


class Comparisons(Record):
    """`comparisons.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    schema_version: int = Field(default=1, alias="schema")
    rows: tuple[Comparison, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """sources: by suite. specs: by a policy's name. files: every cell, policy by policy."""

    options: Options
    sources: Mapping[str, Source]
    specs: Mapping[str, PolicySpec]
    files: tuple[CellFile, ...]


def evaluate(options: Options) -> int:
    """0, or 1 if a cell is not finished. Raises ValueError, before anything is played, for what cannot be used."""
    plan = make_plan(options)
    with locked(options.out):
        for file in plan.files:
            file.check()
        write_whole(options.out / "config.yaml", options.text())
        play_missing(plan)
        summary, found = results(plan)
        write_summary(options.out / "summary.json", summary)
        write_whole(
            options.out / "comparisons.json", Comparisons(rows=tuple(found)).model_dump_json(by_alias=True) + "\n"
        )
    records = [file.record for file in plan.files]
    show(options.out, summary, found, records)
    return int(any(record.state != "complete" for record in records))


def make_plan(options: Options) -> Plan:
    """Raises ValueError for a policy, a suite or a guard that cannot be had."""
    specs = {spec.name: spec for spec in read_policies(options)}
    sources = {name: load_source(name, options) for name in options.suites}
    settings = {
        (name, guard, suite): dict(settings_of(spec, guard, source, options))
        for name, spec in specs.items()
        for suite, source in sources.items()
        for guard in options.guards
    }
    records = [
        CellRecord(
            policy=policy,
            guard=guard,
            suite=suite,
            seed=seed,
            tasks=sources[suite].size,
            settings=settings[policy, guard, suite],
        )
        for policy in specs
        for suite in sources
        for seed in options.seeds
        for guard in options.guards
    ]
    return Plan(options, sources, specs, tuple(CellFile(options.out, record) for record in records))


def play_missing(plan: Plan) -> None:
    """Play the cells that are not complete. What goes wrong with one is in its record, and the others go on."""
    missing = [file for file in plan.files if not file.complete]
    if not missing:
        return
    for file in missing:
        file.open()
    players = Players(plan.options)
    total = sum(file.record.tasks for file in missing)
    with Watch(total, sum(len(file.done) for file in missing)) as watch:
        for job, files in _jobs(plan, missing):
            _play_job(plan, job, files, players, watch)


def results(plan: Plan) -> tuple[Summary, list[Comparison]]:
    """Rows and comparisons of the places whose cells are all complete."""
    table: dict[Place, Measures] = {}
    prints: dict[str, str] = {}
    places: dict[Place, list[CellFile]] = {}
    for file in plan.files:
        places.setdefault(_place(file), []).append(file)
    for place, cells in places.items():
        if all(file.complete for file in cells):
            read = (t for file in cells for t in file.trajectories())
            table[place], prints[place[2]] = measure(read, plan.sources[place[2]].score)
    rows = [row for place, measures in table.items() for row in rows_of(*place, measures)]
    about = manifest(seeds={"first": plan.options.seeds[0]}, notes=_notes(plan)).model_copy(update={"data": prints})
    return Summary(manifest=about, rows=tuple(rows)), comparisons(table)


def show(out: Path, summary: Summary, found: Sequence[Comparison], records: Sequence[CellRecord]) -> None:
    console = Console(highlight=False)
    for suite in dict.fromkeys(row.suite for row in summary.rows):
        for table in suite_tables(suite, summary):
            console.print(table)
    if found:
        console.print(change_table(found))
    for line in failure_lines(records):
        console.print(line, style="bold red", soft_wrap=True, markup=False)
    console.print(f"{out}: summary.json, comparisons.json, cells/", soft_wrap=True, markup=False)


class _Files:
    """Where the trajectories of a job go."""

    def __init__(self, files: Sequence[CellFile], watch: Watch, max_failures: int) -> None:
        self._files, self._watch, self._most = files, watch, max_failures
        self._given_up: set[int] = set()

    def add(self, at: int, task_id: str, line: str) -> None:
        self._files[at].add(task_id, line)
        self._watch.advance()

    def failed(self, at: int, error: str) -> None:
        if self._files[at].failed(error) >= self._most and at not in self._given_up:
            self._given_up.add(at)
            self._watch.say(f"given up: {self._files[at].key.title}: {error}")

    def lacks(self, at: int, task_id: str) -> bool:
        return at not in self._given_up and task_id not in self._files[at].done


def _play_job(plan: Plan, job: Job, files: Sequence[CellFile], players: Players, watch: Watch) -> None:
    sink = _Files(files, watch, plan.options.max_failures)
    watch.doing(f"{', '.join(dict.fromkeys(cell.policy for cell in job.cells))} × {job.suite} × seed {job.seed}")
    problem: str | None = None
    try:
        if _apart(job) and plan.options.processes > 1:
            problem = play_in_processes(job, plan.options, sink, [frozenset(file.done) for file in files])
        else:
            play(job, plan.sources[job.suite], players, sink)
    except Exception as error:  # of a world, a model or an endpoint: the other jobs go on
        problem = _told(error)
    finally:
        for file in files:
            file.close(problem)
        for spec in set(job.specs):
            players.forget(spec)


def _jobs(plan: Plan, missing: Sequence[CellFile]) -> Iterator[tuple[Job, list[CellFile]]]:
    """All scripted policies share a pass over the tasks of a suite and seed; a model has one of its own."""

    def group(file: CellFile) -> tuple[str, str, int]:
        alone = plan.specs[file.key.policy].kind != "scripted" or file.key.guard == "monitor"
        return (file.key.policy if alone else "", file.key.suite, file.key.seed)

    groups: dict[tuple[str, str, int], list[CellFile]] = {}
    for file in missing:
        groups.setdefault(group(file), []).append(file)
    for files in groups.values():
        cells = tuple(file.key for file in files)
        yield Job(cells, tuple(plan.specs[cell.policy] for cell in cells)), files


def _apart(job: Job) -> bool:
    return all(spec.kind == "scripted" for spec in job.specs) and all(cell.guard != "monitor" for cell in job.cells)


def _place(file: CellFile) -> Place:
    return file.key.policy, file.key.guard, file.key.suite


def _notes(plan: Plan) -> dict[str, str | int | float | bool | None]:
    told: dict[str, str | int | float | bool | None] = {"eval_judge": "none: the worlds' own checks"}
    for name, source in plan.sources.items():
        told |= {f"suite {name}, {key}": value for key, value in source.notes.items()}
    for name, spec in plan.specs.items():
        told[f"policy {name}"] = spec.what
    told["seeds"] = ", ".join(map(str, plan.options.seeds))
    return told


def _told(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
