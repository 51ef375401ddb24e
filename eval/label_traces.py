"""Have people say which recorded traces went wrong, and where: the page, and what comes of the files it saves.

    python eval/label_traces.py export --traces traces.jsonl --out label.html
    python eval/label_traces.py read --traces traces.jsonl --labels trace-labels-anna.json trace-labels-ben.json \
        --adjudicate adjudicate.html --out labelled.jsonl
    python eval/label_traces.py read --traces traces.jsonl --labels trace-labels-anna.json trace-labels-ben.json \
        --adjudication adjudication-cleo.json --out labelled.jsonl

Exit status 2, with one line that says why, for files or options that cannot be used.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from demur.envs.trace import write_lines
from demur.eval.arguments import bad_input
from demur.eval.stats import Estimate
from demur.eval.trace_labels import (
    Agreement,
    Answer,
    Answers,
    agreements,
    disputed,
    read_adjudication,
    read_answers,
    settled,
    write_trace_page,
)
from demur.eval.traces.recorded import Recorded, call_steps, read_recorded


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        (_export if options.command == "export" else _read)(options)
    except (ValueError, OSError) as error:
        return bad_input(error)
    return 0


def _export(options: argparse.Namespace) -> None:
    traces = read_recorded(options.traces)
    with_calls = [recorded for recorded in traces if call_steps(recorded.trajectory)]
    if not with_calls:
        raise ValueError(f"no trace of {options.traces} calls a tool, so there is nothing to label")
    write_trace_page(options.out, with_calls)
    without = len(traces) - len(with_calls)
    print(f"{options.out}: {len(with_calls)} traces to label; {without} that call no tool are left out")


def _read(options: argparse.Namespace) -> None:
    traces = read_recorded(options.traces)
    answers = read_answers(options.labels, traces)
    open_traces = disputed(traces, answers)
    decided = read_adjudication(options.adjudication, traces) if options.adjudication else {}
    labelled = settled(traces, answers, decided)
    write_lines(options.out, (recorded.model_dump_json() for recorded in labelled))
    lines = [*map(_agreement_line, agreements(traces, answers)), *_dispute_lines(open_traces, answers, decided)]
    counts = Counter(recorded.label or "no label" for recorded in labelled)
    lines.append(f"{options.out}: " + ", ".join(f"{counts[name]} {name}" for name in sorted(counts)))
    if options.adjudicate:
        if open_traces:
            write_trace_page(options.adjudicate, open_traces, answers)
            lines.append(f"{options.adjudicate}: {len(open_traces)} traces to adjudicate")
        else:
            lines.append("the annotators differ nowhere: there is nothing to adjudicate")
    console = Console(highlight=False, markup=False, soft_wrap=True)
    for line in lines:
        console.print(line)


def _agreement_line(found: Agreement) -> str:
    step = (
        ""
        if found.same_step is None
        else f"; same first wrong step {_shown(found.same_step)} of {found.both_misaligned}"
    )
    return (
        f"{', '.join(found.annotators)}: {found.measure} {_shown(found.kappa)}, "
        f"{found.equal} of {found.traces} verdicts equal{step}"
    )


def _dispute_lines(open_traces: Sequence[Recorded], answers: Answers, decided: dict[str, Answer]) -> list[str]:
    lines = [f"{len(open_traces)} traces in dispute"] if len(answers) > 1 else []
    for recorded in open_traces:
        said = [f"{name} {_said(given[recorded.id])}" for name, given in answers.items() if recorded.id in given]
        if recorded.id in decided:
            said.append(f"adjudicated {_said(decided[recorded.id])}")
        lines.append(f"  {recorded.id}: {'; '.join(said)}")
    return lines


def _said(answer: Answer) -> str:
    step = "" if answer.first_wrong_step is None else f" from step {answer.first_wrong_step + 1}"
    return f"{answer.verdict}{step}"


def _shown(figure: Estimate | None) -> str:
    return "undefined" if figure is None else f"{figure.value:.2f} [{figure.ci_low:.2f}, {figure.ci_high:.2f}]"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Labels of recorded traces by people.", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True)
    export = commands.add_parser("export", help="write the page, opened from disk", allow_abbrev=False)
    read = commands.add_parser("read", help="read what the page saved", allow_abbrev=False)
    for command in (export, read):
        command.add_argument("--traces", type=Path, required=True, help="of eval/generate_traces.py")
    export.add_argument("--out", type=Path, required=True, help="the page, such as label.html")
    read.add_argument("--labels", type=Path, nargs="+", required=True, help="files that the page saved, one a person")
    read.add_argument("--adjudicate", type=Path, metavar="PAGE", help="write the page of the traces in dispute")
    read.add_argument("--adjudication", type=Path, metavar="FILE", help="what that page saved")
    read.add_argument("--out", type=Path, required=True, help="the labelled traces, for eval/guard.py --format demur")
    return parser


if __name__ == "__main__":
    sys.exit(main())
