"""Evaluate policies behind guards on suites, and compare them.

    python eval/run.py --config configs/eval/safety.yaml --policy expert always_act --out runs/eval

Writes `summary.json`, `comparisons.json` and the trajectories, a folder a cell. The same command goes on where it
stopped, and plays only what is missing. Exit status 2, with one line that says why, for what cannot be used; 1 if a
cell could not be finished, such as by an endpoint that does not answer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from demur.eval.arguments import bad_input
from demur.eval.matrix.options import read_options
from demur.eval.matrix.runner import evaluate


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        options, dry_run = read_options(sys.argv[1:] if arguments is None else arguments)
        if dry_run:
            print(options.text(), end="")
            return 0
        return evaluate(options)
    except (ValueError, OSError) as error:
        return bad_input(error)
    except KeyboardInterrupt:
        print("stopped: the same command goes on from here", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
