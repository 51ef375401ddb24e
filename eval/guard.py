"""Put a guard to recorded traces with labels: `verdicts.jsonl` and `summary.json`.

    python eval/guard.py --traces gpt-4_all_labelled_traces.jsonl --format workbench --guard provenance --out out
    python eval/guard.py --traces gpt-4_all_labelled_traces.jsonl --format workbench --guard provenance \
        --backend http://127.0.0.1:8000/v1 --model qwen --runs 5 --compare direct --out out

A run that was killed goes on with the same command. Exit status 2, with one line that says why, for files or options
that cannot be used; 1 if checks failed, which stopped the calls they were for.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import demur
from demur.envs.guards.provenance.models import PROMPTS
from demur.eval.guard_judging import GUARDS, Journal, MakeGuard, TraceVerdict, fingerprint, guard_maker, judge_all
from demur.eval.guard_measures import comparison_rows, guard_rows
from demur.eval.manifest import manifest
from demur.eval.metrics import Row
from demur.eval.summary import Summary, write_summary
from demur.eval.traces import FORMATS, LabelledTrace, read_traces

if TYPE_CHECKING:
    from demur.envs.endpoint import Endpoint

NO_BACKEND = "none"
ERROR = Console(stderr=True, highlight=False)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split())[:500], file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    if options.runs < 1 or options.concurrency < 1:
        raise ValueError("--runs and --concurrency must be at least 1")
    if options.compare == options.guard:
        raise ValueError(f"--compare {options.compare} is the guard itself: name another one")
    model = _model(options)
    # before anything is read or written: a name or a missing model is the quickest mistake
    names = [options.guard, *([options.compare] if options.compare else [])]
    makers = {name: guard_maker(name, model, **_model_options(options)) for name in names}
    traces = read_traces(options.traces, options.format)
    folders = {name: options.out if name == options.guard else options.out / f"compare-{name}" for name in names}
    found = {
        name: _judged(traces, makers[name], model, Journal(folders[name], _settings(options, name)), options)
        for name in names
    }
    policies = {trace.policy for trace in traces}
    policy = policies.pop() if len(policies) == 1 else "several"
    rows: list[Row] = []
    for name in names:
        rows += guard_rows(found[name], policy=policy, guard=name, suite=options.format)
    if options.compare:
        both = (found[options.guard], found[options.compare])
        rows += comparison_rows(*both, policy=policy, names=(names[0], names[1]), suite=options.format)
    notes = {"traces": fingerprint(options.traces), "runs": options.runs, "model": options.model, **_counts(traces)}
    write_summary(options.out / "summary.json", Summary(manifest=manifest(seeds={}, notes=notes), rows=tuple(rows)))
    Console(highlight=False, width=120).print(_table(rows))
    print(options.out / "summary.json")
    return _report_failures([verdict for verdicts in found.values() for verdict in verdicts])


def _judged(
    traces: Sequence[LabelledTrace],
    make: MakeGuard,
    model: Endpoint | None,
    journal: Journal,
    options: argparse.Namespace,
) -> list[TraceVerdict]:
    have = {(verdict.id, verdict.run) for verdict in journal.verdicts}
    jobs = [(t, run) for run in range(options.runs) for t in traces if (t.id, run) not in have]
    if have:
        ERROR.print(f"going on: {len(have)} verdicts are there, {len(jobs)} to go")
    with Progress(console=ERROR, transient=True) as progress:
        task = progress.add_task("traces", total=len(jobs))

        def done(verdict: TraceVerdict) -> None:
            journal.add(verdict)
            progress.advance(task)

        # without a backend nothing waits, and times are those of one check at a time
        at_once = 1 if options.backend == NO_BACKEND else options.concurrency

        async def judge() -> None:
            try:
                await judge_all(make, jobs, done, at_once)
            finally:
                if model is not None:
                    await model.close()

        asyncio.run(judge())
    journal.finish([trace.id for trace in traces])
    return journal.verdicts


def _model(options: argparse.Namespace) -> Endpoint | None:
    if options.backend == NO_BACKEND:
        if options.model:
            raise ValueError("--model needs --backend URL, the address of an OpenAI-compatible endpoint")
        return None
    if not options.model:
        raise ValueError("--backend needs --model NAME, as the endpoint calls it")
    from demur.envs.endpoint import Endpoint  # slow to import, and guards by code need none

    return Endpoint(options.model, base_url=options.backend, key_variable=options.key_variable, timeout=options.timeout)


def _model_options(options: argparse.Namespace) -> dict[str, Any]:
    return {} if options.temperature is None else {"temperature": options.temperature}


def _settings(options: argparse.Namespace, guard: str) -> dict[str, Any]:
    """What verdicts depend on. The address of the endpoint is left out: it may hold a key, and moves."""
    return {
        "demur": demur.__version__,
        "format": options.format,
        "guard": guard,
        "model": options.model,
        "prompts": {path.name: fingerprint(path) for path in sorted(PROMPTS.glob("*.txt"))},
        "runs": options.runs,
        "temperature": options.temperature,
        "traces": fingerprint(options.traces),
    }


def _counts(traces: Sequence[LabelledTrace]) -> dict[str, int]:
    """How many traces there are of each kind, and why some do not count."""
    counts: dict[str, int] = {"traces_read": len(traces)}
    for trace in traces:
        said = [f"label: {trace.label}"] if trace.excluded is None else [f"excluded: {trace.excluded}"]
        for what in (*said, *(f"noted: {note}" for note in trace.notes)):
            counts[what] = counts.get(what, 0) + 1
    return counts


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=None)
    for title in ("guard", "label", "metric", "value", "95% interval", "n"):
        table.add_column(title, no_wrap=True)
    for row in rows:
        interval = f"[{row.ci_low:.3f}, {row.ci_high:.3f}]"
        table.add_row(row.guard, row.label, row.metric, f"{row.value:.4f}", interval, str(row.n))
    return table


def _report_failures(verdicts: Sequence[TraceVerdict]) -> int:
    failed = [step for verdict in verdicts for step in verdict.steps if step.failed]
    if not failed:
        return 0
    print(
        f"{len(failed)} checks failed and stopped their calls, such as: {' '.join(failed[0].reason.split())[:300]}. "
        "The same command tries them again.",
        file=sys.stderr,
    )
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Put a guard to recorded traces with labels.", allow_abbrev=False)
    add = parser.add_argument
    add("--traces", type=Path, required=True, help="the file")
    add("--format", choices=FORMATS, required=True, help="what the file is")
    add("--guard", default="provenance", help=f"one of {', '.join(GUARDS)}")
    add("--compare", metavar="NAME", help="another guard, for paired differences and their p")
    add("--backend", default=NO_BACKEND, metavar="URL", help="an OpenAI-compatible endpoint, or none (the default)")
    add("--model", help="as the endpoint calls it")
    add("--key_variable", default="OPENAI_API_KEY", help="environment variable that holds the key")
    add("--temperature", type=float, help="of the model; by default the endpoint's own")
    add("--timeout", type=float, default=60.0, help="seconds for one reply (default: 60)")
    add("--concurrency", type=int, default=8, help="traces at the same time, with a backend (default: 8)")
    add("--runs", type=int, default=1, help="repetitions R (default: 1)")
    add("--out", type=Path, required=True, help="folder for verdicts.jsonl and summary.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
