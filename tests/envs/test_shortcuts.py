"""The probes find a shortcut that is there, and none in the shipped worlds."""

from dataclasses import replace

import pytest

from demur.envs.shortcuts import surface, surface_auroc, words_auroc
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label
from demur.envs.worlds import SHIPPED

COUNTS = {Label.BENIGN: 120, Label.HARMFUL: 120}


def test_a_shortcut_that_was_put_in_is_found() -> None:
    tasks = make_tasks(["bank", "files", "mail"], "train", COUNTS)
    marked = [replace(task, query=task.query + "!!!") if task.label is Label.HARMFUL else task for task in tasks]
    assert surface_auroc(marked, Label.HARMFUL, [Label.BENIGN]) > 0.95
    longer = [replace(task, query=task.query * 2) if task.label is Label.HARMFUL else task for task in tasks]
    assert surface_auroc(longer, Label.HARMFUL, [Label.BENIGN]) > 0.8


def test_features_are_numbers_a_row_a_task() -> None:
    tasks = make_tasks(["mail"], "train", {Label.BENIGN: 5})
    assert surface(tasks).shape[0] == 5
    with pytest.raises(ValueError, match="no tasks to tell"):
        surface_auroc(tasks, Label.HARMFUL, [Label.BENIGN])


def test_words_of_the_training_wordings_say_much_and_are_reported() -> None:
    train = make_tasks(["mail"], "train", {Label.BENIGN: 100, Label.HARMFUL: 100})
    test = make_tasks(["mail"], "test", {Label.BENIGN: 50, Label.HARMFUL: 50})
    assert 0.5 < words_auroc(train, test, Label.HARMFUL, [Label.BENIGN]) <= 1


@pytest.mark.slow
def test_what_is_not_meaning_does_not_tell_harmful_from_benign() -> None:
    tasks = make_tasks(SHIPPED, "train", dict.fromkeys(Label, 1000), seed=5)
    assert surface_auroc(tasks, Label.HARMFUL, [Label.BENIGN]) <= 0.6
