"""Labels of traces by people: which files are taken, agreement, disputes, and what guards are tested on in the end."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.engine import run_lockstep
from demur.envs.episode import Episode
from demur.envs.suites.agent_safetybench import StateTools, case_task, read_cases
from demur.envs.tool import Tool
from demur.envs.trace import ActionKind, write_lines
from demur.eval import guard
from demur.eval.label_traces import main
from demur.eval.trace_labels import (
    ADJUDICATED,
    DROPPED,
    STEP_UNSETTLED,
    UNSETTLED,
    Answer,
    agreements,
    disputed,
    opaque_id,
    read_adjudication,
    read_answers,
    settled,
    write_trace_page,
)
from demur.eval.traces import read_traces
from demur.eval.traces.recorded import Recorded, call_steps
from demur.rewards.judges.rendering import view_key
from tests.envs.suites.agent_safetybench.helpers import Hasty, data_folder, released
from tests.eval.runs import HOSTILE, make_trace, make_turn

SAID = {"a": ("aligned", None), "0": ("misaligned", 0), "1": ("misaligned", 1), "x": ("dropped", None)}


def some_traces(folder: Path, count: int = 4) -> list[Recorded]:
    """Traces of a call that reads, one that changes something, and an answer."""
    cases = read_cases(data_folder(folder / "data", [released(id) for id in range(1, count + 1)]))
    episodes = [Episode(case_task(case, StateTools())) for case in cases]
    tools = tuple(cases[0].tools.values())
    return [Recorded(trajectory=t, tools=tools) for t in run_lockstep(episodes, Hasty())]


def answer(recorded: Recorded, said: str, note: str = "") -> Answer:
    verdict, step = SAID[said]
    return Answer.model_validate(
        {
            "trace": opaque_id(recorded),
            "view": view_key(recorded.trajectory),
            "verdict": verdict,
            "first_wrong_step": step,
            "note": note,
        }
    )


def answers(traces: Sequence[Recorded], **said: str) -> dict[str, dict[str, Answer]]:
    """By annotator a letter a trace: a aligned, a digit the first wrong step, x dropped, - nothing."""
    return {
        name: {r.id: answer(r, letter) for r, letter in zip(traces, letters, strict=True) if letter != "-"}
        for name, letters in said.items()
    }


def label_file(
    path: Path, traces: Sequence[Recorded], said: str, *, kind: str = "trace-labels", **changes: Any
) -> Path:
    rows = [answer(r, letter).model_dump() for r, letter in zip(traces, said, strict=True) if letter != "-"]
    file = {"schema": 1, "kind": kind, "annotator": path.stem, "labels": rows}
    path.write_text(json.dumps(file | changes), encoding="utf-8")
    return path


@pytest.fixture
def traces(tmp_path: Path) -> list[Recorded]:
    return some_traces(tmp_path)


def test_answers_come_back_by_annotator_and_trace(traces: list[Recorded], tmp_path: Path) -> None:
    anna, ben = label_file(tmp_path / "anna", traces, "a1--"), label_file(tmp_path / "ben", traces, "a0aa")
    assert read_answers([anna, ben], traces) == answers(traces, anna="a1--", ben="a0aa")


def test_a_dispute_is_about_the_verdict_or_the_step(traces: list[Recorded]) -> None:
    given = answers(traces, anna="a11a", ben="a10-", cleo="a1-1")
    assert disputed(traces, given) == [traces[2], traces[3]]


def test_what_all_agree_on_is_the_label_and_the_rest_waits_for_a_decision(traces: list[Recorded]) -> None:
    given = answers(traces, anna="a11a", ben="a101")
    found = settled(traces, given)
    assert [(r.label, r.first_wrong_step, r.notes) for r in found] == [
        ("aligned", None, ()),
        ("misaligned", 1, ()),
        ("misaligned", None, (STEP_UNSETTLED,)),
        (None, None, (UNSETTLED,)),
    ]
    decided = {r.id: answer(r, said) for r, said in zip(traces[2:], "1x", strict=True)}
    found = settled(traces, given, decided)
    assert [(r.label, r.first_wrong_step, r.notes) for r in found[2:]] == [
        ("misaligned", 1, (ADJUDICATED,)),
        (None, None, (DROPPED,)),
    ]
    with pytest.raises(ValueError, match="do not differ"):
        settled(traces, given, {traces[0].id: answer(traces[0], "a")})


def test_traces_that_nobody_labelled_have_no_label(traces: list[Recorded]) -> None:
    assert [r.label for r in settled(traces, answers(traces, anna="a---"))] == ["aligned", None, None, None]


def test_kappa_is_that_of_the_verdicts_with_an_interval(tmp_path: Path) -> None:
    traces = some_traces(tmp_path, 10)
    # both misaligned 5, both aligned 3, apart 2: po 0.8, pe 0.6 * 0.6 + 0.4 * 0.4 = 0.52
    (found,) = agreements(traces, answers(traces, anna="11111aaa1a", ben="11110aaaa1"))
    assert found.kappa is not None and found.same_step is not None
    assert found.kappa.value == pytest.approx((0.8 - 0.52) / 0.48)
    assert -1 <= found.kappa.ci_low < found.kappa.value < found.kappa.ci_high <= 1
    assert (found.traces, found.equal, found.both_misaligned, found.same_step.value) == (10, 8, 5, 0.8)


def test_three_annotators_get_every_pair_and_alpha_over_all(traces: list[Recorded]) -> None:
    found = agreements(traces, answers(traces, anna="a1a1", ben="a1a-", cleo="a1aa"))
    assert [one.annotators for one in found][:3] == [("anna", "ben"), ("anna", "cleo"), ("ben", "cleo")]
    assert [one.traces for one in found] == [3, 4, 3, 4]
    assert found[3].measure == "Krippendorff's α" and found[3].kappa is not None
    assert found[0].kappa is not None and found[0].kappa.value == 1


def test_one_annotator_agrees_with_nobody(traces: list[Recorded]) -> None:
    assert agreements(traces, answers(traces, anna="a1a1")) == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"annotator": ""}, "is not a file of labels of traces: annotator"),
        ({"labels": []}, "is not a file of labels of traces: labels"),
        ({"schema": 2}, "is not a file of labels of traces"),
        ({"kind": "adjudication"}, "of the kind 'adjudication'"),
    ],
)
def test_other_files_are_refused(traces: list[Recorded], tmp_path: Path, changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_answers([label_file(tmp_path / "anna", traces, "a1a1", **changes)], traces)


def test_a_cut_file_and_a_missing_one_are_refused(traces: list[Recorded], tmp_path: Path) -> None:
    path = label_file(tmp_path / "anna", traces, "a1a1")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="anna is not a file of labels of traces"):
        read_answers([path], traces)
    with pytest.raises(ValueError, match="can not be read"):
        read_answers([tmp_path / "nobody"], traces)


def test_unknown_changed_and_double_traces_are_refused(traces: list[Recorded], tmp_path: Path) -> None:
    path = label_file(tmp_path / "anna", traces, "a1a1")
    with pytest.raises(ValueError, match="which the file of traces lacks"):
        read_answers([path], traces[1:])
    other = traces[0].trajectory.model_copy(update={"query": "Something else."})
    with pytest.raises(ValueError, match="changed since it was labelled"):
        read_answers([path], [Recorded(trajectory=other, tools=()), *traces[1:]])
    with pytest.raises(ValueError, match="twice"):
        read_answers([label_file(tmp_path / "ben", [*traces, traces[0]], "a1a1a")], traces)
    with pytest.raises(ValueError, match="two files of the annotator 'anna'"):
        read_answers([path, path], traces)


def test_a_wrong_step_must_be_a_call_and_only_adjudication_drops(traces: list[Recorded], tmp_path: Path) -> None:
    row = {**answer(traces[0], "1").model_dump(), "first_wrong_step": 2}
    with pytest.raises(ValueError, match=r"the step 2 of the trace .* is no call"):
        read_answers([label_file(tmp_path / "anna", traces, "----", labels=[row])], traces)
    with pytest.raises(ValueError, match="has a first wrong step"):
        Answer(trace="t", view="v", verdict="aligned", first_wrong_step=1)
    with pytest.raises(ValueError, match="only who adjudicates may drop"):
        read_answers([label_file(tmp_path / "ben", traces, "xxxx")], traces)
    decided = label_file(tmp_path / "cleo", traces, "x---", kind="adjudication")
    assert read_adjudication(decided, traces)[traces[0].id].verdict == "dropped"


def test_the_page_tells_no_policy_label_or_id(traces: list[Recorded], tmp_path: Path) -> None:
    hostile = traces[0].trajectory.model_copy(update={"query": HOSTILE, "policy": "zzpolicy", "task_id": "zztask"})
    tool = Tool(name="look", description=HOSTILE)
    write_trace_page(tmp_path / "page.html", [Recorded(trajectory=hostile, tools=(tool,))])
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    shown = page.partition('id="data">')[2].partition("</script>")[0]
    assert not [word for word in ("zzpolicy", "zztask", "underspecified", "failure_mode") if word in shown]
    assert page.count("</script>") == 2 and "onerror=" not in page.replace("onerror=\\", "")
    with pytest.raises(ValueError, match="no trace to label"):
        write_trace_page(tmp_path / "none.html", [])


def test_calls_before_the_first_wrong_one_are_aligned_and_later_ones_unknown(traces: list[Recorded]) -> None:
    def labels(said: str) -> tuple[str | None, ...]:
        return settled(traces[:1], answers(traces[:1], anna=said))[0].labelled().labels

    assert labels("1") == ("aligned", "misaligned", None)
    assert labels("0") == ("misaligned", None, None)
    assert labels("a") == ("aligned", "aligned", None)
    assert labels("-") == (None, None, None)


@pytest.mark.parametrize("label", ["aligned", "misaligned", None])
@pytest.mark.parametrize("step", [-1, 0, 1, 2, 3])
def test_a_label_that_contradicts_itself_is_no_trace(traces: list[Recorded], step: int, label: str | None) -> None:
    recorded = traces[0]
    assert call_steps(recorded.trajectory) == [0, 1]
    fields = {"trajectory": recorded.trajectory, "tools": recorded.tools, "label": label, "first_wrong_step": step}
    if label == "misaligned" and step in (0, 1):
        assert Recorded.model_validate(fields).first_wrong_step == step
    else:
        with pytest.raises(ValueError, match=r"first_wrong_step|first wrong step"):
            Recorded.model_validate(fields)


@given(st.lists(st.sampled_from(["aligned", "misaligned", "step"]), min_size=1, max_size=4))
def test_a_trace_gets_a_label_if_and_only_if_all_agree(said: list[str]) -> None:
    trajectory = make_trace(turns=(make_turn(ActionKind.CALL), make_turn(ActionKind.CALL)))
    recorded = Recorded(trajectory=trajectory, tools=())
    letters = {"aligned": "a", "misaligned": "0", "step": "1"}
    given = answers([recorded], **{f"p{n}": letters[one] for n, one in enumerate(said)})
    (found,) = settled([recorded], given)
    assert (found.label is None) is (len({one == "aligned" for one in said}) == 2)
    assert (found.first_wrong_step is None) is (said.count(said[0]) < len(said) or said[0] == "aligned")
    assert bool(found.notes) is bool(disputed([recorded], given)) is (said.count(said[0]) < len(said))


# The command line


@pytest.fixture
def file(traces: list[Recorded], tmp_path: Path) -> Path:
    path = tmp_path / "traces.jsonl"
    write_lines(path, (recorded.model_dump_json() for recorded in traces))
    return path


def test_labels_reach_the_evaluation_of_guards(
    traces: list[Recorded], file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = [str(label_file(tmp_path / name, traces, said)) for name, said in {"anna": "a11a", "ben": "a101"}.items()]
    out, page = tmp_path / "labelled.jsonl", tmp_path / "adjudicate.html"
    words = ["read", "--traces", str(file), "--labels", *labels, "--out", str(out)]
    assert main([*words, "--adjudicate", str(page)]) == 0
    said = capsys.readouterr().out
    assert "anna, ben: Cohen's κ 0.50 [" in said and "3 of 4 verdicts equal" in said
    assert "2 traces in dispute" in said and "anna misaligned from step 2; ben misaligned from step 1" in said
    shown = json.loads(page.read_text("utf-8").partition('id="data">')[2].partition("</script>")[0])
    assert [trace["id"] for trace in shown["traces"]] == [opaque_id(r) for r in traces[2:]]
    cleo = label_file(tmp_path / "cleo", traces, "--1a", kind="adjudication")
    assert main([*words, "--adjudication", str(cleo)]) == 0
    assert "2 aligned, 2 misaligned" in capsys.readouterr().out
    assert [trace.label for trace in read_traces(out, "demur")] == ["aligned", "misaligned", "misaligned", "aligned"]
    flags = ["--traces", str(out), "--format", "demur", "--guard", "none", "--out", str(tmp_path / "out")]
    assert guard.main(flags) == 0
    rows = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))["rows"]
    assert {row["metric"]: (row["value"], row["n"]) for row in rows if row["metric"] in ("ER", "IR")} == {
        "ER": (1.0, 2),
        "IR": (0.0, 2),
    }


def test_traces_without_a_call_are_not_put_to_people(
    traces: list[Recorded], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = traces[0].trajectory.model_copy(update={"turns": traces[0].trajectory.turns[2:], "task_id": "silent"})
    path = tmp_path / "t.jsonl"
    write_lines(path, [Recorded(trajectory=silent, tools=()).model_dump_json(), traces[1].model_dump_json()])
    words = ["export", "--traces", str(path), "--out", str(tmp_path / "page.html")]
    assert main(words) == 0
    assert "1 traces to label; 1 that call no tool are left out" in capsys.readouterr().out
    write_lines(path, [Recorded(trajectory=silent, tools=()).model_dump_json()])
    assert main(words) == 2
    assert "nothing to label" in capsys.readouterr().err


def test_broken_traces_and_labels_give_one_line_and_status_2(
    traces: list[Recorded], file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def line(words: list[str]) -> str:
        assert main(words) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    page = str(tmp_path / "page.html")
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    assert "traces.jsonl:4 is not a trace of this format" in line(["export", "--traces", str(file), "--out", page])
    file.write_bytes(whole + whole.splitlines()[0])
    assert "a second time" in line(["export", "--traces", str(file), "--out", page])
    file.write_bytes(b"")
    assert "holds no trace" in line(["export", "--traces", str(file), "--out", page])
    file.write_bytes(whole)
    labels = label_file(tmp_path / "anna", traces, "a1a1")
    labels.write_bytes(labels.read_bytes()[:-3])
    words = ["read", "--traces", str(file), "--labels", str(labels), "--out", str(tmp_path / "labelled.jsonl")]
    assert "anna is not a file of labels" in line(words)
    assert not (tmp_path / "labelled.jsonl").exists()
