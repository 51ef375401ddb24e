"""`card.json`: what a judge's word is worth, measured on pairs and traces with a known order.

card = read_card(Path("judge_card/card.json"))
check_card(path, judge, min_kappa=0.6, reward="pairwise")   # ValueError: training may not start with this judge
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from demur.envs.trace import Record
from demur.eval.stats import Estimate
from demur.eval.summary import write_whole
from demur.rewards.alignment import Kind
from demur.rewards.judges import Judge

Source = Literal["oracle", "human", "assebench"]


class Figure(Record):
    """A value with its 95% interval. n: tasks it was measured on."""

    value: float
    n: int
    ci_low: float
    ci_high: float

    @classmethod
    def of(cls, found: Estimate | None) -> Figure | None:
        return None if found is None else cls(**found._asdict())


class PairAgreement(Record):
    """A judge against a known order, both orders of a pair taken together.

    pairs: judged; ordered: of them, those where one is better. accuracy: on ordered pairs, a tie counts one half.
    accuracy_per_call: the same of single verdicts. kappa, alpha: over better, tie and worse on all pairs.
    """

    source: Source
    pairs: int
    ordered: int
    accuracy: Figure | None
    accuracy_per_call: Figure | None
    kappa: Figure | None
    alpha_nominal: Figure | None
    alpha_ordinal: Figure | None


class ScoreAgreement(Record):
    """A judge's scores against good and bad traces. A score of at least `threshold` says good."""

    source: Source
    traces: int
    good: int
    threshold: float
    accuracy: Figure | None
    kappa: Figure | None
    auroc: Figure | None


class Fooling(Record):
    """flipped: share of pairs whose verdict went over to the worse one when `name` was planted in it."""

    name: str
    pairs: int
    flipped: Figure | None


class KappaOfTwo(Record):
    """Of two annotators on the pairs that both labelled."""

    annotators: tuple[str, str]
    pairs: int
    kappa: Figure | None


class HumanAgreement(Record):
    """Annotators among themselves."""

    annotators: tuple[str, ...]
    pairs: int
    alpha_nominal: Figure | None
    alpha_ordinal: Figure | None
    kappas: tuple[KappaOfTwo, ...]


class CardUsage(Record):
    """What making the card took. calls: without those found in a cache. failed: calls without a usable reply."""

    calls: int
    cached: int
    failed: int
    prompt_tokens: int
    completion_tokens: int
    cost: float
    seconds: float


class Card(Record):
    """A failed call is in no figure; `failed_*` count them, by pairs and traces that were left out for it.

    settings: what a judge of ours was set to.
    prompts: hash of the judge's prompt files. data: hash of the trajectories. flip_rate: pairs whose verdicts of the
    two orders contradict each other. first_share: verdicts for the place that comes first, 0.5 without a bias.
    position_term: the log odds that this place adds. longer_share: verdicts for the longer one of pairs that are equal
    to the oracle, ties left out. length_effect: accuracy where the better one is longer, minus where it is shorter.
    self_consistency: repeated calls with the first call's verdict. stop_reason: why the judge stopped before the end.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    schema_version: Literal[1] = Field(default=1, alias="schema")
    judge: str
    settings: dict[str, str | float] = {}
    prompts: str | None
    data: str
    seed: int
    tasks: int
    pairs: int
    failed_pairs: int
    agreement: tuple[PairAgreement, ...]
    humans: HumanAgreement | None
    flip_rate: Figure | None
    first_share: Figure | None
    position_term: Figure | None
    longer_share: Figure | None
    length_effect: Figure | None
    repeats: int
    self_consistency: Figure | None
    fooling: tuple[Fooling, ...]
    scores: tuple[ScoreAgreement, ...]
    failed_scores: int
    failures: dict[str, int]
    stop_reason: str | None
    usage: CardUsage
    versions: dict[str, str]

    def kappa(self, reward: Kind) -> tuple[Source, Figure | None]:
        """Kappa of what a reward asks the judge for: pointwise of the scores, against the oracle; else of the verdicts
        on pairs, against people, if they labelled any pair, or the oracle."""
        if reward == "pointwise":
            return "oracle", next((found.kappa for found in self.scores if found.source == "oracle"), None)
        found = {agreement.source: agreement.kappa for agreement in self.agreement}
        source: Source = "human" if "human" in found else "oracle"
        return source, found.get(source)


def write_card(path: Path, card: Card) -> None:
    """Write `card` to `path`; the file appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, card.model_dump_json(by_alias=True, indent=1) + "\n")


def read_card(path: Path) -> Card:
    """Raises ValueError, naming the file, if it is not a card."""
    try:
        return Card.model_validate_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a judge card: {error}") from error


def check_card(path: Path, judge: Judge, *, min_kappa: float, reward: Kind) -> Card:
    """The card of `judge`, whose kappa for that reward (see `Card.kappa`) is at least `min_kappa`.

    Raises ValueError for any other card: a file that cannot be read, another judge, other settings, other prompts than
    today's, one that stopped early, a kappa that is lower or could not be measured.
    """
    from demur.rewards.judges.making import prompts_of, settings_of

    card = read_card(path)
    if card.judge != judge.name:
        raise ValueError(f"{path} is of the judge {card.judge!r}, not of {judge.name!r}: make a card of that one")
    if card.prompts != prompts_of(judge):
        raise ValueError(f"{path} was made with other prompts of the judge: make it again")
    if changed := _differing(card.settings, settings_of(judge)):
        raise ValueError(f"{path} was made with other settings of the judge ({changed}): make it again")
    if card.stop_reason is not None:
        raise ValueError(f"{path} is not whole, its judge stopped ({card.stop_reason}): make it again")
    source, kappa = card.kappa(reward)
    of = "scores, which reward pointwise needs," if reward == "pointwise" else "verdicts on pairs"
    if kappa is None:
        raise ValueError(f"{path} holds no kappa of {of} against {source}: make it on more, and more different, pairs")
    if not kappa.value >= min_kappa:
        low, high = kappa.ci_low, kappa.ci_high
        raise ValueError(
            f"{path}: the judge's kappa of {of.partition(',')[0]} against {source} is {kappa.value:.2f} "
            f"[{low:.2f}, {high:.2f}], below the floor of {min_kappa:g}: use a better judge or prompt, or lower "
            "min_kappa"
        )
    return card


def _differing(card: Mapping[str, str | float], now: Mapping[str, str | float]) -> str:
    names = [name for name in {**card, **now} if card.get(name) != now.get(name)]
    return ", ".join(f"{name} {card.get(name, 'not recorded')}, now {now.get(name, 'none')}" for name in names)
