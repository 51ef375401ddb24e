"""A model that transformers runs in this process, with or without an adapter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from demur.envs.policies.tokens import Sampled, TokenPolicy


class LocalPolicy(TokenPolicy):
    """temperature 0 decodes greedily."""

    def __init__(
        self,
        name: str,
        model: Any,
        tokenizer: Any,
        *,
        max_new_tokens: int = 256,
        temperature: float = 0.0,
    ) -> None:
        context = getattr(model.config, "max_position_embeddings", None)
        super().__init__(name, tokenizer, max_new_tokens=max_new_tokens, context=context)
        self.model = model
        self.temperature = temperature

    @torch.no_grad()
    def sample(self, prompts: list[list[int]]) -> Sampled:
        if not prompts:
            return Sampled([], None)
        ids, mask = _left_pad(prompts, self.tokenizer.pad_token_id, self.model.device)
        sampling = {"do_sample": True, "temperature": self.temperature} if self.temperature else {"do_sample": False}
        was_training = self.model.training
        self.model.eval()
        written = self.model.generate(
            input_ids=ids,
            attention_mask=mask,
            max_new_tokens=self.max_new_tokens,
            pad_token_id=self.tokenizer.pad_token_id,
            eos_token_id=self.tokenizer.eos_token_id,
            **sampling,
        )
        self.model.train(was_training)
        eos = self.tokenizer.eos_token_id
        return Sampled([_until(row, eos) for row in written[:, ids.shape[1] :].tolist()], None)


def load_local(model: str, adapter: str | None = None, **options: Any) -> LocalPolicy:
    """Load a policy from a folder (or a hub name) and an optional adapter folder.

    Raises ValueError if a folder is missing or the adapter was made for another base.
    """
    from demur.envs.policies.loading import load_model, load_tokenizer

    name = Path(adapter or model).name
    return LocalPolicy(name, load_model(model, adapter=adapter), load_tokenizer(model), **options)


def _left_pad(rows: list[list[int]], pad: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, both [rows, longest]."""
    longest = max(map(len, rows))
    ids = torch.tensor([[pad] * (longest - len(row)) + row for row in rows], device=device)
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, mask


def _until(row: list[int], eos: int) -> list[int]:
    return row[: row.index(eos) + 1] if eos in row else row
