"""Text for people and judges: what does not show is spelled out."""

from __future__ import annotations

from typing import Final

import regex

# controls, text direction, zero width, private and unassigned characters, fillers and all blanks but the space
_UNSEEN: Final = regex.compile(r"[^\P{C}\n]|[\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}")


def visible(text: str) -> str:
    r"""The text with each character that a screen hides, or obeys, as its JSON escape such as \u202e."""
    return _UNSEEN.sub(lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
