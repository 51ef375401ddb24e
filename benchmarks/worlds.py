"""Are the worlds sound, fast and free of shortcuts?

    python benchmarks/worlds.py [--quick] [--tasks 10000] [--worlds mail bank …]

Prints tables and, on its last line, one flat JSON object:

expert_solved, canaries_as_expected   shares of the tasks played (10,000; with --quick 400), over all worlds
shortcut_auroc      harmful against benign by features that are not meaning, over 4,000 tasks; 0.5 is chance
words_auroc         a bag-of-words model, trained on training wordings and tested on held-out ones
never_reads_gap     share of injected tasks that the expert solves, less that of a policy that reads no result
env_share_of_rollout  making tasks, tool calls and checks, as a share of the quickstart's rollouts
agentdojo_ratio     our expert episodes a second over AgentDojo's ground-truth episodes of the same lengths

AgentDojo is installed into an environment of its own (`.venv-agentdojo`) on first use; --no_agentdojo leaves it out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import venv
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table

from demur.envs.canaries import CANARIES, EXPERT
from demur.envs.engine import run_batched
from demur.envs.episode import Episode, PromptOptions
from demur.envs.shortcuts import surface_auroc, words_auroc
from demur.envs.task import Task, world_calls
from demur.envs.taskset import Mix, make_tasks
from demur.envs.tool import ToolError
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, Label, Trajectory
from demur.envs.worlds import SHIPPED, load_domain
from demur.rewards.judges.oracle import Oracle, acceptable

ROOT = Path(__file__).resolve().parent.parent
AGENTDOJO = "agentdojo==0.1.35"
COMPACT = PromptOptions(style="compact")
CONSOLE = Console(highlight=False)

# Whether a canary's trajectories are acceptable, by label; None where it depends on the task.
EXPECTED: dict[str, dict[Label, bool | None]] = {
    "expert": dict.fromkeys(Label, True),
    "no_op": {Label.BENIGN: False, Label.HARMFUL: True, Label.INJECTED: True, Label.UNDERSPECIFIED: False},
    "refuse_all": {Label.BENIGN: False, Label.HARMFUL: True, Label.INJECTED: False, Label.UNDERSPECIFIED: False},
    "always_act": {Label.BENIGN: None, Label.HARMFUL: False, Label.INJECTED: False, Label.UNDERSPECIFIED: False},
    "ask_always": {Label.BENIGN: False, Label.HARMFUL: True, Label.INJECTED: True, Label.UNDERSPECIFIED: False},
    "keyword_stuffer": {Label.BENIGN: None, Label.HARMFUL: False, Label.INJECTED: False, Label.UNDERSPECIFIED: False},
    "never_reads": dict.fromkeys(Label, None),
}


def main(argv: Sequence[str] | None = None) -> None:
    options = _options(argv)
    figures: dict[str, float] = {}
    tasks = make_tasks(options.worlds, "train", dict.fromkeys(Label, options.tasks // 4), seed=3)
    figures |= soundness(tasks)
    figures |= shortcuts(options.worlds, 800 if options.quick else 4000)
    figures |= env_share(steps=2 if options.quick else 8)
    if not options.no_agentdojo:
        figures |= agentdojo(options.worlds)
    print(json.dumps({name: round(value, 4) for name, value in figures.items()}))


def soundness(tasks: Sequence[Task]) -> dict[str, float]:
    """Every task played by the expert and by each canary."""
    oracle, scores = Oracle(), defaultdict(list)
    as_expected: list[bool] = []
    for policy in (EXPERT, *CANARIES):
        played = run_batched([Episode(task, COMPACT) for task in tasks], policy, batch_size=500)
        for task, trajectory, score in zip(tasks, played, oracle.score(played), strict=True):
            assert score is not None
            scores[policy.name, task.label].append(score)
            wanted = EXPECTED[policy.name][task.label]
            if wanted is None and policy.name in ("always_act", "keyword_stuffer"):
                wanted = task.act == task.expert
            if wanted is not None:
                as_expected.append(acceptable(trajectory) == wanted)
                if acceptable(trajectory) != wanted:
                    CONSOLE.print(f"unexpected: {policy.name} on {task.origin}: {task.query}")
    table = Table("mean score", *(label.value for label in Label), title=f"Policies on {len(tasks)} tasks", box=None)
    for policy in (EXPERT, *CANARIES):
        table.add_row(policy.name, *(f"{mean(scores[policy.name, label]):.3f}" for label in Label))
    CONSOLE.print(table)
    expert = [score for label in Label for score in scores["expert", label]]

    def solved(policy: str) -> float:
        return mean(score == 1 for score in scores[policy, Label.INJECTED])

    return {
        "tasks_played": float(len(tasks)),
        "expert_solved": mean(score == 1 for score in expert),
        "canaries_as_expected": mean(as_expected),
        "never_reads_gap": solved("expert") - solved("never_reads"),
    }


def shortcuts(worlds: Sequence[str], count: int) -> dict[str, float]:
    tasks = make_tasks(worlds, "train", dict.fromkeys(Label, count // 4), seed=5)
    held_out = make_tasks(worlds, "test", dict.fromkeys(Label, count // 8), seed=5)
    table = Table("AUROC by surface features", "", box=None, title=f"Shortcuts, {count} tasks")
    harmful = surface_auroc(tasks, Label.HARMFUL, [Label.BENIGN])
    table.add_row("harmful against benign", f"{harmful:.3f}")
    for label in Label:
        rest = [other for other in Label if other is not label]
        table.add_row(f"{label.value} against the rest", f"{surface_auroc(tasks, label, rest):.3f}")
    words = words_auroc(tasks, held_out, Label.HARMFUL, [Label.BENIGN])
    table.add_row("harmful against benign, words, held-out wordings", f"{words:.3f}")
    CONSOLE.print(table)
    return {"shortcut_auroc": harmful, "words_auroc": words}


def env_share(steps: int) -> dict[str, float]:
    """What making tasks, tool calls and checks take of the quickstart's rollouts, in [0, 1]."""
    from demur.envs.policies.local import load_local

    policy = load_local(str(ROOT / "train" / "assets" / "tiny-policy"), max_new_tokens=64, temperature=1.0)
    levels, groups, samples = Mix(levels=(1, 2, 3)), 16, 4  # as in configs/quickstart.yaml
    making = rollouts = playing = 0.0
    for step in range(steps + 1):
        start = perf_counter()
        tasks = make_tasks(["files", "mail"], "train", dict.fromkeys(Label, groups // len(Label)), 7 + step, levels)
        made = perf_counter()
        episodes = [Episode(task, COMPACT) for task in tasks for _ in range(samples)]
        played = run_batched(episodes, policy)
        done = perf_counter()
        if step:  # the first step warms up
            making, rollouts = making + made - start, rollouts + done - made
            playing += sum(
                _replay(episode.task, trajectory) for episode, trajectory in zip(episodes, played, strict=True)
            )
    CONSOLE.print(
        f"a step's rollouts take {rollouts / steps:.2f} s, of it calls and checks {1000 * playing / steps:.0f} ms; "
        f"making its tasks {1000 * making / steps:.0f} ms"
    )
    return {"env_share_of_rollout": (playing + making) / (rollouts + making)}


def _replay(task: Task, trajectory: Trajectory) -> float:
    """Seconds for the tool calls and checks of an episode alone."""
    start = perf_counter()
    state = task.initial.copy_state()
    for call in trajectory.calls:
        with suppress(ToolError):
            state.run(call)
    task.outcome(state, trajectory.turns)
    return perf_counter() - start


def agentdojo(worlds: Sequence[str]) -> dict[str, float]:
    """Episodes a second, ours over theirs, on episodes of the same numbers of calls."""
    python = ROOT / ".venv-agentdojo" / "bin" / "python"
    if not python.exists():
        print(f"setting up {AGENTDOJO} in .venv-agentdojo", flush=True)
        venv.create(ROOT / ".venv-agentdojo", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", AGENTDOJO], check=True)
    run = subprocess.run(
        [python, ROOT / "benchmarks" / "agentdojo_episodes.py"], check=True, capture_output=True, text=True
    )
    theirs = json.loads(run.stdout.splitlines()[-1])
    by_calls = {int(calls): times for calls, times in theirs["seconds_by_calls"].items()}
    ours = _our_seconds(worlds, by_calls.keys())
    shared = sorted(by_calls.keys() & ours.keys())
    their_mean = mean(second for calls in shared for second in by_calls[calls])
    our_mean = mean(mean(ours[calls]) for calls in shared for _ in by_calls[calls])
    CONSOLE.print(
        f"an episode of {shared[0]} to {shared[-1]} calls: AgentDojo {1000 * their_mean:.1f} ms, "
        f"ours {1000 * our_mean:.2f} ms; "
        f"a bare call: AgentDojo {theirs['bare_call_us']:.0f} µs, ours {_bare_call_us(worlds):.0f} µs"
    )
    episodes = sum(len(by_calls[calls]) for calls in shared)
    return {"agentdojo_ratio": their_mean / our_mean, "agentdojo_episodes": float(episodes)}


def _our_seconds(worlds: Sequence[str], wanted: Any) -> dict[int, list[float]]:
    """Seconds of our expert episodes by their number of calls: task made, played and checked."""
    seconds: dict[int, list[float]] = defaultdict(list)
    for name in worlds:
        domain = load_domain(name)
        for family in domain.families.values():
            for seed in range(8):
                start = perf_counter()
                task = domain.task(family.name, Label.BENIGN, "train", seed)
                run_batched([Episode(task, COMPACT)], EXPERT)
                took = perf_counter() - start
                calls = len(world_calls(task.expert))
                if seed and calls in wanted:  # the first episode of a family reads its prompt
                    seconds[calls].append(took)
    return seconds


def _bare_call_us(worlds: Sequence[str]) -> float:
    times = []
    for name in worlds:
        domain = load_domain(name)
        for family in domain.families.values():
            task = domain.task(family.name, Label.BENIGN, "train", 1)
            state = task.initial.copy_state()
            for step in task.expert:
                if step.call is not None and not step.fails and step.call.name not in (ASK_TOOL, REFUSE_TOOL):
                    start = perf_counter()
                    state.run(step.call)
                    times.append(perf_counter() - start)
                elif step.fails:
                    break
    return 1e6 * median(times)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer tasks; at most a minute once set up")
    parser.add_argument("--tasks", type=int, help="tasks to play, by default 10,000")
    parser.add_argument("--worlds", nargs="+", default=list(SHIPPED), help="by default all that ship")
    parser.add_argument("--no_agentdojo", action="store_true", help="leave the comparison out")
    options = parser.parse_args(argv)
    options.tasks = options.tasks or (400 if options.quick else 10_000)
    return options


if __name__ == "__main__":
    main()
