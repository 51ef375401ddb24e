"""A small random model as a policy, and what is said when there is none to load."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from demur.envs.engine import run_lockstep
from demur.envs.episode import Episode, PromptOptions
from demur.envs.policies.loading import check_adapter, check_model, load_model, load_tokenizer
from demur.envs.policies.local import LocalPolicy, load_local
from demur.envs.trace import Ending
from demur.train.scratch import Scratch, fit_tokenizer, new_model
from tests.envs.helpers import DONE, LOOK, make_task, texts_of

SIZES = Scratch(layers=1, width=32, heads=2, hidden=64, context=256)


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return fit_tokenizer(["Order nails, please.", *texts_of([LOOK, DONE])] * 2, 400)


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    torch.manual_seed(0)
    model = new_model(SIZES, tokenizer)
    for weights in model.parameters():
        if weights.dim() > 1:  # with the usual small weights it would repeat its last token for ever
            torch.nn.init.normal_(weights, std=0.5)
    return model


@pytest.fixture(scope="module")
def folder(model: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "small"
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def greedy(model: Any, prompt: list[int], count: int, eos: int) -> list[int]:
    """Decode one prompt without padding, cache or `generate`."""
    ids = list(prompt)
    while len(ids) < len(prompt) + count and (len(ids) == len(prompt) or ids[-1] != eos):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def test_a_batch_of_prompts_is_continued_as_each_alone(model: Any, tokenizer: Any) -> None:
    policy = LocalPolicy("small", model, tokenizer, max_new_tokens=6)
    prompts = [[20, 30, 40], [50], [60, 61, 62, 63, 64, 65, 66]]
    ids, logprobs = policy.sample(prompts)
    assert ids == [greedy(model, prompt, 6, tokenizer.eos_token_id) for prompt in prompts]
    assert logprobs is None and policy.sample([]) == ([], None)


def test_a_message_ends_with_the_first_end_of_turn_token(model: Any) -> None:
    """Whatever the model writes second is taken for the end of turn."""
    first, second = greedy(model, [20, 30, 40], 2, -1)
    tokenizer = fit_tokenizer(["Order nails, please.", *texts_of([LOOK, DONE])] * 2, 400)
    tokenizer.eos_token = tokenizer.convert_ids_to_tokens(second)
    policy = LocalPolicy("small", model, tokenizer, max_new_tokens=6)
    assert first != second == tokenizer.eos_token_id
    assert policy.sample([[20, 30, 40]]).ids == [[first, second]]


def test_sampling_depends_on_the_seed_only(model: Any, tokenizer: Any) -> None:
    policy = LocalPolicy("small", model, tokenizer, max_new_tokens=8, temperature=1.0)

    def drawn(seed: int) -> list[list[int]]:
        torch.manual_seed(seed)
        return policy.sample([[20, 30, 40], [50]]).ids

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_in_the_mode_it_was_in(model: Any, tokenizer: Any, training: bool) -> None:
    model.train(training)
    LocalPolicy("small", model, tokenizer, max_new_tokens=2).sample([[20]])
    assert model.training is training
    model.eval()


def test_episodes_of_a_random_model_end_at_a_limit(model: Any, tokenizer: Any) -> None:
    policy = LocalPolicy("small", model, tokenizer, max_new_tokens=20)
    assert policy.context == SIZES.context
    done = run_lockstep([Episode(make_task(), PromptOptions(style="compact")) for _ in range(2)], policy)
    assert {one.ending for one in done} <= {Ending.CONTEXT_LIMIT, Ending.TURN_LIMIT}
    assert all(turn.tokens.total <= 20 for one in done for turn in one.turns)
    assert not any(one.outcome.changed for one in done)


def test_a_saved_model_is_loaded_with_its_template(folder: Path, model: Any, tokenizer: Any) -> None:
    policy = load_local(str(folder), max_new_tokens=5)
    assert policy.name == "small"
    assert policy.sample([[20, 30]]).ids == LocalPolicy("x", model, tokenizer, max_new_tokens=5).sample([[20, 30]]).ids
    assert policy.frame == LocalPolicy("x", model, tokenizer).frame


@pytest.mark.parametrize("name", ["nothing", "a/b/c", "/nowhere/at/all", "./x"])
def test_a_model_that_is_not_there_says_what_to_give(name: str) -> None:
    with pytest.raises(ValueError, match=r"there is no model at .*; give a folder with config.json or a hub name"):
        check_model(name)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    for load in (check_model, load_model, load_tokenizer):
        with pytest.raises(ValueError, match=r"holds no model: config.json is missing"):
            load(str(tmp_path))


def test_a_tokenizer_without_chat_template_is_refused(folder: Path, tokenizer: Any, tmp_path: Path) -> None:
    bare = fit_tokenizer(["a b"] * 2, 350)
    bare.chat_template = None
    bare.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(ValueError, match="no chat template; use an instruction-tuned model"):
        load_tokenizer(str(tmp_path))


def test_an_adapter_of_another_base_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no adapter at .*: adapter_config.json is missing"):
        check_adapter(str(folder), str(tmp_path))
    config = {"base_model_name_or_path": "somewhere/else/small"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    check_adapter(str(folder), str(tmp_path))
    config["base_model_name_or_path"] = "other"
    (tmp_path / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match="was made for other, not for"):
        load_model(str(folder), adapter=str(tmp_path))
