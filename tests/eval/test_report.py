"""The report as a file: whole, self-contained, and deaf to markup in what it shows."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.trace import Ending, Label
from demur.eval.report import MOST_PAIRS, main, write_report
from demur.eval.report_browser import Pair, choose, pairs_of, script_json
from demur.eval.report_page import duration, shown, training_facts
from demur.eval.report_run import read_run
from demur.eval.results import change, result_of
from tests.eval.runs import (
    CONFIG,
    HOSTILE,
    hostile_trajectories,
    make_run,
    make_trace,
    step_record,
    write_run,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "quickstart")


@pytest.fixture(scope="module")
def page(run: Path) -> str:
    return write_report(run).read_text(encoding="utf-8")


class Elements(HTMLParser):
    """Tags with their attributes, and the text of the data element."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self._in_data = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._in_data = dict(attrs).get("id") == "data"

    def handle_endtag(self, tag: str) -> None:
        self._in_data = False

    def handle_data(self, data: str) -> None:
        if self._in_data:
            self.data += data

    def pairs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.data)["pairs"]
        return found


def test_the_page_loads_nothing(page: str) -> None:
    tags = Elements(page).tags
    loading = {"src", "srcset", "action", "poster", "xlink:href"}
    assert not [(tag, a) for tag, a in tags if loading & a.keys()]
    links = [a["href"] for _, a in tags if "href" in a]
    assert all(link and (link.startswith("#") or link == "data:,") for link in links)
    assert "@import" not in page
    assert "url(" not in page
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy and policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_the_script_writes_data_as_text_only() -> None:
    script = (ROOT / "eval" / "templates" / "report.js").read_text(encoding="utf-8")
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("):
        assert way not in script


def test_the_page_says_what_was_trained(page: str) -> None:
    text = re.sub(r"<[^>]+>", " ", page)
    for fact in (
        "60 training steps in 3 min 54 s",
        "LoRA, rank 16",
        "pairwise",
        "same checks, held-out tasks",
    ):
        assert fact in " ".join(text.split())


def test_the_page_tells_no_secret_and_no_path(page: str, run: Path) -> None:
    for private in ("do-not-show", "/somewhere/private", str(run.parent)):
        assert private not in page


def test_pairs_show_the_same_task_before_and_after(page: str) -> None:
    pairs = Elements(page).pairs()
    assert len(pairs) == 72
    assert {pair["label"] for pair in pairs} == {"harmful", "benign", "injected", "underspecified"}
    harmful = next(p for p in pairs if p["label"] == "harmful" and p["change"] == "better")
    assert harmful["before"]["result"] == "did harm"
    (turn,) = harmful["after"]["turns"]
    assert (turn["kind"], bool(turn["plan"]), bool(turn["check"])) == ("refuse", True, True)


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    config = {**CONFIG, "reward": HOSTILE, HOSTILE: [HOSTILE]}
    page = write_report(write_run(tmp_path / "run", hostile_trajectories(), config=config)).read_text("utf-8")
    elements = Elements(page)
    assert [tag for tag, _ in elements.tags if tag in ("img", "textarea")] == []
    assert sum(tag == "script" for tag, _ in elements.tags) == 2
    assert not [a for _, a in elements.tags if any(name.startswith("on") for name in a)]
    assert not set("\u2028\u2029<>&") & set(elements.data)
    pair = elements.pairs()[0]
    assert pair["query"] == pair["before"]["turns"][0]["result"] == pair["before"]["turns"][0]["check"] == HOSTILE
    assert "49" not in re.findall(r"<dd>(.*?)</dd>", page), "texts are not templates"


@given(st.recursive(st.text() | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)))
def test_data_reads_back_and_cannot_end_its_element(value: Any) -> None:
    text = str(script_json(value))
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_long_texts_are_cut_and_say_so(tmp_path: Path) -> None:
    sides = [make_trace(policy=policy, query="ab" * 5000) for policy in ("before", "after")]
    page = write_report(write_run(tmp_path / "run", sides)).read_text("utf-8")
    (pair,) = Elements(page).pairs()
    assert len(pair["query"]) < 4100
    assert "6000 more characters in trajectories.jsonl" in pair["query"]


def test_a_large_run_shows_a_fair_part() -> None:
    sizes = {Label.BENIGN: 500, Label.HARMFUL: 500, Label.INJECTED: 30, Label.UNDERSPECIFIED: 200}
    traces = [make_trace(label, task_id=f"{label}{i}") for label, n in sizes.items() for i in range(n)]
    chosen = choose(pairs_of(traces, traces), MOST_PAIRS)
    counts = {label: sum(pair.before.label is label for pair in chosen) for label in Label}
    assert counts == {Label.BENIGN: 70, Label.HARMFUL: 70, Label.INJECTED: 30, Label.UNDERSPECIFIED: 70}
    assert chosen == choose([Pair(t, t) for t in reversed(traces)], MOST_PAIRS), "order does not matter"


def test_a_run_without_steps_still_has_a_report(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=0)
    (run / "metrics.jsonl").unlink()
    page = write_report(run).read_text("utf-8")
    assert "No training steps were logged" in page
    assert 'class="chart tokens"' in page
    assert 'class="line' not in page


def test_a_step_done_again_counts_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=3)
    with (run / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(step_record(2, 3) | {"reward": 9.0, "a_new_key": 1}) + "\n")
    steps = read_run(run).steps
    assert [step.step for step in steps] == [1, 2, 3]
    assert steps[1].reward == 9.0


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (".", "there is no folder"),
        ("config.yaml", "is not a run"),
        ("manifest.json", "is not finished"),
        ("eval/final/summary.json", "is not finished"),
        ("eval/final/trajectories.jsonl", "is not finished"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    gone: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", counts={Label.BENIGN: 2}, steps=1)
    target = run / gone
    target.rename(tmp_path / "elsewhere")
    assert main(["--run", str(run)]) == 2
    out, err = capsys.readouterr()
    assert words in err
    assert err.count("\n") == 1
    assert out == ""
    assert not (run / "report.html").exists()


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("config.yaml", "[1, 2", "config.yaml is not YAML"),
        ("config.yaml", "just words", "must hold keys and values"),
        ("manifest.json", "{}", "manifest.json is not a manifest"),
        ("metrics.jsonl", '{"step": 1}\n{"loss": 1}\n', "metrics.jsonl:2 is not a training step"),
        ("eval/final/summary.json", "[]", "summary.json is not a summary"),
        ("eval/final/trajectories.jsonl", "{}\n", "trajectories.jsonl:1 is not a trajectory"),
        ("eval/final/trajectories.jsonl", "", "share no task"),
    ],
)
def test_a_broken_file_is_named_in_one_line(
    file: str, content: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", counts={Label.BENIGN: 2}, steps=1)
    (run / file).write_text(content, encoding="utf-8")
    assert main(["--run", str(run)]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_it_runs_as_a_script(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", counts={Label.BENIGN: 2}, steps=1)
    script = [sys.executable, "eval/report.py", "--run", str(run)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()) == run / "report.html"
    assert sorted(path.name for path in run.iterdir()) == sorted(
        ["config.yaml", "eval", "manifest.json", "metrics.jsonl", "report.html"]
    )


def test_results_are_compared_by_how_good_they_are() -> None:
    refused = make_trace(Label.HARMFUL, outcome={"refused": True, "refusal_turn": 0})
    harmed = make_trace(Label.HARMFUL, outcome={"harms": ("x",)})
    stopped = make_trace(Label.HARMFUL)
    late = make_trace(Label.HARMFUL, outcome={"harms": ("x",), "refused": True, "refusal_turn": 2})
    assert change(result_of(harmed), result_of(refused)) == "better"
    assert change(result_of(refused), result_of(stopped)) == "worse"
    assert change(result_of(harmed), result_of(late)) == "changed"
    assert change(result_of(stopped), result_of(stopped)) == "same"
    failed = make_trace(Label.HARMFUL, ending=Ending.ERROR, error="no answer")
    assert change(result_of(harmed), result_of(failed)) == "changed", "an error is no improvement"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("output_dir", "/home/somebody/runs/one", "…/one"),
        ("output_dir", "runs/one", "runs/one"),
        ("hub_token", "hf_x", "(hidden)"),
        ("hub_token", None, "–"),
        ("max_new_tokens", 96, "96"),
        ("learning_rate", 1e-5, "1e-05"),
        ("use_peft", True, "yes"),
        ("worlds", ["mail", "bank"], "mail, bank"),
        ("judge", {"model": "m", "api_key": "x"}, "model: m, api_key: (hidden)"),
    ],
)
def test_configuration_values_are_shown_for_readers(key: str, value: Any, expected: str) -> None:
    assert shown(key, value) == expected


def test_durations_are_readable() -> None:
    assert [duration(s) for s in (3.4, 65, 3725)] == ["3 s", "1 min 5 s", "1 h 2 min"]


def test_what_the_judge_took_and_failed_at_is_counted(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", counts={Label.BENIGN: 2}, steps=2)
    metrics = run / "metrics.jsonl"
    judged = {"judge_failures": 3, "judge_calls": 1200, "judge_tokens": 5, "judge_cost": 0.25, "judge_flip_rate": 0.4}
    lines = [json.dumps(json.loads(line) | judged) for line in metrics.read_text(encoding="utf-8").splitlines()]
    assert "Judge calls" not in dict(training_facts(read_run(run)))
    metrics.write_text("\n".join(lines), encoding="utf-8")
    facts = dict(training_facts(read_run(run)))
    assert (facts["Rollouts without a reward"], facts["Judge calls"], facts["Judge cost"]) == ("6", "2,400", "0.50")
    assert facts["Verdicts that follow the position"] == "40%"
