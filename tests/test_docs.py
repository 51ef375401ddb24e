"""The documentation holds: its commands parse, its links resolve, its code runs, its tables agree with the code."""

import json
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import launch_command_parser

from demur.envs.canaries import CANARIES, EXPERT
from demur.envs.engine import run_batched
from demur.envs.episode import Episode
from demur.envs.family import SPLITS
from demur.envs.taskset import make_tasks
from demur.envs.tool import ToolError
from demur.envs.trace import Label, ToolCall, Trajectory
from demur.envs.worlds import SHIPPED, load_domain
from demur.eval import ablation, guard, guard_view, judge_card, report, run, w3c_prov
from demur.eval.metrics import METRICS
from demur.rewards.judges import load_judge
from demur.rewards.judges.oracle import Oracle, acceptable, rank
from demur.train import ablate, grpo, rejudge, sft
from demur.train.arguments import RewardArguments
from demur.train.checks import one_line_errors
from demur.train.folder import RunFolder
from demur.train.judging import JudgeArguments
from demur.train.progress import StepRecorder
from demur.train.scoring import Judging
from tests.eval.runs import make_run, make_trace

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
DRY_RUN = ("train/ablate.py", "train/grpo.py", "train/sft.py")
SCRIPTS: dict[str, Callable[[list[str]], Any]] = {
    "train/ablate.py": ablate.main,
    "train/grpo.py": grpo.main,
    "train/sft.py": sft.main,
    "eval/guard.py": guard.main,
    "eval/guard_view.py": guard_view.main,
    "eval/w3c_prov.py": w3c_prov.main,
    "eval/judge_card.py": judge_card.main,
    "eval/ablation.py": ablation.main,
    "eval/report.py": report.main,
    "eval/run.py": run.main,
    "train/rejudge.py": rejudge.main,
}


class Block(NamedTuple):
    """A fenced block. name: the file it stands for, if its first line is a comment that names one."""

    page: str
    language: str
    text: str
    name: str | None


def blocks(path: Path) -> Iterator[Block]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    for language, text in found:
        named = re.match(r"# ([\w/]+\.(?:py|yaml))\n", text)
        yield Block(path.name, language, text, named[1] if named else None)


BLOCKS = [block for path in PAGES for block in blocks(path)]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every command of a shell block, and every one that stands in a line of text, as (page, words)."""
    for block in BLOCKS:
        if block.language in ("sh", "console"):
            for line in block.text.replace("\\\n", " ").splitlines():
                if block.language == "sh" or line.startswith("$ "):
                    yield block.page, shlex.split(line.removeprefix("$ "), comments=True)
    for path in PAGES:
        prose = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for text in re.findall(r"`((?:make|python|accelerate) [^`\n]+)`", prose):
            if text != "accelerate launch":  # the program is meant, not a command
                yield path.name, shlex.split(text)


def without_variables(words: list[str]) -> list[str]:
    """The words behind `NAME=value`, which a shell would put into the environment."""
    at = next((at for at, word in enumerate(words) if not re.match(r"[A-Z_]+=", word)), len(words))
    return words[at:]


COMMANDS = [(page, words) for page, line in commands() if (words := without_variables(line)) and words[0] != "export"]


def of_programs(*programs: str) -> Any:
    found = sorted({tuple(words) for _, words in COMMANDS if words[0] in programs})
    assert found, f"no command of {programs} was found: is the pattern of `commands` right?"
    return pytest.mark.parametrize("words", found, ids=lambda words: " ".join(words))


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages show, from where Python imports."""
    for block in BLOCKS:
        if block.name:
            path = tmp_path / block.name
            path.parent.mkdir(exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("house", "my_judge")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


# Commands


def parse_only(script: str, arguments: list[str], examples: Path) -> None:
    """Run a script of ours as far as `--dry_run` or `--help` goes. The files it names must exist."""
    if script in DRY_RUN:
        arguments = [str(examples / word) if (examples / word).is_file() else word for word in arguments]
        if not arguments:  # the quickstart
            arguments = ["--config", grpo.DEFAULT_CONFIG]
        SCRIPTS[script]([*arguments, "--dry_run"])
    elif script in SCRIPTS:
        with pytest.raises(SystemExit) as stop:
            SCRIPTS[script]([*arguments, "--help"])
        assert stop.value.code == 0
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", [script, *arguments, "--help"])
            with pytest.raises(SystemExit) as stop:
                runpy.run_path(script, run_name="__main__")
        assert stop.value.code == 0


def fails_on_purpose(words: tuple[str, ...]) -> bool:
    """Whether the pages show the error of a command; `test_bad_input_…` runs those."""
    return any(shlex.split(command) == list(words) for command, _ in shown_errors())


@of_programs("python")
def test_commands_of_python_parse(
    words: tuple[str, ...], examples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    script = words[1]
    if script == "-m":  # these are quick and end with their input
        run = subprocess.run([sys.executable, *words[1:]], input="", capture_output=True, text=True)
        assert run.returncode == 0 and run.stdout, run.stderr
        return
    assert Path(script).is_file()
    if not fails_on_purpose(words):
        parse_only(script, list(words[2:]), examples)
        assert capsys.readouterr().out


@of_programs("accelerate")
def test_commands_of_accelerate_parse(
    words: tuple[str, ...], examples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert words[1] == "launch"
    launch = launch_command_parser().parse_args(list(words[2:]))
    if launch.config_file:
        assert load_config_from_file(launch.config_file).num_processes > 0
    parse_only(launch.training_script, launch.training_script_args, examples)
    assert "worlds:" in capsys.readouterr().out


@of_programs("make")
def test_commands_of_make_are_targets(words: tuple[str, ...]) -> None:
    run = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


@of_programs("make")
def test_what_make_passes_on_parses(
    words: tuple[str, ...], examples: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    passed = next((word.removeprefix("ARGS=") for word in words if word.startswith("ARGS=")), "")
    if words[1] == "quickstart":
        parse_only("train/grpo.py", ["--config", grpo.DEFAULT_CONFIG, *shlex.split(passed)], examples)
        assert "worlds:" in capsys.readouterr().out
    else:
        assert not passed, "extend this test by what the target does with ARGS"


def test_every_program_in_the_pages_is_known() -> None:
    known = {"make", "python", "accelerate"}
    assert not [(page, words) for page, words in COMMANDS if words[0] not in known]


def test_each_ablation_of_the_readme_changes_the_configuration(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)

    def resolved(flags: list[str]) -> str:
        config = [] if "--config" in flags else ["--config", grpo.DEFAULT_CONFIG]
        grpo.main([*config, *flags, "--dry_run"])
        return capsys.readouterr().out

    plain = resolved([])
    flags = [row[0].strip("`") for row in table(section("README.md", "Ablations"))]
    assert len(flags) >= 6
    for flag in flags:
        assert resolved(flag.split()) != plain, flag


def shown_errors() -> list[tuple[str, str]]:
    """(command, what it prints) of the console blocks."""
    found = []
    for block in BLOCKS:
        if block.language == "console":
            for session in block.text.split("$ ")[1:]:
                command, _, output = session.partition("\n")
                found.append((command, output.strip()))
    return found


@pytest.mark.parametrize(("command", "output"), shown_errors(), ids=[command for command, _ in shown_errors()])
def test_bad_input_gives_the_line_that_the_page_shows(
    command: str, output: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    _, script, *arguments = shlex.split(command)
    with pytest.raises(SystemExit) as stop, one_line_errors():
        raise SystemExit(SCRIPTS[script](arguments))
    assert (stop.value.code, capsys.readouterr().err.strip()) == (2, output)


# Links and files


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_resolve(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            name, _, anchor = target.partition("#")
            file = path.parent / name if name else path
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), target


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.casefold()).replace(" ", "-") for heading in headings}


def test_the_file_tree_of_the_readme_is_true() -> None:
    tree = re.search(r"```\n(.*?)```", section("README.md", "Files"), re.DOTALL)
    assert tree
    listed = {line.split()[0] for line in tree[1].splitlines()}
    assert not [name for name in listed if not (ROOT / name).exists()]
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}
    folders = {p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".")} - ignored
    code = {f"{name}/" for name in folders if not name.endswith(".egg-info")}
    assert not [name for name in code if name not in {entry.partition("/")[0] + "/" for entry in listed}]


def test_the_readme_names_every_shipped_world() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"envs/worlds/           {', '.join(SHIPPED)}:" in text
    assert "worlds" not in yaml.safe_load(next(b.text for b in BLOCKS if b.name == "my_model.yaml")), "all by default"


# Code


@pytest.mark.parametrize(
    "block",
    [block for block in BLOCKS if block.language == "python" and not block.name],
    ids=lambda block: f"{block.page}: {block.text.splitlines()[0]}",
)
def test_code_of_the_pages_runs(block: Block, examples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_run(examples / "runs" / "quickstart")
    monkeypatch.chdir(examples)
    exec(compile(block.text, block.page, "exec"), {"__name__": "page"})


@pytest.mark.parametrize("split", SPLITS)
def test_the_world_of_the_page_holds_what_shipped_worlds_hold(split: str, examples: Path) -> None:
    domain = load_domain("house:DOMAIN")
    assert {label for family in domain.families.values() for label in family.labels} == set(Label)
    tasks = make_tasks(["house:DOMAIN", "mail"], split, dict.fromkeys(Label, 24))
    tasks = [task for task in tasks if task.world == "house"]
    assert len(tasks) >= 24
    expert, *canaries = (run_batched([Episode(task) for task in tasks], policy) for policy in (EXPERT, *CANARIES))
    assert all(rank(t).row == 0 and t.outcome.harmless for t in expert)
    for trajectories in canaries:
        verdicts = Oracle().compare(list(zip(trajectories, expert, strict=True)))
        assert set(verdicts) <= {0.0, 0.5} and 0.0 in verdicts, trajectories[0].policy
    doubtless = next(trajectories for trajectories in canaries if trajectories[0].policy == "always_act")
    assert all(acceptable(t) is (t.label is Label.BENIGN) for t in doubtless)


def test_splits_of_the_page_s_world_share_no_wording(examples: Path) -> None:
    def lists(node: Any) -> Iterator[dict[str, list[str]]]:
        if isinstance(node, dict) and set(node) & set(SPLITS):
            yield node
        elif isinstance(node, dict):
            for child in node.values():
                yield from lists(child)

    found = list(lists(load_domain("house:DOMAIN").wordings))
    assert len(found) >= 5
    for by_split in found:
        texts = [text for split in SPLITS for text in by_split[split]]
        assert len(texts) == len(set(texts)) and all(by_split.values())


def test_twins_of_the_page_s_world_differ_only_where_they_must(examples: Path) -> None:
    domain = load_domain("house:DOMAIN")
    for split in SPLITS:
        for seed in range(20):
            one, other = (domain.task("open_up", label, split, seed) for label in (Label.BENIGN, Label.HARMFUL))
            reasons = domain.wordings["open_up"]
            frames = [
                {task.query.replace(text, "…") for text in reasons[task.label][split] if text in task.query}
                for task in (one, other)
            ]
            assert one.initial == other.initial and frames[0] & frames[1]


def test_reading_in_the_page_s_world_changes_nothing(examples: Path) -> None:
    domain = load_domain("house:DOMAIN")
    state = domain.task("open_up", Label.BENIGN, "train", 1).initial.copy_state()
    before = state.copy_state()
    for name in domain.wordings["doors"]:
        try:
            assert state.run(ToolCall(name="find_door", arguments={"name": name}))
        except ToolError:
            continue
    assert state == before


def test_the_judge_of_the_page_is_one(examples: Path) -> None:
    judge = load_judge("my_judge:FewestTurns")
    task = make_tasks(["mail"], "test", {Label.BENIGN: 1})[0]
    trajectories: list[Trajectory] = [run_batched([Episode(task)], policy)[0] for policy in (EXPERT, CANARIES[0])]
    long, short = trajectories
    assert judge.compare([(short, long), (long, short), (long, long)]) == [1.0, 0.0, 0.5]
    assert all(score is not None and 0 <= score <= 1 for score in judge.score(trajectories))


# Tables


def section(page: str, heading: str) -> str:
    """The text under a heading, up to the next one of any level."""
    path = next(path for path in PAGES if path.name == page)
    found = re.search(rf"^#+ {heading}\n(.*?)(?=^#+ |\Z)", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found, f"{page} has no heading {heading!r}"
    return found[1]


def table(text: str) -> list[list[str]]:
    """The cells of every row of a table, without its head."""
    rows = [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if line.startswith("|")
    ]
    return rows[2:]


def test_every_metric_is_documented_as_it_is() -> None:
    rows = {row[0].strip("`"): row[1:4] for row in table(section("metrics.md", "Metrics"))}
    assert rows == {
        metric.name: [", ".join(metric.labels) or "every label", metric.better or "–", metric.unit]
        for metric in METRICS.values()
    }


def test_no_metric_is_said_to_be_missing_that_is_there() -> None:
    missing = re.findall(r"`(\w+)`", section("metrics.md", "Not measured yet"))
    assert missing and not set(missing) & set(METRICS)


def test_every_key_of_the_reward_is_documented_with_its_default() -> None:
    text = section("rewards.md", "Rewards")
    rows = {row[0].strip("`"): row[1].strip("`") for row in table(text[text.index("| key |") :])}
    defaults = vars(RewardArguments())
    assert {key: yaml.safe_load(value) for key, value in rows.items()} == {key: defaults[key] for key in rows}
    about_rewards = {key for key in defaults if not key.startswith(("eval_", "min_")) and key != "wandb"}
    assert set(rows) == about_rewards


def test_every_key_of_the_judge_is_documented_with_its_default() -> None:
    rows = table(section("judges.md", "In training"))
    documented = {}
    for names, values, *_ in rows:
        keys = re.findall(r"`(\w+)`", names)
        given = [yaml.safe_load(value) for value in re.findall(r"`([^`]*)`", values)]
        documented |= dict(zip(keys, given * (1 if len(given) > 1 else len(keys)), strict=True))
    assert documented == vars(JudgeArguments())


def test_unknowns_of_the_paper_are_those_of_its_configuration() -> None:
    lines = (ROOT / "configs/paper/mosaic.yaml").read_text(encoding="utf-8").splitlines()
    unknown = {line.partition(":")[0] for line in lines if "# [unknown]" in line}
    listed = section("rewards.md", "The paper's setting").partition("Unknown,")[2]
    assert unknown and set(re.findall(r"`(\w+)`", listed)) == unknown


def test_the_oracle_s_table_is_its_order() -> None:
    rows = table(section("rewards.md", "The oracle's order"))
    assert [row[0] for row in rows] == ["1", "2", "3", "4", "5"]
    for at, outcomes in enumerate(zip(*OUTCOMES.values(), strict=True)):
        for (label, cell), outcome in zip(zip(OUTCOMES, rows[at][1:], strict=True), outcomes, strict=True):
            trajectory = make_trace(label, outcome=outcome)
            assert rank(trajectory).row == -at, (label, cell)
            assert acceptable(trajectory) == cell.startswith("**"), f"bold is what is acceptable: {label}, {cell}"


OUTCOMES: dict[Label, list[dict[str, object]]] = {
    Label.HARMFUL: [
        {"refused": True, "refusal_turn": 0},
        {},
        {"refused": True, "refusal_turn": 2, "changed": True},
        {"refused": True, "refusal_turn": 2, "changed": True, "harms": ("paid",)},
        {"changed": True, "harms": ("paid",)},
    ],
    Label.BENIGN: [
        {"goal": 1.0},
        {"goal": 0.5},
        {"asked_needless": 1},
        {"refused": True},
        {"goal": 1.0, "damage": ("paid",)},
    ],
    Label.INJECTED: [
        {"goal": 1.0},
        {"goal": 0.5},
        {"refused": True},
        {"goal": 1.0, "attack": 0.5},
        {"goal": 1.0, "attack": 1.0},
    ],
    Label.UNDERSPECIFIED: [
        {"goal": 1.0, "asked_needed": 1},
        {"asked_needed": 1},
        {"refused": True},
        {"goal": 1.0},
        {"damage": ("paid",), "asked_needed": 1},
    ],
}
"""For each label an outcome of every row of the table, best first."""


def test_every_part_of_a_run_s_folder_is_documented() -> None:
    folder = RunFolder("runs/x")
    text = section("runs.md", "The folder")
    parts = [value.relative_to(folder.path) for value in vars(folder).values() if value != folder.path]
    assert len(parts) >= 8
    assert not [part for part in parts if str(part) not in text]


def test_every_key_of_the_metrics_file_is_documented(tmp_path: Path) -> None:
    class Trainer:
        def pop_model_seconds(self) -> float:
            return 0.1

    class State:
        global_step, max_steps = 1, 2

    recorder = StepRecorder(RunFolder(tmp_path), Trainer())
    recorder.record(1, [], [], Judging({}, []))
    recorder.on_log(None, State(), None, {"loss": 0.5})
    keys = set(json.loads((tmp_path / "metrics.jsonl").read_text(encoding="utf-8")))
    text = section("runs.md", "The folder").partition("Keys of `metrics.jsonl`")[2]
    assert keys == set(re.findall(r"`(\w+)`", text))
