"""A judge from plain options, for training, evaluation and judge cards alike.

make_judge(JudgeOptions(judge="llm", model="gpt-4o", url="https://…/v1", cache=Path("judge_cache")))
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from demur.rewards.judges import Judge, load_judge

LLM = "llm"
NOISY = "noisy"


@dataclass(frozen=True, kw_only=True)
class JudgeOptions:
    """judge: `oracle`, `noisy`, `llm`, or the dotted path of your own. accuracy, position_bias: of `noisy`.
    All else is for `llm` only.

    model, url: what an OpenAI-compatible endpoint serves, and where. key_variable: the environment variable that holds
    the key. prompt: reason about each trajectory `together` or `apart` first. cache: a folder of replies. The rest is
    that of `CallOptions`.
    """

    judge: str = "oracle"
    model: str | None = None
    url: str | None = None
    key_variable: str = "OPENAI_API_KEY"
    prompt: Literal["together", "apart"] = "together"
    accuracy: float = 0.8
    position_bias: float = 0.6
    concurrency: int = 16
    timeout: float = 60.0
    step_timeout: float = 600.0
    retries: int = 4
    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    prices: tuple[float, float] = (0.0, 0.0)
    cache: Path | None = None


def check_url(url: str) -> None:
    """Raises ValueError, without the address, for one with a name or a password in it: addresses are written down."""
    place = re.split(r"[/?#]", url.partition("://")[2] or url)[0]
    if "@" in place:
        raise ValueError(
            "the address of the judge holds a user name or a password: leave it out, and put the key in the "
            "environment variable that judge_key_variable names"
        )


def make_judge(options: JudgeOptions) -> Judge:
    """The judge that `options` describe.

    Raises ValueError for a judge that is not there, for `llm` without a model or an address, for a model or an address
    with any other judge, for a password in an address, and for a cache that other prompts filled.
    """
    if options.judge == LLM:
        return _language_model(options)
    if options.model is not None or options.url is not None:
        raise ValueError(
            f"the judge {options.judge!r} takes no model or url: leave out judge_model and judge_url, or "
            "use the judge llm"
        )
    if options.judge == NOISY:
        from demur.rewards.judges.simulated import NoisyJudge

        return NoisyJudge(accuracy=options.accuracy, position_bias=options.position_bias)
    return load_judge(options.judge)


def prompts_of(judge: Judge) -> str | None:
    """The hash of the prompt files that a judge reads; None for one without prompts of ours."""
    from demur.rewards.judges.llm import PROMPTS_HASH, LLMJudge

    return PROMPTS_HASH if isinstance(judge, LLMJudge) else None


def settings_of(judge: Judge) -> dict[str, str | float]:
    """What a judge of ours was set to, by name; empty for the oracle, which has no settings, and for other judges."""
    from demur.rewards.judges.llm import LLMJudge
    from demur.rewards.judges.simulated import NoisyJudge

    return dict(judge.settings) if isinstance(judge, (LLMJudge, NoisyJudge)) else {}


def _language_model(options: JudgeOptions) -> Judge:
    from demur.rewards.judges.cache import Cache
    from demur.rewards.judges.calls import CallOptions, Calls
    from demur.rewards.judges.llm import PROMPTS_HASH, LLMJudge

    if not options.model or not options.url:
        raise ValueError(
            "the judge llm needs the name of a model and the url of the endpoint that serves it: judge_model and "
            "judge_url"
        )
    check_url(options.url)
    calls = Calls(
        options.model,
        base_url=options.url,
        key_variable=options.key_variable,
        options=CallOptions(
            concurrency=options.concurrency,
            timeout=options.timeout,
            step_timeout=options.step_timeout,
            retries=options.retries,
            max_calls=options.max_calls,
            max_tokens=options.max_tokens,
            max_cost=options.max_cost,
            prices=options.prices,
        ),
        cache=None if options.cache is None else Cache(options.cache, PROMPTS_HASH),
    )
    return LLMJudge(calls, options.prompt)
