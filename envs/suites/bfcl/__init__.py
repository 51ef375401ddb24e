"""BFCL v4 multi-turn (the Berkeley Function-Calling Leaderboard), played on the benchmark's own backends.

suite = BFCL.read(Path("bfcl"), "miss_param")
played = run_batched([Episode(task) for task in suite.tasks()], policy)
correct = fmean(suite.score(trajectory)["correct"] for trajectory in played)

A user speaks several times. An answer ends the work on what was said last, and so does a question: the next message
of the user follows. The backends and the checks are those of the package `bfcl-eval`, of which nothing else is
imported: `pip install --no-deps bfcl-eval==2026.3.23 mpmath==1.3.0`.
"""

from demur.envs.suites.bfcl.entries import CATEGORIES, Entry, read_entries
from demur.envs.suites.bfcl.tasks import BFCL, BFCLTask
from demur.envs.suites.bfcl.world import BFCLWorld

__all__ = ["BFCL", "CATEGORIES", "BFCLTask", "BFCLWorld", "Entry", "read_entries"]
