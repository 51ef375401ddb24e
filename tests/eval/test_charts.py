"""The geometry of the charts: inside the frame, gaps stay gaps, ticks are round."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.eval.charts import HEIGHT, LEFT, WIDTH, Series, line_chart, nice_ticks, smooth, stacked_bars

Value = float | None
numbers = st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.floats(-5, 5)


@given(st.lists(st.tuples(numbers, numbers), max_size=40), st.booleans())
def test_every_point_lies_inside_the_frame(rows: list[tuple[Value, Value]], percent: bool) -> None:
    first, second = zip(*rows, strict=True) if rows else ((), ())
    series = [Series("a", first, 0), Series("b", second, 1)]
    chart = line_chart("x", list(range(1, len(rows) + 1)), series, percent=percent)
    assert all(line.last != "–" for line in chart.lines), "a line without a value is left out"
    for line in chart.lines:
        assert len(line.texts) == len(chart.steps) == len(chart.xs)
        for x, y in re.findall(r"[ML]([-\d.e+]+) ([-\d.e+]+)", line.path + line.raw):
            assert LEFT <= float(x) <= WIDTH
            assert 0 <= float(y) <= HEIGHT


def test_a_missing_value_is_a_gap_and_a_lone_one_a_dot() -> None:
    (line,) = line_chart("x", [1, 2, 3], [Series("a", [0.5, None, 0.75], 0)], percent=True).lines
    assert line.raw.count("M") == 2
    assert line.raw.count("h.01") == 2
    assert line.texts == ["50%", "–", "75%"]


def test_smoothing_bridges_a_short_gap_and_keeps_a_constant() -> None:
    values: list[float | None] = [0.5] * 60
    values[30] = None
    assert smooth(values) == pytest.approx([0.5] * 60)
    assert smooth([None, 1.0, None]) == [None, 1.0, None], "too few steps to smooth over"


@given(st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_ticks_cover_the_range_with_few_equal_steps(low: float, span: float) -> None:
    ticks = nice_ticks(low, low + span)
    assert ticks[0] <= low + 1e-6 * max(1, abs(low))
    assert ticks[-1] >= low + span - 1e-6 * max(1, abs(low + span))
    assert 2 <= len(ticks) <= 8
    steps = [b - a for a, b in pairwise(ticks)]
    assert all(math.isclose(step, steps[0], rel_tol=1e-6, abs_tol=1e-9) for step in steps)


def test_steps_are_labelled_with_the_first_and_round_ones() -> None:
    chart = line_chart("x", list(range(1, 61)), [Series("a", [1.0] * 60, 0)], percent=True)
    assert [tick.text for tick in chart.x_ticks] == ["1", "20", "40", "60"]
    one = line_chart("x", [5], [Series("a", [1.0], 0)], percent=True)
    assert [tick.text for tick in one.x_ticks] == ["5"]


def test_stacked_bars_share_one_scale() -> None:
    before, after = stacked_bars([{"plan": 30, "check": 10}, {"plan": 10, "check": 10}])
    assert [(bar.start, bar.width) for bar in before] == [(0, 75), (75, 25)]
    assert [(bar.start, bar.width) for bar in after] == [(0, 25), (25, 25)]
    assert stacked_bars([{"plan": 0}])[0][0].width == 0
