"""The one client for whatever speaks to an OpenAI-compatible endpoint: vLLM, a local server, or a provider.

endpoint = Endpoint("qwen", base_url="http://127.0.0.1:8000/v1")
reply = await endpoint.complete([{"role": "user", "content": "Hello"}], max_tokens=64)
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI
from pydantic import BaseModel

Message = dict[str, str]
LONGEST = 500
"""Characters of an error's text."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class EndpointError(RuntimeError):
    """The endpoint gave no usable reply in time. The text never holds the key. status: of HTTP, if there was one."""

    def __init__(
        self, text: str, *, kind: Literal["connection", "timeout", "status", "reply"], status: int | None = None
    ) -> None:
        super().__init__(text)
        self.kind, self.status = kind, status


class Reply(NamedTuple):
    """text: empty if there was none. stop: the endpoint's reason, such as `stop` or `length`; `refusal` for a text
    given as such. Tokens are 0 where the endpoint counts none."""

    text: str
    stop: str | None
    prompt_tokens: int
    completion_tokens: int


class Endpoint:
    """Asks `/chat/completions`. The key is read from the environment only, when this is made.

    timeout: seconds for one `complete`, its retries included. retries: after lost connections, 408, 409, 429 and 5xx,
    with growing pauses or the one that the server asks for. Raises ValueError for an address, a time-out, a number
    of retries or a variable's name that cannot be used.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        key_variable: str = "OPENAI_API_KEY",
        timeout: float = 60.0,
        retries: int = 4,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError("the address of an endpoint must start with http:// or https://")
        if not timeout > 0:
            raise ValueError(f"timeout must be above 0 seconds, not {timeout:g}")
        if retries < 0:
            raise ValueError(f"retries must be 0 or more, not {retries}")
        if not _VARIABLE.fullmatch(key_variable):  # not shown: it may be the key itself
            raise ValueError(
                "a key is read from the environment: name the variable that holds it, such as OPENAI_API_KEY, with "
                "letters, digits and _ only, and not the key"
            )
        self.model, self.key_variable = model, key_variable
        self._timeout = timeout
        self._place = urlsplit(base_url).netloc.rpartition("@")[2]
        self._connection: dict[str, Any] = {"base_url": base_url, "timeout": timeout, "max_retries": retries}
        self._key = os.environ.get(key_variable, "").strip()
        # open connections belong to the event loop that made them
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()

    def client(self) -> AsyncOpenAI:
        """The client of the running event loop. What it raises may hold the key: see `mask`."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = AsyncOpenAI(api_key=self._key or "none", **self._connection)  # local ones take any
        return self._clients[loop]

    async def close(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def mask(self, text: str) -> str:
        """The text without the key: servers like to repeat the key they refuse."""
        written = {self._key, repr(self._key)[1:-1], json.dumps(self._key)[1:-1]} - {""}
        for form in sorted(written, key=len, reverse=True):
            text = text.replace(form, "***")
        return text

    async def complete(self, messages: Sequence[Message], **options: Any) -> Reply:
        """The reply to a conversation; `options` go out with it, such as max_tokens. Raises EndpointError."""
        # as `extra_body` the client sends it as it is, and does not look for files in every part: a third of its time
        body = {"messages": list(messages), **options}
        try:
            async with asyncio.timeout(self._timeout):
                reply = await self.client().chat.completions.create(model=self.model, messages=[], extra_body=body)
            return _read(reply)
        except Exception as error:  # whatever an endpoint sends
            failed = self._failure(error)
        raise failed  # outside the handler, so that no traceback carries the unmasked error along

    def _failure(self, error: Exception) -> EndpointError:
        said = f"{type(error).__name__}: {error}"
        kind: Literal["connection", "timeout", "status", "reply"] = "reply"
        status: int | None = None
        if isinstance(error, (APITimeoutError, TimeoutError)):
            kind, said = "timeout", f"Timeout: {self._place} gave no reply within {self._timeout:g} s"
        elif isinstance(error, APIConnectionError):
            kind, said = "connection", f"no connection to {self._place}, or it broke off. {said}"
        elif isinstance(error, APIStatusError):
            kind, status = "status", error.status_code
            if status in (401, 403):
                said = f"the key in {self.key_variable} is missing, expired or not allowed. {said}"
            elif status == 404:
                said = f"{self._place} does not serve the model {self.model!r} at this address. {said}"
        return EndpointError(self.mask(said)[:LONGEST], kind=kind, status=status)


@cache
def json_form(schema: type[BaseModel]) -> dict[str, Any]:
    """The option that has a reply follow a schema: `complete(messages, response_format=json_form(schema))`."""
    wanted = {"name": schema.__name__.lower(), "strict": True, "schema": schema.model_json_schema()}
    return {"type": "json_schema", "json_schema": wanted}


def told_fault(messages: Sequence[Message], text: str, fault: str) -> list[Message]:
    """The conversation that asks once more for a JSON object, after a reply with a fault."""
    complaint = f"That reply can not be used: {fault[:1000]}. Write the whole JSON object again."
    return [*messages, {"role": "assistant", "content": text}, {"role": "user", "content": complaint}]


def _read(reply: Any) -> Reply:
    """Raises whatever reading another form does: servers send all sorts of things, whatever the client's type says."""
    choices = getattr(reply, "choices", None)
    if not choices:
        raise ValueError("the endpoint sent no choice")
    message, stop = choices[0].message, choices[0].finish_reason
    text = message.content or ""
    if not isinstance(text, str):
        raise ValueError(f"the endpoint sent a {type(text).__name__} instead of a text")
    if not text and getattr(message, "refusal", None):
        stop = "refusal"
    used = [getattr(reply.usage, name, None) or 0 for name in ("prompt_tokens", "completion_tokens")]
    if not all(isinstance(count, int) and count >= 0 for count in used):
        raise ValueError("the endpoint sent token counts that are no numbers")
    return Reply(text, stop if isinstance(stop, str) else None, *used)
