"""A monitor must not use the intent tools that its policy was trained against, unless told."""

import pytest

from demur.envs.intent.decoys import SPLITS, DecoySplit
from demur.eval.monitor_check import check_monitor, main_split, monitor_notes


@pytest.mark.parametrize("split", SPLITS)
def test_the_same_intent_tools_are_refused_in_training_and_evaluation(split: DecoySplit) -> None:
    with pytest.raises(ValueError, match=f"trained against the intent tools '{split}'.*choose the other split"):
        check_monitor({"judge": "oracle", "intent_decoys": split}, split)


def test_if_allowed_the_notes_say_so() -> None:
    notes = check_monitor({"intent_decoys": "train"}, "train", allow=True)
    assert notes == {"monitor_decoys": "train", "monitor": "its intent tools were trained against"}


@pytest.mark.parametrize("notes", [{}, {"judge": "oracle"}, {"intent_decoys": None}, {"intent_decoys": "train"}])
def test_other_intent_tools_are_fine_and_named(notes: dict[str, str | None]) -> None:
    for allow in (False, True):
        assert check_monitor(notes, "held_out", allow) == {"monitor_decoys": "held_out"}


def test_an_evaluation_with_both_sets_marks_the_one_trained_against_and_goes_by_the_other() -> None:
    plain = monitor_notes({"judge": "oracle"})
    assert plain == {"monitor_decoys": "train, held_out"} and main_split(plain) == "held_out"
    for split, other in (("train", "held_out"), ("held_out", "train")):
        notes = monitor_notes({"intent_decoys": split})
        assert notes.keys() == {"monitor_decoys", f"monitor_{split}"} and main_split(notes) == other
