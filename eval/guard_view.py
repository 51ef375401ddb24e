"""Write a page of a guard's verdicts: each call, each argument, and a line to the text it came from.

    python eval/guard.py --traces traces.jsonl --format workbench --out out
    python eval/guard_view.py --verdicts out --traces traces.jsonl --format workbench --out out/verdicts.html

One file that opens from disk and loads nothing. Exit status 2, with one line that says why, for files that do not fit.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from demur.envs.guards.provenance.relations import Origin, Relation
from demur.eval.guard_cases import Case, read_cases
from demur.eval.guard_page import case_data, choose
from demur.eval.pages import render_page
from demur.eval.report_browser import script_json
from demur.eval.summary import write_whole
from demur.eval.traces import FORMATS


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Write a page of a guard's verdicts.", allow_abbrev=False)
    parser.add_argument("--verdicts", type=Path, required=True, help="folder that eval/guard.py wrote")
    parser.add_argument("--traces", type=Path, required=True, help="the file the verdicts are about")
    parser.add_argument("--format", choices=FORMATS, required=True, help="what that file is")
    parser.add_argument("--out", type=Path, required=True, help="the page, such as out/verdicts.html")
    options = parser.parse_args(arguments)
    try:
        cases = read_cases(options.verdicts, options.traces, options.format)
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(options.out, render(cases, options.traces.name))
    except (ValueError, OSError) as error:
        print(" ".join(str(error).split())[:500], file=sys.stderr)
        return 2
    print(options.out)
    return 0


def render(cases: Sequence[Case], title: str) -> str:
    """The page. It holds at most `MOST_CASES` cases, and says how many there are."""
    chosen = choose(cases)
    verdicts = [case.verdict for case in chosen]
    return render_page(
        "guard.html.j2",
        styles=["report.css", "guard.css"],
        script="guard.js",
        title=title,
        total=len(cases),
        shown=len(chosen),
        stopped=sum(case.verdict.stopped for case in cases),
        labels=sorted({verdict.label or "no label" for verdict in verdicts}),
        stages=sorted({verdict.stage for verdict in verdicts if verdict.stage}),
        relations=sorted({verdict.relation for verdict in verdicts if verdict.relation}, key=_place),
        origins=[origin.value for origin in Origin if origin is not Origin.NOWHERE],
        data=script_json([case_data(case) for case in chosen]),
    )


def _place(relation: str) -> tuple[int, str]:
    """In the order of the stages; other guards have names of their own for what they found."""
    known = [one.value for one in Relation]
    return known.index(relation) if relation in known else len(known), relation


if __name__ == "__main__":
    sys.exit(main())
