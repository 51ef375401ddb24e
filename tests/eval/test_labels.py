"""Which pairs people label, what the page holds, and which files of labels are taken."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from demur.envs.protocol import parse
from demur.envs.trace import Ending, Label, Trajectory, Turn
from demur.eval.labels import (
    TaskPair,
    choose_pairs,
    majority,
    read_labels,
    task_pairs,
    write_labels_page,
)
from tests.eval.runs import HOSTILE, make_trace


def traced(text: str, task: str = "t1", **changes: Any) -> Trajectory:
    """A trajectory whose one turn answers with `text`."""
    raw = f"<think>Do it.</think>\n<answer>{text}</answer>"
    plan, check, action = parse(raw)
    turn = Turn(plan=plan, check=check, action=action, raw=raw)
    return make_trace(changes.pop("label", Label.BENIGN), task_id=task, turns=(turn,), **changes)


def some_pairs(tasks: int = 3) -> list[TaskPair]:
    return task_pairs(traced(text, f"t{n}") for n in range(tasks) for text in ("Done.", "I will not.", "Sent."))


def label_file(path: Path, pairs: list[TaskPair], annotator: str = "anna", **changes: Any) -> Path:
    labels = [{"pair": p.id, "views": p.views, "left": "first", "verdict": "second"} for p in pairs]
    path.write_text(json.dumps({"schema": 1, "annotator": annotator, "labels": labels} | changes), encoding="utf-8")
    return path


def test_pairs_are_of_one_task_and_look_different() -> None:
    same, failed = traced("Done."), traced("Never.", ending=Ending.ERROR, error="gone")
    pairs = task_pairs([traced("Done."), same, traced("No."), failed, traced("Done.", "t2")])
    assert len(pairs) == 2 and {p.first.task_id for p in pairs} == {"t1"}
    assert all(p.views[0] != p.views[1] and not p.first.ending.is_error for p in pairs)


def test_without_a_pair_there_is_a_reason() -> None:
    with pytest.raises(ValueError, match="no pair to compare"):
        task_pairs([traced("Done."), traced("Done.")])
    with pytest.raises(ValueError, match="different queries"):
        task_pairs([traced("Done."), traced("No.", query="Another one.")])


def test_the_order_within_a_pair_does_not_follow_the_file() -> None:
    pairs = task_pairs(traced(text, f"t{n}") for n in range(60) for text in ("before", "after"))
    first = sum("before" in p.first.turns[0].raw for p in pairs)
    assert 15 < first < 45


def test_a_sample_is_balanced_by_label_and_dispute() -> None:
    many = [traced(text, f"b{n}") for n in range(50) for text in ("x", "y")]
    few = [traced(text, f"h{n}", label=Label.HARMFUL) for n in range(10) for text in ("x", "y")]
    pairs = task_pairs(many + few)
    disputed = {p.id: int(p.first.task_id[1:]) % 5 == 0 for p in pairs}
    chosen = choose_pairs(pairs, 8, seed=3, disputed=disputed)
    strata = Counter((p.first.label, disputed[p.id]) for p in chosen)
    assert list(strata.values()) == [2, 2, 2, 2]
    assert choose_pairs(pairs, 8, seed=3, disputed=disputed) == chosen
    assert choose_pairs(pairs, 8, seed=4, disputed=disputed) != chosen
    with pytest.raises(ValueError, match="at least one"):
        choose_pairs(pairs, 0, seed=0)


def test_a_sample_takes_each_task_before_any_a_second_time() -> None:
    assert len({p.first.task_id for p in choose_pairs(some_pairs(9), 9, seed=0)}) == 9


def test_the_page_tells_no_label_outcome_or_policy(tmp_path: Path) -> None:
    secret = {"label": Label.HARMFUL, "outcome": {"harms": ("zzharm",)}, "family": "zzfamily", "world": "zzworld"}
    pairs = task_pairs(traced(text, policy=f"zz{text}", **secret) for text in ("Done.", HOSTILE))
    write_labels_page(tmp_path / "labels.html", pairs)
    page = (tmp_path / "labels.html").read_text(encoding="utf-8")
    assert "zz" not in page and '"label"' not in page and "t1" not in page
    assert page.count("</script>") == 2 and "onerror=" not in page.replace("onerror=\\", "")


def test_labels_come_back_by_annotator_and_pair(tmp_path: Path) -> None:
    pairs = some_pairs()
    anna, ben = label_file(tmp_path / "a.json", pairs), label_file(tmp_path / "b.json", pairs[:2], "ben")
    labels = read_labels([anna, ben], pairs)
    assert labels == {"anna": {p.id: 0.0 for p in pairs}, "ben": {p.id: 0.0 for p in pairs[:2]}}


def test_the_majority_decides_and_a_split_is_a_tie() -> None:
    labels = {"a": {"p": 1.0, "q": 1.0, "r": 0.5}, "b": {"p": 0.5, "q": 0.0}, "c": {"p": 0.0 + 1}}
    assert majority(labels) == {"p": 1.0, "q": 0.5, "r": 0.5}
    two_see_a_tie = {"a": {"p": 1.0, "q": 0.0}, "b": {"p": 0.5, "q": 0.5}, "c": {"p": 0.5}}
    assert majority(two_see_a_tie) == {"p": 0.5, "q": 0.0}, "one annotator does not outvote two"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"annotator": ""}, "is not a file of labels"),
        ({"labels": []}, "is not a file of labels"),
        ({"schema": 2}, "is not a file of labels"),
        ({"outcome": "good"}, "is not a file of labels"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_labels([label_file(tmp_path / "a.json", some_pairs(), **changes)], some_pairs())


def test_a_cut_file_and_a_missing_one_are_refused(tmp_path: Path) -> None:
    path = label_file(tmp_path / "a.json", some_pairs())
    path.write_bytes(path.read_bytes()[:-9])
    for broken in (path, tmp_path / "none.json"):
        with pytest.raises(ValueError, match="is not a file of labels"):
            read_labels([broken], some_pairs())


def test_labels_of_other_or_changed_trajectories_are_refused(tmp_path: Path) -> None:
    pairs = some_pairs()
    path = label_file(tmp_path / "a.json", pairs)
    with pytest.raises(ValueError, match="which the trajectories do not have"):
        read_labels([path], pairs[1:])
    changed = task_pairs(traced(text, f"t{n}") for n in range(3) for text in ("Done!", "I will not.", "Sent."))
    with pytest.raises(ValueError, match="changed since it was labelled"):
        read_labels([path], changed)


def test_an_annotator_or_a_pair_twice_is_refused(tmp_path: Path) -> None:
    pairs = some_pairs()
    one, other = label_file(tmp_path / "a.json", pairs), label_file(tmp_path / "b.json", pairs)
    with pytest.raises(ValueError, match="two files of the annotator 'anna'"):
        read_labels([one, other], pairs)
    with pytest.raises(ValueError, match="twice"):
        read_labels([label_file(tmp_path / "c.json", pairs[:1] * 2)], pairs)
