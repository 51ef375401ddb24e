"""Time AgentDojo's ground-truth episodes; run by the environment that has `agentdojo`, see benchmarks/worlds.py.

Prints one JSON object: for each number of calls the episodes and their seconds (environment set up, plan carried
out, checks), and the microseconds of a bare tool call.
"""

from __future__ import annotations

import json
from collections import defaultdict
from time import perf_counter

from agentdojo.agent_pipeline import GroundTruthPipeline
from agentdojo.functions_runtime import FunctionsRuntime
from agentdojo.task_suite.load_suites import get_suite

VERSION = "v1.2.2"
SUITES = ("workspace", "travel", "banking", "slack")


def main() -> None:
    seconds: dict[int, list[float]] = defaultdict(list)
    bare: list[float] = []
    for name in SUITES:
        suite = get_suite(VERSION, name)
        for task in suite.user_tasks.values():
            environment = task.init_environment(suite.load_and_inject_default_environment({}))
            calls = task.ground_truth(environment)
            start = perf_counter()
            suite.run_task_with_pipeline(GroundTruthPipeline(task), task, injection_task=None, injections={})
            seconds[len(calls)].append(perf_counter() - start)
            runtime = FunctionsRuntime(suite.tools)
            for call in calls:
                start = perf_counter()
                runtime.run_function(environment, call.function, call.args)
                bare.append(perf_counter() - start)
    bare.sort()
    print(json.dumps({"seconds_by_calls": seconds, "bare_call_us": 1e6 * bare[len(bare) // 2]}))


if __name__ == "__main__":
    main()
