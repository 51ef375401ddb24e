"""Any OpenAI-compatible endpoint as a policy: vLLM, a local server, or a provider."""

from __future__ import annotations

import os
from typing import Any

from openai import AsyncOpenAI, OpenAIError

from demur.envs.episode import Conversation, Generation
from demur.envs.trace import TokenCounts


class EndpointPolicy:
    """Asks `/chat/completions` for each message. The key is read from the environment only.

    A request that fails after the client's retries ends its episode with an error; the run goes on.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        key_variable: str = "OPENAI_API_KEY",
        max_new_tokens: int = 1024,
        temperature: float = 0.0,
        timeout: float = 120.0,
        retries: int = 4,
    ) -> None:
        self.name = model
        self._model = model
        self._options: dict[str, Any] = {"max_tokens": max_new_tokens, "temperature": temperature}
        key = os.environ.get(key_variable, "none")  # local servers take any key
        self._client = AsyncOpenAI(base_url=base_url, api_key=key, timeout=timeout, max_retries=retries)

    async def respond(self, conversation: Conversation) -> Generation:
        messages: Any = conversation.messages
        try:
            reply = await self._client.chat.completions.create(
                model=self._model, messages=messages, **self._options
            )
        except OpenAIError as error:
            return Generation(text="", stop="error", error=f"{type(error).__name__}: {error}"[:500])
        if not reply.choices:
            return Generation(text="", stop="error", error="the endpoint sent no choice")
        choice = reply.choices[0]
        used = reply.usage.completion_tokens if reply.usage else 0
        return Generation(
            text=choice.message.content or "",
            stop="length" if choice.finish_reason == "length" else "done",
            tokens=TokenCounts(action=used, total=used),
        )
