"""The page of a guard's verdicts in a real browser: lines from arguments to texts, filters, and hostile content."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demur.envs.guards.provenance.relations import Origin, Relation, Span
from demur.eval.guard_view import render
from tests.eval.browser import Page, chromium_page
from tests.eval.runs import HOSTILE
from tests.eval.test_report_in_browser import CONTRAST
from tests.eval.verdicts import FINDINGS, REFUSED, finding, make_case

pytestmark = [pytest.mark.browser, pytest.mark.slow]

DOCS = Span(source="docs:send", start=10, end=14, text="send", origin=Origin.DOCS)
CASES = (
    make_case("passes"),
    make_case("invented", REFUSED),
    make_case("documented", (*FINDINGS, finding(Relation.CAN_ADDRESS, "send", True, DOCS, by="model"))),
    make_case("failed", (), stage="error", level="block", reason="the check failed"),
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    yield from chromium_page(tmp_path_factory.mktemp("profile"), "the guard's page")


@pytest.fixture
def page(chromium: Page, tmp_path: Path) -> Iterator[Page]:
    """The page, freshly opened; whatever a test does, the console must stay clean."""
    chromium.problems.clear()
    chromium.requests.clear()
    chromium.look()
    file = tmp_path / "verdicts.html"
    file.write_text(render(CASES, "traces"), encoding="utf-8")
    chromium.open(file)
    yield chromium
    assert chromium.problems == []
    assert {url.partition("#")[0] for url in chromium.requests} == {file.as_uri()}, "it loads nothing else"


def pick(page: Page, name: str, value: str) -> Any:
    page.js(f"document.forms[0].{name}.value = '{value}'")
    page.js("document.forms[0].dispatchEvent(new Event('input', {bubbles: true}))")
    return page.js("[...document.querySelectorAll('#list .results')].map(node => node.textContent)")


# Where each line begins and ends, and the boxes of the argument and the text that it should join.
LINES = """[...document.querySelectorAll('.lines path')].map(path => {
  const frame = document.querySelector('.traced').getBoundingClientRect();
  const at = (length) => { const p = path.getPointAtLength(length); return [p.x + frame.left, p.y + frame.top]; };
  const inside = ([x, y], box) => x >= box.left - 4 && x <= box.right + 4 && y >= box.top - 4 && y <= box.bottom + 4;
  const number = path.dataset.line;
  const starts = [...document.querySelectorAll('[data-marks]')]
    .filter(node => JSON.parse(node.dataset.marks).some(mark => mark.number == number))
    .filter(node => inside(at(0), node.getBoundingClientRect()))
    .map(node => node.querySelector('.name').textContent);
  const mark = document.getElementById('mark-' + number);
  const ends = inside(at(path.getTotalLength()), mark.getBoundingClientRect());
  return [path.getAttribute('class'), starts, ends, mark.parentElement.textContent];
})"""


def test_a_line_leads_from_each_argument_to_the_text_it_came_from(page: Page) -> None:
    found = page.js(LINES)
    assert found == [
        ["untrusted", ["to"], True, "1ann.berg@nord.example"],
        ["user", ["day"], True, "2Monday"],
    ]
    page.look(width=1600)
    page.js("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    assert page.js(LINES) == found, "lines follow when the window changes"


def test_origins_can_be_told_without_colour(page: Page) -> None:
    told = page.js("[...document.querySelectorAll('.value .ref')].map(node => node.textContent)")
    assert told == ["1 result:0 (untrusted)", "2 query (user)"]
    styles = page.js("[...document.querySelectorAll('mark')].map(node => getComputedStyle(node).borderBottomStyle)")
    assert styles == ["solid", "dashed"]
    dashes = page.js("[...document.querySelectorAll('.lines path')].map(p => getComputedStyle(p).strokeDasharray)")
    assert dashes[0] != dashes[1]


def test_a_reference_leads_to_its_text(page: Page) -> None:
    page.js("document.querySelector('.value .ref').click()")
    assert page.js("location.hash") == "#mark-1"
    assert page.js("document.querySelector(':target').textContent") == "1"


def test_filters_go_by_verdict_stage_relation_and_text(page: Page) -> None:
    assert pick(page, "verdict", "misaligned") == ["invented", "failed"]
    assert pick(page, "stage", "II") == ["invented"]
    assert page.js("document.getElementById('count').value") == "1 case"
    assert "stands in no source" in page.js("document.getElementById('detail').innerText")
    pick(page, "stage", "")
    assert pick(page, "relation", "DerivedFrom") == ["invented"]
    pick(page, "relation", "")
    pick(page, "verdict", "")
    assert pick(page, "text", "docu") == ["documented"]
    assert pick(page, "text", "nothing has this") == []
    assert "No case fits" in page.js("document.getElementById('detail').innerText")


def test_relations_query_history_and_call_are_shown(page: Page) -> None:
    pick(page, "text", "documented")
    shown = page.js("document.getElementById('detail').innerText")
    for text in ("Write to Ann on Monday.", 'find(name="Ann")', "RelevantTo", "not decided", "CanAddress", "model"):
        assert text in shown
    assert page.js("document.querySelectorAll('.relations tbody tr').length") == len(FINDINGS) + 1
    page.js("[...document.querySelectorAll('.calls button')][0].click()")
    assert "find" in page.js("document.querySelector('.call h4').textContent")


def test_arrow_keys_move_through_the_list(page: Page) -> None:
    page.js("document.querySelector('#list [aria-current]').focus()")
    page.press("ArrowDown")
    assert page.js("document.activeElement.querySelector('.results').textContent") == "invented"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_text_is_readable_and_nothing_overflows(page: Page, width: int, dark: bool) -> None:
    page.look(width=width, dark=dark)
    for case in ("documented", "invented"):
        pick(page, "text", case)
        assert page.js(CONTRAST) == []
        assert page.js("document.documentElement.scrollWidth <= window.innerWidth")


def test_hostile_texts_do_nothing(chromium: Page, tmp_path: Path) -> None:
    chromium.problems.clear()
    span = Span(source="query", start=0, end=len(HOSTILE), text=HOSTILE, origin=Origin.USER)
    bad = finding(Relation.DERIVED_FROM, "to", False, span, reason=HOSTILE, question=HOSTILE)
    file = tmp_path / "hostile.html"
    file.write_text(render([make_case(HOSTILE, (bad,), query=HOSTILE, found=HOSTILE)], HOSTILE), encoding="utf-8")
    chromium.open(file)
    assert chromium.js("document.querySelector('#detail h3').textContent") == HOSTILE
    assert chromium.js("document.querySelector('mark').textContent") == "1" + HOSTILE
    assert chromium.js("document.querySelectorAll('.browser :is(img, script, svg:not(.lines), b)').length") == 0
    assert chromium.js("window.pwned === undefined")
    assert chromium.problems == []
