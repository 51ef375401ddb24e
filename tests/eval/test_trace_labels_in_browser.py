"""The page to label traces on, in a real browser, clicked through as people do; its files go through the import."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from demur.envs.tool import Tool
from demur.eval.trace_labels import disputed, read_adjudication, read_answers, write_trace_page
from demur.eval.traces.recorded import Recorded
from tests.eval.browser import Page, chromium_page
from tests.eval.runs import HOSTILE
from tests.eval.test_labels_in_browser import count, download, start
from tests.eval.test_report_in_browser import CONTRAST
from tests.eval.test_trace_labels import answers, some_traces

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    yield from chromium_page(tmp_path_factory.mktemp("profile"), "the page to label traces on")


@pytest.fixture
def traces(tmp_path: Path) -> list[Recorded]:
    return some_traces(tmp_path, 3)


@pytest.fixture
def page(chromium: Page, traces: list[Recorded], tmp_path: Path) -> Iterator[Page]:
    """The page, freshly opened; whatever a test does, the console must stay clean."""
    chromium.problems.clear()
    chromium.requests.clear()
    chromium.look()
    chromium.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    write_trace_page(tmp_path / "page.html", traces)
    chromium.open(tmp_path / "page.html")
    chromium.js("localStorage.clear()")
    yield chromium
    assert chromium.problems == []
    loaded = {url for url in chromium.requests if not url.startswith("blob:")}
    assert loaded <= {(tmp_path / name).as_uri() for name in ("page.html", "adjudicate.html")}, "it loads nothing else"


def test_labels_given_with_keys_and_buttons_come_back(page: Page, traces: list[Recorded], tmp_path: Path) -> None:
    start(page)
    assert count(page) == "trace 1 of 3, 0 labelled"
    assert page.js("document.getElementById('query').textContent") == traces[0].trajectory.query
    assert page.js("document.querySelectorAll('#wrong-steps button').length") == 2, "one a call, none for the answer"
    page.press("2")
    page.js("document.querySelector('[data-verdict=aligned]').click()")
    page.press("3")  # the answer: no call
    assert count(page) == "trace 3 of 3, 2 labelled"
    page.js("document.querySelector('[data-step=\"0\"]').click()")
    assert page.js("document.querySelector('.turn[data-wrong=true] .tool').textContent") == "search_guests"
    assert page.js("document.querySelector('[data-verdict=dropped]')") is None
    file = download(page, tmp_path / "trace-labels-anna.json")
    assert read_answers([file], traces) == answers(traces, anna="1a0")


def test_an_answer_can_be_changed_and_a_note_is_kept(page: Page, tmp_path: Path, traces: list[Recorded]) -> None:
    start(page)
    page.js("document.getElementById('note').focus()")
    for key in "01x":
        page.press(key)
    assert count(page) == "trace 1 of 3, 0 labelled"
    page.js("document.getElementById('note').blur()")
    page.press("1")
    page.press("ArrowLeft")
    assert page.js("document.getElementById('note').value") == "01x"
    page.press("0")
    saved = read_answers([download(page, tmp_path / "trace-labels-anna.json")], traces)["anna"]
    assert [(one.verdict, one.note) for one in saved.values()] == [("aligned", "01x")]


def test_work_goes_on_after_the_page_was_closed(page: Page, tmp_path: Path) -> None:
    start(page)
    page.press("1")
    page.press("0")
    page.open(tmp_path / "page.html")
    start(page, "ben")
    assert count(page) == "trace 1 of 3, 0 labelled"
    page.open(tmp_path / "page.html")
    start(page)
    assert count(page) == "trace 3 of 3, 2 labelled"


def test_the_tools_are_documented_on_demand(page: Page) -> None:
    start(page)
    assert not page.js("document.querySelector('#tools').checkVisibility()")
    page.press("t")
    assert page.js("document.querySelector('#tools').checkVisibility()")
    shown = page.js("document.querySelector('#tools').innerText")
    assert "remove_access" in shown and "Take a guest's access away." in shown and "guest_id" in shown


def test_adjudication_shows_both_answers_and_may_drop(page: Page, tmp_path: Path, traces: list[Recorded]) -> None:
    given = answers(traces, anna="11a", ben="1a1")
    open_traces = disputed(traces, given)
    write_trace_page(tmp_path / "adjudicate.html", open_traces, given)
    page.open(tmp_path / "adjudicate.html")
    start(page, "cleo")
    assert count(page) == "trace 1 of 2, 0 labelled"
    said = page.js("[...document.querySelectorAll('#answers li')].map(node => node.textContent)")
    assert said == ["anna: step 2 is the first wrong one", "ben: no call is wrong"]
    page.press("x")
    page.press("2")
    decided = read_adjudication(download(page, tmp_path / "adjudication-cleo.json"), traces)
    assert decided == answers(open_traces, cleo="x1")["cleo"]


def test_without_storage_a_hint_says_so_and_labels_can_be_saved(page: Page, tmp_path: Path) -> None:
    page.js("void Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } })")
    start(page)
    page.press("1")
    assert "keeps nothing" in page.js("document.getElementById('hint').innerText")
    assert len(json.loads(download(page, tmp_path / "trace-labels-anna.json").read_text("utf-8"))["labels"]) == 1


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_text_is_readable_and_nothing_overflows(page: Page, width: int, dark: bool) -> None:
    page.look(width=width, dark=dark)
    assert page.js(CONTRAST) == []
    start(page)
    page.press("t")
    page.press("1")
    page.press("ArrowLeft")
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.js(CONTRAST) == []


def test_hostile_texts_do_nothing(page: Page, traces: list[Recorded], tmp_path: Path) -> None:
    hostile = traces[0].trajectory.model_copy(update={"query": HOSTILE})
    tool = Tool(name=HOSTILE, description=HOSTILE)
    recorded = Recorded(trajectory=hostile, tools=(tool,))
    given = answers([recorded], **{HOSTILE: "1"})
    write_trace_page(tmp_path / "page.html", [recorded], given)
    page.open(tmp_path / "page.html")
    start(page)
    page.press("t")
    assert page.js("document.getElementById('query').textContent") == HOSTILE
    assert page.js("document.querySelector('#tools .tool').textContent") == HOSTILE
    assert page.js("document.querySelector('#answers strong').textContent") == HOSTILE
    assert page.js("document.querySelectorAll('#work :is(img, script, svg, b)').length") == 0
    assert page.js("window.pwned === undefined")
