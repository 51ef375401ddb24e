"""A batch of conversations in a model's cache: laid out with their tails, and branched once a name is followed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import DynamicCache

from demur.envs.intent.scoring.readings import Reading
from demur.envs.intent.scoring.scores import ScoreRequest
from demur.envs.intent.scoring.tree import Row


class Item(NamedTuple):
    """A request at its place among those that were asked, and as ids."""

    place: int
    request: ScoreRequest
    reading: Reading


class Prefixes(NamedTuple):
    """Keys and values of common beginnings, per layer [prefixes, heads, longest, size]; lengths: of each in tokens."""

    layers: list[tuple[torch.Tensor, torch.Tensor]]
    lengths: list[int]
    of: dict[str, int]


class Batch:
    """One batch in the model's cache. Keys lie as [prefix | rest of the conversation | tails | names].

    ids, places: what to read first, [rows, rest + tails], and where it stands. visible: what each of it sees,
    [rows, rest + tails, keys]. tail_ends: the last key of each tail, [points]. read: length of the prefix.
    """

    def __init__(self, items: Sequence[Item], prefixes: Prefixes, model: Any) -> None:
        which = [prefixes.of.get(item.request.messages[0]["content"]) for item in items]
        heads = [0 if at is None else prefixes.lengths[at] for at in which]
        self.cache = DynamicCache()
        self.read = 0
        if any(heads):
            chosen = torch.tensor([at or 0 for at in which], device=model.device)
            for index, (keys, values) in enumerate(prefixes.layers):
                self.cache.update(keys[chosen], values[chosen], index)
            self.read = max(prefixes.lengths)
        rest = max(len(item.reading.ids) - head for item, head in zip(items, heads, strict=True))
        points = max(len(item.reading.points) for item in items)
        size = max(len(point.tail) for item in items for point in item.reading.points)
        width = rest + points * size
        ids = np.zeros((len(items), width), dtype=np.int64)
        places = np.zeros((len(items), width), dtype=np.int64)
        visible = np.zeros((len(items), width, self.read + width), dtype=bool)
        visible[:, :rest, self.read : self.read + rest] = np.tri(rest, dtype=bool)
        self._starts = np.zeros((len(items), points), dtype=np.int64)  # where a point's names begin
        for at, (item, head) in enumerate(zip(items, heads, strict=True)):
            reading = item.reading
            visible[at, :, :head] = True
            ids[at, : len(reading.ids) - head] = reading.ids[head:]
            places[at, :rest] = np.arange(head, head + rest)
            for number, (cut, tail) in enumerate(reading.points):
                end = rest + (number + 1) * size  # a tail stands at the end of its room
                own = slice(end - len(tail), end)
                ids[at, own] = tail
                places[at, own] = np.arange(cut, cut + len(tail))
                visible[at, own, self.read : self.read + cut - head] = True
                visible[at, own, self.read + own.start : self.read + own.stop] = np.tri(len(tail), dtype=bool)
                self._starts[at, number] = cut + len(tail)
        device = model.device
        self.ids = torch.from_numpy(ids).to(device)
        self.places = torch.from_numpy(places).to(device)
        self.visible = torch.from_numpy(visible).to(device)
        self.tail_ends = torch.arange(1, points + 1, device=device) * size + (self.read + rest - 1)

    def branch(self, which: Sequence[int]) -> DynamicCache:
        """The cache of some rows, to be written on; the batch's own stays as it is."""
        chosen = torch.tensor(which, device=self.ids.device)
        cache = DynamicCache()
        for index, layer in enumerate(self.cache.layers):
            cache.update(layer.keys[chosen], layer.values[chosen], index)
        return cache

    def names(self, which: Sequence[int], rows: Sequence[Row]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids and places [rows, nodes] and what is visible [rows, nodes, keys] of names to follow in some rows."""
        most = max(row.size for row in rows)
        ids = np.zeros((len(rows), most), dtype=np.int64)
        places = np.zeros((len(rows), most), dtype=np.int64)
        points = np.zeros((len(rows), most), dtype=np.int64)
        own = np.zeros((len(rows), most, most), dtype=bool)
        for at, (place, row) in enumerate(zip(which, rows, strict=True)):
            ids[at, : row.size] = np.concatenate(row.tokens)
            points[at, : row.size] = np.concatenate(row.points)
            places[at, : row.size] = self._starts[place, points[at, : row.size]] + np.concatenate(row.depths)
            for start, block in row.blocks:
                own[at, start : start + len(block), start : start + len(block)] = block
        device = self.ids.device
        tails = self.tail_ends[torch.from_numpy(points).to(device)] - self.read
        past = self.visible[torch.tensor(which, device=device)[:, None], tails]  # what the tail's end sees
        visible = torch.cat([past, torch.from_numpy(own).to(device)], -1)
        return torch.from_numpy(ids).to(device), visible, torch.from_numpy(places).to(device)
