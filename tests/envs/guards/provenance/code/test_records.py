"""Results as rows, with the place of each field."""

from __future__ import annotations

import json
import time
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.guards.provenance.code.records import rows_of, series_of
from demur.envs.guards.provenance.relations import Origin
from demur.envs.guards.provenance.sources import Source


def _source(text: str) -> Source:
    return Source(id="result:0", origin=Origin.UNTRUSTED, text=text)


@pytest.mark.parametrize(
    "text",
    [
        '[{"id": "a1", "name": "Ann"}, {"id": "b2", "name": "Bob"}]',
        '{"found": [{"id": "a1", "name": "Ann"}, {"id": "b2", "name": "Bob"}]}',
        "[{'id': 'a1', 'name': 'Ann'}, {'id': 'b2', 'name': 'Bob'}]",
        '[{"id": "a1", "name": "Ann"}, {"id": "b2", "name": "Bob"}, {"id": "c3", "na',
        "- id: a1\n  name: Ann\n- id: b2\n  name: Bob",
        "id,name\na1,Ann\nb2,Bob",
        "id | name\na1 | Ann\nb2 | Bob",
        "Id: a1, Name: Ann\nId: b2, Name: Bob",
        "a1, Ann\nb2, Bob",
    ],
)
def test_each_form_gives_the_same_values_and_their_places(text: str) -> None:
    rows = rows_of(_source(text))
    assert [[field.text for field in row.fields] for row in rows] == [["a1", "Ann"], ["b2", "Bob"]]
    assert all(text[field.start : field.end] == field.text for row in rows for field in row.fields)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("- id: m1\n  body: 'Hello.\n  id: none\n\n  Bye'\n- id: m2\n  body: x", "Hello. id: none Bye"),
        ('- id: m1\n  body: "Hello.\n  Bye\\"\n  more"\n- id: m2\n  body: x', 'Hello. Bye\\" more'),
        ("- id: m1\n  body: 'It''s late'\n- id: m2\n  body: x", "It''s late"),
        ("- id: m1\n  body: '\n  Hello'\n- id: m2\n  body: x", "Hello"),
    ],
)
def test_a_quoted_text_over_several_lines_is_one_field(text: str, body: str) -> None:
    rows = rows_of(_source(text))
    assert [[field.text.strip(" '\"") for field in row.fields] for row in rows] == [["m1", body], ["m2", "x"]]
    assert [text[row.fields[0].start : row.fields[0].end] for row in rows] == ["m1", "m2"]


def test_a_quote_that_never_ends_takes_the_rest_and_no_more_memory() -> None:
    (row,) = rows_of(_source("id: m1\nbody: 'x\n" + "line\n" * 30_000))
    assert [field.name for field in row.fields] == ["id", "body"] and len(row.fields[1].text) < 3_000


def test_numbers_by_day_are_a_series() -> None:
    assert series_of(_source('{"2024-05-13": 9, "2024-05-14": 4.5}')) == {date(2024, 5, 13): 9, date(2024, 5, 14): 4.5}
    assert series_of(_source('{"2024-05-13": "many"}')) == {}


def test_nothing_in_a_result_is_evaluated() -> None:
    text = "[__import__('os').getcwd()]"
    (row,) = rows_of(_source(text))
    assert row.start == 0 and row.end == len(text)


@pytest.mark.parametrize("text", ["[" * 100_000, "{" * 15_000, '[{"a": ' * 5_000, ", " * 100_000, "a: b\n" * 50_000])
def test_long_and_deep_results_take_bounded_time(text: str) -> None:
    began = time.process_time()
    assert len(rows_of(_source(text * 5))) <= 2_000
    assert time.process_time() - began < 3


@settings(max_examples=60, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=4), max_size=5), st.text())
def test_any_text_is_read(data: list[dict[str, str]], text: str) -> None:
    for one in (text, json.dumps(data), str(data)):
        for row in rows_of(_source(one)):
            span = row.span(_source(one))
            assert one[span.start : span.end] == span.text
