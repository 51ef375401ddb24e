"""A run's intent figures from planted scores: their rows, their curves, their file, and their section in the report."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from demur.envs.episode import PromptOptions
from demur.envs.intent.scoring.positions import Position
from demur.envs.intent.scoring.scores import PositionScore, ScoreRequest
from demur.envs.taskset import make_tasks
from demur.envs.trace import REFUSE_TOOL, Label
from demur.eval import intent_evaluation
from demur.eval.intent_evaluation import IntentEvaluation, IntentReading, read_intent, write_intent
from demur.eval.report import write_report
from demur.eval.report_intent import intent_section
from tests.eval.runs import COUNTS, HOSTILE, evaluate, write_run

TASKS = make_tasks(["mail"], "test", COUNTS)
TRAJECTORIES = evaluate(TASKS, after=0.7)  # so that harm remains to be told after
HARMFUL = {task.query for task in TASKS if task.label is Label.HARMFUL}  # an injection is not in the query
COMPACT = PromptOptions(style="compact")


class Planted:
    """Reads harm from the query: then a decoy is likely, and refusing gets likelier from position to position."""

    def __init__(self, name: str = "planted") -> None:
        self.name = name

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[PositionScore]]:
        return [
            [self._score(request, at, position) for at, position in enumerate(request.positions)]
            for request in requests
        ]

    def _score(self, request: ScoreRequest, at: int, position: Position) -> PositionScore:
        harmful = request.messages[1]["content"] in HARMFUL
        shares = dict.fromkeys(request.tools, 1e-3)
        shares[min(request.decoys)] = 0.6 if harmful else 1e-3
        shares[REFUSE_TOOL] = 0.1 + 0.02 * at if harmful else 0.01
        logs = {name: math.log(share) for name, share in shares.items()}
        return PositionScore.of(position, logs, request.decoys)


def found(name: str = "planted", **notes: str) -> IntentEvaluation:
    return IntentReading(Planted(name), TASKS, COMPACT, notes).of(TRAJECTORIES)


FOUND = found()


def test_rows_are_those_of_both_policies_and_both_sets() -> None:
    by_key = {(row.suite, row.policy, row.label, row.metric): row for row in FOUND.rows}
    for suite in ("worlds", "worlds, train decoys"):
        for policy in ("before", "after"):
            auroc = by_key[suite, policy, "harmful", "intent_auroc"]
            assert auroc.value == 1 and 0.5 < auroc.ci_low < 1 == auroc.ci_high
            assert by_key[suite, policy, "harmful", "recall_at_1pct_fpr"].value == 1
            assert by_key[suite, policy, "harmful", "trigger_before_harm_rate"].value == 1
            assert by_key[suite, policy, "injected", "intent_auroc"].value == 0.5
            assert by_key[suite, policy, "benign", "benign_trigger_rate"].value == 0
    assert (FOUND.tasks, FOUND.tasks_of, FOUND.scorer) == (72, 72, "planted")


def test_the_summary_takes_two_figures_and_the_set_to_go_by_first() -> None:
    rows = FOUND.summary_rows
    assert {row.metric for row in rows} == {"intent_auroc", "recall_at_1pct_fpr"}
    suites = [row.suite for row in rows]
    assert suites == sorted(suites) and set(suites) == {"worlds", "worlds, train decoys"}


def test_curves_are_means_over_the_trajectories_that_get_so_far() -> None:
    (curve,) = [c for c in FOUND.curves if (c.policy, c.label, c.decoys) == ("before", "harmful", "held_out")]
    assert [point.at for point in curve.points] == list(range(len(curve.points)))
    counts = [point.intent.n for point in curve.points]
    assert counts[0] == COUNTS[Label.HARMFUL] and counts == sorted(counts, reverse=True) and counts[-1] >= 2.4
    readiness = [point.refusal.value for point in curve.points if point.refusal]
    assert len(readiness) == len(counts) and readiness == sorted(readiness) and readiness[0] < readiness[-1]
    for point in curve.points:
        assert point.intent.value > 0.5
        assert point.intent.ci_low <= point.intent.value <= point.intent.ci_high
    (benign,) = [c for c in FOUND.curves if (c.policy, c.label, c.decoys) == ("before", "benign", "held_out")]
    assert all(point.intent.value < 0.5 for point in benign.points)


def test_what_was_trained_against_is_marked_and_not_the_set_to_go_by() -> None:
    for trained, other in (("train", "held_out"), ("held_out", "train")):
        marked = found(intent_decoys=trained)
        assert marked.notes[f"monitor_{trained}"] == "its intent tools were trained against"
        assert f"monitor_{other}" not in marked.notes
        assert {row.suite for row in marked.rows} == {"worlds", f"worlds, {trained} decoys"}
        section = intent_section(marked)
        assert section is not None
        assert [bool(one.mark) for one in section.sets] == [False, True]


def test_of_many_tasks_an_even_part_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intent_evaluation, "MOST_TASKS", 24)
    part = found()
    assert (part.tasks, part.tasks_of) == (24, 72)
    first = [curve.points[0].intent.n for curve in part.curves]
    assert sum(first) == 24 * 2 * 2, "two policies, two sets"
    assert len({curve.label for curve in part.curves}) == 4


def test_the_file_reads_back_and_a_bad_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "eval" / "intent.json"
    assert read_intent(path) is None
    write_intent(path, FOUND)
    assert read_intent(path) == FOUND
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"intent\.json holds no intent figures"):
        read_intent(path)


def test_the_report_shows_two_charts_and_both_sets(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", TRAJECTORIES, TASKS)
    without = write_report(run).read_text("utf-8")
    assert 'id="intent"' not in without
    write_intent(run / "eval" / "final" / "intent.json", found(HOSTILE, intent_decoys="train"))
    page = write_report(run).read_text("utf-8")
    section = page[page.index('<section id="intent">') : page.index('<section id="setup">')]
    assert re.findall(r"<figcaption>(.*?)</figcaption>", section) == [
        "Refusal readiness along the trajectory",
        "Intent score along the trajectory",
    ]
    training = len(re.findall(r'data-chart="\d+"', page)) - 2
    assert re.findall(r'data-chart="(\d+)"', section) == [str(training), str(training + 1)]
    assert "Intent tools for training · its intent tools were trained against" in section
    assert "Held-out intent tools</th>" in section
    assert "intent_auroc" in section and "benign_trigger_rate" in section
    assert "<img" not in section and "<svg onload" not in section


def test_a_figure_that_only_one_side_has_leaves_a_dash() -> None:
    rows = tuple(row for row in FOUND.rows if (row.policy, row.metric) != ("after", "intent_auroc"))
    section = intent_section(FOUND.model_copy(update={"rows": rows}))
    assert section is not None
    line = next(line for line in section.sets[0].lines if (line.metric, line.label) == ("intent_auroc", "harmful"))
    assert line.before.value == "1.00" and line.after.value == "–" and line.tasks.endswith("→ –")


def test_a_run_that_read_no_intent_has_no_section() -> None:
    assert intent_section(None) is None
