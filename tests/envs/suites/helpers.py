"""What the tests of the static suites share: their data, canaries, and a copy that may be broken."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

import pytest

from demur.envs.canaries import CANARIES
from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.policies.scripted import EXPERT
from demur.envs.suites.suite import Suite
from demur.envs.task import Task

SHARED = Path(__file__).parents[4] / "shared" / "data"
POLICIES = {policy.name: policy for policy in (*CANARIES, EXPERT)}


def mean_scores(suite: Suite, policy: str, tasks: Sequence[Task] | None = None) -> dict[str, float]:
    """The mean of each measure over the tasks that have it."""
    episodes = [Episode(task) for task in (suite.tasks() if tasks is None else tasks)]
    scores = [suite.score(trajectory) for trajectory in run_batched(episodes, POLICIES[policy])]
    names = dict.fromkeys(name for score in scores for name in score)
    return {name: fmean(score[name] for score in scores if name in score) for name in names}


def copied(source: Path, target: Path) -> Path:
    """A copy of a data folder that may be written to."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def assert_broken_is_named(path: Path, read: Callable[[], object]) -> None:
    """A file that is cut, altered, empty, no text or missing is named, with where to get it."""
    content = path.read_bytes()
    for broken in (content[:-40], content.replace(b"e", b"f", 1), b"", b"\xff\xfe", None):
        if broken is None:
            path.unlink()
        else:
            path.write_bytes(broken)
        with pytest.raises(ValueError, match="Get it again from") as caught:
            read()
        assert str(path) in str(caught.value)
    path.write_bytes(content)
