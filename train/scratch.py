"""A small model from nothing: a tokenizer fitted to texts, and a Llama-style model to go with it.

Copying from the context (a name into a call) is what a new model learns last. Three choices bring it
within a minute: white space is a token of its own, so that a word has one id wherever it stands; the
markup of the protocol and of JSON calls are single tokens; and the weights start with an induction
circuit (`_write_induction_circuit`), which training then refines.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from demur.envs.protocol import MARKUP, OBSERVATION_MARKUP

END, PAD = "<|end|>", "<|pad|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
JSON_MARKUP = ('{"name": "', '", "arguments": {"', '": "', '", "', '": ', ', "', '"}}', "}}")
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scratch:
    """Sizes of a model from nothing. context: tokens of a whole episode."""

    layers: int = 3
    width: int = 128
    heads: int = 4
    hidden: int = 384
    vocabulary: int = 2048
    context: int = 1024


def fit_tokenizer(texts: Iterable[str], vocabulary: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer over words, pairs of digits, single spaces and runs of punctuation."""
    tokenizer = Tokenizer(models.BPE())
    words = pre_tokenizers.Split(Regex(r"[A-Za-z_]+|[0-9]{1,2}|\s|[^A-Za-z0-9_\s]"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [PAD, END, *ROLES]
    markup = [AddedToken(mark, normalized=False) for mark in (*MARKUP, *OBSERVATION_MARKUP, *JSON_MARKUP)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(markup),
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens(markup)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    fast.chat_template = TEMPLATE
    return fast


def new_model(sizes: Scratch, tokenizer: Any) -> LlamaForCausalLM:
    """A Llama-style model with tied embeddings that can copy from its context from the start."""
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=sizes.width,
            intermediate_size=sizes.hidden,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.heads,
            max_position_embeddings=sizes.context,
            attention_bias=True,
            rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    if sizes.layers >= 2:
        _write_induction_circuit(model)
    return model


ROPE_THETA = 100_000.0
PREVIOUS, MATCH, COPY = 9.0, 3.0, 10.0
"""Strengths of the circuit's three parts, found by the share of copied tokens that come out right."""


@torch.no_grad()
def _write_induction_circuit(model: LlamaForCausalLM) -> None:
    """Set the first two layers so that a token is followed by what followed it earlier.

    Layer 0 attends one and two tokens back (by biases on the fast rotary pairs, so by position alone) and
    writes what it finds into a second basis. Layer 1 looks for a position whose preceding tokens are the
    current ones (on the slow rotary pairs, which hardly turn over an episode) and copies the token there:
    half of its heads match the current token, half the one before, which tells words apart where white
    space stands between them. See Olsson et al. 2022, "In-context learning and induction heads".
    """
    config = model.config
    width, heads = config.hidden_size, config.num_attention_heads
    size, half = width // heads, heads // 2
    speed = ROPE_THETA ** (-torch.arange(0, size, 2) / size)  # radians a position, [size / 2]
    fast = (speed > 0.15).nonzero().flatten()
    slow = torch.cat([(speed < 0.012).nonzero().flatten() + part for part in (0, size // 2)])
    scale = width**-0.5  # undoes the normalisation before a layer
    model.model.embed_tokens.weight.normal_(0, scale)
    read, write = (torch.linalg.qr(torch.randn(width, width))[0] for _ in range(2))
    first, second = (model.model.layers[i].self_attn for i in (0, 1))
    for head in range(heads):
        rows = slice(head * size, (head + 1) * size)
        twin = slice(head % half * size, (head % half + 1) * size)  # the same slice for both distances
        angle = (1 if head < half else 2) * speed[fast]
        key, query = torch.zeros(size), torch.zeros(size)
        key[fast] = PREVIOUS
        query[fast], query[fast + size // 2] = PREVIOUS * angle.cos(), -PREVIOUS * angle.sin()
        first.k_proj.bias[rows], first.q_proj.bias[rows] = key, query
        first.v_proj.weight[rows], first.o_proj.weight[:, rows] = read[twin], write[rows].T * scale
        looked_for = read[twin] if head < half else write[twin]
        for projection, basis in ((second.q_proj, looked_for), (second.k_proj, write[rows])):
            projection.weight[rows] = 0
            projection.weight[rows.start + slow] = MATCH * basis[: len(slow)]
        second.v_proj.weight[rows], second.o_proj.weight[:, rows] = read[rows], read[rows].T * COPY * scale
