"""A model from nothing: its tokenizer loses nothing, and it copies before it has learned anything."""

import pytest
import torch

from demur.envs.policies.tokens import TurnFrame
from demur.envs.protocol import MARKUP, OBSERVATION_MARKUP
from demur.train.scratch import END, Scratch, fit_tokenizer, new_model
from tests.train.runs import sample_tasks

LENGTH = 24
"""Tokens of a passage."""


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_new_model_copies_what_it_read_before(seed: int) -> None:
    """What Olsson et al. measure: random tokens, twice; a guess is right if it is what followed before."""
    torch.manual_seed(seed)
    tokenizer = fit_tokenizer(["some words"], 300)
    model = new_model(Scratch(), tokenizer).eval()
    once = torch.stack([torch.randperm(len(tokenizer) - 5)[:LENGTH] + 5 for _ in range(32)])  # [texts, tokens]
    with torch.no_grad():
        guessed = model(torch.cat([once, once], dim=1)).logits.argmax(-1)  # [texts, 2 · tokens]
    again = guessed[:, LENGTH:-1] == once[:, 1:]
    first_time = guessed[:, : LENGTH - 1] == once[:, 1:]
    assert again.float().mean() > 0.5 and first_time.float().mean() < 0.05


@pytest.mark.parametrize("sizes", [Scratch(layers=1), Scratch(layers=4, width=64, heads=2, hidden=96)])
def test_a_new_model_has_the_sizes_asked_for(sizes: Scratch) -> None:
    model = new_model(sizes, fit_tokenizer(["some words"], 300))
    config = model.config
    assert (config.num_hidden_layers, config.hidden_size) == (sizes.layers, sizes.width)
    assert (config.num_attention_heads, config.intermediate_size) == (sizes.heads, sizes.hidden)
    assert config.max_position_embeddings == sizes.context
    assert all(torch.isfinite(weights).all() for weights in model.parameters())


def test_a_fitted_tokenizer_gives_every_text_back() -> None:
    queries = [task.query for task in sample_tasks(count=3)]
    tokenizer = fit_tokenizer(queries, 600)
    assert len(tokenizer) <= 600
    for text in [*queries, "Zoë pays 1,234.50 € 💶\n\tto\u00a0ACME  Ltd.", "", " "]:
        assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_markup_is_one_token_and_a_word_has_one_wherever_it_stands() -> None:
    tokenizer = fit_tokenizer(["pay Anna Berg pay Anna Berg pay Anna Berg"] * 5, 400)
    for mark in (*MARKUP, *OBSERVATION_MARKUP, END):
        assert len(tokenizer(mark)["input_ids"]) == 1
    (word,) = tokenizer("Anna")["input_ids"]
    assert all(word in tokenizer(text)["input_ids"] for text in ("pay Anna", '"Anna"', "<think>Anna</think>", "Anna."))


def test_a_fitted_tokenizer_frames_turns() -> None:
    frame = TurnFrame.of(fit_tokenizer(["some words"], 300))
    assert frame == TurnFrame("<|end|><|user|>", "<|end|><|assistant|>", "")
