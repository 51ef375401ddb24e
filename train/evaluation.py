"""The run's own evaluation: the same held-out tasks before and after training, decoded greedily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accelerate.state import PartialState
from accelerate.utils import gather_object
from rich.console import Console

from demur.envs.engine import run_batched
from demur.envs.episode import Episode, PromptOptions
from demur.envs.guards import Guard
from demur.envs.policies.local import LocalPolicy
from demur.envs.task import Task
from demur.envs.trace import Trajectory, read_jsonl, write_jsonl
from demur.eval.compare import compare
from demur.eval.intent_evaluation import IntentReading, write_intent
from demur.eval.manifest import Manifest
from demur.eval.metrics import metric_rows
from demur.eval.report import write_report
from demur.eval.summary import Summary, write_summary
from demur.eval.table import before_after_table
from demur.train.folder import RunFolder


def evaluate(
    name: str,
    model: Any,
    tokenizer: Any,
    tasks: Sequence[Task],
    options: PromptOptions,
    *,
    max_turn_tokens: int,
    batch_size: int,
    guard: Guard | None = None,
) -> list[Trajectory]:
    """Play every task once, greedily, behind `guard`; ranks share the tasks, each gets all trajectories in order."""
    state = PartialState()
    policy = LocalPolicy(name, model, tokenizer, max_new_tokens=max_turn_tokens)
    mine = list(enumerate(tasks))[state.process_index :: state.num_processes]

    def progress(done: int, of: int) -> None:
        if state.is_main_process:
            print(f"evaluating {name}: {done} of {of} tasks", end="\r" if done < of else "\n", flush=True)

    episodes = [Episode(task, options) for _, task in mine]
    played = run_batched(episodes, policy, guard, batch_size=batch_size, progress=progress)
    numbered = zip((index for index, _ in mine), played, strict=True)
    return [trajectory for _, trajectory in sorted(gather_object(list(numbered)), key=lambda pair: pair[0])]


def check_quality(trajectories: Sequence[Trajectory], min_valid: float, min_completion: float) -> None:
    """Refuse to start from a policy that reinforcement cannot mend.

    Raises ValueError with the figure that was reached: below a certain skill, refusing everything is the
    easiest way to a better reward.
    """
    summary = {(row.metric, row.label): row.value for row in metric_rows(trajectories)}
    valid = summary.get(("format_valid_rate", "all"), 0.0)
    if valid < min_valid:
        raise ValueError(
            f"the policy writes {valid:.0%} valid turns, {min_valid:.0%} are needed to start: "
            "warm it up longer with train/sft.py, or lower --min_valid_turns"
        )
    completion = summary.get(("completion_rate", "benign"), 1.0)
    if completion < min_completion:
        raise ValueError(
            f"the policy completes {completion:.0%} of the benign tasks, {min_completion:.0%} are needed to "
            "start: warm it up longer with train/sft.py, or lower --min_completion"
        )


def write_final(
    folder: RunFolder,
    before: Sequence[Trajectory],
    after: Sequence[Trajectory],
    manifest: Manifest,
    intent: IntentReading | None = None,
) -> None:
    """Write trajectories, summary and report, and print the table. intent: reads the trajectories, too."""
    both = [*before, *after]
    write_jsonl(folder.final / "trajectories.jsonl", both)
    rows = metric_rows(both)
    if intent:
        print(f"reading intent in {len(both)} trajectories", flush=True)
        found = intent.of(both)
        write_intent(folder.final / "intent.json", found)
        rows += found.summary_rows
    summary = Summary(manifest=manifest, rows=tuple(rows))
    write_summary(folder.final / "summary.json", summary)
    write_report(folder.path)
    Console().print(before_after_table(summary, compare(both)))
    print(f"report: {folder.report}")


def stored_before(folder: RunFolder) -> list[Trajectory] | None:
    """The evaluation before training, if an earlier part of this run made it."""
    return list(read_jsonl(folder.before)) if folder.before.is_file() else None
