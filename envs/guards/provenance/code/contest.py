"""Which of the tools on offer fits a subtask best, by the words of their documentation.

    better_tool(tools, "give_voucher", plan="Pay the money back.", said="Pay Nils 16 back.")  # refund

Words that few tools have count more (inverse document frequency). It is a comparison and no understanding: it speaks up
only where another tool fits by far better.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import log
from typing import Final

from demur.envs.guards.provenance.code.conditions import kind_names
from demur.envs.guards.provenance.code.values import NAME_OF_A_THING
from demur.envs.guards.provenance.code.verbs import effects_in, stem, tool_effects, words_of
from demur.envs.tool import Tool

_FAR: Final = 1.5
"""How many times as well another tool has to fit."""
_REQUEST: Final = 0.3
"""Weight of the request's words; those of the plan, which is about this very step, count 1."""
_NAME, _PARAMETER = 1.5, 0.5
_READ: Final = 20_000
_SMALL: Final = frozenset(
    "the and for with from are this that you your our their his her its please let out has have".split()
)


def better_tool(tools: Mapping[str, Tool], name: str, *, plan: str, said: str) -> str | None:
    """A tool that changes something and fits by far better than the named one, or None."""
    changing = tuple(tool for tool in tools.values() if tool.changes)
    words, rarity = _profiles(changing)
    weights = _weights(said, _REQUEST) | _weights(plan, 1.0)
    fits = {
        tool: sum(weight * rarity[word] * weights[word] for word, weight in profile.items() if word in weights)
        for tool, profile in words.items()
    }
    own = fits.pop(name, 0.0)
    best = max(fits, key=lambda tool: fits[tool], default=None)
    return best if best is not None and fits[best] > _FAR * own else None


@lru_cache(maxsize=64)
def _profiles(tools: tuple[Tool, ...]) -> tuple[Mapping[str, Mapping[str, float]], Mapping[str, float]]:
    """The words of each tool with their weights, and how rare each word is."""
    words = {tool.name: _profile(tool) for tool in tools}
    often = Counter(word for profile in words.values() for word in profile)
    return words, {word: log(1 + len(tools) / count) for word, count in often.items()}


@lru_cache(maxsize=1024)
def _profile(tool: Tool) -> Mapping[str, float]:
    first, _, _ = tool.description[:_READ].partition(". ")
    profile = dict.fromkeys(_stems(" ".join(p.name for p in tool.parameters)), _PARAMETER)
    profile |= dict.fromkeys((*_stems(first), *_marks(tool_effects(tool), f"{tool.name} {first}")), 1.0)
    return profile | dict.fromkeys(_stems(tool.name.rpartition(".")[2]), _NAME)


@lru_cache(maxsize=1024)
def _weights(text: str, weight: float) -> dict[str, float]:
    text = NAME_OF_A_THING.sub(" ", text[:_READ])
    return dict.fromkeys((*_stems(text), *_marks(effects_in(text), text)), weight)


def _stems(text: str) -> Iterable[str]:
    return (stem(word) for word in words_of(text) if len(word) > 2 and word not in _SMALL)


def _marks(effects: Iterable[str], text: str) -> list[str]:
    """Effects and kinds of things, as words of their own: paying and refunding share no stem, nor meeting and event."""
    return [f"effect:{effect}" for effect in effects if effect not in ("read", "run")] + [
        f"kind:{kind}" for kind in kind_names(text)
    ]
