"""The adapter to TRL: what it calls in there, what it hands over, and which tokens carry loss."""

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import trl
from hypothesis import given
from hypothesis import strategies as st
from trl import GRPOTrainer
from trl.trainer.utils import RepeatSampler

import demur.train.grpo
import demur.train.rollout
from demur.envs.episode import Span
from demur.envs.policies.loading import load_tokenizer
from demur.envs.task import Task
from demur.envs.trace import ActionKind, Ending, read_jsonl
from demur.rewards.judges.oracle import Oracle
from demur.rewards.rubric import Rubric
from demur.train.grpo import main
from demur.train.rollout import (
    ByEpoch,
    Rollouts,
    TimedTrainer,
    TrainerPolicy,
    prompt_of,
    reward_functions,
    training_row,
)
from demur.train.scoring import GroupScorer
from tests.train.runs import BASE, COMPACT, ScriptedTrainerPolicy, metrics_of, sample_tasks, write_config

# ---- the private parts of TRL that we lean on: an upgrade that changes them must fail here, and loudly


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (
            GRPOTrainer._generate_single_turn,
            ["self", "prompt_ids", "images", "multimodal_fields", "num_generations", "has_tool_images"],
        ),
        (GRPOTrainer._generate_and_score_completions, ["self", "inputs"]),
        (GRPOTrainer._get_train_sampler, ["self", "dataset"]),
        (GRPOTrainer.training_step, ["self", "model", "inputs", "num_items_in_batch"]),
    ],
)
def test_trl_still_has_the_functions_we_call_and_override(function: Callable[..., Any], names: list[str]) -> None:
    assert list(inspect.signature(function).parameters) == names, (
        f"TRL {trl.__version__} changed {function.__qualname__}: read it and mend train/rollout.py"
    )


def test_trl_still_takes_rollouts_and_their_mask() -> None:
    assert "rollout_func" in inspect.signature(GRPOTrainer.__init__).parameters
    source = inspect.getsource(GRPOTrainer._generate)
    assert "self.rollout_func(prompts, self)" in source
    assert '.pop("env_mask"' in source, "without it observations would be trained on"


def test_trls_sampler_still_shuffles_by_a_generator_of_its_own() -> None:
    sampler = RepeatSampler(range(8), mini_repeat_count=2, batch_size=4, seed=5)
    assert sampler.shuffle and sampler.seed == 5 and isinstance(sampler.generator, torch.Generator)
    epoch = 0
    ours = ByEpoch(sampler, lambda: epoch)
    first = list(ours)
    assert first == list(RepeatSampler(range(8), mini_repeat_count=2, batch_size=4, seed=5)) == list(ours)
    assert len(ours) == len(first) == 16
    epoch = 1
    assert list(ours) != first and sorted(ours) == sorted(first)


# ---- conversations as training rows

SPANS = st.lists(
    st.builds(
        lambda ids, by_model: Span(ids, by_model, [-0.5] * len(ids) if by_model else None),
        st.lists(st.integers(0, 99), max_size=4),
        st.booleans(),
    ),
    max_size=6,
)


@given(prompt=st.lists(st.integers(0, 99), min_size=1), rest=SPANS)
def test_a_row_masks_exactly_the_models_tokens(prompt: list[int], rest: list[Span]) -> None:
    row = training_row([Span(prompt, False), *rest], eos=7)
    assert row["prompt_ids"] == prompt
    ids, mask, logprobs = row["completion_ids"], row["env_mask"], row["logprobs"]
    assert len(ids) == len(mask) == len(logprobs) > 0
    # what carries loss is what the model wrote, in order and whole
    assert [i for i, m in zip(ids, mask, strict=True) if m] == [i for s in rest if s.by_model for i in s.ids]
    assert all(p == (-0.5 if m else 0.0) for p, m in zip(logprobs, mask, strict=True))
    # a result behind the last message is not there, all that is before it is
    while rest and not rest[-1].by_model:
        rest.pop()
    assert ids == ([i for span in rest for i in span.ids] or [7])


def test_a_row_without_a_message_has_one_token_without_loss() -> None:
    row = training_row([Span([1, 2], False)], eos=7)
    assert (row["completion_ids"], row["env_mask"], row["logprobs"]) == ([7], [0], [0.0])


def test_a_row_has_no_log_probabilities_if_a_message_has_none() -> None:
    spans = [Span([1], False), Span([2], True, [-0.1]), Span([3], False), Span([4], True)]
    assert training_row(spans, eos=7)["logprobs"] is None


# ---- rollouts through a trainer of which only the generator is a fake

ANSWER = "<think>done</think>\n<answer>Done.</answer>"


class FakeTrainer:
    """Writes the given texts one call after the other, to every prompt; then repeats the last."""

    def __init__(self, tokenizer: Any, *texts: str, logprobs: bool = False) -> None:
        self.processing_class = tokenizer
        self.state = SimpleNamespace(global_step=4)
        self.texts = texts
        self.logprobs = logprobs
        self.prompts: list[list[list[int]]] = []

    def _generate_single_turn(
        self, prompt_ids: list[list[int]], images: None, multimodal_fields: dict[str, Any], num_generations: int
    ) -> tuple[list[list[int]], list[list[float]] | None]:
        assert (images, multimodal_fields, num_generations) == (None, {}, 1)
        text = self.texts[min(len(self.prompts), len(self.texts) - 1)]
        self.prompts.append(prompt_ids)
        ids = [*self.processing_class(text, add_special_tokens=False)["input_ids"], self.processing_class.eos_token_id]
        return [ids] * len(prompt_ids), [[-0.25] * len(ids)] * len(prompt_ids) if self.logprobs else None


@pytest.fixture(scope="module")
def tokenizer(policy: Path) -> Any:
    return load_tokenizer(str(policy))


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return sample_tasks(count=1)


def rollouts_of(tasks: Sequence[Task], record: Any = None, **options: Any) -> Rollouts:
    scorer = GroupScorer(Rubric(judge=Oracle()), 2, record)
    settings: dict[str, Any] = {"max_turn_tokens": 16, "context": 1024, **options}
    return Rollouts({task.id: task for task in tasks}, scorer, COMPACT, **settings)


def test_a_policy_without_prompts_still_takes_part_in_generation(tokenizer: Any) -> None:
    trainer = FakeTrainer(tokenizer, ANSWER)
    sampled = TrainerPolicy(trainer, max_new_tokens=16, context=None).sample([])
    assert sampled.ids == [] and trainer.prompts == [[[tokenizer.eos_token_id]]]


def test_rollouts_hand_over_a_row_and_the_rewards_of_each_prompt(tokenizer: Any, tasks: list[Task]) -> None:
    recorded: list[Any] = []
    rollouts = rollouts_of(tasks, lambda *what: recorded.append(what))
    trainer = FakeTrainer(tokenizer, "I look first.", ANSWER)
    prompts = [prompt_of(task) for task in tasks[:2] for _ in range(2)]
    columns = rollouts(prompts, trainer)

    assert columns["logprobs"] is None  # the generator gave none
    for ids, mask in zip(columns["completion_ids"], columns["env_mask"], strict=True):
        written = tokenizer.decode([i for i, m in zip(ids, mask, strict=True) if m])
        assert written == f"I look first.{tokenizer.eos_token}{ANSWER}{tokenizer.eos_token}"
        read = tokenizer.decode([i for i, m in zip(ids, mask, strict=True) if not m])
        assert read.startswith("<|user|><tool_response>Error:") and read.endswith("<|assistant|>")
    ((step, trajectories, parts, judging),) = recorded
    assert judging.measures["failed_rate"] == 0 and "calls" not in judging.measures  # the oracle costs nothing
    assert step == 5, "the step that is being made, not the last one"
    assert [t.task_id for t in trajectories] == [p[-1]["task_id"] for p in prompts]
    assert [t.sample for t in trajectories] == [0, 1, 0, 1]
    assert all(t.ending is Ending.ANSWER and t.turns[0].action.kind is ActionKind.MALFORMED for t in trajectories)
    for name in ("align", "format", "length", "intent"):
        assert columns[name] == [getattr(part, name) for part in parts]
    assert columns["format"] == [0.75] * 4  # one of two turns is valid, and all end in an answer


def test_log_probabilities_of_the_generator_are_passed_on(tokenizer: Any, tasks: list[Task]) -> None:
    columns = rollouts_of(tasks)([prompt_of(tasks[0])] * 2, FakeTrainer(tokenizer, "?", ANSWER, logprobs=True))
    for mask, logprobs in zip(columns["env_mask"], columns["logprobs"], strict=True):
        assert logprobs == [-0.25 if m else 0.0 for m in mask]


def test_generation_is_timed_and_read_once(tokenizer: Any, tasks: list[Task]) -> None:
    rollouts = rollouts_of(tasks)
    rollouts([prompt_of(tasks[0])] * 2, FakeTrainer(tokenizer, ANSWER))
    trainer = TimedTrainer.__new__(TimedTrainer)
    trainer.rollout_func = rollouts
    trainer._training, trainer._scoring = 3.0, 1.0
    assert trainer.pop_model_seconds() > 2.0 and trainer.pop_model_seconds() == 0.0


def test_reward_functions_look_up_what_the_rollouts_hold() -> None:
    functions = reward_functions()
    assert [f.__name__ for f in functions] == ["align", "format", "length", "intent"]
    columns = {"align": [1.0, None], "format": [0.5, None], "length": [0.0, None], "intent": [-1.0, None]}
    for function in functions:
        assert function(completions=["a", "b"], prompts=[], **columns) == columns[function.__name__]


# ---- TRL's loss on our rows


class Watched(TimedTrainer):
    """Keeps what the loss is computed from."""

    seen: list[tuple[dict[str, torch.Tensor], float]]

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        Watched.seen.append((inputs, float(loss.detach())))
        return loss


def test_the_loss_is_over_exactly_what_the_policy_wrote(
    policy: Path, tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Watched.seen = []
    monkeypatch.setattr(demur.train.grpo, "TimedTrainer", Watched)
    monkeypatch.setattr(demur.train.rollout, "TrainerPolicy", ScriptedTrainerPolicy)
    config = write_config(tmp_path, BASE, model_name_or_path=str(policy), turn_limit=4, max_steps=1)
    main(["--config", str(config)])

    ((inputs, loss),) = Watched.seen
    mask = inputs["completion_mask"] * inputs["tool_mask"]  # [rollouts, tokens]
    trained = [ids[m.bool()].tolist() for ids, m in zip(inputs["completion_ids"], mask, strict=True)]
    end = tokenizer.eos_token
    written = [
        "".join(turn.raw + end for turn in trajectory.turns)
        for trajectory in read_jsonl(tmp_path / "run" / "rollouts" / "step-000001.jsonl")
    ]
    assert len(set(written)) > 4, "the rollouts differ, or the comparison would be empty"
    assert sorted(map(tokenizer.decode, trained)) == sorted(written)  # TRL shuffles the rows
    assert (inputs["completion_mask"].sum() > mask.sum()).item(), "there were observations to leave out"
    # one step from the sampling policy all ratios are 1: the loss is the mean of -advantage over those tokens
    expected = -(inputs["advantages"][:, None] * mask).sum() / mask.sum()
    assert loss == pytest.approx(float(expected), abs=1e-6)
    assert loss == pytest.approx(metrics_of(tmp_path / "run")[0]["loss"], abs=1e-6)
