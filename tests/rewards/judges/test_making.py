"""A judge from options, and clear words for options that do not fit."""

from dataclasses import replace
from pathlib import Path

import pytest

from demur.rewards.judges.llm import PROMPTS_HASH
from demur.rewards.judges.making import JudgeOptions, make_judge, prompts_of

LLM = JudgeOptions(judge="llm", model="some-model", url="http://127.0.0.1:9/v1", key_variable="NO_KEY")


def test_each_kind_of_judge_is_made_by_its_name() -> None:
    for name, shown in (("oracle", "oracle"), ("noisy", "noisy"), ("demur.rewards.judges.oracle:Oracle", "oracle")):
        judge = make_judge(JudgeOptions(judge=name))
        assert judge.name == shown and prompts_of(judge) is None


def test_a_language_model_needs_a_model_and_an_address_and_no_call_is_made() -> None:
    judge = make_judge(LLM)
    assert "some-model" in judge.name and prompts_of(judge) == PROMPTS_HASH
    for missing in ({"model": None}, {"url": None}):
        with pytest.raises(ValueError, match="needs the name of a model and the url"):
            make_judge(replace(LLM, **missing))


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="takes no model or url"):
        make_judge(replace(LLM, judge="noisy"))
    with pytest.raises(ValueError, match="there is no judge 'nobody'"):
        make_judge(JudgeOptions(judge="nobody"))
    with pytest.raises(ValueError, match="max_cost needs prices"):
        make_judge(replace(LLM, max_cost=1.0))


def test_a_cache_of_other_prompts_is_refused(tmp_path: Path) -> None:
    make_judge(replace(LLM, cache=tmp_path))
    about = tmp_path / "cache.json"
    about.write_text(about.read_text(encoding="utf-8").replace(PROMPTS_HASH, "0" * 64), encoding="utf-8")
    with pytest.raises(ValueError, match="prompts"):
        make_judge(replace(LLM, cache=tmp_path))
