"""Parts of the evaluation matrix: options, suites, cells on disk, limits, and measures."""

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.canaries import CANARIES, EXPERT
from demur.envs.engine import run_batched
from demur.envs.episode import Episode, PromptOptions
from demur.envs.taskset import make_tasks, stream_tasks
from demur.envs.trace import Ending, Label, ToolCall
from demur.envs.world import World
from demur.eval.matrix.cells import CellFile, CellKey, CellRecord, line_of
from demur.eval.matrix.limits import LimitedEpisode, OneByOne
from demur.eval.matrix.measures import measure, rows_of
from demur.eval.matrix.options import read_options
from demur.eval.matrix.suites import SUITES
from demur.eval.metrics import METRICS, metric_rows
from demur.eval.run import main
from demur.eval.summary import read_summary

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
COUNTS = dict.fromkeys(Label, 4)
PLAYED = [
    t
    for policy in (EXPERT, CANARIES[2])
    for t in run_batched([Episode(task) for task in make_tasks(["mail"], "test", COUNTS)], policy)
]


# Options


def test_the_shipped_configuration_reads_and_prints_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--config", str(ROOT / "configs/eval/safety.yaml"), "--policy", "expert", "--out", str(tmp_path / "out")]
    assert main([*words, "--dry_run"]) == 0
    printed = tmp_path / "printed.yaml"
    printed.write_text(capsys.readouterr().out, encoding="utf-8")
    again, _ = read_options(["--config", str(printed)])
    assert again == read_options(words)[0] and again.seeds == (1, 2)
    assert not (tmp_path / "out").exists()


def test_flags_override_the_file(tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("policy: [expert]\nbenign: 5\nseeds: [3, 4]\nsafety_thoughts: false\n", encoding="utf-8")
    options, _ = read_options(["--config", str(config), "--out", str(tmp_path), "--seeds", "9"])
    assert (options.policy, options.benign, options.seeds) == (("expert",), 5, (9,))
    assert not options.safety_thoughts


@pytest.mark.parametrize(
    ("text", "words", "says"),
    [
        ("nonsense: 1", [], "unknown key 'nonsense'"),
        ("benign: [many]", [], "invalid int value"),
        ("- 1", [], "keys and values"),
        ("benign: {a: 1}", [], "plain values"),
        ("", ["--policy", "no_such"], "there is no policy 'no_such'"),
        ("", ["--policy", "expert", "expert"], "each once"),
        ("", ["--policy", "expert", "expert=refuse_all"], "NAME="),
        ("", ["--policy", "expert", "--suites", "nothing"], "there is no suite 'nothing'"),
        ("", ["--policy", "expert", "--suites", "workbench"], "--data"),
        ("", ["--policy", "expert", "--suites", "workbench", "--data", "."], "needs the folder workbench"),
        ("", ["--policy", "expert", "--guards", "monitor"], "--monitor_model"),
        ("", ["--policy", "expert", "--worlds", "moon"], "no world 'moon'"),
        ("", ["--policy", "expert", "--benign=0", "--harmful=0", "--injected=0", "--underspecified=0"], "no tasks"),
        ("", ["--policy", "expert", "--task_limit", "nan"], "--task_limit"),
        ("", ["--policy", "m", "--policy_url", "ftp://x"], "http"),
    ],
)
def test_bad_input_is_one_line_and_leaves_no_file(
    tmp_path: Path, text: str, words: Sequence[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "c.yaml"
    config.write_text(text or "{}", encoding="utf-8")
    policy = [] if words else ["--policy", "expert"]
    assert main(["--config", str(config), *policy, *words, "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


# Suites


@pytest.mark.skipif(not (DATA / "workbench").is_dir(), reason="WorkBench's files are not in ../shared/data/workbench")
def test_a_benchmark_is_sampled_scored_and_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "workbench").symlink_to(DATA / "workbench")
    words = ["--suites", "workbench", "--data", str(folder), "--cases", "4", "--processes", "1", "--guards", "none"]
    assert main([*words, "--policy", "expert", "refuse_all", "--out", str(tmp_path / "out")]) == 0
    summary = read_summary(tmp_path / "out" / "summary.json")
    assert summary.value("expert", "correct", "all") == 1
    refuse = summary.row("refuse_all", "completion_rate", "benign")
    assert refuse is not None and (refuse.value, refuse.n, refuse.suite) == (0, 4, "workbench")
    assert summary.manifest.notes["suite workbench, sampled"] is True


def test_streamed_tasks_are_those_of_a_set() -> None:
    streamed = list(stream_tasks(["mail", "bank"], "test", COUNTS, 5))
    assert {task.id for task in streamed} == {task.id for task in make_tasks(["mail", "bank"], "test", COUNTS, 5)}
    assert len(streamed) == sum(COUNTS.values())


# Cells


@given(st.data())
def test_a_file_cut_anywhere_keeps_its_whole_lines_and_is_completed(data: st.DataObject) -> None:
    played = PLAYED[:4]
    record = CellRecord(policy="p", guard="none", suite="worlds", seed=1, tasks=len(played))
    lines = [f"{line_of(t)}\n".encode() for t in played]
    cut = data.draw(st.integers(0, sum(map(len, lines))))
    with TemporaryDirectory() as folder:
        file = CellFile(Path(folder), record)
        file.path.parent.mkdir(parents=True)
        file.path.write_bytes(b"".join(lines)[:cut])
        file.open()
        assert file.done == {t.task_id for at, t in enumerate(played) if sum(map(len, lines[: at + 1])) <= cut}
        for t in reversed(played):
            if t.task_id not in file.done:
                file.add(t.task_id, line_of(t))
        file.close()
        assert file.complete and list(file.trajectories()) == sorted(played, key=lambda t: t.task_id)


@given(
    st.lists(st.tuples(st.text(max_size=8), st.text(max_size=4), st.text(max_size=4), st.integers(0, 9)), unique=True)
)
def test_cells_have_folders_of_their_own_that_any_file_system_takes(keys: list[tuple[str, str, str, int]]) -> None:
    names = [CellKey(*key).folder for key in keys]
    assert len({name.casefold() for name in names}) <= len(set(names)) == len(keys)
    assert all("/" not in name and len(name) < 140 and name.isascii() for name in names)


# Limits


def limited(limit: float = 5.0) -> LimitedEpisode:
    (task,) = make_tasks(["mail"], "test", {Label.BENIGN: 1})
    return LimitedEpisode(task, PromptOptions(), 0, limit, ("p", "g"))


def test_a_tool_that_never_returns_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    episode = limited(0.2)

    def forever(self: World, call: ToolCall) -> str:
        while True:
            pass

    monkeypatch.setattr(World, "run", forever)
    (trajectory,) = run_batched([episode], OneByOne(EXPERT))
    assert trajectory.ending is Ending.ERROR and trajectory.error == "the task took more than 0.2 s"
    assert (trajectory.policy, trajectory.guard) == ("p", "g")


def test_a_tool_that_crashes_ends_its_own_episode_only(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = limited(), limited()

    def crash(call: ToolCall) -> str:
        raise RuntimeError("boom")

    object.__setattr__(bad.state, "run", crash)
    first, second = run_batched([bad, good], OneByOne(EXPERT))
    assert first.error == "RuntimeError: boom" and second.outcome.goal == 1


def test_checks_of_a_task_that_crash_leave_an_error_without_facts() -> None:
    episode = limited()
    episode.task = replace(episode.task, turn_limit=1)
    object.__setattr__(episode.task, "outcome", None)
    (trajectory,) = run_batched([episode], OneByOne(EXPERT))
    assert trajectory.ending is Ending.ERROR and "TypeError" in (trajectory.error or "")
    assert trajectory.outcome.goal == 0 and len(trajectory.turns) == 1


# Measures


def test_rows_are_those_of_the_metrics_with_intervals_by_family() -> None:
    for name in ("expert", "always_act"):
        played = [t for t in PLAYED if t.policy == name]
        measures, _ = measure(played, lambda t: {})
        found = {(r.label, r.metric): r for r in rows_of(name, "none", "worlds", measures)}
        wanted = {(r.label, r.metric): r for r in metric_rows(played)}
        assert found.keys() == wanted.keys()
        for key, row in found.items():
            assert (row.value, row.n) == (pytest.approx(wanted[key].value), wanted[key].n), key
            assert row.ci_low <= row.value <= row.ci_high


def test_a_benchmarks_own_score_has_a_row_a_label_and_one_for_all() -> None:
    played = [t for t in PLAYED if t.policy == "expert"]
    measures, _ = measure(played, lambda t: {"own": 1.0} if t.label is Label.BENIGN else {})
    rows = [r for r in rows_of("p", "g", "s", measures) if r.metric == "own"]
    assert [(r.label, r.value, r.n) for r in rows] == [("benign", 1.0, 4), ("all", 1.0, 4)]
    assert "own" not in METRICS


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_of_the_table_can_be_read_from_a_folder(name: str) -> None:
    module, _, attribute = SUITES[name].partition(":")
    suite = getattr(import_module(module), attribute)
    assert all(hasattr(suite, wanted) for wanted in ("read", "tasks", "score", "size"))
