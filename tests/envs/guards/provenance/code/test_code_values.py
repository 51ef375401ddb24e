"""Values as they are written: numbers, dates, times and durations."""

from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards.provenance.code.values import moment_of, read_values

NOW = datetime(2023, 11, 30)  # a Thursday


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("it is 98.70 EUR", "98.7"),
        ("costs $1,200.50 now", "1200.5"),
        ("1.200,50 €", "1200.5"),
        ("about 30k", "30000"),
        ("CHF 1'250", "1250"),
        ("take ten percent", "10"),
        ("a share of 15%", "0.15"),
        ("٤٢ seats", "42"),
    ],
)
def test_a_number_is_read_in_any_form(text: str, number: str) -> None:
    assert Decimal(number) in read_values(text, None).numbers


def test_a_number_inside_a_longer_one_or_a_word_is_none() -> None:
    numbers = read_values("k91 and 12345678901234567890 and 7.25", None).numbers
    assert Decimal(91) not in numbers
    assert Decimal(25) not in numbers
    assert Decimal(7) not in numbers


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("on May 15th, 2024", date(2024, 5, 15)),
        ("on 15 May", date(2024, 5, 15)),
        ("from the 13th to the 17th of May 2024", date(2024, 5, 13)),
        ("am 3. März 2024", date(2024, 3, 3)),
        ("2024年5月15日", date(2024, 5, 15)),
        ("15.05.2024", date(2024, 5, 15)),
        ("tomorrow at nine", date(2023, 12, 1)),
        ("next Monday", date(2023, 12, 4)),
        ("last Friday", date(2023, 11, 24)),
        ("in 3 days", date(2023, 12, 3)),
        ("two weeks ago", date(2023, 11, 16)),
        ("明天", date(2023, 12, 1)),
    ],
)
def test_a_date_is_read_in_any_form(text: str, day: date) -> None:
    assert read_values(text, NOW).stretch_of_day(day) is not None


def test_relative_dates_need_a_clock() -> None:
    assert not read_values("next Monday", None).days


def test_a_date_of_another_year_is_another_date() -> None:
    assert read_values("on May 15th, 2024", NOW).stretch_of_day(date(2023, 5, 15)) is None


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("for an hour", 60),
        ("a half-hour meeting", 30),
        ("half an hour", 30),
        ("90 minutes", 90),
        ("1 hour and 30 minutes", 90),
        ("two and a half hours", 150),
        ("2h", 120),
    ],
)
def test_a_duration_is_read_in_minutes(text: str, minutes: int) -> None:
    assert Decimal(minutes) in read_values(text, None).durations


@pytest.mark.parametrize(
    ("text", "minute"), [("at 12:00", 720), ("9am", 540), ("9:30 pm", 1290), ("at 3", 900), ("at noon", 720)]
)
def test_a_time_of_day_is_read_in_minutes(text: str, minute: int) -> None:
    assert minute in read_values(text, None).times


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2023-12-01 09:00:00", (date(2023, 12, 1), 540)),
        ("2023-12-01", (date(2023, 12, 1), None)),
        ("13:30", (None, 810)),
        ("May 15, 2024", (date(2024, 5, 15), None)),
        ("Ann", None),
        ("00000337", None),
        ("9" * 5000, None),
    ],
)
def test_a_value_is_a_moment_only_as_a_whole(value: str, moment: object) -> None:
    assert moment_of(value) == moment


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    found = read_values(text, NOW)
    for stretches in (found.numbers, found.days, found.times, found.durations):
        assert all(0 <= start < end <= len(text) for start, end in stretches.values())


@given(st.text())
def test_any_value_can_be_asked_for_its_moment(text: str) -> None:
    moment_of(text)


@given(st.dates(date(1990, 1, 1), date(2090, 1, 1)), st.sampled_from(["%Y-%m-%d", "%d %B %Y", "%B %d, %Y", "%d.%m.%Y"]))
def test_every_date_is_found_as_it_was_written(day: date, form: str) -> None:
    assert read_values(f"due {day.strftime(form)}.", None).stretch_of_day(day) is not None


@settings(max_examples=50)
@given(st.decimals(min_value=0, max_value=10**9, places=2))
def test_every_amount_is_found_as_it_was_written(amount: Decimal) -> None:
    for written in (f"{amount}", f"{amount:,}", f"${amount:,}"):
        assert amount.normalize() in read_values(f"pay {written} now", None).numbers


@pytest.mark.parametrize("unit", ["1 000 ", "1,1", "may ", "in 3 days ", "12:", "1-1-", "half an ", "\\", "٣", "a-"])
def test_a_text_made_to_cost_time_is_read_in_bounded_time(unit: str) -> None:
    found = read_values(unit * (200_000 // len(unit)), NOW)
    assert len(found.numbers) <= 5_000


def test_a_time_without_half_of_the_day_may_be_of_either_unless_it_is_written_with_a_zero() -> None:
    assert {210, 930} <= set(read_values("on December 8 at 3:30 with nia", None).times)
    assert set(read_values("2023-12-08 03:30:00", None).times) == {210}


@pytest.mark.parametrize("text", ["on 2024-05-15", "am 2024.05.15", "at 12:30", "at 09:30:15"])
def test_the_parts_of_a_date_or_time_are_no_numbers(text: str) -> None:
    assert not read_values(text, None).numbers


def test_a_number_beside_a_date_is_one() -> None:
    assert set(read_values("2024-05-15: 30 people, 12 to 14", None).numbers) == {Decimal(n) for n in (30, 12, 14)}


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("book one room", True),
        ("One hour is enough", True),
        ("the one you like", False),
        ("delete this one now", False),
        ("one of the rooms", False),
        ("each one knows", False),
        ("one more thing", False),
        ("someone calls", False),
    ],
)
def test_one_is_a_number_where_it_counts_and_not_as_a_pronoun(text: str, counts: bool) -> None:
    assert (Decimal(1) in read_values(text, None).numbers) is counts


@pytest.mark.parametrize("text", ["on 15\nMay 2024", "May\n15, 2024", "May 15,\n2024", "15 of\n   May\n2024"])
def test_a_date_that_a_line_end_breaks_is_read(text: str) -> None:
    assert read_values(text, None).stretch_of_day(date(2024, 5, 15)) is not None
    assert read_values(text, None).stretch_of_day(date(2023, 5, 15)) is None
