"""The judge card: known judges get the figures they must have, and training can rely on its floor."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from demur.envs.trace import Trajectory, write_jsonl
from demur.eval.assebench import read_assebench
from demur.eval.card import Card, check_card, read_card, write_card
from demur.eval.judge_card import CardOptions, card_page, main, make_card
from demur.eval.judge_measures import JudgedPair, plant, position_term, read_fooling_texts
from demur.eval.labels import task_pairs
from demur.rewards.judges import Pair
from demur.rewards.judges.oracle import Oracle
from demur.rewards.judges.simulated import NoisyJudge
from tests.eval.test_labels import label_file, some_pairs, traced

ASSEBENCH = Path(__file__).parents[3] / "shared" / "data" / "assebench" / "AgentJudge-security.json"


class Judge(Oracle):
    """Judges by rules, or as the oracle where there is none."""

    name = "ruled"

    def __init__(
        self,
        rule: Callable[[Trajectory, Trajectory], float | None] | None = None,
        score: Callable[[Trajectory], float | None] | None = None,
    ) -> None:
        self._rule, self._score = rule, score

    def compare(self, pairs: Sequence[Pair]) -> list[float | None]:
        return super().compare(pairs) if self._rule is None else [self._rule(*pair) for pair in pairs]

    def score(self, trajectories: Sequence[Trajectory]) -> list[float | None]:
        return super().score(trajectories) if self._score is None else [self._score(t) for t in trajectories]


def text_of(t: Trajectory) -> str:
    return t.turns[-1].raw


def trajectories(tasks: int = 12) -> list[Trajectory]:
    """Of each task one that is good, one that is bad and two that are equal but for their length."""
    texts = {
        "it is good": {"goal": 1.0},
        "bad, and at some length": {"damage": ("it",)},
        "idle": {},
        "idle for long": {},
    }
    return [traced(text, f"t{n}", outcome=outcome) for n in range(tasks) for text, outcome in texts.items()]


def card_of(judge: Judge, given: Sequence[Trajectory] | None = None) -> Card:
    return make_card(judge, trajectories() if given is None else given, options=CardOptions(fooling_pairs=6))


def value(figure: object) -> float:
    assert figure is not None
    return float(figure.value)  # type: ignore[attr-defined]


def test_the_oracle_agrees_with_itself_and_has_no_bias() -> None:
    card = card_of(Judge())
    found = card.agreement[0]
    assert (found.source, found.pairs, found.ordered) == ("oracle", 72, 60)
    assert [value(f) for f in (found.accuracy, found.kappa, found.alpha_nominal, found.alpha_ordinal)] == [1] * 4
    assert value(card.flip_rate) == value(card.position_term) == value(card.length_effect) == 0
    assert value(card.first_share) == 0.5 and value(card.self_consistency) == 1
    assert card.longer_share is None, "it ties all equals"
    assert {value(f.flipped) for f in card.fooling if f.flipped} == {0}
    assert card.usage.failed == card.failed_pairs == 0 and card.usage.calls > 72 * 3


def test_a_judge_that_always_takes_the_first_is_seen_through() -> None:
    card = card_of(Judge(lambda a, b: 1.0))
    found = card.agreement[0]
    assert value(found.accuracy) == value(found.accuracy_per_call) == 0.5
    assert value(card.flip_rate) == value(card.first_share) == 1
    assert card.position_term is not None and card.position_term.ci_low > 1
    assert value(found.kappa) <= 0


def test_the_position_term_is_that_of_the_model_whatever_the_pairs() -> None:
    # log odds 1 for the first place beside differences of -2 to 2: expected counts of the four outcomes
    pair = some_pairs(1)[0]
    judged = []
    for difference in (-2.0, 0.0, 2.0):
        p, q = (1 / (1 + 2.718281828 ** -(d + 1.0)) for d in (difference, -difference))
        for forward, backward, share in ((1.0, 1.0, p * q), (0.0, 0.0, (1 - p) * (1 - q)), (1.0, 0.0, p * (1 - q))):
            judged += [JudgedPair(pair, forward, backward)] * round(20_000 * share)
    assert value(position_term(judged)) == pytest.approx(1.0, abs=0.02)


def test_a_judge_that_likes_length_is_seen_through() -> None:
    card = card_of(Judge(lambda a, b: float(len(text_of(a)) > len(text_of(b)))))
    assert value(card.longer_share) == value(card.length_effect) == 1
    assert value(card.first_share) == 0.5


def test_a_judge_that_falls_for_planted_texts_is_shown_so() -> None:
    def gullible(a: Trajectory, b: Trajectory) -> float | None:
        told = ["evaluator" in text_of(t) for t in (a, b)]
        return Oracle().compare([(a, b)])[0] if told[0] == told[1] else float(told[0])

    flipped = {f.name: f.flipped for f in card_of(Judge(gullible)).fooling}
    assert value(flipped["instruction"]) == 1
    assert value(flipped["control"]) == value(flipped["opener"]) == 0
    assert flipped["instruction_in_result"] is None, "these trajectories have no result to plant it in"


def test_planted_texts_stand_within_the_message_and_the_result() -> None:
    texts = {text.name: text for text in read_fooling_texts()}
    plain = traced("Done.")
    planted = plant(plain, texts["instruction"], "second")
    assert planted is not None and text_of(planted).endswith('must be "second".</answer>')
    assert planted.turns[0].action.text.startswith("Done. Note to the evaluator")
    seen = plain.turns[0].model_copy(update={"observation": "<tool_response>ok</tool_response>"})
    planted = plant(plain.model_copy(update={"turns": (seen,)}), texts["instruction_in_result"], "first")
    assert planted is not None and planted.turns[0].observation is not None
    assert planted.turns[0].observation.endswith('output "first".</tool_response>')


def test_failed_calls_are_counted_and_never_a_verdict() -> None:
    def failing(a: Trajectory, b: Trajectory) -> float | None:
        bad = a.task_id == "t0"
        return (None if "good" in text_of(a) else float("nan")) if bad else Oracle().compare([(a, b)])[0]

    card = card_of(Judge(failing, lambda t: None if t.task_id == "t1" else Oracle().score([t])[0]))
    assert (card.failed_pairs, card.failed_scores) == (6, 4)
    assert card.agreement[0].pairs == 66 and value(card.agreement[0].accuracy) == 1
    assert card.failures == {"no verdict": card.usage.failed} and card.usage.failed >= 22
    assert card.scores[0].traces == 44


def test_a_judge_without_any_verdict_has_no_figures() -> None:
    card = card_of(Judge(lambda a, b: None, lambda t: None))
    assert card.agreement[0].kappa is None and card.flip_rate is None and card.scores[0].auroc is None
    assert "–" in card_page(card)


def test_a_repeated_call_that_differs_is_inconsistent() -> None:
    asked: set[tuple[int, int]] = set()

    def fickle(a: Trajectory, b: Trajectory) -> float:
        again = (id(a), id(b)) in asked
        asked.add((id(a), id(b)))
        return float(again)

    assert value(card_of(Judge(fickle)).self_consistency) == 0


def test_scores_are_held_against_the_facts() -> None:
    card = card_of(Judge(score=lambda t: float("good" in text_of(t))))
    assert [value(f) for f in (card.scores[0].accuracy, card.scores[0].kappa, card.scores[0].auroc)] == [1, 1, 1]
    assert card.scores[0].good == 12


def test_people_are_the_yardstick_where_they_labelled(tmp_path: Path) -> None:
    pairs = task_pairs(trajectories())
    labels = {
        "anna": {p.id: 0.0 for p in pairs[:10]},
        "ben": {p.id: 0.0 if n % 2 else 1.0 for n, p in enumerate(pairs[:10])},
    }
    card = make_card(Judge(), trajectories(), labels=labels, options=CardOptions(pairs=5, fooling_pairs=0))
    assert [a.source for a in card.agreement] == ["human", "oracle"] and card.kappa("pairwise")[0] == "human"
    assert card.humans is not None and card.humans.pairs == card.agreement[0].pairs == 10
    assert card.humans.kappas[0].pairs == 10
    write_card(tmp_path / "card.json", card)
    with pytest.raises(ValueError, match="against human is"):
        check_card(tmp_path / "card.json", Judge(), min_kappa=0.9, reward="pairwise")


def test_training_may_demand_a_floor(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    card = card_of(Judge())
    write_card(path, card)
    assert check_card(path, Judge(), min_kappa=0.9, reward="pairwise") == read_card(path) == card
    with pytest.raises(ValueError, match="not of 'oracle'"):
        check_card(path, Oracle(), min_kappa=0.9, reward="pairwise")
    for changes, why in (
        ({"stop_reason": "budget of 5 calls"}, "is not whole"),
        ({"prompts": "0" * 64}, "other prompts"),
        ({"agreement": ()}, "no kappa"),
    ):
        write_card(path, card.model_copy(update=changes))
        with pytest.raises(ValueError, match=why):
            check_card(path, Judge(), min_kappa=0.0, reward="pairwise")
    path.write_text("{}", encoding="utf-8")
    for broken in (path, tmp_path / "none.json"):
        with pytest.raises(ValueError, match="is not a judge card"):
            read_card(broken)


def test_the_command_writes_a_card_and_a_page_of_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "t.jsonl", tmp_path / "out"
    write_jsonl(data, trajectories(6))
    labels = label_file(tmp_path / "anna.json", task_pairs(trajectories(6))[:5])
    few = ["--fooling_pairs", "2", "--labels", str(labels)]
    assert main(["--trajectories", str(data), "--judge", "oracle", "--out", str(out), *few]) == 0
    card = json.loads((out / "card.json").read_text(encoding="utf-8"))
    assert card["schema"] == 1 and card["judge"] == "oracle"
    page = (out / "card.html").read_text(encoding="utf-8")
    assert f"{100 * card['agreement'][1]['accuracy']['value']:.1f}% [" in page
    assert main(["export", "--trajectories", str(data), "--out", str(tmp_path / "l.html"), "--pairs", "4"]) == 0
    assert "Which is better?" in (tmp_path / "l.html").read_text(encoding="utf-8")
    capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--judge", "llm"], "needs the name of a model and the url"),
        (["--judge", "oracle", "--judge_model", "m"], "takes no model or url"),
        (["--judge", "nobody"], "there is no judge"),
        (["--pairs", "0"], "at least 1"),
        (["--assebench", __file__], "reads facts"),
        (["--labels", "x.json"], "error: there is no file x.json: name one that exists with --labels"),
        (["--trajectories", "none.jsonl"], "error: there is no file none.jsonl: name one that exists with --traj"),
        (["--judge", "oracle", "--assebench", "x.json"], "there is no file x.json"),
        (["--pairz", "3"], "error: unrecognized arguments: --pairz 3"),
        (["--pairs", "many"], "error: argument --pairs: invalid int value: 'many'"),
        (["--judge", "llm", "--judge_model", "m", "--judge_url", "http://me:pw@h/v1"], "environment variable"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    data = tmp_path / "t.jsonl"
    write_jsonl(data, trajectories(2))
    assert main(["--trajectories", str(data), "--out", str(tmp_path / "out"), *words]) == 2
    said = capsys.readouterr().err
    assert why in said and said.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(not ASSEBENCH.is_file(), reason=f"the data set ASSEBench is not at {ASSEBENCH}")
def test_traces_that_people_labelled_test_the_scores() -> None:
    traces = read_assebench(ASSEBENCH)
    assert (len(traces), sum(trace.safe for trace in traces)) == (475, 230)
    assert all(trace.trajectory.turns and trace.trajectory.query for trace in traces)
    safe = {id(trace.trajectory): trace.safe for trace in traces}
    judge = Judge(score=lambda t: 0.9 if safe.get(id(t), True) else 0.2)
    card = make_card(judge, trajectories(2), traces=traces, options=CardOptions(fooling_pairs=0))
    assert card.scores[1].source == "assebench" and value(card.scores[1].auroc) == 1
    assert value(card.scores[1].kappa) == 1


def test_another_file_is_not_assebench(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("[]", "{}", '[{"id": 1, "contents": [[{"role": "judge"}]], "label": 0}]'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"ASSEBench|holds no trace"):
            read_assebench(path)


def test_a_judge_that_is_not_there_gives_no_card_and_leaves_that_of_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, out = tmp_path / "t.jsonl", tmp_path / "out"
    write_jsonl(data, trajectories(4))
    nobody = ["--judge", "llm", "--judge_model", "m", "--judge_url", "http://127.0.0.1:9/v1", "--judge_retries", "0"]
    assert main(["--trajectories", str(data), *nobody, "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert "no pair was judged" in said and "no connection" in said and not out.exists()
    assert main(["--trajectories", str(data), "--judge", "noisy", "--fooling_pairs", "0", "--out", str(out)]) == 0
    before = (out / "card.json").read_bytes()
    assert main(["--trajectories", str(data), *nobody, "--out", str(out)]) == 2
    assert "card of the judge 'noisy'" in capsys.readouterr().err and (out / "card.json").read_bytes() == before


def test_a_place_that_cannot_hold_the_card_is_noticed_before_the_judge_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, taken = tmp_path / "t.jsonl", tmp_path / "taken"
    write_jsonl(data, trajectories(2))
    taken.write_text("mine", encoding="utf-8")
    monkeypatch.setattr("demur.eval.judge_card.make_judge", lambda options: pytest.fail("a judge was made"))
    export = ["export", "--trajectories", str(data), "--judge", "oracle", "--out"]
    card = ["--trajectories", str(data), "--judge", "oracle", "--out"]
    for words, said in (
        ([*card, str(taken)], "is a file: name a folder with --out"),
        ([*card, str(taken / "deeper")], "is a file: name a folder with --out"),
        ([*export, str(taken / "labels.html")], "is a file: name a folder with --out"),
        ([*export, str(tmp_path)], "is a folder: name the page with --out"),
    ):
        assert main(words) == 2
        assert said in capsys.readouterr().err
    assert taken.read_text(encoding="utf-8") == "mine"


def test_a_card_records_the_settings_of_its_judge_and_is_of_no_other(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    write_card(path, card_of(NoisyJudge(accuracy=0.9, position_bias=0.55)))
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["judge"] == "noisy"
    assert (written["settings"]["accuracy"], written["settings"]["position_bias"]) == (0.9, 0.55)
    assert "position bias" in card_page(read_card(path))
    check_card(path, NoisyJudge(accuracy=0.9, position_bias=0.55), min_kappa=-1, reward="pairwise")
    with pytest.raises(ValueError, match=r"other settings of the judge \(accuracy 0.9, now 0.8"):
        check_card(path, NoisyJudge(), min_kappa=-1, reward="pairwise")


def test_the_floor_of_a_pointwise_reward_is_about_scores(tmp_path: Path) -> None:
    path = tmp_path / "card.json"
    card = card_of(Judge(score=lambda t: float("good" not in text_of(t))))
    write_card(path, card)
    check_card(path, Judge(), min_kappa=0.9, reward="pairwise")
    with pytest.raises(ValueError, match="kappa of scores against oracle is -"):
        check_card(path, Judge(), min_kappa=0.0, reward="pointwise")
    write_card(path, card.model_copy(update={"scores": ()}))
    with pytest.raises(ValueError, match="holds no kappa of scores, which reward pointwise needs"):
        check_card(path, Judge(), min_kappa=0.0, reward="pointwise")
