"""Who judges a training run, within which limits, and what ends the run when a limit is reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from transformers import TrainerCallback

from demur.eval.card import check_card
from demur.rewards.alignment import Comparing, Kind
from demur.rewards.judges import Judge
from demur.rewards.judges.making import JudgeOptions, check_url, make_judge
from demur.rewards.judges.schedules import ScheduleName
from demur.train.scoring import GroupScorer


@dataclass
class JudgeArguments:
    """The judge of a run: `oracle` needs nothing, `llm` a model behind an OpenAI-compatible endpoint."""

    judge: str = field(
        default="oracle",
        metadata={"help": "oracle, llm, noisy (the oracle with set faults), or package.module:Judge of your own."},
    )
    both_orders: bool = field(default=True, metadata={"help": "Judge each pair in both orders."})
    judge_model: str = field(default="", metadata={"help": "Name of the model, as its endpoint knows it."})
    judge_url: str = field(
        default="", metadata={"help": "Where the model is served, such as http://127.0.0.1:8000/v1."}
    )
    judge_key_variable: str = field(
        default="OPENAI_API_KEY", metadata={"help": "The environment variable that holds the endpoint's key."}
    )
    judge_prompt: Literal["together", "apart"] = field(
        default="together", metadata={"help": "Compare two rollouts at once, or think about each alone first."}
    )
    judge_schedule: ScheduleName = field(
        default="all", metadata={"help": "Pairs of a group that are judged: all, or fewer in a circle, or others."}
    )
    judge_share: float = field(
        default=0.6, metadata={"help": "Of all calls, the share that the adaptive schedule may make."}
    )
    judge_aggregate: Literal["mean", "bradley_terry"] = field(
        default="mean", metadata={"help": "From verdicts to r_align: mean of wins, or a fit with a position term."}
    )
    judge_repeats: int = field(default=1, metadata={"help": "How often each question is asked; the mean counts."})
    judge_accuracy: float = field(default=0.8, metadata={"help": "Noisy judge: share of right verdicts."})
    judge_position_bias: float = field(
        default=0.6, metadata={"help": "Noisy judge: how often it picks the first of two equals."}
    )
    judge_concurrency: int = field(default=16, metadata={"help": "Calls at once, on each process."})
    judge_timeout: float = field(default=60.0, metadata={"help": "Seconds for one call with its retries."})
    judge_step_timeout: float = field(
        default=600.0, metadata={"help": "Seconds for all calls of a step; what is open then has failed."}
    )
    judge_retries: int = field(default=4, metadata={"help": "Tries of a call after the first."})
    judge_max_calls: int | None = field(default=None, metadata={"help": "Calls a process may make; then the run ends."})
    judge_max_tokens: int | None = field(default=None, metadata={"help": "The same, in tokens read and written."})
    judge_max_cost: float | None = field(default=None, metadata={"help": "The same, in the money of judge_prices."})
    judge_prices: list[float] = field(
        default_factory=lambda: [0.0, 0.0], metadata={"help": "Price of a million tokens read, and written."}
    )
    judge_cache: str = field(default="", metadata={"help": "Folder that keeps replies, so that a run can be replayed."})
    judge_max_failures: float = field(
        default=0.5, metadata={"help": "Stop after a step in which a larger share of the rollouts has no reward."}
    )
    judge_card: str = field(default="", metadata={"help": "A card.json of eval/judge_card.py for this judge."})
    min_kappa: float = field(default=0.0, metadata={"help": "Do not start with a judge whose card shows less."})

    def __post_init__(self) -> None:
        check_url(self.judge_url)
        if not 0 <= self.judge_max_failures <= 1:
            raise ValueError(f"judge_max_failures is a share from 0 to 1, not {self.judge_max_failures}")
        if len(self.judge_prices) != 2:
            raise ValueError("judge_prices are two numbers: of a million tokens read, and of a million written")
        if self.min_kappa and not self.judge_card:
            raise ValueError("min_kappa needs --judge_card, the card.json that eval/judge_card.py wrote for this judge")

    @property
    def comparing(self) -> Comparing:
        return Comparing(
            both_orders=self.both_orders,
            schedule=self.judge_schedule,
            aggregate=self.judge_aggregate,
            share=self.judge_share,
            repeats=self.judge_repeats,
        )

    def make(self, reward: Kind) -> Judge:
        """The judge. Raises ValueError if it can not be made or if its card is below the floor for that reward."""
        judge = make_judge(
            JudgeOptions(
                judge=self.judge,
                model=self.judge_model or None,
                url=self.judge_url or None,
                key_variable=self.judge_key_variable,
                prompt=self.judge_prompt,
                accuracy=self.judge_accuracy,
                position_bias=self.judge_position_bias,
                concurrency=self.judge_concurrency,
                timeout=self.judge_timeout,
                step_timeout=self.judge_step_timeout,
                retries=self.judge_retries,
                max_calls=self.judge_max_calls,
                max_tokens=self.judge_max_tokens,
                max_cost=self.judge_max_cost,
                prices=(self.judge_prices[0], self.judge_prices[1]),
                cache=Path(self.judge_cache) if self.judge_cache else None,
            )
        )
        if self.judge_card:
            check_card(Path(self.judge_card), judge, min_kappa=self.min_kappa, reward=reward)
        return judge


class JudgeGaveOut(RuntimeError):
    """The run ended early, with a checkpoint, because its judge gives no more verdicts."""


class StopWithoutJudge(TrainerCallback):
    """Ends the run, with a checkpoint, after a step for which the judge gave out. Used on every rank."""

    def __init__(self, scorer: GroupScorer, max_failures: float) -> None:
        self._reason: str | None = None
        self._scorer, self._max_failures = scorer, max_failures

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._reason = self._scorer.stop_reason or self._failures()
        if self._reason:
            self._reason += f"; step {state.global_step} is saved, go on with --resume"
            control.should_save = control.should_training_stop = True

    def check(self) -> None:
        """Raises JudgeGaveOut if training was ended by this."""
        if self._reason:
            raise JudgeGaveOut(self._reason)

    def _failures(self) -> str | None:
        share = self._scorer.failed_share
        if share <= self._max_failures:
            return None
        return (
            f"the judge gave no reward to {share:.0%} of the step's rollouts, and judge_max_failures is "
            f"{self._max_failures:.0%}: see judge/failures.jsonl in the run's folder"
        )
