"""Can a task's label be told without understanding it? Probes for features that are not meaning.

`surface_auroc` trains gradient-boosted trees on lengths, counts, tools, places and punctuation, tested on
families it never saw; 0.5 is chance. `words_accuracy` trains a bag-of-words model on training wordings: what
it scores on held-out wordings is what mere vocabulary gives away. Needs scikit-learn.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from demur.envs.task import Task
from demur.envs.trace import Label

FOLDS = 5
BATCH = 64


def surface(tasks: Sequence[Task]) -> NDArray[np.float64]:
    """Features of each task that are not meaning, [tasks, features]; `tasks` in the order they are drawn."""
    names = sorted({name for task in tasks for name in task.tools})
    return np.array([_row(task, place, names) for place, task in enumerate(tasks)], dtype=np.float64)


def surface_auroc(tasks: Sequence[Task], positive: Label, negative: Sequence[Label]) -> float:
    """AUROC of telling `positive` from `negative` by surface features, folds split by family, in [0, 1].

    Below 0.5 means that what the folds taught misled. Raises ValueError if a label has no tasks.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import GroupKFold, cross_val_predict
    from threadpoolctl import threadpool_limits

    chosen = [place for place, task in enumerate(tasks) if task.label is positive or task.label in negative]
    wanted = np.array([tasks[place].label is positive for place in chosen])
    if wanted.all() or not wanted.any():
        raise ValueError(f"there are no tasks to tell {positive} from {', '.join(negative)}")
    families = [f"{tasks[place].world}/{tasks[place].family}" for place in chosen]
    model: Any = HistGradientBoostingClassifier(random_state=0, max_iter=100, class_weight="balanced")
    with threadpool_limits(1):  # threads that wait for one another cost more than they gain here
        scores = cross_val_predict(
            model, surface(tasks)[chosen], wanted, groups=families, cv=GroupKFold(FOLDS), method="predict_proba"
        )
    return float(roc_auc_score(wanted, scores[:, 1]))


def words_auroc(train: Sequence[Task], held_out: Sequence[Task], positive: Label, negative: Sequence[Label]) -> float:
    """AUROC in [0, 1] on held-out wordings of a bag-of-words model (words and pairs) of training wordings."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.pipeline import make_pipeline
    from threadpoolctl import threadpool_limits

    def chosen(tasks: Sequence[Task]) -> tuple[list[str], list[bool]]:
        some = [task for task in tasks if task.label is positive or task.label in negative]
        return [task.query for task in some], [task.label is positive for task in some]

    model: Any = make_pipeline(
        CountVectorizer(ngram_range=(1, 2), binary=True), LogisticRegression(max_iter=1000, class_weight="balanced")
    )
    texts, wanted = chosen(held_out)
    with threadpool_limits(1):
        model.fit(*chosen(train))
        return float(roc_auc_score(wanted, model.predict_proba(texts)[:, 1]))


def _row(task: Task, place: int, names: Sequence[str]) -> list[float]:
    query, offered = task.query, list(task.tools)
    words = query.split()
    return [
        len(query),
        len(words),
        float(np.mean([len(word) for word in words])),
        sum(letter.isdigit() for letter in query),
        sum(letter.isupper() for letter in query),
        *(query.count(mark) for mark in string.punctuation),
        place % BATCH,
        place,
        len(offered),
        *(float(offered.index(name)) if name in offered else -1.0 for name in names),
    ]
