"""Stands between an MCP client and its server: passes each message on, and puts each call of a tool to the guard first.

    relay = Relay(session, client=streams_to_the_client, server=streams_to_the_server)
    ended = await relay.run()          # "client" or "server": who went away

Works on messages, not on features: whatever is no `tools/call` goes through unread, so that resources, prompts,
sampling, progress and what a later version adds behave as without it. The exception is `server/discover`, which is
turned away, since from it on there is no handshake that says whether the client can ask its user.
Needs the package `mcp`, with streams as its transports give them.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Collection
from typing import Any, Final, Literal, NamedTuple
from uuid import uuid4

import anyio
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import ErrorData, JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from demur.envs.guards.calls import plain
from demur.envs.guards.hooks import described
from demur.envs.guards.session import Attempt, CallStopped, GuardSession
from demur.envs.tool import Tool
from demur.envs.trace import Level, ToolCall, Verdict

_log = logging.getLogger(__name__)

SERVER_ENDED: Final = -32000
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
_GONE = (anyio.ClosedResourceError, anyio.BrokenResourceError)
_PAGES: Final = 100
_FORM: Final = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Make this call", "default": False}},
    "required": ["confirm"],
}

Id = str | int


class Streams(NamedTuple):
    """What a transport of the package gives: messages, or the error of one that can't be read; and where to send."""

    read: Any
    write: Any


class ServerGone(RuntimeError):
    """The server ended, did not answer in time, or gave an error."""


class Relay:
    """session: whose guard is asked. Its `tools` are taken from the server, and again when that says they changed.

    query: gives the user's request before each call, where it can change. reading: names of tools that change nothing.
    trust_annotations: take the server's word (`readOnlyHint`) for it as well; of any other tool it is assumed that it
    may. timeout: seconds for the server to list its tools.
    """

    def __init__(
        self,
        session: GuardSession,
        *,
        client: Streams,
        server: Streams,
        query: Callable[[], str] | None = None,
        reading: Collection[str] = (),
        trust_annotations: bool = False,
        timeout: float = 30.0,
    ) -> None:
        self._session, self._client, self._server, self._query = session, client, server, query
        self._reading, self._trust_annotations, self._timeout = frozenset(reading), trust_annotations, timeout
        self._checking: dict[Id, anyio.CancelScope] = {}
        self._running: dict[Id, Attempt] = {}
        self._passed: set[Id] = set()  # requests of the client that the server has to answer
        self._asked: dict[Id, asyncio.Future[dict[str, Any]]] = {}  # requests of our own, to either side
        self._listed = False
        self._listing = anyio.Lock()
        self._initialize: Id | None = None
        self._headers: dict[str, str] = {}
        self._elicits = False

    async def run(self) -> Literal["client", "server"]:
        """Returns when one side has gone. Every call that is on its way then is answered with an error."""
        ended: Literal["client", "server"] = "client"
        async with anyio.create_task_group() as tasks:

            async def server() -> None:
                nonlocal ended
                await self._from_server()
                ended = "server"
                await self._answer_all()
                tasks.cancel_scope.cancel()

            tasks.start_soon(server)
            await self._from_client(tasks)
            tasks.cancel_scope.cancel()
        return ended

    async def confirm(self, question: str, call: ToolCall) -> bool:
        """Ask the client's user by elicitation, for `GuardSession(confirm=…)`. False if it does not offer that."""
        if not self._elicits:
            return False
        shown = json.dumps(call.arguments, ensure_ascii=False)
        asked = {"message": f"{question}\n\nThe call: {call.name} {shown}", "requestedSchema": _FORM}
        answer = await self._ask(self._client, "elicitation/create", asked)
        return answer.get("action") == "accept" and (answer.get("content") or {}).get("confirm") is True

    # From the client

    async def _from_client(self, tasks: Any) -> None:
        async for item in self._client.read:
            if isinstance(item, Exception):
                _log.warning("a message of the client can't be read and was not passed on: %s", type(item).__name__)
                continue
            message = item.message
            if isinstance(message, JSONRPCRequest):
                await self._request(message, tasks)
            elif isinstance(message, JSONRPCNotification):
                if not self._cancelled(message):
                    await self._to_server(message)
            elif not self._answered(message):
                await self._to_server(message)

    async def _request(self, message: JSONRPCRequest, tasks: Any) -> None:
        if message.id in self._checking or message.id in self._running or message.id in self._passed:
            await self._error(message.id, INVALID_REQUEST, "there is a request with this id already")
        elif message.method == "tools/call":
            self._checking[message.id] = anyio.CancelScope()
            tasks.start_soon(self._call, message)
        elif message.method == "server/discover":
            await self._error(message.id, METHOD_NOT_FOUND, "this proxy needs the handshake: send initialize")
        else:
            if message.method == "initialize":
                self._initialize = message.id
                self._elicits = _offers_forms(message.params or {})
            self._passed.add(message.id)
            await self._to_server(message)

    def _cancelled(self, message: JSONRPCNotification) -> bool:
        """Whether it takes back a call that the server does not know of yet."""
        number = (message.params or {}).get("requestId") if message.method == "notifications/cancelled" else None
        scope = self._checking.get(number) if isinstance(number, str | int) else None
        if scope is not None:
            scope.cancel()
        return scope is not None

    async def _call(self, message: JSONRPCRequest) -> None:
        params = message.params or {}
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            del self._checking[message.id]
            await self._error(message.id, INVALID_PARAMS, "tools/call needs a name, and arguments as an object")
            return
        attempt = Attempt(ToolCall(name=name))
        answer: dict[str, Any] | None = None
        try:
            with self._checking[message.id] as scope:
                answer = await self._checked(attempt, arguments or {})
        except BaseException as error:
            await self._settle(attempt, error)
            raise
        finally:
            del self._checking[message.id]
        if scope.cancel_called:
            await self._settle(attempt, asyncio.CancelledError("the client took the call back"))
        elif answer is not None:
            await self._to_client(JSONRPCResponse(jsonrpc="2.0", id=message.id, result=answer))
        else:
            self._running[message.id] = attempt
            await self._to_server(message)

    async def _checked(self, attempt: Attempt, arguments: dict[str, Any]) -> dict[str, Any] | None:
        """What to answer in the server's place; None if the call may run."""
        try:
            attempt.call = ToolCall(name=attempt.call.name, arguments=plain(arguments))
            await self._list_tools()
            if self._query is not None:
                self._session.query = self._query()
            await self._session.admit(attempt)
            return None
        except CallStopped as stopped:
            await self._settle(attempt, stopped)
            return _not_made(stopped.verdict, self._elicits)
        except Exception as error:  # whatever it is, the call must not run
            await self._settle(attempt, error)
            reason = f"it could not be checked: {type(error).__name__}: {error}"
            return _not_made(Verdict(level=Level.BLOCK, guard="proxy", stage="error", reason=reason), self._elicits)

    async def _settle(self, attempt: Attempt, error: BaseException) -> None:
        with anyio.CancelScope(shield=True):
            await self._session.settle(attempt, error, ok=False)

    async def _list_tools(self) -> None:
        """Raises ServerGone, and ValueError for a list without end."""
        async with self._listing:
            if self._listed:
                return
            self._listed = True  # first, so that a change announced meanwhile is not lost
            try:
                self._session.tools = await self._tools()
            except BaseException:
                self._listed = False
                raise

    async def _tools(self) -> dict[str, Tool]:
        tools: dict[str, Tool] = {}
        cursor: dict[str, Any] = {}
        async with asyncio.timeout(self._timeout):
            for _ in range(_PAGES):
                page = await self._ask(self._server, "tools/list", cursor)
                for told in page.get("tools", ()):
                    tools[told["name"]] = self._described(told)
                if not page.get("nextCursor"):
                    return tools
                cursor = {"cursor": page["nextCursor"]}
        raise ValueError(f"the server's list of tools has more than {_PAGES} pages")

    def _described(self, told: dict[str, Any]) -> Tool:
        name, hints = told["name"], told.get("annotations") or {}
        reads = name in self._reading or (self._trust_annotations and hints.get("readOnlyHint") is True)
        return described(name, told.get("description") or "", told.get("inputSchema") or {}, changes=not reads)

    # From the server

    async def _from_server(self) -> None:
        async for item in self._server.read:
            if isinstance(item, Exception):
                _log.warning("a message of the server can't be read and was not passed on: %s", type(item).__name__)
                continue
            message = item.message
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                if self._answered(message):
                    continue
                await self._note(message)
            elif message.method == "notifications/tools/list_changed":
                self._listed = False
            await self._to_client(message)

    async def _note(self, message: JSONRPCResponse | JSONRPCError) -> None:
        """What came of a call stands in the history before the client can make the next one."""
        if message.id is None:
            return
        self._passed.discard(message.id)
        if attempt := self._running.pop(message.id, None):
            if isinstance(message, JSONRPCError):
                await self._session.settle(attempt, message.error.message, ok=False)
            else:
                ok = message.result.get("isError") is not True
                await self._session.settle(attempt, _text(message.result), ok=ok)
        elif message.id == self._initialize and isinstance(message, JSONRPCResponse):
            self._initialize = None
            version = message.result.get("protocolVersion")
            self._headers = {"mcp-protocol-version": version} if isinstance(version, str) else {}

    async def _answer_all(self) -> None:
        """The server is gone: nobody is left waiting for it."""
        waiting = [*self._running, *self._passed, *self._checking]
        for scope in self._checking.values():
            scope.cancel()
        for future in self._asked.values():
            if not future.done():
                future.set_exception(ServerGone("the server ended"))
        for attempt in self._running.values():
            await self._settle(attempt, ServerGone("the server ended; the call may have been carried out"))
        for number in waiting:
            await self._error(number, SERVER_ENDED, "the server ended; a call that it had begun may be carried out")

    # Sending

    def _answered(self, message: JSONRPCResponse | JSONRPCError) -> bool:
        """Whether it answers a request of our own."""
        future = None if message.id is None else self._asked.get(message.id)
        if future is None:
            return False
        if not future.done():
            if isinstance(message, JSONRPCError):
                future.set_exception(ServerGone(f"the answer is an error: {message.error.message}"))
            else:
                future.set_result(message.result)
        return True

    async def _ask(self, side: Streams, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """A request of our own. Its id can't be guessed, so that the other side can't answer in its place."""
        number = f"demur-{uuid4().hex}"
        self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            request = JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)
            await (self._to_server(request) if side is self._server else self._to_client(request))
            return await self._asked[number]
        finally:
            del self._asked[number]

    async def _to_server(self, message: JSONRPCMessage) -> None:
        metadata = ClientMessageMetadata(headers=dict(self._headers)) if self._headers else None
        try:
            await self._server.write.send(SessionMessage(message, metadata))
        except _GONE:  # those who wait are answered when the end of its messages is seen
            _log.warning("the server is gone: a message was not passed on")

    async def _to_client(self, message: JSONRPCMessage) -> None:
        try:
            await self._client.write.send(SessionMessage(message))
        except _GONE:
            _log.warning("the client is gone: a message was not passed on")

    async def _error(self, number: Id, code: int, text: str) -> None:
        await self._to_client(JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=text)))


def _offers_forms(params: dict[str, Any]) -> bool:
    """Whether the client can put a form to its user. An empty capability means forms, as before there were others."""
    offered = (params.get("capabilities") or {}).get("elicitation")
    return isinstance(offered, dict) and (not offered or "form" in offered)


def _not_made(verdict: Verdict, elicits: bool) -> dict[str, Any]:
    text = f"The call was not made: {verdict.reason}"
    if verdict.level is Level.ASK:
        asked = "The user was asked and did not say yes" if elicits else "Ask the user"
        text = f"{text}\n{asked}: {verdict.question or verdict.reason}"
    said = {"level": verdict.level, "guard": verdict.guard, "stage": verdict.stage, "relation": verdict.relation}
    told = {"demur/verdict": {key: value for key, value in said.items() if value is not None}}
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": told}


def _text(result: dict[str, Any]) -> str:
    """A tool's result as the agent reads it; what is no text, as JSON."""
    parts = result.get("content")
    found = [part.get("text") for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    texts = [text for text in found if isinstance(text, str)]
    if texts and len(texts) == len(found):
        return "\n".join(texts)
    return json.dumps(result, ensure_ascii=False)
