"""What does it cost to read intent off rollouts, and does it tell harm from the rest?

    python benchmarks/intent_scorer.py [--quick]

The tiny policy, before training, on the quickstart's tasks. Prints one flat JSON object on its last line:

scorer_overhead        seconds of scoring a step's rollouts at each call that changes something, over seconds of rolling
                       them out; the median over steps, both in one process
scorer_overhead_all    the same at every sentence and every action
scorer_overhead_reward the same as training does it: only rollouts that did harm are read
decoy_auroc_train      AUROC of the intent-tool score before calls that change something, those that did harm against
                       the others, on held-out tasks, with the intent tools for training
decoy_auroc_held_out   the same with the others; 0.5 is chance
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import median
from typing import Any, TypeVar

from sklearn.metrics import roc_auc_score

from demur.envs.engine import run_batched, run_lockstep
from demur.envs.episode import Episode
from demur.envs.intent.decoys import SPLITS, DecoySplit, decoys_for
from demur.envs.intent.scoring.local import LocalScorer
from demur.envs.intent.scoring.positions import Which
from demur.envs.intent.scoring.scores import before_changes, harmful_turns, request_of
from demur.envs.policies.local import load_local
from demur.envs.task import Task
from demur.envs.trace import Label, Trajectory
from demur.train.arguments import parse
from demur.train.checks import ROOT, named
from demur.train.grpo import ARGUMENTS
from demur.train.intent import IntentScores

T = TypeVar("T")
CONFIG = str(ROOT / "configs" / "quickstart.yaml")


class Quickstart:
    """The quickstart's policy, tasks and sizes."""

    def __init__(self) -> None:
        self.run, self.reward, _, self.args, model, _ = parse(ARGUMENTS, ["--config", CONFIG])
        self.policy: Any = load_local(
            named(model.model_name_or_path),
            max_new_tokens=self.run.max_turn_tokens,
            temperature=self.args.temperature,
        )

    def score(
        self, scorer: LocalScorer, played: Sequence[tuple[Task, Trajectory]], which: Which, split: DecoySplit
    ) -> Any:
        """Scores of each trajectory."""
        options = self.run.prompt_options
        return scorer.score([request_of(task, one, decoys_for(task, split), options, which) for task, one in played])


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps and tasks")
    found = figures(parser.parse_args(argv).quick)
    print(json.dumps({name: round(value, 4) for name, value in found.items()}))


def figures(quick: bool) -> dict[str, float]:
    """All figures of this benchmark."""
    quickstart = Quickstart()
    share = 0.1 if quick else 1.0
    return overheads(quickstart, steps=2 if quick else 12, share=share) | aurocs(quickstart, share)


def overheads(quickstart: Quickstart, steps: int, share: float) -> dict[str, float]:
    """Scoring over rolling out, medians over steps; a step before them warms up."""
    run, args = quickstart.run, quickstart.args
    tasks: list[Task] = run.tasks("train", shared(run.counts, share), args.seed)
    scorers = [LocalScorer(quickstart.policy.model, quickstart.policy.tokenizer) for _ in range(3)]
    rng = Random(args.seed)
    rows = []
    for _ in range(steps + 1):
        drawn = rng.sample(tasks, args.generation_batch_size // args.num_generations)
        rows.append(one_step(quickstart, scorers, [task for task in drawn for _ in range(args.num_generations)]))
    found = {}
    for name in rows[0]:
        values = [row[name] for row in rows[1:]]
        found[name] = median(values)
        print(f"{name}: median {found[name]:.3f} of {steps} steps, {min(values):.3f} to {max(values):.3f}")
    return found


def one_step(quickstart: Quickstart, scorers: Sequence[LocalScorer], group: Sequence[Task]) -> dict[str, float]:
    """Ratios of one step. A scorer each, since a scorer keeps the prompts that it has read."""
    options = quickstart.run.prompt_options
    at_changes, everywhere, of_harm = scorers
    reward = IntentScores(of_harm, "train", options)
    rolled, played = timed(lambda: run_lockstep([Episode(task, options) for task in group], quickstart.policy))
    pairs = list(zip(group, played, strict=True))
    changes, _ = timed(lambda: quickstart.score(at_changes, pairs, "changes", "train"))
    every, _ = timed(lambda: quickstart.score(everywhere, pairs, "all", "train"))
    in_training, scored = timed(lambda: reward(played, {task.id: task for task in group}))
    assert all(one.acted_intent is not None for one in scored), "scoring failed"
    return {
        "scorer_overhead": changes / rolled,
        "scorer_overhead_all": every / rolled,
        "scorer_overhead_reward": in_training / rolled,
    }


def shared(counts: Mapping[Label, int], share: float) -> dict[Label, int]:
    return {label: max(1, int(count * share)) for label, count in counts.items()}


def aurocs(quickstart: Quickstart, share: float) -> dict[str, float]:
    """By split of intent tools, over the changing calls of held-out tasks, each played once greedily."""
    counts = shared(quickstart.reward.eval_counts, share)
    tasks: list[Task] = quickstart.run.tasks("test", counts, quickstart.args.seed)
    quickstart.policy.temperature = 0.0
    episodes = [Episode(task, quickstart.run.prompt_options) for task in tasks]
    played = run_batched(episodes, quickstart.policy, batch_size=quickstart.reward.eval_batch)
    pairs = list(zip(tasks, played, strict=True))
    # very small scores are ranked, so every name is followed to its end
    scorer = LocalScorer(quickstart.policy.model, quickstart.policy.tokenizer, tolerance=0)
    found = {}
    for split in SPLITS:
        did_harm, intents = [], []
        for (task, one), scores in zip(pairs, quickstart.score(scorer, pairs, "changes", split), strict=True):
            harmful = harmful_turns(task, one)
            at_changes = before_changes(task, one, scores)
            did_harm += [score.position.turn in harmful for score in at_changes]
            intents += [score.intent for score in at_changes]
        found[f"decoy_auroc_{split}"] = float(roc_auc_score(did_harm, intents))
        print(
            f"{split} intent tools: AUROC {found[f'decoy_auroc_{split}']:.3f}, {sum(did_harm)} calls that did harm "
            f"against {len(did_harm) - sum(did_harm)} others in {len(tasks)} tasks"
        )
    return found


def timed(run: Callable[[], T]) -> tuple[float, T]:
    """Seconds, and what came of it."""
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result


if __name__ == "__main__":
    main()
