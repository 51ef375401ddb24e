"""A guard between an MCP client and any MCP server: `python -m demur.envs.guards.adapters.mcp_proxy … -- COMMAND`.

Put it where the client's settings name the server. The server is a command behind `--`, or `--url` of a streamable HTTP
server. Every call of a tool is put to the guard; all else passes unchanged. A call that is stopped gives the agent an
error result with the reason. In the mode `ask` the client's user is asked first, if the client offers elicitation.

  --guard provenance       where the call's values come from; needs --query or --query-file (the default)
  --guard contract         what the user's intent allows; needs --contract
  --guard my_pkg.mod:make  a function of yours that returns a guard; --guard may stand more than once, all have to agree

  --mode ask     as the guard says: some calls are put to the user
  --mode block   what would be asked is blocked
  --mode record  everything runs, and the log says what would have been stopped

Results of tools count as content that somebody else may have written, unless --trusted names the tool. Each tool
counts as one that changes something, unless --reading names it, or --trust-annotations takes the server's word.
Whatever goes wrong, the call is not made. Exit status 0: the client went away. 1: the server did. 2: bad input.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from demur.envs.endpoint import Endpoint
from demur.envs.guards import Guard, compose
from demur.envs.guards.adapters.audit import TIMEOUT, AuditFile, Mode, enforced
from demur.envs.guards.session import GuardSession
from demur.envs.intent.contract import IntentContract
from demur.envs.intent.guard import ContractGuard

PROGRAM = "python -m demur.envs.guards.adapters.mcp_proxy"


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)  # the standard output belongs to the client
    try:
        return _run(options)
    except ValueError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    """Raises ValueError for what can't be served."""
    if bool(options.command) == bool(options.url):
        raise ValueError("name the server: its command behind --, or --url, and not both")
    if missing := [package for package in ("mcp", "sqlalchemy") if find_spec(package) is None]:
        raise ValueError(f"the proxy needs {' and '.join(missing)}: pip install 'demur[mcp]'")
    query = _query(options)
    query()  # now, since later nobody reads what is wrong with it
    contract = _contract(options.contract)
    guards = [_guard(name, options) for name in options.guard or ["provenance"]]
    log = AuditFile(options.log, caller=options.caller) if options.log else None
    guard = enforced(compose(*guards), mode=options.mode, log=log, timeout=options.timeout)
    try:
        import anyio

        return 0 if anyio.run(_serve, options, guard, query, contract) == "client" else 1
    except OSError as error:
        raise ValueError(f"the server can't be started: {error}") from error
    finally:
        if log is not None:
            log.close()


async def _serve(
    options: argparse.Namespace, guard: Guard, query: Callable[[], str], contract: IntentContract | None
) -> Literal["client", "server"]:
    from demur.envs.guards.adapters.mcp_relay import Relay, Streams
    from demur.envs.guards.adapters.mcp_stdio import stdio

    async with stdio() as client, _server(options) as server:

        async def confirm(question: str, call: Any) -> bool:
            return await relay.confirm(question, call)

        session = GuardSession(guard, query(), contract=contract, confirm=confirm)
        relay = Relay(
            session,
            client=client,
            server=Streams(*server),
            query=query,
            reading=options.reading,
            trust_annotations=options.trust_annotations,
        )
        return await relay.run()


@asynccontextmanager
async def _server(options: argparse.Namespace) -> AsyncIterator[Any]:
    """Raises OSError if the command can't be started."""
    if options.command:
        from mcp.client.stdio import StdioServerParameters, stdio_client

        command, *arguments = options.command
        # the client set the environment for the server, so the server gets all of it
        async with stdio_client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ))) as to:
            yield to
        return
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    headers = {"Authorization": f"Bearer {_key(options.bearer_env)}"} if options.bearer_env else None
    async with create_mcp_http_client(headers) as client, streamable_http_client(options.url, http_client=client) as to:
        yield to


def _key(variable: str) -> str:
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ValueError(f"the environment variable {variable} is not set; put the server's token there")
    return key


def _query(options: argparse.Namespace) -> Callable[[], str]:
    """Reads the file before each call, since the user may have said more."""
    if options.query_file is None:
        if options.query is None and "provenance" in (options.guard or ["provenance"]):
            raise ValueError("the guard has to know what the user asked for: add --query TEXT or --query-file FILE")
        text = options.query or ""
        return lambda: text
    path: Path = options.query_file

    def read() -> str:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"the query file {path} can't be read as text: {error}") from error

    return read


def _contract(path: Path | None) -> IntentContract | None:
    if path is None:
        return None
    try:
        return IntentContract.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ValueError(f"the contract {path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path} is no intent contract: {error}") from error


def _guard(name: str, options: argparse.Namespace) -> Guard:
    if name == "provenance":
        from demur.envs.guards.provenance import provenance_guard

        model = Endpoint(options.model, base_url=options.base_url) if options.model else None
        return provenance_guard(model, trusted=options.trusted)
    if name == "contract":
        if options.contract is None:
            raise ValueError("the guard 'contract' needs the user's intent: add --contract FILE, JSON")
        return ContractGuard()
    module, _, attribute = name.partition(":")
    try:
        make = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"there is no guard {name!r}: provenance, contract, or my_pkg.mod:make ({error})") from error
    made: Guard = make()
    return made


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("command", nargs="*", metavar="-- COMMAND", help="the server's command and its arguments")
    parser.add_argument("--url", help="a streamable HTTP server, in place of a command")
    parser.add_argument("--bearer-env", metavar="NAME", help="environment variable with the token for --url")
    parser.add_argument("--guard", action="append", metavar="NAME", help="see above")
    parser.add_argument("--mode", choices=get_args(Mode), default="ask", help="see above; ask by default")
    parser.add_argument("--query", metavar="TEXT", help="what the user asked the agent for")
    parser.add_argument("--query-file", type=Path, metavar="FILE", help="the same, read again before each call")
    parser.add_argument("--contract", type=Path, metavar="FILE", help="the user's intent contract, JSON")
    parser.add_argument("--model", help="model that the provenance guard asks where code can't decide")
    parser.add_argument("--base-url", metavar="URL", default="http://127.0.0.1:8000/v1", help="its endpoint")
    parser.add_argument("--reading", nargs="+", default=(), metavar="TOOL", help="tools that change nothing")
    parser.add_argument("--trusted", nargs="+", default=(), metavar="TOOL", help="tools with content of their own only")
    parser.add_argument("--trust-annotations", action="store_true", help="believe the server's readOnlyHint")
    parser.add_argument("--log", type=Path, metavar="FILE", help="hash-chained audit log, a record a line")
    parser.add_argument("--caller", default="mcp proxy", help="who the log says is calling")
    parser.add_argument("--timeout", type=float, default=TIMEOUT, metavar="S", help="seconds for one check")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
