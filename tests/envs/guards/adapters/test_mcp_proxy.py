"""The proxy as a program: between a real client and a real server, and what it says to bad input."""

import asyncio
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from demur.envs.guards.adapters import mcp_proxy
from demur.envs.guards.adapters.audit import AuditFile
from demur.eval import serve_guard

pytest.importorskip("mcp", reason="the proxy needs the package mcp")
pytest.importorskip("sqlalchemy", reason="the audit log needs the package sqlalchemy")

SERVER = """
    import os
    import sys

    from mcp.server.mcpserver import MCPServer

    server = MCPServer("shop")

    @server.tool()
    def look(name: str) -> str:
        return f"3 {name}"

    @server.tool()
    def drop(name: str) -> str:
        return f"dropped {name}"

    @server.tool()
    def die() -> str:
        os._exit(3)

    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
"""
CONTRACT = """{"goal": "look", "allowed": [{"tool": "look"}, {"tool": "die"}]}"""


@pytest.fixture
def server(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(textwrap.dedent(SERVER))
    (tmp_path / "contract.json").write_text(CONTRACT)
    return path


def through(arguments: list[str], talk: Callable[[Any], Any]) -> None:
    """A client's session with the program `serve_guard` and these arguments."""
    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client

    async def session() -> None:
        command = ["-m", "demur.eval.serve_guard", *arguments]
        parameters = StdioServerParameters(command=sys.executable, args=command)
        async with asyncio.timeout(100), stdio_client(parameters) as streams, ClientSession(*streams) as client:
            await client.initialize()
            await talk(client)

    asyncio.run(session())


@pytest.mark.slow
def test_calls_to_a_command_are_checked_and_logged_and_its_death_is_seen(server: Path, tmp_path: Path) -> None:
    log = tmp_path / "audit.jsonl"

    async def talk(client: Any) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["look", "drop", "die"]
        assert (await client.call_tool("look", {"name": "nails"})).content[0].text == "3 nails"
        stopped = await client.call_tool("drop", {"name": "nails"})
        assert stopped.is_error and "not made" in stopped.content[0].text
        with pytest.raises(Exception, match="the server ended"):
            await client.call_tool("die", {})

    contract = str(tmp_path / "contract.json")
    options = ["--guard", "contract", "--contract", contract, "--log", str(log), "--", sys.executable, str(server)]
    through(options, talk)
    rows = log.read_text()
    assert AuditFile.verify(log) is None
    assert [rows.count(f'"event":"{event}"') for event in ("checked", "ran")] == [3, 2]


@pytest.mark.slow
def test_calls_to_a_server_on_the_web_are_checked(server: Path, tmp_path: Path) -> None:
    import socket
    import subprocess

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, str(server), str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            asyncio.run(_listening(port))

            async def talk(client: Any) -> None:
                assert (await client.call_tool("look", {"name": "nails"})).content[0].text == "3 nails"
                assert (await client.call_tool("drop", {"name": "nails"})).is_error

            contract = str(tmp_path / "contract.json")
            url = f"http://127.0.0.1:{port}/mcp"
            through(["--guard", "contract", "--contract", contract, "--url", url], talk)
        finally:
            process.kill()


async def _listening(port: int) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name the server"),
        (["--url", "http://127.0.0.1/mcp", "--query", "q", "--", "x"], "and not both"),
        (["--", "x"], "add --query TEXT"),
        (["--guard", "contract", "--", "x"], "add --contract FILE"),
        (["--guard", "contract", "--contract", "none.json", "--", "x"], "can't be read"),
        (["--guard", "no_such:guard", "--", "x"], "there is no guard"),
        (["--guard", "contract", "--query-file", "none.txt", "--", "x"], "can't be read as text"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert mcp_proxy.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and said in err and err.count("\n") == 1


def test_a_command_that_cannot_be_started_is_one_line(tmp_path: Path, server: Path) -> None:
    import subprocess

    command = [sys.executable, "-m", "demur.envs.guards.adapters.mcp_proxy", "--guard", "contract"]
    command += ["--contract", str(tmp_path / "contract.json"), "--", str(tmp_path / "none")]
    ended = subprocess.run(command, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 2 and "can't be started" in ended.stderr, ended.stderr
    assert ended.stdout == "" and ended.stderr.count("\n") == 1


def test_without_arguments_serve_guard_says_how_to_connect(capsys: pytest.CaptureFixture[str]) -> None:
    assert serve_guard.main([]) == 0
    out = capsys.readouterr().out
    assert sys.executable in out and "mcpServers" in out and "guard_approver" in out


def test_help_of_serve_guard_is_the_proxy_s(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        serve_guard.main(["--help"])
    assert stop.value.code == 0 and "--query-file" in capsys.readouterr().out
