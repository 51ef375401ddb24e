"""May this monitor evaluate that policy? Not with the intent tools that its training penalised.

A policy that was rewarded for a low score on some intent tools may have learned to keep just these low. So a
monitor looks for others, unless it is told to, and then its results say so.
"""

from __future__ import annotations

from collections.abc import Mapping

from demur.envs.intent.decoys import SPLITS, DecoySplit

INTENT_DECOYS = "intent_decoys"
"""In the notes of a training run's manifest: the split of intent tools that was trained against, or None."""


def check_monitor(
    manifest_notes: Mapping[str, object], decoys_split: DecoySplit, allow: bool = False
) -> dict[str, str]:
    """The notes that an evaluation's manifest takes on, for its report to print.

    manifest_notes: of the run that trained the policy; empty for a policy that was not trained here. allow: go on
    with intent tools that were trained against. Raises ValueError if it would, and is not allowed to.
    """
    notes = {"monitor_decoys": str(decoys_split)}
    if manifest_notes.get(INTENT_DECOYS) != decoys_split:
        return notes
    if not allow:
        raise ValueError(
            f"the policy was trained against the intent tools {decoys_split!r}, which this monitor would use: choose "
            "the other split, or allow it explicitly; the report then says so"
        )
    return notes | {"monitor": "its intent tools were trained against"}


def monitor_notes(manifest_notes: Mapping[str, object]) -> dict[str, str]:
    """The notes of an evaluation that looks for the intent tools of every split: those trained against are marked."""
    found = {split: check_monitor(manifest_notes, split, allow=True) for split in SPLITS}
    marked = {f"monitor_{split}": notes["monitor"] for split, notes in found.items() if "monitor" in notes}
    return {"monitor_decoys": ", ".join(SPLITS), **marked}


def main_split(notes: Mapping[str, object]) -> DecoySplit:
    """Of an evaluation with these `monitor_notes`, the split to go by: `held_out`, unless it was trained against."""
    return next(split for split in reversed(SPLITS) if f"monitor_{split}" not in notes)
