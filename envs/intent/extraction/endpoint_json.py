"""JSON of a schema from any OpenAI-compatible endpoint: what the extractor and the boundary judge share."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from openai import AsyncOpenAI
from pydantic import BaseModel

T = TypeVar("T")


class EndpointError(RuntimeError):
    """The endpoint gave no usable reply in time. The text never holds the key."""


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
        self._connection: dict[str, Any] = {"base_url": base_url, "timeout": timeout, "max_retries": retries}
        self._key = os.environ.get(key_variable, "")
        # open connections belong to the event loop that made them
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()

    async def ask(self, prompt: str, data: Mapping[str, Any], schema: type[BaseModel], read: Callable[[str], T]) -> T:
        """What `read` makes of the reply; a reply for which it raises ValueError is asked for once more.

        data: goes out as one JSON object, whose quoting no text in it can leave. Raises EndpointError.
        """
        messages: list[dict[str, str]] = [
            {"role": "system", "content": prompt},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ]
        try:
            async with asyncio.timeout(self._timeout):
                text = await self._reply(messages, schema)
                try:
                    return read(text)
                except ValueError as error:
                    fault = f"That reply can not be used: {str(error)[:1000]}. Write the whole JSON object again."
                    messages += [{"role": "assistant", "content": text}, {"role": "user", "content": fault}]
                return read(await self._reply(messages, schema))
        except Exception as error:  # whatever an endpoint sends
            said = f"{type(error).__name__}: {error}"
            if self._key:  # servers like to repeat the key they refuse
                said = said.replace(self._key, "***")
        # outside the handler, so that no traceback carries the unmasked error along
        raise EndpointError(said[:500])

    async def _reply(self, messages: Any, schema: type[BaseModel]) -> str:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            key = self._key or "none"  # local servers take any key
            self._clients[loop] = AsyncOpenAI(api_key=key, **self._connection)
        wanted = {"name": schema.__name__.lower(), "strict": True, "schema": schema.model_json_schema()}
        form: Any = {"type": "json_schema", "json_schema": wanted}
        # servers send all sorts of things, so the client's type says nothing
        reply: Any = await self._clients[loop].chat.completions.create(
            model=self.model, messages=messages, response_format=form, **self._options
        )
        choices = getattr(reply, "choices", None)
        text = choices[0].message.content if choices else None
        if not isinstance(text, str):
            raise TypeError("the endpoint sent no text")
        return text
