"""WorkBench as a world: calls by the tools' own names, such as `email.send_email`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final

from demur.envs.suites.calls import keyword_call
from demur.envs.suites.workbench import customers, emails, events, project_tasks, visits
from demur.envs.suites.workbench.state import State
from demur.envs.suites.workbench.tools import workbench_tools
from demur.envs.tool import Tool, ToolError
from demur.envs.trace import ToolCall


def find_email_address(state: State, name: str = "") -> list[str] | str:
    """The company directory."""
    if not name:
        return "Name not provided."
    return [address for address in state.directory if name.lower() in address]


OPERATIONS: Final[dict[str, Callable[..., object]]] = {
    f"{sandbox}.{operation.__name__}": operation
    for sandbox, operations in {
        "email": (
            emails.get_email_information_by_id,
            emails.search_emails,
            emails.send_email,
            emails.delete_email,
            emails.forward_email,
            emails.reply_email,
        ),
        "calendar": (
            events.get_event_information_by_id,
            events.search_events,
            events.create_event,
            events.delete_event,
            events.update_event,
        ),
        "analytics": (
            visits.get_visitor_information_by_id,
            visits.total_visits_count,
            visits.engaged_users_count,
            visits.traffic_source_count,
            visits.get_average_session_duration,
            visits.create_plot,
        ),
        "project_management": (
            project_tasks.get_task_information_by_id,
            project_tasks.search_tasks,
            project_tasks.create_task,
            project_tasks.delete_task,
            project_tasks.update_task,
        ),
        "customer_relationship_manager": (
            customers.search_customers,
            customers.update_customer,
            customers.add_customer,
            customers.delete_customer,
        ),
        "company_directory": (find_email_address,),
    }.items()
    for operation in operations
}


class WorkBenchWorld(State):
    """The sandboxes with their tools. A tool that can not do what was asked says so in its result, as upstream."""

    @classmethod
    @cache
    def tools(cls) -> dict[str, Tool]:
        return dict(workbench_tools())

    def run(self, call: ToolCall) -> str:
        """Carry out a call. Every argument counts as text, and null as left out; the sandbox checks values itself.

        Raises ToolError for an unknown tool or parameter, and for a pattern or a date that can not be read.
        """
        name = call.name if self._shown_as is None else self._shown_as.get(call.name, "")
        tool = self.tools().get(name)
        if tool is None:
            raise ToolError(f"there is no tool {call.name!r}")
        for given in call.arguments.keys() - {parameter.name for parameter in tool.parameters}:
            raise ToolError(f"{call.name} has no parameter {given!r}")
        arguments = {key: str(value) for key, value in call.arguments.items() if value is not None}
        result = OPERATIONS[name](self, **arguments)
        return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def read_call(text: str) -> ToolCall | None:
    """A call as the benchmark writes it, `domain.tool.func(arg="value", …)`; None if it can not be read.

    Line breaks are escaped before, so that a text may hold them; one with bare quotation marks can not be read.
    """
    return keyword_call(text.replace("\n", "\\n"))


def play(initial: WorkBenchWorld, calls: Iterable[ToolCall]) -> WorkBenchWorld:
    """The state after the calls; upstream skips those that fail, and so does this."""
    state = initial.copy_state()
    for call in calls:
        try:
            state.run(call)
        except ToolError:
            continue
    return state


def replay(initial: WorkBenchWorld, calls: Iterable[str]) -> WorkBenchWorld:
    """The state after recorded calls, as the benchmark writes them; those that can not be read are skipped as well."""
    return play(initial, (call for call in map(read_call, calls) if call is not None))
