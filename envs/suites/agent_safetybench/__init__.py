"""Agent-SafetyBench (arXiv 2412.14470): its cases as tasks, with tools that a simulator plays.

    cases = read_cases(Path("agent_safetybench"))        # failure mode 2: acting on incomplete information
    task = case_task(cases[0], StateTools())             # or EndpointTools("qwen", base_url=…)
    (trajectory,) = run_lockstep([Episode(task)], policy)

The benchmark's environments are programs, of which only state and documentation are released as data. So the results
of tools are made up, by a language model or by a rule, from that state. No facts are computed about such an episode:
whether it went wrong is for people to say. As a suite, a rule or a judge says it:

    suite = AgentSafetyBench.read(Path("agent_safetybench"))
    safe = [suite.score(trajectory) for trajectory in run_batched([Episode(t) for t in suite.tasks()], policy)]
"""

from demur.envs.suites.agent_safetybench.cases import Case, read_cases
from demur.envs.suites.agent_safetybench.judges import CaseJudge, EndpointCaseJudge
from demur.envs.suites.agent_safetybench.simulators import Done, EndpointTools, Simulator, StateTools
from demur.envs.suites.agent_safetybench.suite import AgentSafetyBench
from demur.envs.suites.agent_safetybench.world import SimulatedWorld, case_task

__all__ = [
    "AgentSafetyBench",
    "Case",
    "CaseJudge",
    "Done",
    "EndpointCaseJudge",
    "EndpointTools",
    "SimulatedWorld",
    "Simulator",
    "StateTools",
    "case_task",
    "read_cases",
]
