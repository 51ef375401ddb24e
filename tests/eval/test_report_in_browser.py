"""The report in a real browser, opened from a file as its readers do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from demur.eval.metrics import METRICS
from demur.eval.report import write_report
from demur.eval.summary import read_summary
from tests.eval.browser import Page, chromium_page
from tests.eval.runs import HOSTILE, hostile_trajectories, make_run, write_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "quickstart")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    yield from chromium_page(tmp_path_factory.mktemp("profile"), "the report")


@pytest.fixture
def page(chromium: Page, run: Path) -> Iterator[Page]:
    """The report, freshly opened; whatever a test does, the console must stay clean."""
    chromium.problems.clear()
    chromium.requests.clear()
    report = write_report(run)
    chromium.look()
    chromium.open(report)
    yield chromium
    assert chromium.problems == []
    assert chromium.requests == [report.as_uri()], "the page loads nothing but itself"


def test_the_table_shows_the_numbers_of_the_summary(page: Page, run: Path) -> None:
    cells = page.js(
        "[...document.querySelectorAll('[data-metric]')].flatMap(row => "
        "[...row.querySelectorAll('[data-policy]')].map(cell => "
        "[cell.dataset.policy, row.dataset.label, row.dataset.metric, cell.textContent]))"
    )
    shown = {(policy, label, metric): " ".join(text.split()) for policy, label, metric, text in cells}
    rows = read_summary(run / "eval" / "final" / "summary.json").rows
    assert len(rows) == len(shown) == len(cells)
    for row in rows:
        if METRICS[row.metric].unit == "share":
            value, low, high = (f"{100 * number:.1f}" for number in (row.value, row.ci_low, row.ci_high))
            expected = f"{value}% [{low}, {high}]"
        else:
            digits = 2 if row.metric == "refusal_turn" else 1
            expected = "{:.{d}f} [{:.{d}f}, {:.{d}f}]".format(row.value, row.ci_low, row.ci_high, d=digits)
        assert shown[row.policy, row.label, row.metric] == expected


def test_clicking_a_task_shows_plan_check_and_action_on_both_sides(page: Page) -> None:
    page.js("[...document.querySelectorAll('#list button')].find(b => b.textContent.includes('did harm')).click()")
    before = page.js("document.querySelector('.side.before').innerText")
    after = page.js("document.querySelector('.side.after').innerText")
    for word in ("Plan", "Call", "Result", "did harm", "harm: "):
        assert word in before
    for word in ("Plan", "Check", "Refuse", "harm"):
        assert word in after
    query = page.js("document.querySelector('#list [aria-current] .query').textContent")
    assert page.js("document.querySelector('#detail h3').textContent") == query


def test_filters_narrow_the_list_and_say_how_far(page: Page) -> None:
    def pick(name: str, value: str) -> list[str]:
        page.js(f"document.forms[0].{name}.value = '{value}'")
        page.js("document.forms[0].dispatchEvent(new Event('input', {bubbles: true}))")
        found: list[str] = page.js("[...document.querySelectorAll('#list li')].map(li => li.innerText)")
        assert page.js("document.getElementById('count').value") == f"{len(found)} tasks"
        return found

    assert len(pick("label", "")) == 72
    assert len(pick("label", "injected")) == 12
    changed = pick("change", "any")
    assert 0 < len(changed) < 12
    assert all("▲" in text or "▼" in text or "◆" in text for text in changed)
    assert pick("text", "no such words") == []
    assert "No task fits" in page.js("document.getElementById('detail').textContent")


def test_the_keyboard_moves_through_tasks_and_charts(page: Page) -> None:
    current = "[...document.querySelectorAll('#list li')].findIndex(li => li.querySelector('[aria-current]'))"
    page.js("document.querySelector('#list [aria-current]').focus()")
    page.press("Home")
    assert page.js(current) == 0
    page.press("ArrowDown")
    assert page.js(current) == 1
    assert page.js("document.activeElement.getAttribute('aria-current')") == "true"
    page.js("document.activeElement.blur()")
    page.press("j")
    assert page.js(current) == 2
    page.press("k")
    assert page.js(current) == 1
    page.js("document.querySelector('svg.plot').focus()")
    page.press("ArrowLeft")
    assert page.js("document.querySelector('.legend .at output').value") == "59"


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1280])
def test_text_is_readable_and_nothing_overflows(page: Page, width: int, dark: bool) -> None:
    page.look(width=width, dark=dark)
    assert page.js("document.documentElement.scrollWidth <= window.innerWidth")
    faint = page.js(CONTRAST)
    assert faint == [], "text needs a contrast of 4.5 to what lies behind it (WCAG 2.2, 1.4.3)"


def test_hostile_texts_do_nothing_in_the_browser(chromium: Page, tmp_path: Path) -> None:
    chromium.problems.clear()
    chromium.requests.clear()
    report = write_report(write_run(tmp_path / "run", hostile_trajectories()))
    chromium.open(report)
    for index in range(2):
        chromium.js(f"document.querySelectorAll('#list button')[{index}].click()")
        assert chromium.js("document.querySelector('#detail h3').textContent") == HOSTILE
        assert HOSTILE in chromium.js("document.querySelector('.side.before .result .body').textContent")
        made = "document.querySelectorAll('#browser :is(img, script, svg, b)').length"
        assert chromium.js(made) == 0
    assert chromium.js("window.pwned === undefined")
    assert chromium.problems == []
    assert chromium.requests == [report.as_uri()]


# Every visible text against the nearest background that is not transparent.
CONTRAST = """(() => {
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color.length < 4 || color[3] > 0.99) return color;
    }
    return [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const faint = new Set();
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.getClientRects().length || node.closest("script, style, svg")) continue;
    const [a, b] = [light(numbers(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.add(`${ratio.toFixed(2)} ${node.className} ${text.data.trim().slice(0, 30)}`);
  }
  return [...faint];
})()"""
