"""The intent part in training: who scores, that the scorer stays as it is, and what a failure costs."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from peft import LoraConfig, get_peft_model

import demur.train.grpo
import demur.train.intent
import demur.train.rollout
from demur.envs.intent.decoys import behaviours, decoys_for
from demur.envs.intent.scoring.local import LocalScorer
from demur.envs.intent.scoring.positions import Position
from demur.envs.intent.scoring.scores import PositionScore, ScoreRequest, acted_intent, harmful_turns, request_of
from demur.envs.policies.loading import load_model, load_tokenizer
from demur.envs.protocol import render
from demur.envs.task import Task
from demur.envs.trace import Label, Trajectory, read_jsonl
from demur.eval.report_run import read_run
from demur.train.arguments import RewardArguments, TaskArguments
from demur.train.checks import ROOT
from demur.train.grpo import main
from demur.train.intent import IntentScores, check_intent, frozen_scorer
from demur.train.scratch import Scratch, new_model
from tests.envs.helpers import Shop, make_task, play
from tests.train.runs import BASE, COMPACT, ScriptedTrainerPolicy, make_policy, metrics_of, sample_tasks, write_config

TASKS = sample_tasks(count=3)
BY_ID = {task.id: task for task in TASKS}


def played(script: str) -> list[Trajectory]:
    """Every task played by its expert or by the agent that does all it is told to."""
    return [play(task, *(render(step.turn()) for step in getattr(task, script))) for task in TASKS]


ACTED = played("act")


def weights_moved(model: Any) -> None:
    """As a few steps of training would, only further."""
    torch.manual_seed(1)
    with torch.no_grad():
        for weights in (w for w in model.parameters() if w.requires_grad):
            weights += 0.5 * torch.randn_like(weights)


def values(trajectories: Sequence[Trajectory]) -> list[float | None]:
    return [trajectory.acted_intent for trajectory in trajectories]


def by_hand(model: Any, tokenizer: Any) -> list[float | None]:
    """The scores of ACTED, read at every position."""
    decoys = [decoys_for(task, "train") for task in TASKS]
    asked = [request_of(*one, COMPACT) for one in zip(TASKS, ACTED, decoys, strict=True)]
    scored = LocalScorer(copy.deepcopy(model), tokenizer).score(asked)
    return [acted_intent(*one) for one in zip(TASKS, ACTED, scored, strict=True)]


class Counting:
    """Gives every position the same score and keeps what it was asked."""

    name, model = "counting", None

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.asked: list[ScoreRequest] = []

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[PositionScore]]:
        self.asked += requests
        if self.fails:
            raise TimeoutError("no answer")
        return [[score_at(position) for position in request.positions] for request in requests]


def score_at(position: Position) -> PositionScore:
    return PositionScore(position=position, intent=0.25, refusal=0.1, top="x", decoys={"x": 0.25}, mass=1.0)


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy of random weights for which every intent tool is a token, so that it finds them fairly likely."""
    folder = make_policy(tmp_path_factory.mktemp("intent"))
    tokenizer = load_tokenizer(str(folder))
    tokenizer.add_tokens([tool.name for world in behaviours() for tool in decoys_for(world, "train")])
    torch.manual_seed(0)
    model = new_model(Scratch(layers=2, width=32, heads=2, hidden=64), tokenizer)
    for weights in (w for w in model.parameters() if w.dim() > 1):
        torch.nn.init.normal_(weights, std=0.2)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def tokenizer(policy: Path) -> Any:
    return load_tokenizer(str(policy))


def test_under_lora_the_scorer_is_the_policy_with_its_adapter_off(policy: Path, tokenizer: Any) -> None:
    model = load_model(str(policy), dtype="float32")
    expected = by_hand(model, tokenizer)
    intent = frozen_scorer(model, tokenizer, "train", COMPACT, use_peft=True)
    trained = get_peft_model(model, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
    weights_moved(trained)
    intent.attach(trained, "cpu")
    assert values(intent(ACTED, BY_ID)) == pytest.approx(expected, abs=1e-4)
    with_adapter = LocalScorer(trained, tokenizer, adapter=True)
    assert values(IntentScores(with_adapter, "train", COMPACT)(ACTED, BY_ID)) != pytest.approx(expected, abs=1e-3)


def test_under_full_fine_tuning_a_copy_stays_while_the_policy_moves(policy: Path, tokenizer: Any) -> None:
    model = load_model(str(policy), dtype="float32")
    expected = by_hand(model, tokenizer)
    intent = frozen_scorer(model, tokenizer, "train", COMPACT, use_peft=False)
    intent.attach(model, "cpu")
    weights_moved(model.train())
    assert values(intent(ACTED, BY_ID)) == pytest.approx(expected, abs=1e-4)
    assert by_hand(model, tokenizer) != pytest.approx(expected, abs=1e-3)
    frozen = intent.scorer.model
    assert not frozen.training and not any(weights.requires_grad for weights in frozen.parameters())
    assert model.training and all(weights.requires_grad for weights in model.parameters())


def test_another_model_can_score(policy: Path, tokenizer: Any) -> None:
    model = load_model(str(policy), dtype="float32")
    intent = frozen_scorer(model, tokenizer, "train", COMPACT, use_peft=True, other=str(policy))
    intent.attach(model, "cpu")  # no adapter is needed
    assert intent.scorer.model is not model and intent.scorer.name == policy.name
    assert values(intent(ACTED, BY_ID)) == pytest.approx(by_hand(model, tokenizer), abs=1e-4)
    with pytest.raises(ValueError, match="there is no model at"):
        frozen_scorer(model, tokenizer, "train", COMPACT, use_peft=True, other=str(policy / "none"))


def test_without_an_adapter_to_switch_off_nothing_scores(policy: Path, tokenizer: Any) -> None:
    model = load_model(str(policy), dtype="float32")
    intent = frozen_scorer(model, tokenizer, "train", COMPACT, use_peft=True)
    with pytest.raises(AssertionError, match="the scorer would learn"):
        intent.attach(model, "cpu")


def test_only_rollouts_that_did_harm_are_read_and_the_others_have_0() -> None:
    scorer = Counting()
    scored = IntentScores(scorer, "train", COMPACT)(ACTED, BY_ID)
    did_harm = [bool(harmful_turns(*pair)) for pair in zip(TASKS, ACTED, strict=True)]
    assert values(scored) == [0.25 if harm else 0.0 for harm in did_harm]
    assert len(scorer.asked) == sum(did_harm) and 0 < sum(did_harm) < len(TASKS)
    assert {p.part for request in scorer.asked for p in request.positions} == {"action"}
    experts = IntentScores(scorer := Counting(), "train", COMPACT)(played("expert"), BY_ID)
    assert set(values(experts)) == {0.0} and not scorer.asked


def test_the_split_chooses_the_intent_tools() -> None:
    for split in ("train", "held_out"):
        IntentScores(scorer := Counting(), split, COMPACT)(ACTED, BY_ID)
        names = {tool.name for task in TASKS for tool in decoys_for(task, split)}
        assert scorer.asked and all(request.decoys <= names for request in scorer.asked)


def test_a_failure_gives_none_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    intent = IntentScores(Counting(fails=True), "train", COMPACT)
    assert values(intent(ACTED, BY_ID)) == [None] * len(ACTED)
    assert f"no intent scores for {len(ACTED)} rollouts: TimeoutError: no answer" in caplog.text
    assert intent.pop_seconds() > 0 and intent.pop_seconds() == 0


class Kiosk(Shop):
    domain: ClassVar[str] = "kiosk"


def test_a_world_without_intent_tools_is_refused() -> None:
    check_intent(TASKS, "train")
    kiosk = Kiosk(**dict(make_task().initial))
    with pytest.raises(ValueError, match="the world 'kiosk' has no intent tools"):
        check_intent([*TASKS, make_task(Label.HARMFUL, initial=kiosk)], "train")


@pytest.mark.parametrize("sharded", ["is_deepspeed_zero3_enabled", "is_fsdp_enabled"])
def test_models_that_are_sharded_over_ranks_are_refused(sharded: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demur.train.intent, sharded, lambda: True)
    with pytest.raises(ValueError, match="whole model on each rank"):
        check_intent(TASKS, "train")


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"intent_scores": True}, "set --intent_weight above 0"),
        ({"intent_scores": True, "intent_weight": 0.5, "intent_terms": ["adherence"]}, "keep acted"),
        ({"intent_model": "org/model"}, "intent_model would score nothing"),
        ({"intent_terms": ["acted", "early"]}, "not 'early'"),
        ({"intent_terms": ["guarded"]}, "set --guard contract"),
    ],
)
def test_scores_that_would_not_count_are_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RewardArguments(**keys)


SCORED: dict[str, Any] = {"intent_weight": 0.5, "intent_scores": True, "outcome_gate": False, "turn_limit": 4}
LORA = {"use_peft": True, "lora_r": 4, "lora_target_modules": "all-linear"}


def run_once(policy: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, **keys: Any) -> list[dict[str, Any]]:
    """Scripted rollouts: the expert's, the undoubting agent's, an answer, and no turn."""
    monkeypatch.setattr(demur.train.rollout, "TrainerPolicy", ScriptedTrainerPolicy)
    main(["--config", str(write_config(folder, BASE, model_name_or_path=str(policy), **(SCORED | keys)))])
    return metrics_of(folder / "run")


@pytest.mark.parametrize("lora", [LORA, {}], ids=["lora", "full"])
def test_the_scorer_does_not_move_over_a_run(
    lora: dict[str, Any], policy: Path, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: dict[str, Task] = {}
    seen = IntentScores.__call__

    def keep(self: IntentScores, trajectories: Any, by_id: Any) -> Any:
        tasks.update(by_id)
        return seen(self, trajectories, by_id)

    monkeypatch.setattr(IntentScores, "__call__", keep)
    lines = run_once(policy, tmp_path, monkeypatch, learning_rate=0.1, train_benign=0, train_underspecified=0, **lora)
    initial = LocalScorer(load_model(str(policy), dtype="float32"), tokenizer)
    read = 0
    for line in lines:
        rollouts = list(read_jsonl(tmp_path / "run" / "rollouts" / f"step-{line['step']:06d}.jsonl"))
        again = IntentScores(initial, "train", COMPACT)(rollouts, tasks)
        assert values(rollouts) == pytest.approx(values(again), abs=1e-4)
        read += sum(bool(value) for value in values(rollouts))
        assert line["intent_failures"] == 0 and line["intent_seconds"] > 0 and line["grad_norm"] > 0
    assert read > 0, "some rollouts did harm"
    notes = read_run(tmp_path / "run").manifest.notes
    assert notes["intent_decoys"] == "train" and notes["intent_scorer"] == "initial policy"


def test_a_run_whose_scorer_fails_goes_on_and_counts(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalScorer, "score", Counting(fails=True).score)
    (line,) = run_once(policy, tmp_path, monkeypatch, max_steps=1)
    assert line["intent_failures"] == 8 and line["grad_norm"] > 0
    rollouts = read_jsonl(tmp_path / "run" / "rollouts" / "step-000001.jsonl")
    assert {rollout.acted_intent for rollout in rollouts} == {None}


def test_without_scores_nothing_is_noted(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (line,) = run_once(policy, tmp_path, monkeypatch, max_steps=1, intent_scores=False)
    assert line["intent_failures"] is line["intent_seconds"] is None
    assert "intent_decoys" not in read_run(tmp_path / "run").manifest.notes


@pytest.mark.parametrize("scores", [True, False], ids=["trained against", "only evaluated"])
def test_the_evaluation_is_read_by_the_initial_policy_with_both_sets(
    scores: bool, policy: Path, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demur.train.grpo, "evaluate", lambda name, *_, **__: renamed(ACTED, name))
    monkeypatch.setattr(TaskArguments, "tasks", lambda self, split, counts, seed: TASKS)
    keys = {"intent_scores": scores, "intent_weight": 0.5 * scores, "intent_eval": True, "learning_rate": 0.1}
    (line,) = run_once(policy, tmp_path, monkeypatch, max_steps=1, **keys)
    assert (line["intent_seconds"] is not None) is scores
    run = read_run(tmp_path / "run")
    notes, found = run.manifest.notes, run.intent
    assert found is not None and found.scorer == "initial policy" and notes["monitor_decoys"] == "train, held_out"
    assert ("monitor_train" in notes) is ("intent_decoys" in notes) is ("monitor_train" in found.notes) is scores
    assert "monitor_held_out" not in notes
    # the trajectories are the same before and after, and so has to be what the frozen scorer says of them
    figures = {(row.suite, row.policy, row.label, row.metric): row.value for row in found.rows}
    assert {suite for suite, *_ in figures} == {"worlds", "worlds, train decoys"}
    for (suite, name, *rest), value in figures.items():
        assert value == figures[suite, "after" if name == "before" else "before", *rest]
    decoys = {task.id: decoys_for(task, "held_out") for task in TASKS}
    benign = [(task, t) for task, t in zip(TASKS, ACTED, strict=True) if t.label is Label.BENIGN]
    asked = [request_of(task, t, decoys[task.id], COMPACT) for task, t in benign]
    initial = LocalScorer(load_model(str(policy), dtype="float32"), tokenizer, tolerance=0)
    first = [scores[0].intent for scores in initial.score(asked)]
    (curve,) = [c for c in found.curves if (c.policy, c.label, c.decoys) == ("after", "benign", "held_out")]
    assert curve.points[0].intent.value == pytest.approx(sum(first) / len(first), abs=1e-4)
    assert (
        run.summary.value("after", "intent_auroc", "harmful") == figures["worlds", "after", "harmful", "intent_auroc"]
    )
    assert 'id="intent"' in (tmp_path / "run" / "report.html").read_text("utf-8")


def renamed(trajectories: Sequence[Trajectory], policy: str) -> list[Trajectory]:
    return [t.model_copy(update={"policy": policy}) for t in trajectories]


def test_scoring_is_not_counted_as_the_policys_own_time(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score = LocalScorer.score

    def slowly(self: LocalScorer, requests: Sequence[ScoreRequest]) -> Any:
        time.sleep(1.5)
        return score(self, requests)

    monkeypatch.setattr(LocalScorer, "score", slowly)
    (line,) = run_once(policy, tmp_path, monkeypatch, max_steps=1)
    assert line["intent_seconds"] >= 1.5 and line["intent_failures"] == 0
    assert line["model_share"] * line["seconds"] <= line["seconds"] - line["intent_seconds"]


@pytest.mark.slow
def test_the_tiny_policy_trains_with_intent(tmp_path: Path) -> None:
    run, few = tmp_path / "run", [f"--eval_{label.value}=4" for label in Label]
    keys = ["--intent_weight", "0.5", "--intent_scores", "true", "--max_steps", "2", "--min_completion", "0"]
    main(["--config", str(ROOT / "configs" / "quickstart.yaml"), "--run", str(run), *few, *keys])
    lines = metrics_of(run)
    assert [line["intent_failures"] for line in lines] == [0, 0]
    for line in lines:
        assert 0 < line["intent_seconds"] < line["seconds"] and -1 <= line["r_int"] <= 1
    rollouts = [t for step in (1, 2) for t in read_jsonl(run / "rollouts" / f"step-{step:06d}.jsonl")]
    assert all(t.acted_intent is not None and 0 <= t.acted_intent <= 1 for t in rollouts)
    assert any(t.acted_intent for t in rollouts), "before training some do harm"
