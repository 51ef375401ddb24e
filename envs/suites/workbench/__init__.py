"""WorkBench (arXiv 2405.00823), played in a simulator of our own, written from a description of its sandboxes.

suite = WorkBench.read(Path("WorkBench/data"))
played = run_batched([Episode(task) for task in suite.tasks()], policy)
correct = fmean(suite.score(trajectory)["correct"] for trajectory in played)
"""

from demur.envs.suites.workbench.tasks import WorkBench, WorkBenchTask
from demur.envs.suites.workbench.world import WorkBenchWorld, replay

__all__ = ["WorkBench", "WorkBenchTask", "WorkBenchWorld", "replay"]
