"""A made-up desk of tools, and the shipped guard without a model, for one question: does this call run?"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from demur.envs.guards import Context
from demur.envs.guards.provenance import provenance_guard
from demur.envs.guards.provenance.code.texts import Texts
from demur.envs.guards.provenance.code.tracing import Tracer
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.relations import Examination, Relation
from demur.envs.guards.provenance.sources import sources_of
from demur.envs.tool import Tool
from demur.envs.trace import ToolCall, Turn
from tests.envs.guards.provenance.scripted import parameter, result

NOW = datetime(2024, 5, 15, 8)  # a Wednesday


def tool(name: str, description: str, *parameters: str, changes: bool = True) -> Tool:
    """Parameters called `text` are free text; `amount` and `degrees` are numbers."""
    made = (
        parameter(
            one,
            "generative" if one == "text" else "derivable",
            type="number" if one in ("amount", "degrees") else "string",
        )
        for one in parameters
    )
    return Tool(name=name, description=description, parameters=tuple(made), changes=changes)


TOOLS = {
    one.name: one
    for one in (
        tool("find_user", "Look up a user.", "name", changes=False),
        tool("search_files", "Search files.", "words", changes=False),
        tool("find_orders", "Look up the orders of a customer.", "customer", changes=False),
        tool("list_channels", "List the channels.", changes=False),
        tool("read_page", "Read a web page.", "url", changes=False),
        tool("stop_sharing", "Stop sharing a file with a user.", "path", "user"),
        tool("rename_file", "Rename a file.", "path", "new_name"),
        tool("send_mail", "Send a mail to an address.", "to", "subject", "text"),
        tool("create_event", "Create an event.", "title", "start_time", "location"),
        tool("pay", "Pay money to an account.", "account", "amount"),
        tool("refund_order", "Refund an order: pay its money back.", "order_id", "amount"),
        tool("give_voucher", "Give a customer a voucher.", "customer", "amount"),
        tool("post_message", "Post a message in a channel.", "channel", "text"),
        tool("set_temperature", "Set the temperature of a room.", "room", "degrees"),
        tool("open_ticket", "Open a ticket.", "title", "priority"),
    )
}


def context(query: str, *history: Turn, plan: str = "go on", tools: dict[str, Tool] = TOOLS, **more: Any) -> Context:
    fields: dict[str, Any] = {"query": query, "tools": tools, "history": history, "plan": plan, "now": NOW}
    return Context(**fields | more)


def examine(known: Context, proposed: ToolCall) -> Examination:
    return asyncio.run(provenance_guard().examine(known, proposed))


def runs(query: str, proposed: ToolCall, *history: Turn, **more: Any) -> bool:
    """Whether the guard lets it run. A check that fails is no answer."""
    done = examine(context(query, *history, **more), proposed)
    assert done.stage != "error", done.verdict.reason
    return done.verdict.level.lets_run


def asked(known: Context, proposed: ToolCall) -> tuple[Question, Tracer]:
    """What a decider of CanAddress is given."""
    question = Question(relation=Relation.CAN_ADDRESS, context=known, call=proposed, subtask=known.plan)
    return question, Tracer(sources_of(known), Texts(), known.now)


def seconds(known: Context, proposed: ToolCall) -> float:
    """Of the processor, for one check, which must not fail."""
    began = time.process_time()
    done = examine(known, proposed)
    assert done.stage != "error", done.verdict.reason
    return time.process_time() - began


def found(text: str, tool_name: str, /, **arguments: Any) -> Turn:
    return result(text, ToolCall(name=tool_name, arguments=arguments))


UNITS: Sequence[str] = (
    "a",
    "a ",
    "1 ",
    "0.",
    "1-1-",
    "'",
    '"',
    "one ",
    "a@a.a@",
    "TODO: send it. ",
    "May 1\n",
    "by 5 ",
    "请",
)
"""What a text of one megabyte is made of, where it is made to cost time."""


def megabyte(unit: str) -> str:
    return unit * (1_000_000 // len(unit))
