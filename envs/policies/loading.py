"""Load models, tokenizers and adapters, with sentences instead of stack traces for what goes wrong."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from huggingface_hub import constants
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar
from trl import get_training_chat_template

disable_progress_bar()  # a run shows its own progress
constants.HF_HUB_DISABLE_TELEMETRY = True  # and tells nobody that it runs


def load_model(model: str, *, adapter: str | None = None, trainable: bool = False, dtype: str = "auto") -> Any:
    """Load a causal language model, with an adapter on top if one is named. Raises ValueError."""
    check_model(model)
    try:
        base = AutoModelForCausalLM.from_pretrained(model, dtype=dtype)
    except (OSError, RuntimeError, ValueError, SafetensorError) as error:  # broken or unfinished files, too
        raise ValueError(f"cannot load the model {model}: {str(error)[:300]}") from error
    if adapter is None:
        return base
    from peft import PeftModel

    check_adapter(model, adapter)
    try:
        return PeftModel.from_pretrained(base, adapter, is_trainable=trainable)
    except (RuntimeError, ValueError) as error:  # shapes or module names that do not fit
        raise ValueError(f"the adapter {adapter} does not fit {model}: {str(error)[:300]}") from error


def load_tokenizer(model: str) -> Any:
    """Load a tokenizer whose template keeps earlier turns as they were written. Raises ValueError."""
    check_model(model)
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise ValueError(f"cannot load the tokenizer of {model}: {str(error)[:300]}") from error
    if not tokenizer.chat_template:
        raise ValueError(f"{model} has no chat template; use an instruction-tuned model")
    # a template that strips thinking from the history would change what was trained on; one that TRL
    # does not know stays as it is, since turns are appended as ids
    with suppress(ValueError):
        tokenizer.chat_template = get_training_chat_template(tokenizer) or tokenizer.chat_template
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def check_model(model: str) -> None:
    """A path must hold a model; only a name like `org/model` is left to the hub. Raises ValueError."""
    path = Path(model)
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ValueError(f"{model} holds no model: config.json is missing")
    elif model.count("/") != 1 or path.parent.is_dir():
        raise ValueError(f"there is no model at {model}; give a folder with config.json or a hub name")


def check_adapter(model: str, adapter: str) -> None:
    """Refuse an adapter made for another base, before it fails in the middle of a run."""
    config_file = Path(adapter) / "adapter_config.json"
    if not config_file.is_file():
        raise ValueError(f"there is no adapter at {adapter}: adapter_config.json is missing")
    made_for = json.loads(config_file.read_text(encoding="utf-8")).get("base_model_name_or_path")
    if made_for and Path(made_for).name != Path(model).name:
        raise ValueError(f"the adapter {adapter} was made for {made_for}, not for {model}")
