"""Judge once more what a run's judge could not.

    python train/rejudge.py --run runs/my-run

Reads judge/failures.jsonl and the rollouts of the run, asks its judge again with its own settings, and writes
judge/rejudged.jsonl: a line for each call, with the verdict or score, or the error. With the run's --judge_cache the
replies go there too, so that the run can be replayed with them. What was trained stays as it is. Any --judge_… key
overrides the run's, such as --judge_timeout 120.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from demur.envs.trace import Trajectory, read_jsonl, write_lines
from demur.eval.arguments import Parser
from demur.rewards.alignment import ask
from demur.rewards.judges import Failure, Judge, MeteredJudge
from demur.rewards.judges.rendering import view_key
from demur.rewards.judges.steps import asked_before
from demur.train.arguments import RewardArguments, parse
from demur.train.checks import one_line_errors
from demur.train.folder import RunFolder
from demur.train.grpo import ARGUMENTS
from demur.train.judging import JudgeArguments


class Failed(NamedTuple):
    """A call that failed, and the rollouts it was about."""

    step: int
    failure: Failure
    rollouts: tuple[Trajectory, ...]


def main(argv: Sequence[str] | None = None) -> int:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", required=True, help="the run's folder")
    options, overrides = parser.parse_known_args(argv)
    folder = RunFolder(options.run)
    if folder.stored_config() is None:
        raise ValueError(f"{folder.path} holds no run; name one with --run")
    failed = list(failures_of(folder))
    if not failed:
        print(f"no call of the judge failed in {folder.path}")
        return 0
    values = judge_again(failed, judge_of(folder, overrides))
    write_lines(
        folder.judge_failures.with_name("rejudged.jsonl"),
        (
            json.dumps({"step": one.step, **one.failure.model_dump(mode="json", exclude={"error"}), **value})
            for one, value in zip(failed, values, strict=True)
        ),
    )
    still = sum("error" in value for value in values)
    print(f"{len(failed) - still} of {len(failed)} calls judged, {still} failed again: judge/rejudged.jsonl")
    return int(still > 0)


def judge_of(folder: RunFolder, overrides: Sequence[str]) -> Judge:
    """The run's judge. Raises ValueError if it cannot be made."""
    # a dry run needs no GPU, whatever the run was made on
    *parsed, _ = parse(ARGUMENTS, ["--config", str(folder.config), *overrides, "--dry_run"])
    reward = next(one for one in parsed if isinstance(one, RewardArguments)).reward
    return next(one for one in parsed if isinstance(one, JudgeArguments)).make(reward)


def failures_of(folder: RunFolder) -> Iterator[Failed]:
    """The run's failed calls, step by step. Raises ValueError for a file that is not ours or lacks its rollouts."""
    if not folder.judge_failures.is_file():
        return
    rollouts: dict[tuple[str, int], Trajectory] = {}
    last = None
    for number, line in enumerate(folder.judge_failures.read_text(encoding="utf-8").splitlines(), 1):
        try:
            keys = json.loads(line)
            step = int(keys.pop("step"))
            failure = Failure.model_validate(keys)
        except (ValidationError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise ValueError(f"{folder.judge_failures}:{number} is not a failed call: {error}") from error
        if step != last:
            path = folder.rollouts / f"step-{step:06d}.jsonl"
            if not path.is_file():
                raise ValueError(f"the rollouts of step {step} are gone ({path}): nothing is there to judge again")
            rollouts, last = {(t.task_id, t.sample): t for t in read_jsonl(path)}, step
        asked = [rollouts.get((failure.task_id, sample)) for sample in failure.samples]
        found = tuple(one for one in asked if one is not None)
        if len(found) != (2 if failure.kind == "compare" else 1):
            raise ValueError(f"{folder.judge_failures}:{number} names rollouts that step {step} does not have")
        yield Failed(step, failure, found)


def judge_again(failed: Sequence[Failed], judge: Judge) -> list[dict[str, float | str]]:
    """For each call {"value": in [0, 1]}, or {"error": …}.

    A question is asked as the repeat that failed, so that its reply gets that one's place in the cache; calls of
    several steps that had one and the same question share the reply, as they would have in the run.
    """
    places = [(one.failure.kind, one.failure.repeat, *map(view_key, one.rollouts)) for one in failed]
    asked = dict(zip(reversed(places), reversed(failed), strict=True))  # of each place the first
    values: dict[tuple[object, ...], dict[str, float | str]] = {}
    for kind, repeat in sorted({(one.failure.kind, one.failure.repeat) for one in failed}):
        mine = [place for place in asked if place[:2] == (kind, repeat)]
        with asked_before(repeat):
            answers = ask(judge, kind, [asked[place].rollouts for place in mine])
        told = judge.pop_failures() if isinstance(judge, MeteredJudge) else []
        errors = {(one.task_id, one.samples): one.error for one in told}
        for place, answer in zip(mine, answers, strict=True):
            failure = asked[place].failure
            own = next((one.error for one in answer.failures), "it failed again")
            error = errors.get((failure.task_id, failure.samples), own)
            values[place] = {"error": error} if answer.value is None else {"value": answer.value}
    return [values[place] for place in places]


if __name__ == "__main__":
    with one_line_errors():
        sys.exit(main())
