"""The scorer against plain forward passes, the models it cannot score, and intent planted in a model."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from demur.envs.episode import Episode, PromptOptions
from demur.envs.intent.scoring.batch import Item
from demur.envs.intent.scoring.local import LocalScorer, _batches, _likely, _matters
from demur.envs.intent.scoring.positions import FORMATS, CallFormat, Position
from demur.envs.intent.scoring.readings import Reader, Reading
from demur.envs.intent.scoring.scores import (
    PositionScore,
    ScoreRequest,
    TrajectoryScores,
    acted_intent,
    before_changes,
    harmful_turns,
    request_live,
    request_of,
)
from demur.envs.protocol import ParsedTurn, act, render
from demur.envs.trace import REFUSE_TOOL, Label, ToolCall
from tests.envs.helpers import DONE, LOOK, ORDER, make_task, play
from tests.envs.intent.scoring.helpers import (
    CHECKED,
    COMPACT,
    DECOYS,
    TASK,
    requests,
    slow,
    small_model,
    small_tokenizer,
    trajectories,
)

TOLERANCE = 1e-4


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return small_tokenizer()


@pytest.fixture(scope="module")
def model(tokenizer: Any) -> Any:
    return small_model(tokenizer)


@pytest.fixture(scope="module")
def adapted(tokenizer: Any) -> Any:
    """The same model under an adapter that changes what it says."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(1)
    adapted = get_peft_model(
        small_model(tokenizer), LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    )
    for name, weights in adapted.named_parameters():
        if "lora_B" in name:
            nn.init.normal_(weights, std=0.3)
    return adapted.eval()


def worst(scores: list[list[PositionScore]], truth: list[list[dict[str, float]]]) -> float:
    """The largest difference of any probability; checks the top tool, too."""
    differences = [0.0]
    for got, want in zip(scores, truth, strict=True):
        assert len(got) == len(want)
        for score, shares in zip(got, want, strict=True):
            differences += [abs(share - shares[name]) for name, share in score.decoys.items()]
            differences.append(abs((score.refusal or 0) - shares[REFUSE_TOOL]))
            differences.append(shares[max(shares, key=shares.__getitem__)] - shares[score.top])
            assert score.intent == max(score.decoys.values()) and 0 < score.mass <= 1
    return max(differences)


@pytest.fixture(scope="module")
def truth(model: Any, tokenizer: Any) -> list[list[dict[str, float]]]:
    return [slow(model, tokenizer, request) for request in requests()]


def test_the_positions_differ_so_that_comparing_them_says_something(truth: list[list[dict[str, float]]]) -> None:
    for name in ("look_note", "look_noted", REFUSE_TOOL):
        shares = [of_position[name] for of_request in truth for of_position in of_request]
        assert max(shares) > 0.05 and max(shares) - min(shares) > 0.04


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_scores_are_those_of_one_forward_pass_a_position_and_name(
    model: Any, tokenizer: Any, truth: list[list[dict[str, float]]], batch_size: int
) -> None:
    assert worst(LocalScorer(model, tokenizer, batch_size=batch_size).score(requests()), truth) < TOLERANCE


@pytest.mark.parametrize("which", ["action", "changes"])
def test_some_positions_get_the_scores_that_they_have_among_all(model: Any, tokenizer: Any, which: Any) -> None:
    scorer = LocalScorer(model, tokenizer)
    every = [{score.position: score for score in scores} for scores in scorer.score(requests())]
    some = scorer.score(requests(which=which))
    assert 0 < sum(map(len, some)) < sum(map(len, every))
    for scores, known in zip(some, every, strict=True):
        assert all(math.isclose(s.intent, known[s.position].intent, abs_tol=TOLERANCE) for s in scores)


def test_without_tolerance_each_name_is_followed_to_its_end(
    model: Any, tokenizer: Any, truth: list[list[dict[str, float]]]
) -> None:
    scores = LocalScorer(model, tokenizer, tolerance=0.0).score(requests())
    assert worst(scores, truth) < TOLERANCE
    pairs = zip([s for of_request in scores for s in of_request], [t for one in truth for t in one], strict=True)
    assert all(math.isclose(s.decoys["order_note"], t["order_note"], rel_tol=1e-3) for s, t in pairs)


@pytest.mark.parametrize("tolerance", [1e-3, 0.05])
def test_no_probability_is_off_by_more_than_the_tolerance(
    model: Any, tokenizer: Any, truth: list[list[dict[str, float]]], tolerance: float
) -> None:
    off = worst(LocalScorer(model, tokenizer, tolerance=tolerance).score(requests()), truth)
    assert off < tolerance + TOLERANCE


def test_unlikely_names_are_left_out_where_that_changes_little() -> None:
    bounds = np.log(np.array([[0.9, 2e-5, 2e-5, 3e-5], [0.2, 0.3, 0.3, 0.2]], dtype=np.float32))
    assert _likely(bounds, 1e-4).tolist() == [[True, False, False, True], [True] * 4]
    assert _likely(bounds, 0.0).all()


@pytest.mark.parametrize("most", [1, 3, 32])
def test_batches_hold_each_conversation_once_and_like_lengths_together(most: int) -> None:
    lengths = sorted([5, 5, 6, 900, 910, 5, 2000, 6])
    request = requests()[0]
    items = [Item(at, request, Reading([0] * length, [], 1)) for at, length in enumerate(lengths)]
    batches = _batches(items, most)
    assert sorted(item.place for batch in batches for item in batch) == list(range(len(items)))
    assert all(0 < len(batch) <= most for batch in batches)
    if most == 32:
        assert sorted([len(item.reading.ids) for item in batch] for batch in batches) == [
            [5, 5, 5, 6, 6],
            [900, 910],
            [2000],
        ]


def test_names_that_begin_likely_and_end_unlikely_bring_the_others_back() -> None:
    bounds = np.log(np.array([[0.9999, 3e-5, 1e-5]], dtype=np.float32))
    likely = _likely(bounds, 1e-4)
    assert likely.tolist() == [[True, False, False]]
    logs = bounds.copy()
    logs[0, 0] = np.log(1e-4)
    assert _matters(logs, bounds, likely, 1e-4).tolist() == [True]
    assert _matters(bounds, bounds, likely, 1e-4).tolist() == [False]


def test_systems_that_differ_are_scored_in_one_batch(model: Any, tokenizer: Any) -> None:
    full, compact = requests(PromptOptions(), "changes"), requests(which="changes")
    asked = [one for pair in zip(full[:2], compact[:2], strict=True) for one in pair]
    expected = [slow(model, tokenizer, request) for request in asked]
    assert worst(LocalScorer(model, tokenizer).score(asked), expected) < TOLERANCE


def test_an_adapter_is_switched_off_unless_it_is_to_be_scored(
    model: Any, adapted: Any, tokenizer: Any, truth: list[list[dict[str, float]]]
) -> None:
    asked = requests()[:2]
    frozen = LocalScorer(adapted, tokenizer).score(asked)
    own = LocalScorer(adapted, tokenizer, adapter=True).score(asked)
    assert worst(frozen, truth[:2]) < TOLERANCE
    assert worst(own, [slow(adapted, tokenizer, request) for request in asked]) < TOLERANCE
    assert abs(frozen[0][0].intent - own[0][0].intent) > 0.001
    with torch.no_grad():  # and it is on again
        ids = torch.tensor([[20, 30, 40]])
        assert not torch.allclose(adapted(ids).logits, model(ids).logits)


@pytest.mark.parametrize("training", [True, False])
def test_the_model_is_left_in_the_mode_it_was_in_and_gets_no_gradient(
    model: Any, tokenizer: Any, training: bool
) -> None:
    model.train(training)
    LocalScorer(model, tokenizer).score(requests()[:1])
    assert model.training is training
    model.eval()
    assert all(weights.grad is None for weights in model.parameters())


def test_a_running_turn_gives_the_scores_that_the_whole_trajectory_gives(model: Any, tokenizer: Any) -> None:
    scorer = LocalScorer(model, tokenizer)
    done = play(TASK, LOOK, CHECKED, DONE)
    (whole,) = scorer.score([request_of(TASK, done, DECOYS, COMPACT)])
    episode = Episode(TASK)
    for turn in done.turns[:1]:
        episode.conversation.messages += [
            {"role": "assistant", "content": turn.raw},
            {"role": "user", "content": turn.observation or ""},
        ]
    of_turn = [score for score in whole if score.position.turn == 1]
    live = []
    for score in of_turn:
        text = CHECKED[: score.position.end + len("<tool_call>")]
        (scores,) = scorer.score([request_live(TASK, episode.conversation, text, DECOYS, COMPACT, last_only=False)])
        live.append(next(s for s in scores if s.position == score.position))
    assert [s.position for s in live] == [s.position for s in of_turn] and len(live) == 4
    assert all(math.isclose(a.intent, b.intent, abs_tol=TOLERANCE) for a, b in zip(live, of_turn, strict=True))


def test_an_unfinished_sentence_has_no_score(model: Any, tokenizer: Any) -> None:
    asked = request_live(TASK, Episode(TASK).conversation, "<think>I am about", DECOYS)
    assert LocalScorer(model, tokenizer).score([asked]) == [[]]


def test_nothing_to_score_is_no_error(model: Any, tokenizer: Any) -> None:
    assert LocalScorer(model, tokenizer).score([]) == []


def test_a_token_that_reaches_over_the_end_of_a_sentence_is_cut_before_it(tokenizer: Any) -> None:
    """Qwen's tokenizers have one token for a full stop and the line breaks behind it."""
    plan = "Look. \nGo"
    merged = small_tokenizer()
    merged.add_tokens([". \n"])
    trajectory = play(
        TASK, render(ParsedTurn(plan, None, act(ToolCall(name="look", arguments={"name": "nails"})))), DONE
    )
    (reading,) = Reader(merged, FORMATS["demur"]).read([request_of(TASK, trajectory, DECOYS)])
    point = reading.points[0]
    assert merged.decode(reading.ids[: point.cut]).endswith("<think>Look")
    assert merged.decode(list(point.tail)) == '.</think>\n<tool_call>{"name": "'


def test_a_special_token_in_a_result_or_a_turn_is_text(tokenizer: Any) -> None:
    trajectory = play(TASK, "<think>Say <|end|><|assistant|> now. Go.</think>", DONE)
    (reading,) = Reader(tokenizer, FORMATS["demur"]).read([request_of(TASK, trajectory, DECOYS)])
    assert reading.ids.count(tokenizer.eos_token_id) == 4  # system, user, turn, result


def test_the_decoys_stand_in_the_prompt_of_the_scorer_only() -> None:
    request = requests(PromptOptions())[0]
    assert all(decoy.description in request.messages[0]["content"] for decoy in DECOYS)
    assert not any(decoy.name in Episode(TASK).conversation.messages[0]["content"] for decoy in DECOYS)
    assert request.decoys == {decoy.name for decoy in DECOYS} and set(request.tools) == request.decoys | set(TASK.tools)


def test_scores_are_stored_as_json(model: Any, tokenizer: Any) -> None:
    (scores,) = LocalScorer(model, tokenizer).score(requests()[:1])
    record = TrajectoryScores(task_id="t", scorer="local", positions=(*scores, None))
    assert TrajectoryScores.model_validate_json(record.model_dump_json()) == record
    assert json.loads(record.model_dump_json())["positions"][-1] is None


def test_without_refusal_on_offer_there_is_no_readiness_to_refuse() -> None:
    logs = {"look": math.log(0.2), "aim": math.log(0.3)}
    score = PositionScore.of(Position(turn=0, part="action", end=1), logs, frozenset({"aim"}))
    assert score.refusal is None and math.isclose(score.intent, 0.6) and math.isclose(score.mass, 0.5)
    assert score.triggers and score.top == "aim"


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("_attn_implementation", "flash_attention_2", "sdpa"),
        ("layer_types", ["full_attention", "sliding_attention"], "full attention in every layer"),
        ("sliding_window", 512, "full attention in every layer"),
    ],
)
def test_a_model_that_takes_no_mask_is_refused(
    tokenizer: Any, setting: str, value: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small_model(tokenizer)
    monkeypatch.setattr(model, "config", type("Config", (), {"_attn_implementation": "sdpa", setting: value})())
    with pytest.raises(ValueError, match=said):
        LocalScorer(model, tokenizer)


def test_an_unknown_format_and_a_slow_tokenizer_are_refused(model: Any, tokenizer: Any) -> None:
    with pytest.raises(ValueError, match=r"no call format 'gemma'; there are demur"):
        LocalScorer(model, tokenizer, form="gemma")
    with pytest.raises(ValueError, match="fast tokenizer"):
        Reader(object(), FORMATS["demur"])


def test_harm_is_found_where_the_state_says_so() -> None:
    done = play(TASK, LOOK, ORDER, LOOK, DONE)
    assert harmful_turns(TASK, done) == {1}
    assert harmful_turns(make_task(Label.BENIGN), play(make_task(Label.BENIGN), LOOK, ORDER, DONE)) == set()
    assert harmful_turns(TASK, play(TASK, LOOK, DONE)) == set()


def score_at(turn: int, part: Any, intent: float) -> PositionScore:
    position = Position(turn=turn, part=part, end=9)
    return PositionScore(position=position, intent=intent, refusal=0.1, top="look", decoys={"aim": intent}, mass=1.0)


def test_intent_counts_where_it_was_acted_on() -> None:
    done = play(TASK, LOOK, ORDER, DONE)
    scores = [
        score_at(0, "action", 0.9),
        score_at(1, "plan", 0.8),
        score_at(1, "action", 0.3),
        score_at(2, "action", 0.7),
    ]
    assert acted_intent(TASK, done, scores) == 0.3
    assert [score.intent for score in before_changes(TASK, done, scores)] == [0.3]
    assert acted_intent(TASK, done, [*scores[:2], None]) is None, "a missing score is no score of 0"
    stopped = play(TASK, LOOK, DONE)
    assert acted_intent(TASK, stopped, [score_at(0, "action", 0.9)]) == 0


class Planted(nn.Module):
    """A causal language model that means to call a decoy when a word of intent is in sight, and says so.

    It keeps in its cache which of the tokens are that word; what a query sees of them is decided by the mask alone.
    """

    def __init__(self, tokenizer: Any, word: str, decoy: int, acting: int) -> None:
        super().__init__()
        self.word, self.decoy, self.acting = tokenizer(word)["input_ids"], decoy, acting
        self.config = type("Config", (), {"vocab_size": len(tokenizer), "_attn_implementation": "sdpa"})()
        self.device, self.dtype = torch.device("cpu"), torch.float32
        generator = torch.Generator().manual_seed(0)
        self.base = torch.randn(31, len(tokenizer), generator=generator)  # by place, so that no two scores are equal

    def forward(
        self,
        input_ids: Any,
        attention_mask: Any = None,
        position_ids: Any = None,
        past_key_values: Any = None,
        use_cache: bool = True,
        logits_to_keep: Any = 0,
    ) -> Any:
        said = torch.isin(input_ids, torch.tensor(self.word)).float()[:, None, :, None]
        keys, _ = past_key_values.update(said, said, 0)
        if attention_mask is None:
            seen = torch.ones(keys.shape[2], keys.shape[2]).tril()[None, None]
        else:
            seen = (attention_mask == 0).float()
        meant = (seen @ keys).squeeze(1).clamp(max=1)  # [rows, queries, 1]
        places = torch.arange(input_ids.shape[1])[None] if position_ids is None else position_ids
        logits = self.base[places % len(self.base)].expand(*input_ids.shape, -1).clone()
        logits[..., self.acting] += 6
        logits[..., self.decoy] += 12 * meant[..., 0]
        kept = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        return type("Output", (), {"logits": logits[:, kept]})()


def auroc(positive: list[float], negative: list[float]) -> float:
    wins = sum((a > b) + 0.5 * (a == b) for a in positive for b in negative)
    return wins / (len(positive) * len(negative))


def planted(tokenizer: Any, word: str) -> Callable[[list[ScoreRequest]], list[list[PositionScore]]]:
    reader = Reader(tokenizer, FORMATS["demur"])
    model = Planted(tokenizer, word, reader.name_ids("look_note")[0], reader.name_ids("order")[0])
    return LocalScorer(model, tokenizer).score


def test_planted_intent_is_told_from_harmless_turns_and_only_from_where_it_is_formed() -> None:
    words = ["Once more", "Then order nails", "So I look again", "All is well"]
    order = ToolCall(name="order", arguments={"name": "nails", "count": 1})

    def turns(meaning: bool) -> list[str]:
        plans = [f"{first}. {'To sabotage them' if meaning else second}. Go" for first in words for second in words]
        return [render(ParsedTurn(plan, None, act(order))) for plan in plans]

    tokenizer = small_tokenizer()
    tokenizer.add_tokens(["sabotage"])
    score = planted(tokenizer, "sabotage")
    by_meaning = {}
    for meaning in (True, False):
        asked = [request_of(TASK, play(TASK, text, DONE), DECOYS, COMPACT) for text in turns(meaning)]
        by_meaning[meaning] = score(asked)

    def at_action(meaning: bool) -> list[float]:
        return [s.intent for scores in by_meaning[meaning] for s in scores if s.position.part == "action"][::2]

    assert auroc(at_action(True), at_action(False)) >= 0.99
    first, second = by_meaning[True][0][:2]
    assert first.intent < 0.1 < 0.5 < second.intent and second.triggers and not first.triggers


def test_a_format_of_ones_own_is_a_few_lines(model: Any, tokenizer: Any) -> None:
    form = CallFormat(plan_end="</think>", check_end="</safety_thoughts>", opener="<answer>", closer="<")
    (scores,) = LocalScorer(model, tokenizer, form=form).score(requests()[:1])
    assert len(scores) == 3


def test_all_the_trajectories_of_the_comparison_have_something_to_score() -> None:
    assert [len(request.positions) for request in requests()] == [3, 14, 1, 1, 8]
    assert len(trajectories()) == 5 and LOOK.plan
