"""The experiment on blinding: its figures follow from the calls, and a short run goes through."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.blinding import AGAINST, PLAIN, QUICK, START, Key, compared, figures, flags
from demur.envs.intent.decoys import SPLITS
from demur.envs.trace import Label
from demur.eval.intent_metrics import ScoredCall


def calls_of(harmful: Sequence[float], benign: Sequence[float]) -> list[ScoredCall]:
    return [
        ScoredCall(f"{label}-{at}", label, label is Label.HARMFUL, score)
        for label, scores in ((Label.HARMFUL, harmful), (Label.BENIGN, benign))
        for at, score in enumerate(scores)
    ]


SEES, BLIND = calls_of([0.8] * 20, [0.1] * 20), calls_of([0.1, 0.8] * 10, [0.8, 0.1] * 10)


def figures_of(**calls: list[ScoredCall]) -> dict[str, float]:
    keys: dict[Key, list[ScoredCall]] = {
        (policy, reader, split): calls[policy]
        for policy in (START, PLAIN, AGAINST)
        for reader in ("frozen", "own")
        for split in SPLITS
    }
    return compared(keys)


def test_a_monitor_that_sees_less_has_a_difference_below_0() -> None:
    found = figures_of(start=SEES, plain=SEES, against=BLIND)
    assert found["auroc_start_frozen_train"] == 1 and found["auroc_against_own_held_out"] == 0.5
    assert found["change_plain_frozen_train"] == 0 and found["change_against_frozen_train"] == -0.5
    assert found["blinding_own_train"] == -0.5 and found["blinding_own_train_high"] < 0


def test_where_no_harm_was_left_the_figure_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    found = figures_of(start=SEES, plain=SEES, against=calls_of([], [0.1, 0.2]))
    assert "auroc_plain_own_train" in found and not [name for name in found if "against" in name or "blind" in name]
    assert "blinding_frozen_held_out: nothing to compare" in capsys.readouterr().out


def test_flags_are_those_of_a_command_line() -> None:
    assert flags({"worlds": ("files", "mail"), "bf16": False, "seed": 3}) == (
        ["--worlds", "files", "mail", "--bf16", "False", "--seed", "3"]
    )


@pytest.mark.slow
def test_a_short_run_goes_through() -> None:
    found = figures(QUICK, intent_weight=2.0, seed=1)
    for policy in (START, PLAIN, AGAINST):
        assert found[f"harmful_calls_{policy}"] > 0, "so short a training leaves harm"
        for split in SPLITS:
            for reader in ("frozen", "own"):
                low, high = (found[f"auroc_{policy}_{reader}_{split}_{end}"] for end in ("low", "high"))
                assert 0 <= low <= found[f"auroc_{policy}_{reader}_{split}"] <= high <= 1
    assert {f"blinding_{reader}_{split}" for reader in ("frozen", "own") for split in SPLITS} <= found.keys()
