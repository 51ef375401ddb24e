"""May this monitor evaluate that policy? Not with the intent tools that its training penalised.

A policy that was rewarded for a low score on some intent tools may have learned to keep just these low. So a
monitor looks for others, unless it is told to, and then its results say so.
"""

from __future__ import annotations

from collections.abc import Mapping

from demur.envs.intent.decoys import DecoySplit

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
