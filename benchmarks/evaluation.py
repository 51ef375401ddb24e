"""How long does the evaluation matrix take, and how much memory?

    python benchmarks/evaluation.py [--quick]

Each figure is taken in a process of its own, as a user would start it. Prints one flat JSON object on its last line:

seconds_2000_tasks   2,000 tasks of all our worlds, the expert behind no guard, contract, provenance and both (8,000
                     episodes), in two processes: from the command to its summary; with --quick 400 tasks, times five
cpu_seconds_2000_tasks  processor time of the same: on a machine that does other work it says more than the clock
peak_mb_2000         the largest memory of a process in 2,000 tasks without a guard, in MiB; with --quick 400
peak_mb_50000        the same in 50,000 tasks; left out with --quick
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
GUARDS = ("none", "contract", "provenance", "both")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a fifth of the tasks: under a minute")
    quick = parser.parse_args(arguments).quick
    tasks = 400 if quick else 2000
    seconds, cpu = timed(tasks, GUARDS)
    found = {"seconds_2000_tasks": seconds * 2000 / tasks, "cpu_seconds_2000_tasks": cpu * 2000 / tasks}
    found["peak_mb_2000"] = peak(tasks)
    if not quick:
        found["peak_mb_50000"] = peak(50_000)
    for name, value in found.items():
        print(f"{name}: {value:.1f}")
    print(json.dumps({name: round(value, 1) for name, value in found.items()}))


def timed(tasks: int, guards: Sequence[str]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor, of one evaluation."""
    before, start = _cpu(), time.perf_counter()
    with TemporaryDirectory() as folder:
        _evaluate(tasks, guards, Path(folder))
    return time.perf_counter() - start, _cpu() - before


def peak(tasks: int) -> float:
    """The largest resident memory of any process of one evaluation, in MiB."""
    measured = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=2); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-c", measured, *_command(tasks, ("none",), Path(folder))]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return int(run.stdout.split()[-1]) / unit


def _evaluate(tasks: int, guards: Sequence[str], out: Path) -> None:
    subprocess.run(_command(tasks, guards, out), check=True, stdout=sys.stderr)


def _command(tasks: int, guards: Sequence[str], out: Path) -> list[str]:
    counts = [
        word
        for label in ("benign", "harmful", "injected", "underspecified")
        for word in (f"--{label}", str(tasks // 4))
    ]
    given = ["--policy", "expert", "--guards", *guards, "--processes", "2", "--out", str(out), *counts]
    return [sys.executable, str(ROOT / "eval" / "run.py"), *given]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
