"""The project management sandbox."""

from __future__ import annotations

from typing import Final

from demur.envs.suites.workbench.state import Cells, State
from demur.envs.suites.workbench.tables import (
    append,
    change,
    field_of,
    keys_of,
    matching,
    next_number,
    quoted,
    remove,
    rows,
)

LISTS: Final = ("Backlog", "In Progress", "In Review", "Completed")
BOARDS: Final = ("Back end", "Front end", "Design")
COLUMNS: Final = ("task_id", "task_name", "assigned_to_email", "list_name", "due_date", "board")


def get_task_information_by_id(state: State, task_id: str = "", field: str = "") -> Cells | str:
    return field_of(state.project_tasks, "Task", "task_id", task_id, field)


def search_tasks(
    state: State,
    task_name: str = "",
    assigned_to_email: str = "",
    list_name: str = "",
    due_date: str = "",
    board: str = "",
) -> list[Cells] | str:
    """All tasks found, unlike other searches."""
    patterns = {
        "task_name": task_name,
        "assigned_to_email": assigned_to_email,
        "list_name": list_name,
        "due_date": due_date,
        "board": board,
    }
    if not any(patterns.values()):
        return "No search parameters provided."
    return list(matching(rows(state.project_tasks), patterns))


def create_task(
    state: State,
    task_name: str = "",
    assigned_to_email: str = "",
    list_name: str = "",
    due_date: str = "",
    board: str = "",
) -> str:
    if not all((task_name, assigned_to_email, list_name, due_date, board)):
        return "Missing task details."
    assignee = assigned_to_email.lower()
    for field, value in (("assigned_to_email", assignee), ("list_name", list_name), ("board", board)):
        if problem := _problem(state, field, value):
            return problem
    task_id = f"{next_number(state.project_tasks, 'task_id'):08d}"
    values = (task_id, task_name, assignee, list_name, due_date, board)
    append(state, state.project_tasks, dict(zip(COLUMNS, values, strict=True)))
    return task_id


def delete_task(state: State, task_id: str = "") -> str:
    return remove(state.project_tasks, "Task", "task_id", task_id)


def update_task(state: State, task_id: str = "", field: str = "", new_value: str = "") -> str:
    if not task_id or not field or not new_value:
        return "Task ID, field, or new value not provided."
    value = new_value.lower() if field == "assigned_to_email" else new_value
    if problem := _problem(state, field, value):
        return problem
    found = keys_of(state.project_tasks, "task_id", task_id)
    if not found:
        return "Task not found."
    if field not in COLUMNS:
        return "Field not valid."
    change(state.project_tasks, found, field, value)
    return "Task updated successfully."


def _problem(state: State, field: str, value: str) -> str | None:
    """Why a field can not have a value. Somebody can only be given a task who already has one."""
    if field == "assigned_to_email" and not keys_of(state.project_tasks, field, value):
        return "Assignee email not valid. Please choose from the list of team members."
    if field == "list_name" and value not in LISTS:
        return f"List not valid. Please choose from: {quoted(LISTS)}."
    if field == "board" and value not in BOARDS:
        return f"Board not valid. Please choose from: {quoted(BOARDS)}."
    return None
