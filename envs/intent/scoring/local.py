"""The intent-tool scorer: how likely a frozen model is to call each tool at each position of a conversation.

A name's probability is that of its whole token sequence, times that of any token which ends it, so that one name
being the beginning of another cannot mislead; it is normalised over the tools on offer. (The paper takes the first
token only, unnormalised; arXiv 2608.27348.) ::

    scorer = LocalScorer(model, tokenizer)              # the policy, its adapter switched off
    scores = scorer.score([request_of(task, trajectory, decoys_for(task, "train"))])

Three forward passes at most, for all positions of a batch: the prompts' common beginnings, the conversations with
the tails of all positions, and the names. `scorer_endpoint` does the same over HTTP.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache

from demur.envs.intent.scoring.batch import Batch, Item, Prefixes
from demur.envs.intent.scoring.positions import FORMATS, CallFormat
from demur.envs.intent.scoring.readings import Reader
from demur.envs.intent.scoring.scores import PositionScore, ScoreRequest
from demur.envs.intent.scoring.tree import Row, Trie, additive

Logs = NDArray[np.float32]
Wanted = NDArray[np.bool_]
SHORTEST_PREFIX = 16
"""A common beginning shorter than this is not read on its own."""
BATCH_COST = 300
"""What one more batch costs, in tokens of padding."""


class LocalScorer:
    """A model that transformers runs in this process.

    The scorer is frozen: no gradient, evaluation mode, and by default any adapter of the model switched off, so
    that it is the policy as it was before training. Under full fine-tuning give a reference copy. `adapter=True`
    reads with the adapter: the policy's own score, for logging.

    form: one of `FORMATS`, or your own. batch_size: most conversations in a forward pass. tolerance: the least
    likely names are not followed to their end, but get their first token's probability, as long as no probability
    is off by more than this; 0 follows every name, which ranking by very small scores needs. Raises ValueError for
    a model whose attention cannot take a mask of its own (sliding windows, flash attention, linear layers).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        form: str | CallFormat = "demur",
        adapter: bool = False,
        batch_size: int = 32,
        tolerance: float = 5e-5,
        name: str = "local",
    ) -> None:
        if isinstance(form, str):
            if form not in FORMATS:
                raise ValueError(f"there is no call format {form!r}; there are {', '.join(FORMATS)}")
            form = FORMATS[form]
        _check_attention(model)
        self.name, self.model, self.reader = name, model, Reader(tokenizer, form)
        self._adapter, self._batch_size, self._tolerance = adapter, batch_size, tolerance
        base = model.get_base_model() if hasattr(model, "get_base_model") else model
        if "logits_to_keep" not in inspect.signature(base.forward).parameters:
            raise ValueError(
                f"{type(base).__name__} cannot leave out logits (no `logits_to_keep`); score by an endpoint"
            )
        self._tries: dict[tuple[str, ...], Trie] = {}
        self._closers: torch.Tensor | None = None

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[PositionScore]]:
        """A score for each position of each request, in order."""
        asked = [(place, request) for place, request in enumerate(requests) if request.positions]
        readings = self.reader.read([request for _, request in asked])
        items = [Item(place, request, reading) for (place, request), reading in zip(asked, readings, strict=True)]
        items.sort(key=lambda item: len(item.reading.ids))
        found: list[list[PositionScore]] = [[] for _ in requests]
        with self._frozen():
            prefixes = self._read_prefixes(items)
            for batch in _batches(items, self._batch_size):
                for part in self._within_memory(batch):
                    for item, logs in zip(part, self._score(part, prefixes), strict=True):
                        found[item.place] = _scores(item.request, logs)
        return found

    def exact(self) -> LocalScorer:
        """The same model and format with a tolerance of 0."""
        return LocalScorer(
            self.model,
            self.reader.tokenizer,
            form=self.reader.form,
            adapter=self._adapter,
            batch_size=self._batch_size,
            tolerance=0,
            name=self.name,
        )

    @contextmanager
    def _frozen(self) -> Iterator[None]:
        training = self.model.training
        off = not self._adapter and hasattr(self.model, "disable_adapter")
        self.model.eval()
        try:
            with torch.no_grad(), self.model.disable_adapter() if off else nullcontext():
                yield
        finally:
            self.model.train(training)

    def _within_memory(self, items: list[Item], logits: int = 2**28) -> Iterator[list[Item]]:
        """Parts of a batch whose logits are at most so many numbers, or single conversations."""
        vocabulary = self.model.config.vocab_size
        most = max((len(i.reading.points) * (1 + len(self._trie(i.request).tokens)) for i in items), default=1)
        rows = max(1, logits // (vocabulary * most))
        for start in range(0, len(items), rows):
            yield items[start : start + rows]

    def _trie(self, request: ScoreRequest) -> Trie:
        if request.tools not in self._tries:
            self._tries[request.tools] = Trie.of([self.reader.name_ids(name) for name in request.tools])
        return self._tries[request.tools]

    def _read_prefixes(self, items: Sequence[Item]) -> Prefixes:
        """Read what the prompts with one system message have in common, once for all of them."""
        groups: dict[str, list[Item]] = {}
        for item in items:
            groups.setdefault(item.request.messages[0]["content"], []).append(item)
        shared = {
            system: _common([i.reading.ids[: i.reading.prompt - 1] for i in group]) for system, group in groups.items()
        }
        shared = {s: ids for s, ids in shared.items() if len(ids) >= SHORTEST_PREFIX and len(groups[s]) > 1}
        if not shared:
            return Prefixes([], [], {})
        lengths = [len(ids) for ids in shared.values()]
        padded = [ids + [0] * (max(lengths) - len(ids)) for ids in shared.values()]  # behind: nothing sees it
        cache = DynamicCache()
        self.model(
            input_ids=torch.tensor(padded, device=self.model.device),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        return Prefixes(layers, lengths, {system: at for at, system in enumerate(shared)})

    def _score(self, items: Sequence[Item], prefixes: Prefixes) -> list[Logs]:
        """Log-probabilities of names, [points, names] for each item."""
        batch = Batch(items, prefixes, self.model)
        tries = [self._trie(item.request) for item in items]
        heads = self._read(batch).cpu().numpy()
        firsts = [[int(trie.tokens[path[0]]) for path in trie.paths] for trie in tries]
        found = [heads[at, : len(item.reading.points)][:, firsts[at]] for at, item in enumerate(items)]
        bounds = [logs.copy() for logs in found]
        wanted = [_likely(logs, self._tolerance) for logs in bounds]
        self._follow(batch, tries, wanted, found)
        # where the likely names turn out less likely than they began, the others count after all
        missing = [
            ~done & _matters(logs, bound, done, self._tolerance)[:, None]
            for logs, bound, done in zip(found, bounds, wanted, strict=True)
        ]
        self._follow(batch, tries, missing, found)
        return found

    def _read(self, batch: Batch) -> torch.Tensor:
        """Read the conversations and all tails; log-probabilities behind each tail, [rows, points, vocabulary]."""
        logits = self.model(
            input_ids=batch.ids,
            attention_mask=additive(batch.visible, self.model.dtype),
            position_ids=batch.places,
            past_key_values=batch.cache,
            use_cache=True,
            logits_to_keep=batch.tail_ends - batch.read,
        ).logits
        return torch.log_softmax(logits.float(), -1)

    def _follow(self, batch: Batch, tries: Sequence[Trie], wanted: Sequence[Wanted], found: Sequence[Logs]) -> None:
        """Read the wanted names and add the rest of each one's log-probability to `found`, in place."""
        rows = [Row.of(trie, names) for trie, names in zip(tries, wanted, strict=True)]
        most = max(row.size for row in rows)
        for few in (True, False):  # a row with many names would pad all others
            part = [at for at, row in enumerate(rows) if row.size and (row.size <= most / 2) is few]
            if part:
                self._follow_part(batch, part, [rows[at] for at in part], [found[at] for at in part])

    def _follow_part(self, batch: Batch, part: Sequence[int], rows: Sequence[Row], found: Sequence[Logs]) -> None:
        ids, visible, places = batch.names(part, rows)
        logits = self.model(
            input_ids=ids,
            attention_mask=additive(visible, self.model.dtype),
            position_ids=places,
            past_key_values=batch.branch(part),
            use_cache=True,
        ).logits.float()
        if self._closers is None:
            self._closers = torch.tensor(self.reader.closers, device=logits.device)
        total = torch.logsumexp(logits, -1)
        closing = (torch.logsumexp(logits[:, :, self._closers], -1) - total).cpu().numpy()
        for at, (row, logs) in enumerate(zip(rows, found, strict=True)):
            if row.edges:
                nodes, tokens, points, names = map(list, zip(*row.edges, strict=True))
                steps = (logits[at, nodes, tokens] - total[at, nodes]).cpu().numpy()
                np.add.at(logs, (points, names), steps)
            for node, point, name in row.ends:
                logs[point, name] += closing[at, node]


def _batches(items: list[Item], most: int) -> list[list[Item]]:
    """Cut conversations, in the order of their lengths, into batches so that little is read as padding."""
    best, begins = [0.0], [0]
    for end in range(1, len(items) + 1):
        longest = len(items[end - 1].reading.ids)
        costs = {at: best[at] + (end - at) * longest + BATCH_COST for at in range(max(0, end - most), end)}
        begins.append(min(costs, key=costs.__getitem__))
        best.append(costs[begins[-1]])
    batches, end = [], len(items)
    while end:
        batches.append(items[begins[end] : end])
        end = begins[end]
    return batches


def _likely(logs: Logs, tolerance: float) -> Wanted:
    """Which names to follow, [points, names]: all but the least likely, which together have next to nothing."""
    shares = np.exp(logs.astype(np.float64) - logs.max(1, keepdims=True))
    order = np.argsort(shares, 1)
    below = np.take_along_axis(shares, order, 1).cumsum(1) <= tolerance / 2
    wanted = np.empty_like(below)
    np.put_along_axis(wanted, order, ~below, 1)
    return wanted


def _matters(logs: Logs, bounds: Logs, done: Wanted, tolerance: float) -> Wanted:
    """Points where what was not followed may have more than `tolerance` of the whole, [points]."""
    highest = logs.max(1, keepdims=True)
    total = np.exp(logs.astype(np.float64) - highest).sum(1, where=done)
    left = np.exp(bounds.astype(np.float64) - highest).sum(1, where=~done)
    matters: Wanted = left > tolerance * total
    return matters


def _scores(request: ScoreRequest, logs: Logs) -> list[PositionScore]:
    return [
        PositionScore.of(position, dict(zip(request.tools, map(float, row), strict=True)), request.decoys)
        for position, row in zip(request.positions, logs, strict=True)
    ]


def _common(rows: Sequence[list[int]]) -> list[int]:
    """The ids that all rows begin with."""
    lowest, highest = min(rows), max(rows)
    for at, (one, other) in enumerate(zip(lowest, highest, strict=False)):
        if one != other:
            return lowest[:at]
    return lowest[: min(len(lowest), len(highest))]


def _check_attention(model: Any) -> None:
    config = model.config
    used = getattr(config, "_attn_implementation", None) or "sdpa"
    layers = set(getattr(config, "layer_types", None) or ["full_attention"])
    if used not in ("sdpa", "eager"):
        raise ValueError(f"intent scoring needs attn_implementation 'sdpa' or 'eager', not {used!r}")
    if layers != {"full_attention"} or getattr(config, "sliding_window", None):
        raise ValueError(
            "intent scoring in this process needs full attention in every layer; score such a model by an endpoint"
        )
