"""Any OpenAI-compatible endpoint as a policy: vLLM, a local server, or a provider."""

from __future__ import annotations

import asyncio
import os
from typing import Any
from weakref import WeakKeyDictionary

from openai import AsyncOpenAI

from demur.envs.episode import Conversation, Generation
from demur.envs.trace import TokenCounts


class EndpointPolicy:
    """Asks `/chat/completions` for each message. The key is read from the environment only.

    A request that fails after the client's retries, or a reply that is none, ends its episode with an
    error; the run goes on.
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
        self._connection: dict[str, Any] = {"base_url": base_url, "timeout": timeout, "max_retries": retries}
        self._key = os.environ.get(key_variable, "")
        # open connections belong to the event loop that made them
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()

    async def respond(self, conversation: Conversation) -> Generation:
        try:
            return await self._ask(conversation.messages)
        except Exception as error:  # whatever an endpoint sends: one episode ends, not the run
            text = f"{type(error).__name__}: {error}"
            if self._key:  # servers like to repeat the key they refuse
                text = text.replace(self._key, "***")
            return Generation(text="", stop="error", error=text[:500])

    async def _ask(self, messages: Any) -> Generation:
        """Raises an error of the client, or what reading a reply of another form raises."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            key = self._key or "none"  # local servers take any key
            self._clients[loop] = AsyncOpenAI(api_key=key, **self._connection)
        # servers send all sorts of things, so the client's type says nothing
        reply: Any = await self._clients[loop].chat.completions.create(
            model=self._model, messages=messages, **self._options
        )
        choices = getattr(reply, "choices", None)
        if not choices:
            raise ValueError("the endpoint sent no choice")
        text = choices[0].message.content or ""
        if not isinstance(text, str):
            raise ValueError(f"the endpoint sent a {type(text).__name__} instead of a text")
        used = (reply.usage.completion_tokens or 0) if reply.usage else 0
        return Generation(
            text=text,
            stop="length" if choices[0].finish_reason == "length" else "done",
            tokens=TokenCounts(action=used, total=used),
        )
