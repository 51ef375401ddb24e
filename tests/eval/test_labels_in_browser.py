"""The labels page in a real browser, clicked through as an annotator does; its file goes through the import."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from demur.eval.labels import TaskPair, read_labels, task_pairs, write_labels_page
from tests.eval.browser import Page, chromium_page
from tests.eval.runs import HOSTILE
from tests.eval.test_labels import some_pairs, traced
from tests.eval.test_report_in_browser import CONTRAST

pytestmark = [pytest.mark.browser, pytest.mark.slow]

TEXTS = "[...document.querySelectorAll('.side .action .body')].map(node => node.textContent)"


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    yield from chromium_page(tmp_path_factory.mktemp("profile"), "the labels page")


@pytest.fixture
def pairs() -> list[TaskPair]:
    return some_pairs(2)  # six pairs


@pytest.fixture
def page(chromium: Page, pairs: list[TaskPair], tmp_path: Path) -> Iterator[Page]:
    """The page, freshly opened; whatever a test does, the console must stay clean."""
    chromium.problems.clear()
    chromium.requests.clear()
    chromium.look()
    chromium.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    file = tmp_path / "labels.html"
    write_labels_page(file, pairs)
    chromium.open(file)
    chromium.js("localStorage.clear()")
    yield chromium
    assert chromium.problems == []
    assert {url for url in chromium.requests if not url.startswith("blob:")} == {file.as_uri()}, "it loads nothing else"


def start(page: Page, annotator: str = "anna") -> None:
    page.js(f"document.getElementById('annotator').value = {json.dumps(annotator)}")
    page.js("document.querySelector('#start button').click()")


def count(page: Page) -> str:
    return str(page.js("document.getElementById('count').value"))


def download(page: Page, file: Path) -> Path:
    page.js("document.getElementById('download').click()")
    deadline = time.monotonic() + 30
    while not file.is_file() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert file.is_file(), "the labels were not saved"
    return file


def test_labels_given_with_keys_and_buttons_come_back(page: Page, pairs: list[TaskPair], tmp_path: Path) -> None:
    start(page)
    assert count(page) == "pair 1 of 6, 0 labelled"
    expected = {}
    for at, (pair, verdict) in enumerate(zip(pairs, ("1", "2", "0", "left", "right", "tie"), strict=True)):
        left = page.js(TEXTS)[0]
        is_first = left == pair.first.turns[0].action.text
        assert is_first or left == pair.second.turns[0].action.text
        if at < 3:
            page.press(verdict)
        else:
            page.js(f"document.querySelector('[data-verdict={verdict}]').click()")
        for_left = {"1": 1.0, "left": 1.0, "2": 0.0, "right": 0.0}.get(verdict, 0.5)
        expected[pair.id] = for_left if is_first else 1 - for_left
    assert count(page) == "pair 6 of 6, 6 labelled"
    file = download(page, tmp_path / "labels-anna.json")
    assert read_labels([file], pairs) == {"anna": expected}


def test_a_note_is_kept_and_keys_in_it_are_no_verdicts(page: Page, pairs: list[TaskPair], tmp_path: Path) -> None:
    start(page)
    page.js("document.getElementById('note').focus()")
    for key in "01 2":
        page.press(key)
    assert count(page) == "pair 1 of 6, 0 labelled"
    page.js("document.getElementById('note').blur()")
    page.press("0")
    page.press("ArrowLeft")
    assert page.js("document.getElementById('note').value") == "01 2"
    assert page.js("document.querySelector('[aria-pressed=true]').dataset.verdict") == "tie"
    saved = json.loads(download(page, tmp_path / "labels-anna.json").read_text(encoding="utf-8"))
    assert [(row["pair"], row["verdict"], row["note"]) for row in saved["labels"]] == [(pairs[0].id, "tie", "01 2")]
    page.press("2")
    assert count(page) == "pair 2 of 6, 1 labelled", "a verdict can be changed"


def test_work_goes_on_after_the_page_was_closed(page: Page, tmp_path: Path) -> None:
    start(page)
    page.press("1")
    page.press("1")
    page.open(tmp_path / "labels.html")
    start(page, "ben")
    assert count(page) == "pair 1 of 6, 0 labelled"
    page.open(tmp_path / "labels.html")
    start(page)
    assert count(page) == "pair 3 of 6, 2 labelled"


def test_the_sides_depend_on_the_annotator(page: Page, tmp_path: Path) -> None:
    sides = set()
    for annotator in "abcdefgh":
        page.open(tmp_path / "labels.html")
        start(page, annotator)
        sides.add(tuple(page.js(TEXTS)))
    assert len(sides) == 2


def test_without_storage_a_hint_says_so_and_labels_can_be_saved(page: Page, tmp_path: Path) -> None:
    page.js("void Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } })")
    start(page)
    page.press("1")
    assert "keeps nothing" in page.js("document.getElementById('hint').innerText")
    assert count(page) == "pair 2 of 6, 1 labelled"
    assert len(json.loads(download(page, tmp_path / "labels-anna.json").read_text("utf-8"))["labels"]) == 1


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_text_is_readable_and_nothing_overflows(page: Page, width: int, dark: bool) -> None:
    page.look(width=width, dark=dark)
    assert page.js(CONTRAST) == []
    start(page)
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")
    assert page.js(CONTRAST) == []


def test_hostile_texts_do_nothing(chromium: Page, tmp_path: Path) -> None:
    chromium.problems.clear()
    file = tmp_path / "hostile.html"
    write_labels_page(file, task_pairs([traced(HOSTILE, query=HOSTILE), traced("No.", query=HOSTILE)]))
    chromium.open(file)
    start(chromium)
    assert chromium.js("document.getElementById('query').textContent") == HOSTILE
    assert HOSTILE in chromium.js(TEXTS)
    assert chromium.js("document.querySelectorAll('#work :is(img, script, svg, b)').length") == 0
    assert chromium.js("window.pwned === undefined")
    assert chromium.problems == []
