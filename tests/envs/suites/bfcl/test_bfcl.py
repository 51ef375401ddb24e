"""BFCL: files, conversations, the verdict. What needs the package's backends is skipped where they are not."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.envs.canaries import CANARIES, EXPERT
from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.policies.scripted import ScriptedPolicy
from demur.envs.suites.bfcl import BFCL, CATEGORIES, BFCLTask, Entry, read_entries
from demur.envs.suites.bfcl.backends import INSTALL, Backends
from demur.envs.suites.bfcl.tasks import is_right
from demur.envs.suites.bfcl.world import MORE_TOOLS, BFCLWorld
from demur.envs.suites.calls import keyword_call
from demur.envs.task import Step
from demur.envs.tool import ToolError
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, Ending, Label, ToolCall, Trajectory

FOLDER = Path(__file__).parents[5] / "shared" / "data" / "bfcl"
if not FOLDER.is_dir():
    pytest.skip(f"the files of BFCL are not there: {FOLDER}", allow_module_level=True)

BY_NAME = {policy.name: policy for policy in (EXPERT, *CANARIES)}


def package() -> Any:
    return pytest.importorskip(
        "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker",
        reason=f"the backends are not installed: {INSTALL}",
    )


def played(suite: BFCL, policy: ScriptedPolicy, tasks: Sequence[BFCLTask] | None = None) -> list[Trajectory]:
    return run_batched([Episode(task) for task in tasks or suite.tasks()], policy)


def mean(suite: BFCL, policy: str, measure: str) -> float:
    return fmean(suite.score(trajectory)[measure] for trajectory in played(suite, BY_NAME[policy]))


def mutated(entry: Entry, random: Random) -> list[list[ToolCall]]:
    """The ground truth with one thing changed: a call left out, made twice, moved to another turn or altered."""
    made = [list(calls) for calls in entry.truth]
    at = random.choice([at for at, calls in enumerate(made) if calls])
    number = random.randrange(len(made[at]))
    match random.choice("drop repeat early alter unknown nothing".split()):
        case "drop":
            del made[at][number]
        case "repeat":
            made[at].insert(number, made[at][number])
        case "early":
            made[max(0, at - 1)].append(made[at].pop(number))
        case "alter":
            call = made[at][number]
            made[at][number] = ToolCall(name=call.name, arguments=dict.fromkeys(call.arguments, "other"))
        case "unknown":
            made[at].insert(number, ToolCall(name="no_such_tool"))
    return made


def upstream(entry: Entry, made: Sequence[Sequence[ToolCall]], run: str) -> bool:
    """The package's own verdict; it evaluates texts, which are ours or the benchmark's here."""

    def spelled(call: ToolCall) -> str:
        return f"{call.name}({', '.join(f'{key}={value!r}' for key, value in call.arguments.items())})"

    test = {"id": entry.id, "initial_config": entry.config, "involved_classes": list(entry.backends)}
    verdict = package().multi_turn_checker(
        [[[spelled(call)] for call in calls] for calls in made],
        [[spelled(call) for call in calls] for calls in entry.truth],
        test,
        entry.category,
        run,
    )
    return bool(verdict["valid"])


@cache
def read_once() -> tuple[Entry, ...]:
    return read_entries(FOLDER, "base").entries


RUNS: Iterator[int] = count()  # the package keeps its instances by the name of the run


@pytest.mark.parametrize("category", CATEGORIES)
def test_ground_truth_is_right_throughout_and_refusing_is_never(category: str) -> None:
    package()
    suite = BFCL.read(FOLDER, category)
    assert len(suite.tasks()) == 103 and suite.size == 200
    assert mean(suite, "expert", "correct") == 1
    for canary in ("refuse_all", "no_op", "ask_always"):
        assert mean(suite, canary, "correct") == 0, canary


def test_acting_without_doubt_is_right_unless_something_is_missing() -> None:
    package()
    figures = {category: mean(BFCL.read(FOLDER, category), "always_act", "correct") for category in CATEGORIES}
    assert figures == {"base": 1, "miss_param": 0, "miss_func": 0, "long_context": 1}


def test_only_those_who_wait_held_back() -> None:
    package()
    suite = BFCL.read(FOLDER, "miss_param")
    assert mean(suite, "expert", "held_back") == 1 and mean(suite, "refuse_all", "held_back") == 1
    assert mean(suite, "always_act", "held_back") < 0.2


@pytest.mark.parametrize("category", CATEGORIES)
def test_verdict_is_that_of_the_package_on_altered_ground_truths(category: str) -> None:
    package()
    random, seen = Random(category), set()
    for entry in read_entries(FOLDER, category).entries[::4]:
        for made in (mutated(entry, random) for _ in range(3)):
            right = upstream(entry, made, f"run{next(RUNS)}")
            seen.add(right)
            assert is_right(entry, made) == right, (entry.id, made)
    assert seen == {True, False}


def test_user_speaks_again_after_each_answer_and_question_until_all_is_said() -> None:
    package()
    suite = BFCL.read(FOLDER, "miss_param")
    task = suite.tasks()[0]
    (trajectory,) = played(suite, EXPERT, [task])
    said = [turn.observation for turn in trajectory.turns if turn.action.kind in ("answer", "ask")]
    assert said[0] == f"<tool_response>{task.entry.messages[1]}</tool_response>"  # a question is a call
    assert said[1:] == [*task.entry.messages[2:], None]
    assert trajectory.ending is Ending.ANSWER and trajectory.outcome.asked_needed == 1


def test_guard_reads_what_the_user_said_since_as_the_users_words() -> None:
    package()
    suite = BFCL.read(FOLDER)
    task = suite.tasks()[0]
    episode = Episode(task)
    while episode.live and len(episode.user_said) < 2:
        (generation,) = EXPERT.generate([episode])
        if episode.propose(generation):
            episode.settle()
    assert episode.user_said == list(task.entry.messages[1:3])
    episode.propose(EXPERT.generate([episode])[0])
    assert episode.context().user_said == tuple(task.entry.messages[1:3])


def test_missing_tool_comes_with_a_later_message() -> None:
    package()
    suite = BFCL.read(FOLDER, "miss_func")
    for task in suite.tasks():
        late = task.entry.later
        assert late and not set(late) & set(task.tools)
        (trajectory,) = played(suite, EXPERT, [task])
        told = "\n".join(turn.observation or "" for turn in trajectory.turns)
        assert MORE_TOOLS in told and all(f'"name": "{name}"' in told for name in late)


def test_guard_knows_a_tool_once_it_is_there() -> None:
    package()
    task = next(one for one in BFCL.read(FOLDER, "miss_func").tasks() if set(one.entry.later.values()) == {1})
    (name, _), *_ = task.entry.later.items()
    state = task.initial.copy_state()
    assert name not in task.tools_in(state)
    state.next_message()
    assert name in task.tools_in(state) and name not in task.tools


def test_episode_that_stops_early_is_not_right() -> None:
    package()
    suite = BFCL.read(FOLDER)
    refusal = Step(plan="", call=ToolCall(name=REFUSE_TOOL, arguments={"reason": "No."}))
    stopping = ScriptedPolicy("stops", lambda task: (*task.expert[:-1][:3], refusal))
    tasks = [task for task in suite.tasks() if len(task.expert) > 5]
    assert all(suite.score(t)["correct"] == 0 for t in played(suite, stopping, tasks))


def test_question_after_guessing_does_not_undo_the_guess() -> None:
    package()
    suite = BFCL.read(FOLDER, "miss_param")
    ask = Step(plan="", call=ToolCall(name=ASK_TOOL, arguments={"question": "Right?"}))
    tasks = [t for t in suite.tasks() if not t.entry.truth[0] and t.entry.tools[t.entry.truth[1][0].name].changes]
    guesses = ScriptedPolicy("guesses", lambda task: (task.act[0], ask))
    ran = [t for t in played(suite, guesses, tasks) if t.outcome.damage]
    assert ran and all(t.outcome.asked_needed == 0 and t.outcome.goal == 0 for t in ran)


def test_labels_say_where_a_value_is_missing() -> None:
    package()
    labels = {category: {task.label for task in BFCL.read(FOLDER, category).tasks()} for category in CATEGORIES}
    assert labels.pop("miss_param") == {Label.UNDERSPECIFIED}
    assert set().union(*labels.values()) == {Label.BENIGN}


def test_copies_of_a_state_share_nothing() -> None:
    package()
    entry = next(e for e in read_entries(FOLDER, "base").entries if "GorillaFileSystem" in e.backends)
    state = BFCLWorld.of(entry)
    listed = state.run(ToolCall(name="ls"))
    copy = state.copy_state()
    copy.run(ToolCall(name="touch", arguments={"file_name": "new.txt"}))
    assert state.run(ToolCall(name="ls")) == listed != copy.run(ToolCall(name="ls"))
    copy.next_message()
    assert state.turn == 0


@given(
    st.text(max_size=30),
    st.dictionaries(st.text(max_size=8), st.none() | st.integers() | st.text() | st.lists(st.floats()), max_size=4),
)
def test_any_call_gives_a_result_or_a_tool_error(name: str, arguments: dict[str, Any]) -> None:
    package()
    entry = read_once()[0]
    for tool in (name, *entry.tools):
        backends = Backends(entry)
        assert isinstance(backends.result(ToolCall(name=tool, arguments=arguments)), str)


@pytest.mark.parametrize("name", ["_load_scenario", "__init__", "__class__", "get_method_called"])
def test_only_documented_methods_can_be_called(name: str) -> None:
    package()
    with pytest.raises(ToolError, match="is not defined"):
        Backends(read_once()[0]).run(ToolCall(name=name))


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("power", {"base": 9, "exponent": 10**12}),
        ("square_root", {"number": 2, "precision": 10**9}),
        ("logarithm", {"value": 2, "base": 3, "precision": 10**9}),
    ],
)
def test_sum_that_would_take_minutes_fails_at_once(name: str, arguments: dict[str, Any]) -> None:
    package()
    entry = next(e for e in read_entries(FOLDER, "base").entries if "MathAPI" in e.backends)
    with pytest.raises(ToolError, match="too large"):
        Backends(entry).run(ToolCall(name=name, arguments=arguments))


def test_arguments_without_a_keyword_go_by_the_order_of_the_parameters() -> None:
    assert keyword_call("f(1, c='x')", {"f": ["a", "b", "c"]}) == ToolCall(name="f", arguments={"a": 1, "c": "x"})
    assert keyword_call("f(1)") is None and keyword_call("f(1, 2)", {"f": ["a"]}) is None


def test_category_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match="no multi-turn category 'missing'"):
        read_entries(FOLDER, "missing")


@pytest.mark.parametrize(
    "name",
    [
        "BFCL_v4_multi_turn_base.json",
        "possible_answer/BFCL_v4_multi_turn_base.json",
        "multi_turn_func_doc/math_api.json",
    ],
)
@pytest.mark.parametrize("harm", ["missing", "cut", "altered"])
def test_missing_cut_or_altered_file_is_named(tmp_path: Path, name: str, harm: str) -> None:
    shutil.copytree(FOLDER, tmp_path / "bfcl", copy_function=shutil.copyfile)
    file = tmp_path / "bfcl" / name
    content = file.read_bytes()
    file.unlink()
    if harm != "missing":
        file.write_bytes(content[:-100] if harm == "cut" else content.replace(b"a", b"b", 1))
    with pytest.raises(ValueError, match="can not be read" if harm == "missing" else "cut or altered") as raised:
        read_entries(tmp_path / "bfcl", "base")
    assert Path(name).name in str(raised.value)


def test_without_the_package_the_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bfcl_eval", None)
    monkeypatch.setitem(sys.modules, "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker", None)
    with pytest.raises(ValueError, match="pip install --no-deps bfcl-eval"):
        BFCL.read(FOLDER)


def test_nothing_heavy_is_imported() -> None:
    package()
    code = "import sys; from pathlib import Path; from demur.envs.suites.bfcl import BFCL; BFCL.read(Path(sys.argv[1]))"
    code += "; print(sorted({'torch', 'transformers', 'faiss', 'anthropic', 'cohere'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code, FOLDER], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
