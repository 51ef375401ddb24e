"""Policies that work on token ids: conversations are extended, never tokenised again.

A conversation keeps the exact ids that the model read and wrote. Rendering it anew each turn would
change them (other merges, stripped thinking) and train the model on text it never produced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from demur.envs.episode import Conversation, Episode, Generation, Span, Stop
from demur.envs.protocol import parse
from demur.envs.trace import TokenCounts

_USER, _ASSISTANT, _RESULT = "§user§", "§assistant§", "§result§"


class Sampled(NamedTuple):
    """What a model wrote for each prompt; logprobs is None where the backend gives none."""

    ids: list[list[int]]
    logprobs: list[list[float]] | None


@dataclass(frozen=True, slots=True)
class TurnFrame:
    """The template's text between a model's message and the next one.

    `closing` ends the model's message and opens the user's, `opening` ends the user's and opens the
    model's. prefill: the part of `opening` that belongs to the model's message (`<think>` in some).
    """

    closing: str
    opening: str
    prefill: str

    @classmethod
    def of(cls, tokenizer: Any) -> TurnFrame:
        """Read the frame off a tokenizer's chat template. Raises ValueError if it has none that fits."""
        if not tokenizer.chat_template:
            raise ValueError("the tokenizer has no chat template; set one before training or evaluation")
        messages = [
            {"role": "user", "content": _USER},
            {"role": "assistant", "content": _ASSISTANT},
            {"role": "user", "content": _RESULT},
        ]
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        _, found_assistant, rest = text.partition(_ASSISTANT)
        closing, found_result, opening = rest.partition(_RESULT)
        if not (found_assistant and found_result):
            raise ValueError("the chat template drops earlier messages, so turns cannot be appended")
        return cls(closing, opening, "<think>" if opening.rstrip().endswith("<think>") else "")


class TokenPolicy:
    """Base of policies over token ids; a subclass samples. A context of None means no limit."""

    def __init__(self, name: str, tokenizer: Any, *, max_new_tokens: int, context: int | None) -> None:
        self.name = name
        self.tokenizer = tokenizer
        self.max_new_tokens = max_new_tokens
        self.context = context
        self.frame = TurnFrame.of(tokenizer)
        self._eos: int = tokenizer.eos_token_id
        self._closing = self._ids(self.frame.closing)
        self._opening = self._ids(self.frame.opening)
        self._prompts: dict[tuple[str, str], list[int]] = {}

    def sample(self, prompts: list[list[int]]) -> Sampled:
        raise AssertionError("a subclass samples")

    def generate(self, episodes: Sequence[Episode]) -> list[Generation]:
        """One message each. An episode whose next message would not fit the context is told to stop."""
        prompts = [self.extend(episode.conversation) for episode in episodes]
        fits = [i for i, ids in enumerate(prompts) if self.fits(ids)]
        sampled = self.sample([prompts[i] for i in fits])
        texts = self.tokenizer.batch_decode(sampled.ids, skip_special_tokens=True) if fits else []
        counts = self.count([self.frame.prefill + text for text in texts], sampled.ids)
        generations = [Generation(text="", stop="context") for _ in episodes]
        for at, i in enumerate(fits):
            ids = sampled.ids[at]
            logprobs = sampled.logprobs[at] if sampled.logprobs else None
            episodes[i].conversation.spans.append(Span(ids, True, logprobs))
            stop: Stop = "done" if ids and ids[-1] == self._eos else "length"
            generations[i] = Generation(text=self.frame.prefill + texts[at], stop=stop, tokens=counts[at])
        return generations

    def extend(self, conversation: Conversation) -> list[int]:
        """Append the ids of what was said to the model since its last message; returns all ids."""
        spans = conversation.spans
        if not spans:
            spans.append(Span(self._opening_ids(conversation), False))
            given = [message["content"] for message in conversation.messages[2:]]
            for said, heard in zip(given[::2], given[1::2], strict=True):
                written = self._ids(said.removeprefix(self.frame.prefill), split_special_tokens=True)
                spans.append(Span([*written, *self._result_ids(heard, written)], False))
        elif spans[-1].by_model:
            result = conversation.messages[-1]
            assert result["role"] == "user", "a model's message is followed by a result"
            spans.append(Span(self._result_ids(result["content"], spans[-1].ids), False))
        return [token for span in spans for token in span.ids]

    def fits(self, ids: list[int]) -> bool:
        """Whether the longest message would fit behind these ids."""
        return self.context is None or len(ids) + self.max_new_tokens <= self.context

    def _opening_ids(self, conversation: Conversation) -> list[int]:
        key = (conversation.messages[0]["content"], conversation.messages[1]["content"])
        if key not in self._prompts:
            self._prompts[key] = self.tokenizer.apply_chat_template(
                conversation.messages[:2], add_generation_prompt=True, return_dict=False
            )
        return list(self._prompts[key])

    def _result_ids(self, result: str, written: list[int]) -> list[int]:
        closing = self._closing
        # the frame starts with the end-of-turn token, which the model wrote itself unless it was cut off
        if closing and written and closing[0] == self._eos == written[-1]:
            closing = closing[1:]
        # a result is data: what spells a special token in it must not end the message and open another
        return [*closing, *self._ids(result, split_special_tokens=True), *self._opening]

    def _ids(self, text: str, **options: Any) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, **options)["input_ids"]
        return ids

    def count(self, texts: list[str], ids: list[list[int]]) -> list[TokenCounts]:
        """The tokens of messages by part; ids: those of each message."""
        parsed = [parse(text) for text in texts]
        parts = [part for turn in parsed for part in (turn.plan, turn.check or "")]
        lengths = [len(x) for x in self.tokenizer(parts, add_special_tokens=False)["input_ids"]] if parts else []
        return [
            TokenCounts(
                plan=lengths[2 * i],
                check=lengths[2 * i + 1],
                action=max(0, len(ids[i]) - lengths[2 * i] - lengths[2 * i + 1]),
                total=len(ids[i]),
            )
            for i in range(len(texts))
        ]
