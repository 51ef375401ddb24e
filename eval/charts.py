"""The geometry of the report's charts: plain numbers that the template draws as SVG.

Coordinates are in the units of the chart's view box, from the top left corner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 560, 250
LEFT, RIGHT, TOP, BOTTOM = 44, 12, 12, 30


class Tick(NamedTuple):
    at: float
    text: str


class Series(NamedTuple):
    """values: one a step; None and infinite ones leave a gap. style: which colour and dash, 0 to 3."""

    name: str
    values: Sequence[float | None]
    style: int


class Line(NamedTuple):
    """path: the smoothed line, raw: the measured one, both as SVG path data. texts: a value a step."""

    name: str
    style: int
    path: str
    raw: str
    texts: list[str]
    last: str


class LineChart(NamedTuple):
    title: str
    lines: list[Line]
    steps: list[int]
    xs: list[float]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


class Bar(NamedTuple):
    """One part of a stacked bar; start and width in percent of the longest bar."""

    part: str
    tokens: float
    start: float
    width: float


def line_chart(title: str, steps: Sequence[int], series: Sequence[Series], *, percent: bool) -> LineChart:
    """A chart over steps. percent: values are shares, the axis goes from 0 to 1."""
    series = [Series(s.name, [_drawable(v) for v in s.values], s.style) for s in series]
    shown = [s for s in series if any(v is not None for v in s.values)]
    values = [v for s in shown for v in s.values if v is not None]
    ticks = [0.0, 0.25, 0.5, 0.75, 1.0] if percent else nice_ticks(min(values), max(values)) if values else [0.0]
    low, high = ticks[0], ticks[-1] if len(ticks) > 1 else ticks[0] + 1
    first, last = (steps[0], steps[-1]) if steps else (0, 1)

    def x(step: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (step - first) / max(1, last - first), 1)

    def y(value: float) -> float:
        inside = min(max(value, low), high)
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (inside - low) / (high - low), 1)

    xs = [x(step) for step in steps]
    lines = []
    for name, column, style in shown:
        texts = ["–" if v is None else _text(v, percent) for v in column]
        lines.append(
            Line(
                name,
                style,
                _path(xs, [None if v is None else y(v) for v in smooth(column)]),
                _path(xs, [None if v is None else y(v) for v in column]),
                texts,
                next(text for text in reversed(texts) if text != "–"),
            )
        )
    return LineChart(
        title,
        lines,
        list(steps),
        xs,
        [Tick(x(step), str(step)) for step in _step_ticks(first, last)],
        [Tick(y(tick), f"{tick:.0%}" if percent else f"{tick:g}") for tick in ticks],
    )


def stacked_bars(rows: Sequence[dict[str, float]]) -> list[list[Bar]]:
    """One stacked bar a row, out of parts by name, all on one scale."""
    longest = max((sum(row.values()) for row in rows), default=0.0) or 1.0
    bars = []
    for row in rows:
        start, bar = 0.0, []
        for part, tokens in row.items():
            width = 100 * tokens / longest
            bar.append(Bar(part, tokens, round(start, 2), round(width, 2)))
            start += width
        bars.append(bar)
    return bars


def smooth(values: Sequence[float | None]) -> list[float | None]:
    """A centred moving average over about a tenth of the steps, which also bridges short gaps."""
    reach = len(values) // 20
    found: list[float | None] = []
    for i in range(len(values)):
        near = [v for v in values[max(0, i - reach) : i + reach + 1] if v is not None]
        found.append(sum(near) / len(near) if near else None)
    return found


def nice_ticks(low: float, high: float, count: int = 4) -> list[float]:
    """About `count` round numbers that cover low to high; 0 is among them unless far away."""
    low, high = min(low, 0.0) if low < high / 2 or low < 0 else low, max(high, 0.0)
    span = max(high - low, 1e-6 * abs(high), 1e-6 * abs(low)) or 1.0
    span = max(span, 1e-9)  # finer steps would round to nothing
    power = 10.0 ** math.floor(math.log10(span / count))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m * count >= span * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, max(last, first + 1) + 1)]


def _step_ticks(first: int, last: int) -> list[int]:
    """The first step, and round ones."""
    if last <= first:
        return [first]
    ticks = nice_ticks(0, last)
    room = (ticks[1] - ticks[0]) / 2  # no tick so near the first that their numbers touch
    return [first, *(int(t) for t in ticks if t == int(t) and first + room <= t <= last)]


def _path(xs: Sequence[float], ys: Sequence[float | None]) -> str:
    """SVG path data; a lone point becomes a dot-long line, so that it shows."""
    commands, pen = [], False
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if y is None:
            pen = False
            continue
        alone = not pen and (i + 1 == len(ys) or ys[i + 1] is None)
        commands.append(f"{'L' if pen else 'M'}{x} {y}" + ("h.01" if alone else ""))
        pen = True
    return "".join(commands)


def _drawable(value: float | None) -> float | None:
    """None for what no axis can hold: infinite, not a number, or of a run that has blown up."""
    return value if value is not None and abs(value) <= 1e9 else None


def _text(value: float, percent: bool) -> str:
    return f"{value:.0%}" if percent else f"{value:.2f}"
