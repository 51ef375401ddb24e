"""JSON of a schema from any OpenAI-compatible endpoint: what the extractor and the boundary judge share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from demur.envs.endpoint import LONGEST, Endpoint, EndpointError, Message, json_form, told_fault

T = TypeVar("T")


class JsonEndpoint:
    """Asks `/chat/completions` for one JSON object at a time. The key is read from the environment only.

    timeout: seconds for one answer, the client's retries and the second try included.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        key_variable: str = "OPENAI_API_KEY",
        timeout: float = 60.0,
        retries: int = 2,
        max_new_tokens: int = 2048,
    ) -> None:
        self.model = model
        self._timeout = timeout
        self._options: dict[str, Any] = {"max_tokens": max_new_tokens, "temperature": 0.0}
        self._endpoint = Endpoint(model, base_url=base_url, key_variable=key_variable, timeout=timeout, retries=retries)

    async def ask(self, prompt: str, data: Mapping[str, Any], schema: type[BaseModel], read: Callable[[str], T]) -> T:
        """What `read` makes of the reply; a reply for which it raises ValueError is asked for once more.

        data: goes out as one JSON object, whose quoting no text in it can leave. Raises EndpointError.
        """
        messages: list[Message] = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ]
        try:
            async with asyncio.timeout(self._timeout):
                text = await self._reply(messages, schema)
                try:
                    return read(text)
                except ValueError as error:
                    messages = told_fault(messages, text, str(error))
                return read(await self._reply(messages, schema))
        except EndpointError:
            raise
        except TimeoutError:
            failed = EndpointError(f"Timeout: no answer within {self._timeout:g} s", kind="timeout")
        except Exception as error:  # whatever a model writes
            said = self._endpoint.mask(f"{type(error).__name__}: {error}")
            failed = EndpointError(said[:LONGEST], kind="reply")
        # outside the handler, so that no traceback carries the unmasked error along
        raise failed

    async def close(self) -> None:
        """Close the connections of the running event loop."""
        await self._endpoint.close()

    async def _reply(self, messages: list[Message], schema: type[BaseModel]) -> str:
        reply = await self._endpoint.complete(messages, response_format=json_form(schema), **self._options)
        if not reply.text:
            raise EndpointError(f"the endpoint sent no text (it stopped for {reply.stop!r})", kind="reply")
        return reply.text
