"""The proxy's own standard input and output as streams of MCP messages, one a line.

The transport of the package waits for a line in a thread, which keeps a proxy alive whose server has ended; and here
the last message is out before the process is. POSIX only.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO, Final

from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from demur.envs.guards.adapters.mcp_relay import Streams

LONGEST: Final = 64 * 2**20
"""Bytes of a line. A longer one ends the proxy."""


@asynccontextmanager
async def stdio() -> AsyncIterator[Streams]:
    """Meanwhile what anything else prints goes to the standard error.

    Raises ValueError if the standard input is a file and not a client.
    """
    reader = asyncio.StreamReader(limit=LONGEST)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    wire = os.dup(1)
    sys.stdout.flush()
    os.dup2(2, 1)
    try:
        with os.fdopen(wire, "wb", closefd=False) as out:
            yield Streams(_messages(reader), _Writer(out))
    finally:
        os.dup2(wire, 1)
        os.close(wire)
        transport.close()


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[SessionMessage | Exception]:
    async for line in reader:
        item: SessionMessage | Exception
        try:
            item = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError as error:
            item = error
        yield item


class _Writer:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._one_at_a_time = asyncio.Lock()

    async def send(self, item: Any) -> None:
        """A client that is gone gets nothing; its end is seen where it is read from."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        async with self._one_at_a_time:
            await asyncio.to_thread(self._write, text.encode() + b"\n")

    def _write(self, line: bytes) -> None:
        try:
            self._out.write(line)
            self._out.flush()
        except BrokenPipeError:
            return
