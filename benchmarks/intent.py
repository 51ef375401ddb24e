"""What intent contracts cost, what they keep, and what they catch: the figures of the area in one run.

    python benchmarks/intent.py [--quick]

Prints what each part prints and, on its last line, one flat JSON object:

check_us_p50, check_us_p99    a contract's check before a call, 50 rules and 200 earlier calls (`intent_checks.py`)
registry_lost, registry_verified, registry_writes_per_second
                              8 processes writing 10,000 actions each, one killed (`intent_registry.py`)
redteam_coverage, redteam_false_interception
                              held-out deviations caught, and plans that do not deviate stopped (`intent_redteam.py`)
scorer_overhead, decoy_auroc_train, decoy_auroc_held_out
                              scoring a step's rollouts over rolling them out, and whether the score tells harm from the
                              rest before training (`intent_scorer.py`)
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer processes, actions, steps and tasks: minutes")
    quick = parser.parse_args(argv).quick
    # here and not above: torch takes seconds, and --help need not wait
    from intent_checks import check_figures
    from intent_redteam import redteam_figures
    from intent_registry import hammer
    from intent_scorer import figures as scorer_figures

    figures = check_figures(quick)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/registry.db"
        written = hammer(url, processes=4 if quick else 8, actions=200 if quick else 10_000)
    figures |= {f"registry_{name}": figure for name, figure in written.items()}
    figures |= redteam_figures(quick)
    figures |= scorer_figures(quick)
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


if __name__ == "__main__":
    main()
