"""A run and its judge: limits that end it with a checkpoint, going on from there, and judging again what failed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import demur.train.rollout
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label
from demur.eval import judge_card
from demur.rewards.alignment import Comparing
from demur.rewards.judges import MeteredJudge, Pair
from demur.rewards.judges.oracle import Oracle
from demur.rewards.rubric import Rubric
from demur.train import rejudge
from demur.train.folder import RunFolder
from demur.train.grpo import main
from demur.train.judging import JudgeArguments
from demur.train.rejudge import Failed
from demur.train.scoring import GroupScorer, Judging
from tests.eval.runs import make_trace
from tests.tools.noisy_server import Faults, NoisyServer
from tests.train.runs import BASE, ScriptedTrainerPolicy, error_of, metrics_of, write_config

TWO_STEPS = {"save_steps": 10, "max_steps": 2, "intent_weight": 0.0}


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demur.train.rollout, "TrainerPolicy", ScriptedTrainerPolicy)


def config(folder: Path, policy: Path, url: str, **changes: Any) -> str:
    keys = {
        **BASE,
        **TWO_STEPS,
        "model_name_or_path": str(policy),
        "worlds": ["bank", "files", "mail"],
        "judge": "llm",
        "judge_model": "noisy",
        "judge_url": url,
        "judge_retries": 0,
        "judge_cache": str(folder / "cache"),
    }
    return str(write_config(folder, {**keys, **changes}))


def half(shown: object) -> float:
    return 0.5


@pytest.mark.slow
def test_a_budget_ends_the_run_with_a_checkpoint_and_a_larger_one_lets_it_go_on(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with NoisyServer(half) as server:
        file = config(tmp_path, policy, server.url)
        status, line = error_of(main, ["--config", file, "--judge_max_calls", "20"], capsys)
        asked = len(server.requests)
        assert status == 1 and "budget" in line and "step 1 is saved, go on with --resume" in line
        assert (tmp_path / "run" / "checkpoints" / "checkpoint-1" / "complete").is_file()
        assert asked == 20 and not (tmp_path / "run" / "report.html").exists()
        main(["--config", file, "--resume", "--judge_max_calls", "100"])
    steps = metrics_of(tmp_path / "run")
    assert [step["step"] for step in steps] == [1, 2]
    assert steps[0]["judge_failures"] > 0 and steps[1]["judge_failures"] == 0
    assert steps[1]["judge_calls"] + steps[1]["judge_cached"] > 0 and steps[1]["judge_tokens"] > 0


@pytest.mark.slow
def test_a_judge_that_fails_too_often_ends_the_run_and_what_failed_is_judged_again(
    policy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    with NoisyServer(half, faults=Faults(errors=1.0), attempts=None) as server:
        file = config(tmp_path, policy, server.url)
        status, line = error_of(main, ["--config", file], capsys)
        assert status == 1 and "100% of the step's rollouts" in line and "judge/failures.jsonl" in line
        failures = (run / "judge" / "failures.jsonl").read_text().splitlines()
        assert failures and all(json.loads(line)["step"] == 1 for line in failures)
        assert rejudge.main(["--run", str(run)]) == 1, "the server still fails"
    with NoisyServer(half) as server:
        capsys.readouterr()
        assert rejudge.main(["--run", str(run), "--judge_url", server.url]) == 0
    again = [json.loads(line) for line in (run / "judge" / "rejudged.jsonl").read_text().splitlines()]
    assert len(again) == len(failures) and all(0 <= line["value"] <= 1 for line in again)
    assert f"{len(failures)} of {len(failures)} calls judged" in capsys.readouterr().out


def test_nothing_to_judge_again_and_files_that_are_not_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, line = error_of(rejudge.main, ["--run", str(tmp_path)], capsys)
    assert status == 2 and "holds no run" in line
    write_config(tmp_path, {"worlds": ["mail"]})
    assert rejudge.main(["--run", str(tmp_path)]) == 0 and "no call of the judge failed" in capsys.readouterr().out
    (tmp_path / "judge").mkdir()
    failure = {"step": 3, "kind": "compare", "task_id": "t", "samples": [0, 1], "error": "gone"}
    for text, said in (
        ("{}", "failures.jsonl:1 is not a failed call"),
        ("[]", "failures.jsonl:1 is not a failed call"),
        (json.dumps(failure), "the rollouts of step 3 are gone"),
    ):
        (tmp_path / "judge" / "failures.jsonl").write_text(text + "\n")
        status, line = error_of(rejudge.main, ["--run", str(tmp_path)], capsys)
        assert status == 2 and said in line


def test_a_run_made_on_gpus_is_judged_again_without_one(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.config.write_text("worlds: [mail]\nbf16: true\n")
    assert isinstance(rejudge.judge_of(folder, []), Oracle)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"judge": "llm"}, "the judge llm needs the name of a model"),
        ({"judge_model": "gpt"}, "takes no model or url"),
        ({"judge": "nobody"}, "there is no judge 'nobody'"),
        ({"judge": "llm", "judge_model": "m", "judge_url": "http://127.0.0.1:9/v1", "judge_max_calls": 0}, "max_calls"),
        ({"judge": "llm", "judge_model": "m", "judge_url": "localhost:9"}, "http"),
        ({"judge_card": "no/card.json"}, "no/card.json"),
    ],
)
def test_a_judge_that_cannot_be_made_is_a_sentence(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        JudgeArguments(**keys).make("pairwise")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"judge_max_failures": 1.5}, "a share from 0 to 1"),
        ({"judge_prices": [1.0]}, "two numbers"),
        ({"min_kappa": 0.4}, "min_kappa needs --judge_card"),
        ({"judge_url": "https://me:secret@host/v1"}, "put the key in the environment variable"),
        ({"judge_url": "me@host"}, "put the key in the environment variable"),
    ],
)
def test_settings_that_do_not_fit_are_sentences(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        JudgeArguments(**keys)


def test_the_oracle_is_the_default() -> None:
    assert isinstance(JudgeArguments().make("pairwise"), Oracle)


def test_the_card_takes_the_names_that_training_has(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        judge_card.main(["--help"])
    flags = set(re.findall(r"--(judge\w*)", capsys.readouterr().out))
    assert len(flags) >= 15 and flags <= vars(JudgeArguments()).keys()


def test_wrong_flags_of_rejudge_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, line = error_of(rejudge.main, [], capsys)
    assert status == 2 and "required: --run" in line


def test_only_the_repeat_that_failed_is_asked_again_and_its_reply_gets_its_place_in_the_cache(tmp_path: Path) -> None:
    group = [make_trace(Label.BENIGN, sample=at) for at in (0, 1)]
    keys: dict[str, Any] = {"judge": "llm", "judge_model": "noisy", "judge_cache": str(tmp_path / "cache")}
    keys |= {"judge_concurrency": 1, "judge_retries": 0}
    pair = (group[0], group[1])
    with NoisyServer(half) as server:
        judge = JudgeArguments(**keys, judge_url=server.url, judge_max_calls=2).make("pairwise")
        assert isinstance(judge, MeteredJudge) and judge.compare([pair] * 3) == [1.0, 1.0, None]
        (failure,) = judge.pop_failures()
        assert failure.repeat == 2
        before = len(server.requests)
        again = JudgeArguments(**keys, judge_url=server.url).make("pairwise")
        failed = [Failed(step, failure, pair) for step in (1, 2)]  # the same question at two steps
        assert rejudge.judge_again(failed, again) == [{"value": 1.0}] * 2
        assert len(server.requests) == before + 1
        replayed = JudgeArguments(**keys, judge_url=server.url).make("pairwise")
        assert replayed.compare([pair] * 3) == [1.0] * 3
        assert len(server.requests) == before + 1, "all three come from the cache"


def test_failures_of_a_judge_that_tells_none_are_counted_and_judged_again(tmp_path: Path) -> None:
    group = [make_trace(Label.BENIGN, sample=at) for at in range(3)]
    found: list[Judging] = []
    rubric = Rubric(judge=Silent(), comparing=Comparing(both_orders=False, repeats=2))
    task = make_tasks(["mail"], "train", {Label.BENIGN: 1})[0]
    GroupScorer(rubric, 3, lambda step, every, parts, judging: found.append(judging))(
        group, {group[0].task_id: task}, 1
    )
    failures = found[0].failures
    assert [(one.samples, one.repeat, one.error) for one in failures] == [
        ((0, 1), 0, "the judge gave no answer"),
        ((0, 1), 1, "the judge gave no answer"),
        ((0, 2), 0, "the judge's answer 7.0 is not in [0, 1]"),
        ((0, 2), 1, "the judge's answer 7.0 is not in [0, 1]"),
    ]
    assert found[0].measures["failed_calls"] == 4 and found[0].measures["failed_rate"] == pytest.approx(2 / 3)
    failed = [Failed(1, one, (group[one.samples[0]], group[one.samples[1]])) for one in failures]
    assert rejudge.judge_again(failed, Oracle()) == [{"value": 0.5}] * 4
    assert [line["error"] for line in rejudge.judge_again(failed[:1], Silent())] == ["the judge gave no answer"]


class Silent(Oracle):
    """Fails on rollout 0, in two ways, and tells nobody."""

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        by_sample = {(0, 1): None, (0, 2): 7.0}
        return [by_sample.get((one.sample, other.sample), 0.5) for one, other in pairs]
