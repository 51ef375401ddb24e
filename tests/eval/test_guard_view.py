"""The page of a guard's verdicts: what it holds of each case, and what it is made from."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.engine import run_lockstep
from demur.envs.episode import Episode
from demur.envs.guards.provenance.relations import Origin, Relation, Span
from demur.envs.policies.scripted import EXPERT
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label, Level, write_jsonl
from demur.eval import guard, guard_view, w3c_prov
from demur.eval.guard_cases import Case, read_cases
from demur.eval.guard_page import LONGEST, MOST_CASES, MOST_MARKS, case_data, choose, stretches
from tests.eval.runs import HOSTILE
from tests.eval.verdicts import DAY, FINDINGS, REFUSED, TO, finding, make_case


def shown(case: Case) -> dict[str, Any]:
    """The examined call of a case, as the script gets it."""
    call: dict[str, Any] = case_data(case)["calls"][-1]
    return call


def test_each_argument_names_the_spans_it_rests_on() -> None:
    call = shown(make_case())
    assert [(a["name"], a["found"], [m["source"] for m in a["marks"]]) for a in call["arguments"]] == [
        ("to", "holds", ["result:0"]),
        ("day", "holds", ["query"]),
        ("body", "free text, not checked", []),
    ]
    assert [(s["id"], s["origin"]) for s in call["sources"]] == [("query", "user"), ("result:0", "untrusted")]
    assert call["sources"][1]["made_by"] == 'find(name="Ann")'
    marked = [(p["text"], p["marks"]) for s in call["sources"] for p in s["parts"] if p["marks"]]
    assert marked == [("Monday", [2]), (TO.text, [1])]


def test_each_relation_says_who_decided_it_and_why() -> None:
    call = shown(make_case("t1", REFUSED))
    assert [(f["relation"], f["holds"], f["by"]) for f in call["findings"]] == [
        ("SpecifiedBy", "holds", "rule"),
        ("ContributeTo", "holds", "rule"),
        ("RelevantTo", "not decided", "default"),
        ("DerivedFrom", "does not hold", "code"),
    ]
    assert call["findings"][3]["reason"] == "stands in no source"
    assert [a["found"] for a in call["arguments"]] == ["does not hold", "not checked", "free text, not checked"]


def test_a_guard_without_findings_is_shown_with_the_spans_its_evidence_names() -> None:
    evidence = ("result:0[9:30] ann", "query[900:903] gone", "intent=0.1")
    call = shown(make_case("t1", (), evidence=evidence))
    assert [m["source"] for m in call["evidence"]] == ["result:0"]
    assert call["findings"] == [] and all(a["marks"] == [] for a in call["arguments"])
    assert shown(make_case("t1", (), evidence=("intent=0.1",)))["said"] == ["intent=0.1"]


def test_words_that_a_model_quoted_and_the_source_does_not_hold_are_kept_apart() -> None:
    unplaced = Span(source="query", start=-1, end=-1, text="Tuesday", origin=Origin.USER)
    moved = DAY.model_copy(update={"start": 0, "end": 6})
    call = shown(make_case("t1", (finding(Relation.DERIVED_FROM, "day", True, unplaced, moved),)))
    query = call["sources"][0]
    assert [p["text"] for p in query["quoted"]] == ["Tuesday", "Monday"]
    assert not any(p.get("marks") for p in query["parts"])


def test_a_plugins_source_is_shown_by_what_was_quoted_of_it() -> None:
    memory = Span(source="memory", start=3, end=6, text="Ann", origin=Origin.TRUSTED)
    call = shown(make_case("t1", (finding(Relation.DERIVED_FROM, "to", True, memory),)))
    assert [(s["id"], s["origin"]) for s in call["sources"]][-1] == ("memory", "trusted")
    assert call["sources"][-1]["quoted"] == [{"text": "Ann", "marks": [1]}]


@given(st.text(max_size=60), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=6))
def test_stretches_put_together_are_the_text_and_every_mark_covers_its_own(
    text: str, ends: list[tuple[int, int]]
) -> None:
    marks = [(n, a, b) for n, (a, b) in enumerate(ends, 1) if a < b <= len(text)]
    parts = stretches(text, marks)
    assert "".join(part["text"] for part in parts) == text
    for number, start, end in marks:
        assert "".join(part["text"] for part in parts if number in part["marks"]) == text[start:end]


def test_of_a_long_text_its_beginning_and_what_is_around_a_mark_is_kept() -> None:
    text = "a" * 50_000 + "HERE" + "b" * 50_000
    parts = stretches(text, [(1, 50_000, 50_004)])
    assert [part["text"] for part in parts if part.get("marks")] == ["HERE"]
    assert sum(len(part.get("text", "")) for part in parts) < LONGEST
    assert sum(part["cut"] if "cut" in part else len(part["text"]) for part in parts) == len(text)


def test_a_call_with_very_many_spans_shows_the_first_and_says_how_many_more() -> None:
    spans = [Span(source="query", start=0, end=1, text=f"{n}", origin=Origin.USER) for n in range(MOST_MARKS + 5)]
    assert shown(make_case("t1", (finding(Relation.DERIVED_FROM, "to", True, *spans),)))["left_off"] == 5


def test_of_very_many_cases_the_stopped_ones_are_kept_in_the_files_order() -> None:
    cases = [make_case(f"t{n}", REFUSED if n % 50 == 49 else FINDINGS) for n in range(MOST_CASES + 100)]
    kept = choose(cases)
    assert len(kept) == MOST_CASES and sum(c.verdict.stopped for c in kept) == 8
    assert [cases.index(c) for c in kept] == sorted(cases.index(c) for c in kept)


def test_hostile_texts_stay_data() -> None:
    case = make_case(HOSTILE, (finding(Relation.DERIVED_FROM, HOSTILE, False, reason=HOSTILE),), query=HOSTILE)
    page = guard_view.render([case], HOSTILE)
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert data and json.loads(data[1])[0]["query"] == HOSTILE
    assert "<img" not in page and "onerror=&#34;" in page  # the title is escaped


# From the files


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trajectories of a shipped world, judged by the provenance guard without a model."""
    folder = tmp_path_factory.mktemp("judged")
    tasks = make_tasks(["bank"], "test", {Label.BENIGN: 2}, seed=1)
    write_jsonl(folder / "traces.jsonl", run_lockstep([Episode(task) for task in tasks], EXPERT))
    args = ["--traces", str(folder / "traces.jsonl"), "--format", "demur"]
    assert guard.main([*args, "--guard", "provenance", "--out", str(folder / "out")]) == 0
    assert guard.main([*args, "--guard", "none", "--out", str(folder / "none")]) == 0
    return folder


def files(folder: Path, verdicts: str = "out") -> list[str]:
    return ["--verdicts", str(folder / verdicts), "--traces", str(folder / "traces.jsonl"), "--format", "demur"]


def test_the_page_is_written_from_the_verdicts_and_their_traces(judged: Path, tmp_path: Path) -> None:
    assert guard_view.main([*files(judged), "--out", str(tmp_path / "new" / "v.html")]) == 0
    page = (tmp_path / "new" / "v.html").read_text(encoding="utf-8")
    assert "Content-Security-Policy" in page
    assert set(re.findall(r"https?://[^\"' ]+", page)) == {"http://www.w3.org/2000/svg"}, "a name, not an address"
    (first, *_) = read_cases(judged / "out", judged / "traces.jsonl", "demur")
    changing = [one for one in first.checked if one.step.changes]
    assert changing and all(one.step.findings for one in changing)


def test_every_examined_call_is_written_as_prov(
    judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from prov.model import ProvDocument

    assert w3c_prov.main([*files(judged), "--out", str(tmp_path / "prov")]) == 0
    found = sorted((tmp_path / "prov").glob("*.json"))
    assert found and f"{len(found)} calls" in capsys.readouterr().out
    for file in found:
        with file.open(encoding="utf-8") as text:
            document = ProvDocument.deserialize(text, format="json")
        provn = file.with_suffix(".provn").read_text(encoding="utf-8")
        assert sorted(document.get_provn().splitlines()) == sorted(provn.splitlines())  # JSON groups by kind


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / "out" / "verdicts.jsonl").unlink(), "holds no verdicts.jsonl"),
        (lambda folder: (folder / "out" / "verdicts.jsonl").write_text(""), "holds no verdict"),
        (lambda folder: (folder / "out" / "verdicts.jsonl").write_text("{}\n"), "is not a verdict"),
        (lambda folder: (folder / "traces.jsonl").write_text(""), "holds no trace"),
    ],
)
def test_files_that_do_not_fit_are_one_line_and_status_2(
    judged: Path, tmp_path: Path, change: Any, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "out").mkdir()
    for name in ("traces.jsonl", "out/verdicts.jsonl"):
        (tmp_path / name).write_bytes((judged / name).read_bytes())
    change(tmp_path)
    for script in (guard_view, w3c_prov):
        assert script.main([*files(tmp_path), "--out", str(tmp_path / "new")]) == 2
        assert_one_line(capsys.readouterr().err, said)


def test_verdicts_on_other_traces_are_refused(judged: Path, tmp_path: Path) -> None:
    lines = (judged / "traces.jsonl").read_text(encoding="utf-8").splitlines()
    (tmp_path / "traces.jsonl").write_text(lines[0] + "\n", encoding="utf-8")
    with pytest.raises(ValueError, match="lacks: give the file"):
        read_cases(judged / "out", tmp_path / "traces.jsonl", "demur")


def test_a_guard_without_findings_has_a_page_but_no_records(
    judged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guard_view.main([*files(judged, "none"), "--out", str(tmp_path / "v.html")]) == 0
    capsys.readouterr()
    assert w3c_prov.main([*files(judged, "none"), "--out", str(tmp_path / "prov")]) == 2
    assert_one_line(capsys.readouterr().err, "holds no findings")


def assert_one_line(text: str, said: str) -> None:
    assert said in text and len(text.splitlines()) == 1


def test_levels_have_words(judged: Path) -> None:
    levels: Sequence[Level] = list(Level)
    assert [shown(make_case("t", (), level=level))["level"] for level in levels][3] == "require approval"
