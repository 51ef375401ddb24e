"""The analytics sandbox: visits of a site by day. Days are compared as texts, both ends included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from statistics import fmean
from typing import Final

from demur.envs.suites.workbench.state import Cells, State
from demur.envs.suites.workbench.tables import append, quoted

VALUES: Final = (
    "total_visits",
    "session_duration_seconds",
    "user_engaged",
    "visits_direct",
    "visits_referral",
    "visits_search_engine",
    "visits_social_media",
)
PLOT_TYPES: Final = ("bar", "line", "scatter", "histogram")


def get_visitor_information_by_id(state: State, visitor_id: str = "") -> list[dict[str, str | bool | None]] | str:
    if not visitor_id:
        return "Visitor ID not provided."
    found = [row.cells for row in state.visits if row.cells["visitor_id"] == visitor_id]
    return [{**cells, "user_engaged": _engaged(cells)} for cells in found] or "Visitor not found."


def total_visits_count(state: State, time_min: str = "", time_max: str = "") -> dict[str, int]:
    return _counted(state, time_min, time_max, lambda cells: True)


def engaged_users_count(state: State, time_min: str = "", time_max: str = "") -> dict[str, int]:
    return _counted(state, time_min, time_max, _engaged)


def traffic_source_count(
    state: State, time_min: str = "", time_max: str = "", traffic_source: str = ""
) -> dict[str, int]:
    return _counted(
        state, time_min, time_max, lambda cells: not traffic_source or cells["traffic_source"] == traffic_source
    )


def get_average_session_duration(state: State, time_min: str = "", time_max: str = "") -> dict[str, float]:
    by_day = _by_day(state, time_min, time_max)
    return {day: fmean(float(cells["session_duration_seconds"] or 0) for cells in by_day[day]) for day in by_day}


def create_plot(
    state: State, time_min: str = "", time_max: str = "", value_to_plot: str = "", plot_type: str = ""
) -> str:
    if not time_min:
        return "Start date not provided."
    if not time_max:
        return "End date not provided."
    if value_to_plot not in VALUES:
        # upstream's text, which leaves `visits_` out: agents saw it
        return f"Value to plot must be one of {quoted(map(_as_told, VALUES))}"
    if plot_type not in PLOT_TYPES:
        return f"Plot type must be one of {quoted(PLOT_TYPES)}"
    path = f"plots/{time_min}_{time_max}_{value_to_plot}_{plot_type}.png"
    append(state, state.plots, {"file_path": path})
    return path


def _by_day(state: State, time_min: str, time_max: str) -> dict[str, list[Cells]]:
    """The visits of each day that has any, days ascending."""
    found: defaultdict[str, list[Cells]] = defaultdict(list)
    for row in state.visits:
        day = row.cells["date_of_visit"] or ""
        if (not time_min or day >= time_min) and (not time_max or day <= time_max):
            found[day].append(row.cells)
    return dict(sorted(found.items()))


def _counted(state: State, time_min: str, time_max: str, counts: Callable[[Cells], bool]) -> dict[str, int]:
    """Days of which no visit counts have a 0: only days without visits are left out."""
    return {day: sum(map(counts, visits)) for day, visits in _by_day(state, time_min, time_max).items()}


def _as_told(value: str) -> str:
    return value.removeprefix("visits_").replace("_", " ") if value.startswith("visits_") else value


def _engaged(cells: Cells) -> bool:
    return cells["user_engaged"] == "True"
