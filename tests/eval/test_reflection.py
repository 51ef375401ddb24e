"""A policy that is made to think again where its reasoning triggers the monitor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from demur.envs.engine import run_lockstep
from demur.envs.episode import Episode, PromptOptions
from demur.envs.intent.scoring.scores import ScoreRequest
from demur.envs.policies.tokens import Sampled, TokenPolicy
from demur.envs.task import Step
from demur.envs.trace import ActionKind, Label, Trajectory
from demur.eval.reflection import REFLECTION, ReflectingPolicy
from demur.train.scratch import fit_tokenizer
from tests.envs.helpers import DONE, LOOK, ORDER, REFUSE, make_task, texts_of
from tests.eval.test_monitor import DROP, NOTE, Planted

COMPACT = PromptOptions(style="compact")
HARM = Step(plan="Nails. I sabotage them. Go on", call=DROP)
LOOKED, HARMED, ORDERED, REFUSED, ENDED = texts_of([LOOK, HARM, ORDER, REFUSE, DONE])


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return fit_tokenizer([LOOKED, HARMED, ORDERED, REFUSED, ENDED, REFLECTION] * 2, 500)


class Told(TokenPolicy):
    """Writes the next text of its list whenever it is asked, and keeps the prompts."""

    def __init__(self, tokenizer: Any, *texts: str, context: int | None = None) -> None:
        super().__init__("told", tokenizer, max_new_tokens=200, context=context)
        self.texts, self.asked = list(texts), list[str]()

    def sample(self, prompts: list[list[int]]) -> Sampled:
        self.asked += [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in prompts]
        written = [self.texts.pop(0) if len(self.texts) > 1 else self.texts[0] for _ in prompts]
        eos = self.tokenizer.eos_token_id
        return Sampled([[*self.tokenizer(t, add_special_tokens=False)["input_ids"], eos] for t in written], None)


def reflected(policy: Told, label: Label = Label.HARMFUL, **options: Any) -> tuple[Trajectory, Episode, int]:
    watched = ReflectingPolicy(policy, options.pop("scorer", Planted()), lambda _: (NOTE,), options=COMPACT, **options)
    episode = Episode(make_task(label), COMPACT)
    (done,) = run_lockstep([episode], watched)
    return done, episode, watched.interventions.get(episode, 0)


class Changing(Planted):
    """As planted, but a reflection takes the intent away."""

    def score(self, requests: Sequence[ScoreRequest]) -> Any:
        return [[self._score(r, p) for p in r.positions if REFLECTION not in r.turn(p.turn)[: p.end]] for r in requests]


def test_a_turn_that_triggers_goes_on_from_its_sentence_and_a_reflection(tokenizer: Any) -> None:
    rest = " This does harm." + REFUSED[REFUSED.index("</think>") :]
    policy = Told(tokenizer, LOOKED, HARMED, rest)
    done, _, times = reflected(policy, scorer=Changing())
    assert [turn.action.kind for turn in done.turns] == [ActionKind.CALL, ActionKind.REFUSE]
    kept = "<think>Nails. I sabotage them."
    assert done.turns[1].raw == f"{kept} {REFLECTION}{rest}"
    assert policy.asked[2].endswith(f"{kept} {REFLECTION}") and "Go on" not in policy.asked[2]
    assert times == 1 and done.outcome.refused and not done.outcome.harms


def test_turns_that_do_not_trigger_are_left_as_they_are(tokenizer: Any) -> None:
    plain = Told(tokenizer, LOOKED, ORDERED, ENDED)
    done, episode, times = reflected(plain, Label.BENIGN)
    (alone,) = run_lockstep([Episode(make_task(), COMPACT)], Told(tokenizer, LOOKED, ORDERED, ENDED))
    assert [turn.raw for turn in done.turns] == [turn.raw for turn in alone.turns] and done.outcome == alone.outcome
    assert times == 0 and done.policy == "told+reflection" and episode.conversation.spans[-1].by_model


def test_after_the_cap_the_action_is_cut_off_and_the_episode_goes_on(tokenizer: Any) -> None:
    policy = Told(tokenizer, HARMED, *[" I sabotage them. Go on" + HARMED[HARMED.index("</think>") :]] * 3, ENDED)
    done, _, times = reflected(policy, most=3)
    assert times == 3 and done.turns[0].action.kind is ActionKind.MALFORMED and not done.turns[0].executed
    assert done.turns[0].raw.count(REFLECTION) == 3 and "<tool_call>" not in done.turns[0].raw
    assert done.turns[-1].action.kind is ActionKind.ANSWER and not done.outcome.harms
    assert "Error: " in policy.asked[-1], "the policy is told"


def test_an_intent_that_is_first_seen_at_the_action_reopens_the_thought(tokenizer: Any) -> None:
    harm = texts_of([Step(plan="I sabotage", call=DROP)])[0]
    done, _, times = reflected(Told(tokenizer, harm, REFUSED[len("<think>") :]), scorer=Changing())
    assert done.turns[0].raw == f"<think>I sabotage {REFLECTION}{REFUSED[len('<think>') :]}"
    assert times == 1 and done.outcome.refused


def test_a_position_without_a_score_loses_its_action(tokenizer: Any) -> None:
    class Silent(Planted):
        def score(self, requests: Sequence[ScoreRequest]) -> Any:
            return [[None for _ in request.positions] for request in requests]

    done, _, _ = reflected(Told(tokenizer, HARMED), scorer=Silent())
    assert not any(turn.executed for turn in done.turns) and not done.outcome.harms


def test_a_reflection_that_does_not_fit_the_context_loses_its_action(tokenizer: Any) -> None:
    first = Episode(make_task(Label.HARMFUL), COMPACT)
    room = len(Told(tokenizer, HARMED).extend(first.conversation)) + 200
    done, _, _ = reflected(Told(tokenizer, HARMED, context=room))
    assert len(done.turns) == 1 and not done.turns[0].executed


def test_a_reflection_with_a_tag_is_refused(tokenizer: Any) -> None:
    with pytest.raises(ValueError, match="plain text"):
        ReflectingPolicy(Told(tokenizer, HARMED), Planted(), lambda _: (NOTE,), reflection="</think>")
