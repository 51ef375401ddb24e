"""A small model from nothing: a tokenizer fitted to texts, and a Llama-style model to go with it.

Three choices make copying from the context learnable within minutes: white space is a token of its own,
so that a word has one id wherever it stands; the markup of the protocol and of JSON calls are single
tokens; and the warm-up mixes in repeated random sequences (see `train.demonstrations`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

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
    """A byte-level BPE tokenizer over words, digits, single spaces and runs of punctuation."""
    tokenizer = Tokenizer(models.BPE())
    words = pre_tokenizers.Split(Regex(r"[A-Za-z_]+|[0-9]|\s|[^A-Za-z0-9_\s]"), "isolated")
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
    """A Llama-style model with random weights and tied embeddings."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=sizes.width,
            intermediate_size=sizes.hidden,
            num_hidden_layers=sizes.layers,
            num_attention_heads=sizes.heads,
            num_key_value_heads=sizes.heads,
            max_position_embeddings=sizes.context,
            rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
