"""Any OpenAI-compatible endpoint as a policy: vLLM, a local server, or a provider."""

from __future__ import annotations

from typing import Any

from demur.envs.endpoint import Endpoint, EndpointError
from demur.envs.episode import Conversation, Generation
from demur.envs.trace import TokenCounts


class EndpointPolicy:
    """Asks `/chat/completions` for each message. The key is read from the environment only.

    A request that fails after the client's retries, or a reply that is none, ends its episode with an
    error; the run goes on. timeout: seconds for one message, its retries included. calls, used_tokens: what was
    asked for so far, and the tokens of prompts and replies as the endpoint counts them.
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
        self._options: dict[str, Any] = {"max_tokens": max_new_tokens, "temperature": temperature}
        self.calls = self.used_tokens = 0
        self._endpoint = Endpoint(model, base_url=base_url, key_variable=key_variable, timeout=timeout, retries=retries)

    async def respond(self, conversation: Conversation) -> Generation:
        self.calls += 1
        try:
            reply = await self._endpoint.complete(conversation.messages, **self._options)
        except EndpointError as error:
            return Generation(text="", stop="error", error=str(error))
        used = reply.completion_tokens
        self.used_tokens += reply.prompt_tokens + used
        return Generation(
            text=reply.text,
            stop="length" if reply.stop == "length" else "done",
            tokens=TokenCounts(action=used, total=used),
        )

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._endpoint.close()
