"""Many continuations of one conversation in one forward pass: masks, positions and the trie of tool names.

A model reads a conversation once; every point where it could act hangs its tail on the ids before it, and every
tool's name hangs on the tail. A 4-D attention mask lets each token see its own past only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Trie:
    """The ids of several names, shared prefixes once.

    tokens and depths: of each node, [nodes]; sees: which nodes are on the path to it, itself too, [nodes, nodes].
    paths: for each name its nodes, in order.
    """

    tokens: NDArray[np.int64]
    depths: NDArray[np.int64]
    sees: NDArray[np.bool_]
    paths: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, names: Sequence[tuple[int, ...]]) -> Trie:
        nodes: dict[tuple[int, ...], int] = {}
        paths = []
        for name in names:
            prefixes = [name[: length + 1] for length in range(len(name))]
            paths.append(np.array([nodes.setdefault(prefix, len(nodes)) for prefix in prefixes]))
        sees = np.zeros((len(nodes), len(nodes)), dtype=bool)
        for prefix, node in nodes.items():
            sees[node, [nodes[prefix[: length + 1]] for length in range(len(prefix))]] = True
        depths = np.array([len(prefix) - 1 for prefix in nodes])
        return cls(np.array([prefix[-1] for prefix in nodes]), depths, sees, tuple(paths))


@dataclass(slots=True)
class Row:
    """The names to follow at the points of one conversation, as nodes of a forward pass.

    tokens, depths, points: of each node, an array a point. blocks: per point the first node and who sees whom.
    edges: (node, token behind it, point, name). ends: (last node, point, name), a name a line.
    """

    tokens: list[NDArray[np.int64]] = field(default_factory=list)
    depths: list[NDArray[np.int64]] = field(default_factory=list)
    points: list[NDArray[np.int64]] = field(default_factory=list)
    blocks: list[tuple[int, NDArray[np.bool_]]] = field(default_factory=list)
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    ends: list[tuple[int, int, int]] = field(default_factory=list)
    size: int = 0

    @classmethod
    def of(cls, trie: Trie, wanted: NDArray[np.bool_]) -> Row:
        """wanted: which names to follow at which point, [points, names]."""
        row = cls()
        for point, names in enumerate(wanted):
            if names.any():
                row._add(point, trie, np.flatnonzero(names).tolist())
        return row

    def _add(self, point: int, trie: Trie, names: Sequence[int]) -> None:
        nodes = np.unique(np.concatenate([trie.paths[name] for name in names]))
        place = {node: self.size + at for at, node in enumerate(nodes.tolist())}
        for name in names:
            path = [place[node] for node in trie.paths[name].tolist()]
            tokens = trie.tokens[trie.paths[name]].tolist()
            self.edges += [(node, token, point, name) for node, token in zip(path[:-1], tokens[1:], strict=True)]
            self.ends.append((path[-1], point, name))
        self.tokens.append(trie.tokens[nodes])
        self.depths.append(trie.depths[nodes])
        self.points.append(np.full(len(nodes), point))
        self.blocks.append((self.size, trie.sees[np.ix_(nodes, nodes)]))
        self.size += len(nodes)


def additive(visible: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A mask [rows, queries, keys] of what is visible, as attention layers add it: [rows, 1, queries, keys]."""
    mask = torch.zeros(visible.shape, dtype=dtype, device=visible.device)
    return mask.masked_fill_(~visible, torch.finfo(dtype).min)[:, None]
