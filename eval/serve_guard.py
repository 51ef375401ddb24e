"""Put a guard in front of a live agent: `python -m demur.eval.serve_guard` says how, for each kind of agent.

With arguments it starts the proxy for MCP servers, which takes them as they are:
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from demur.envs.guards.adapters import mcp_proxy

GUIDE: Final = """\
How to put a guard in front of a live agent. Each way asks the same guard before a tool runs, and if anything
goes wrong the tool does not run.

1. Any client of MCP servers (extra `mcp`). In the client's settings, in place of the server's command:

   {"mcpServers": {"mail": {
     "command": "PYTHON",
     "args": ["-m", "demur.eval.serve_guard", "--query-file", "query.txt", "--log", "audit.jsonl",
              "--reading", "search_emails", "--", "SERVER", "ARGUMENTS"]}}}

   A server on the web: "--url", "https://…/mcp" in place of "--" and all that follows.
   All options: PYTHON -m demur.eval.serve_guard --help

2. The OpenAI Agents SDK (extra `agents`):

   from demur.envs.guards.adapters.audit import AuditFile, enforced
   from demur.envs.guards.adapters.openai_agents import guard_function_tools
   from demur.envs.guards.provenance import provenance_guard
   from demur.envs.guards.session import GuardSession

   guard = enforced(provenance_guard(), mode="ask", log=AuditFile(Path("audit.jsonl")))
   session = GuardSession(guard, query, confirm=ask_the_user)
   agent = Agent(name="mail", tools=guard_function_tools(session, tools, reading={"search_emails"}))

3. inspect_ai (extra `inspect`), with `guard` as above:

   from demur.envs.guards.adapters.inspect_ai import guard_approver

   approver = guard_approver(guard, tools, reading={"search_emails"})
   Task(..., approval=[ApprovalPolicy(approver, "*"), ApprovalPolicy(human_approver(), "*")])

4. Functions of your own, and tools of LangChain or LlamaIndex, with `session` as above:

   from demur.envs.guards.decorator import guarded
   from demur.envs.guards.hooks import guard_tools

   @guarded(session)
   def send_email(to: str, body: str) -> str: ...

   tools = guard_tools(session, tools, reading={"search_emails"})

Modes: "ask" does as the guard says and puts some calls to the user, "block" blocks those, "record" lets all run and
writes down what would have been stopped. docs/live_guards.md has the details.
"""


def main(argv: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments:
        return mcp_proxy.main(arguments)
    print(GUIDE.replace("PYTHON", sys.executable), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
