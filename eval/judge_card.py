"""What a judge's word is worth: `card.json` and `card.html`, and the page on which people label pairs.

    python eval/judge_card.py export --trajectories runs/quickstart/eval/final/trajectories.jsonl --out labels.html
    python eval/judge_card.py --trajectories runs/quickstart/eval/final/trajectories.jsonl --judge noisy \
        --labels labels-anna.json labels-ben.json --out judge_card

Exit status 2, with one line that says why, for files or options that cannot be used.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from platform import python_version

import demur
from demur.envs.trace import Trajectory, read_jsonl
from demur.eval.arguments import Parser, bad_input, check_file, check_folder
from demur.eval.assebench import LabelledTrace, read_assebench
from demur.eval.card import Card, Figure, read_card, write_card
from demur.eval.judge_measures import (
    Asked,
    JudgedPair,
    first_share,
    flip_rate,
    fooling,
    human_agreement,
    judge_pairs,
    length_effect,
    longer_share,
    oracle_order,
    pair_agreement,
    position_term,
    score_agreement,
    share,
)
from demur.eval.labels import TaskPair, choose_pairs, majority, read_labels, task_pairs, write_labels_page
from demur.eval.pages import render_page
from demur.eval.summary import write_whole
from demur.rewards.judges import Judge
from demur.rewards.judges.making import LLM, NOISY, JudgeOptions, make_judge, prompts_of, settings_of
from demur.rewards.judges.oracle import acceptable

ORACLE = "oracle"


@dataclass(frozen=True, kw_only=True)
class CardOptions:
    """pairs, fooling_pairs: how many at most. repeats: how often a pair is asked in one order, in all."""

    pairs: int = 200
    fooling_pairs: int = 20
    repeats: int = 2
    threshold: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        if self.pairs < 1 or self.repeats < 1 or self.fooling_pairs < 0:
            raise ValueError("pairs and repeats must be at least 1, and fooling_pairs at least 0")
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must be above 0 and at most 1, not {self.threshold}")


class NothingJudged(RuntimeError):
    """Every call of the judge failed."""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    run, parser = (_export, _export_parser()) if words[:1] == ["export"] else (_card, _card_parser())
    try:
        print(run(parser.parse_args(words[1:] if words[:1] == ["export"] else words)))
    except (ValueError, OSError, NothingJudged) as error:
        status = bad_input(error)
        return 1 if isinstance(error, NothingJudged) else status
    return 0


def make_card(
    judge: Judge,
    trajectories: Sequence[Trajectory],
    *,
    labels: Mapping[str, Mapping[str, float]] | None = None,
    traces: Sequence[LabelledTrace] = (),
    options: CardOptions = CardOptions(),
) -> Card:
    """Ask `judge` about pairs of `trajectories`, and about single labelled `traces`, and measure what it says.

    labels: of `read_labels`; pairs that people labelled are always asked about. Raises ValueError without pairs.
    """
    labels, seed = labels or {}, options.seed
    every = task_pairs(trajectories)
    # as many ties as ordered pairs, as far as there are: most pairs of a trained policy are equal
    chosen = choose_pairs(every, options.pairs, seed=seed, disputed=disputed_pairs(every, ()))
    people, kept = majority(labels), {pair.id for pair in chosen}
    chosen += [pair for pair in every if pair.id in people and pair.id not in kept]
    order = oracle_order(chosen)
    asked = Asked(judge)
    judged, failed, consistency = judge_pairs(chosen, asked, repeats=options.repeats)
    fooled = fooling(judged, order, asked, most=options.fooling_pairs, seed=seed) if options.fooling_pairs else []
    single = list({id(t): t for pair in chosen for t in pair.both}.values())
    own = [(t, acceptable(t)) for t in single]
    theirs = [(trace.trajectory, trace.safe) for trace in traces]
    scores = asked.score([t for t, _ in own + theirs])
    agreement = [pair_agreement("oracle", judged, order, seed)]
    if people:
        agreement.insert(0, pair_agreement("human", judged, people, seed))
    score_sets = [score_agreement("oracle", own, scores[: len(own)], threshold=options.threshold, seed=seed)]
    if theirs:
        found = score_agreement("assebench", theirs, scores[len(own) :], threshold=options.threshold, seed=seed)
        score_sets.append(found)
    return Card(
        judge=judge.name,
        settings=settings_of(judge),
        prompts=prompts_of(judge),
        data=_fingerprint([*trajectories, *(t for t, _ in theirs)], labels),
        seed=seed,
        tasks=len({pair.first.task_id for pair in chosen}),
        pairs=len(chosen),
        failed_pairs=failed,
        agreement=tuple(agreement),
        humans=human_agreement(labels, every, seed) if labels else None,
        flip_rate=flip_rate(judged, seed),
        first_share=first_share(judged, seed),
        position_term=position_term(judged, seed),
        longer_share=longer_share(judged, order, seed),
        length_effect=length_effect(judged, order, seed),
        repeats=options.repeats,
        self_consistency=share(consistency, seed),
        fooling=tuple(fooled),
        scores=tuple(score_sets),
        failed_scores=scores.count(None),
        failures=dict(asked.failures.most_common(20)),
        stop_reason=asked.stop_reason,
        usage=asked.usage,
        versions={"python": python_version(), "demur": demur.__version__, "openai": version("openai")},
    )


def card_page(card: Card) -> str:
    """The card as one page that loads nothing."""
    return render_page("judge_card.html.j2", styles=["report.css"], card=card, shown=_shown, points=_points)


def _card(options: argparse.Namespace) -> Path:
    check_folder(options.out, "--out")  # before anything is asked and paid for
    for file in options.labels:
        check_file(file, "--labels")
    if options.assebench:
        check_file(options.assebench, "--assebench")
    trajectories = _read(options.trajectories)
    judge_options = _judge_options(options, options.judge)
    if options.assebench and judge_options.judge in (ORACLE, NOISY):
        raise ValueError(
            f"the judge {options.judge} reads facts, which ASSEBench's traces do not have: use another judge"
        )
    judge, stored = make_judge(judge_options), options.out / "card.json"
    if stored.is_file() and (other := read_card(stored).judge) != judge.name:
        raise ValueError(f"{stored} is the card of the judge {other!r}: name another folder with --out")
    card_options = CardOptions(**{f.name: getattr(options, f.name) for f in fields(CardOptions)})
    card = make_card(
        judge,
        trajectories,
        labels=read_labels(options.labels, task_pairs(trajectories)) if options.labels else None,
        traces=read_assebench(options.assebench) if options.assebench else (),
        options=card_options,
    )
    if card.failed_pairs == card.pairs:
        reason = next(iter(card.failures), "")
        raise NothingJudged(f"no pair was judged, so no card was written: {reason}")
    write_card(stored, card)
    path: Path = options.out / "card.html"
    write_whole(path, card_page(card))
    if card.stop_reason:
        print(f"the judge stopped before the end: {card.stop_reason}", file=sys.stderr)
    return path


def _export(options: argparse.Namespace) -> Path:
    check_folder(options.out.parent, "--out")
    if options.out.is_dir():
        raise ValueError(f"{options.out} is a folder: name the page with --out, such as {options.out / 'labels.html'}")
    pairs = task_pairs(_read(options.trajectories))
    judges = [make_judge(_judge_options(options, name)) for name in options.judge]
    if len(judges) > 2:
        raise ValueError("name one judge, or two whose disagreement is looked for")
    pool = choose_pairs(pairs, 4 * options.pairs, seed=options.seed)
    path: Path = options.out
    write_labels_page(path, choose_pairs(pool, options.pairs, seed=options.seed, disputed=disputed_pairs(pool, judges)))
    return path


def disputed_pairs(pairs: Sequence[TaskPair], judges: Sequence[Judge]) -> dict[str, bool]:
    """By pair id: two judges differ, or one judge's two orders do, or, without a judge, the oracle sees a tie."""
    if not judges:
        return {id: value == 0.5 for id, value in oracle_order(pairs).items()}
    said: list[dict[str, JudgedPair]] = [
        {j.pair.id: j for j in judge_pairs(pairs, Asked(judge)).pairs} for judge in judges
    ]
    if len(said) == 1:
        return {id: j.forward + j.backward != 1 for id, j in said[0].items()}
    return {id: j.combined != said[1][id].combined for id, j in said[0].items() if id in said[1]}


def _read(paths: Sequence[Path]) -> list[Trajectory]:
    for path in paths:
        check_file(path, "--trajectories")
    return list(chain.from_iterable(read_jsonl(path) for path in paths))


def _fingerprint(trajectories: Sequence[Trajectory], labels: Mapping[str, Mapping[str, float]]) -> str:
    lines = [*(t.model_dump_json() for t in trajectories), json.dumps(labels, sort_keys=True)]
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


# Options


def _judge_options(options: argparse.Namespace, judge: str) -> JudgeOptions:
    given = {f.name: getattr(options, f"judge_{f.name}") for f in fields(JudgeOptions) if f.name != "judge"}
    if judge != LLM and isinstance(options.judge, list) and LLM in options.judge:
        given |= {"model": None, "url": None}  # they belong to the other of two judges
    return JudgeOptions(judge=judge, **given | {"prices": tuple(given["prices"])})


def _card_parser() -> argparse.ArgumentParser:
    parser = Parser(
        description="Measure a judge on pairs with a known order. `export …` writes a page to label pairs on."
    )
    _add_shared(parser)
    parser.add_argument("--judge", default=ORACLE, help="oracle, noisy, llm or package.module:attribute")
    parser.add_argument("--labels", type=Path, nargs="+", default=[], help="files that the labels page saved")
    parser.add_argument("--assebench", type=Path, help="a JSON file of ASSEBench, for the scores of single traces")
    parser.add_argument("--out", type=Path, default=Path("judge_card"), help="folder for card.json and card.html")
    for field, text in {
        "pairs": "pairs at most",
        "fooling_pairs": "pairs to plant texts in; 0 leaves it out",
        "repeats": "how often a pair is asked in one order",
        "threshold": "a score that says good",
        "seed": "of the choice of pairs and of the intervals",
    }.items():
        default = getattr(CardOptions(), field)
        parser.add_argument(f"--{field}", type=type(default), default=default, help=f"{text} (default: {default})")
    return parser


def _export_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="judge_card.py export", description="Write a page on which a person labels pairs, opened from disk."
    )
    _add_shared(parser)
    parser.add_argument("--judge", nargs="+", default=[], help="one or two: half of the pairs are disputed by them")
    parser.add_argument("--out", type=Path, required=True, help="the page, such as labels.html")
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    return parser


def _add_shared(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trajectories", type=Path, nargs="+", required=True, help="JSONL, several of each task")
    defaults = JudgeOptions()
    noisy, group = parser.add_argument_group("the judge noisy"), parser.add_argument_group("the judge llm")
    for name, text in {
        "accuracy": "share of right verdicts",
        "position_bias": "picks of the first of two equals",
    }.items():
        default = getattr(defaults, name)
        noisy.add_argument(f"--judge_{name}", type=float, default=default, help=f"{text} (default: {default})")
    group.add_argument("--judge_model")
    group.add_argument("--judge_url", help="of an OpenAI-compatible endpoint")
    group.add_argument(
        "--judge_key_variable", default=defaults.key_variable, help="environment variable that holds the key"
    )
    group.add_argument("--judge_prompt", choices=("together", "apart"), default=defaults.prompt)
    group.add_argument("--judge_cache", type=Path, help="folder of replies: the same card again without a call")
    for name in ("concurrency", "timeout", "step_timeout", "retries"):
        default = getattr(defaults, name)
        group.add_argument(f"--judge_{name}", type=type(default), default=default)
    for name, kind in {"max_calls": int, "max_tokens": int, "max_cost": float}.items():
        group.add_argument(f"--judge_{name}", type=kind)
    group.add_argument(
        "--judge_prices", type=float, nargs=2, default=defaults.prices, help="per million prompt and completion tokens"
    )


# The page


def _shown(figure: Figure | None) -> str:
    return "–" if figure is None else f"{figure.value:.2f} [{figure.ci_low:.2f}, {figure.ci_high:.2f}]"


def _points(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    value, low, high = (f"{100 * number:.1f}" for number in (figure.value, figure.ci_low, figure.ci_high))
    return f"{value}% [{low}, {high}]"


if __name__ == "__main__":
    sys.exit(main())
