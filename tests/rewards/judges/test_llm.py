"""The language model as the judge, behind scripted replies: what it is asked, and what is made of its words."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.trace import Trajectory
from demur.rewards.judges import Failure, MeteredJudge, Usage
from demur.rewards.judges.calls import Answer, Question
from demur.rewards.judges.llm import (
    PROMPTS_HASH,
    LLMJudge,
    instructions,
    read_comparison,
    read_comparison_apart,
    read_score,
)
from demur.rewards.judges.rendering import render
from tests.envs.helpers import DONE, LOOK, REFUSE, make_task, make_trajectory, play

ACTS, REFUSES = play(make_task(), LOOK, DONE), play(make_task(), REFUSE)


class Scripted:
    """Takes the place of `Calls`: replies with the given texts, and keeps the questions."""

    def __init__(self, *replies: str) -> None:
        self.replies, self.questions = list(replies), list[Question]()
        self.stop_reason: str | None = None
        self.model = "scripted"

    def ask_all(self, questions: Sequence[Question]) -> list[Answer]:
        self.questions += questions
        return [self._answer(question, self.replies.pop(0)) for question in questions]

    def pop_usage(self) -> Usage:
        return Usage(calls=len(self.questions))

    def _answer(self, question: Question, reply: str) -> Answer:
        try:
            return Answer(question.read(reply), None)
        except ValueError as error:
            return Answer(None, str(error))


def scripted(*replies: object, **options: Any) -> tuple[LLMJudge, Scripted]:
    calls: Any = Scripted(*(reply if isinstance(reply, str) else json.dumps(reply) for reply in replies))
    return LLMJudge(calls, **options), calls


def verdict(word: str) -> dict[str, str]:
    return {"reason": "It did what was asked.", "verdict": word}


def test_verdicts_and_scores_become_numbers() -> None:
    judge, _ = scripted(verdict("first"), verdict("second"), verdict("tie"))
    assert judge.compare([(ACTS, REFUSES), (ACTS, REFUSES), (REFUSES, ACTS)]) == [1.0, 0.0, 0.5]
    judge, _ = scripted(*({"reason": "So.", "score": score} for score in (0, 3, 10)))
    assert judge.score([ACTS, REFUSES, ACTS]) == [0.0, 0.3, 1.0]
    assert judge.pop_failures() == []


def test_the_variant_looks_at_each_alone_first() -> None:
    judge, calls = scripted({"first_alone": "a", "second_alone": "b"} | verdict("first"), prompt="apart")
    assert judge.compare([(ACTS, REFUSES)]) == [1.0]
    assert list(calls.questions[0].schema.model_fields) == ["first_alone", "second_alone", "reason", "verdict"]
    assert calls.questions[0].messages[0]["content"] == instructions("pairwise_apart") != instructions("pairwise")


def test_a_failure_is_no_number_and_names_task_and_samples() -> None:
    second = REFUSES.model_copy(update={"sample": 3})
    judge, _ = scripted("first", verdict("first"), "7")
    assert judge.compare([(ACTS, second), (second, ACTS)]) == [None, 1.0]
    assert judge.score([second]) == [None]
    failures = judge.pop_failures()
    assert [(one.kind, one.task_id, one.samples) for one in failures] == [
        ("compare", ACTS.task_id, (0, 3)),
        ("score", ACTS.task_id, (3,)),
    ]
    assert all(isinstance(one, Failure) and one.error for one in failures)
    assert judge.pop_failures() == []


def test_an_even_score_of_zero_is_a_value_and_no_failure() -> None:
    judge, _ = scripted({"reason": "", "score": 0}, verdict("second"))
    assert judge.score([ACTS]) == [0.0] and judge.compare([(ACTS, REFUSES)]) == [0.0]
    assert judge.pop_failures() == []


def test_both_ways_of_asking_show_the_same_and_state_the_same_policy() -> None:
    judge, calls = scripted(verdict("tie"), {"reason": "", "score": 1}, {"reason": "", "score": 1}, max_chars=800)
    judge.compare([(ACTS, REFUSES)])
    judge.score([ACTS, REFUSES])
    users = [question.messages[1]["content"] for question in calls.questions]
    assert users == [render(list(one), 800) for one in ((ACTS, REFUSES), (ACTS,), (REFUSES,))]
    pair, first, second = (json.loads(user.split("\n")[1]) for user in users)
    assert [pair["first"], pair["second"]] == [first["trajectory"], second["trajectory"]]
    for policy in ("What counts, in this order:", "How to read the data."):
        paragraphs = [
            text[text.index(policy) :].split("\n\nReply with one JSON")[0]
            for text in map(instructions, ("pairwise", "pairwise_apart", "pointwise"))
        ]
        assert len(set(paragraphs)) == 1
    for question in calls.questions:
        assert [message["role"] for message in question.messages] == ["system", "user"]
        assert "{policy}" not in question.messages[0]["content"] and "{data}" not in question.messages[0]["content"]


def test_the_instructions_name_the_keys_that_the_schema_wants() -> None:
    for prompt in ("together", "apart"):
        judge, calls = scripted("", "", prompt=prompt)
        judge.compare([(ACTS, REFUSES)])
        judge.score([ACTS])
        for question in calls.questions:
            schema = question.schema.model_json_schema()
            assert schema["additionalProperties"] is False and schema["required"] == list(schema["properties"])
            text = question.messages[0]["content"]
            asked = text[text.index("Reply with one JSON object") :]
            places = [asked.index(f'- "{key}":') for key in schema["properties"]]
            assert places == sorted(places), "the reason comes before the verdict, in both"


def test_the_request_and_the_instructions_tell_nothing_of_label_or_facts() -> None:
    judge, calls = scripted("")
    judge.score([make_trajectory(query="pay", policy="after-training", world="shop-7")])
    text = calls.questions[0].messages[1]["content"]
    assert not any(word in text for word in ("benign", "after-training", "shop-7", "outcome", "label"))


WRONG = [
    "",
    "first",
    "A",
    ":",
    "null",
    "[]",
    '"first"',
    '{"verdict": "first"}',
    '{"reason": "r", "verdict": "First"}',
    '{"reason": "r", "verdict": "first "}',
    '{"reason": "r", "verdict": 1}',
    '{"reason": "r", "verdict": null}',
    '{"reason": 1, "verdict": "first"}',
    '{"reason": "r", "verdict": "first", "score": 3}',
    '{"reason": "r", "verdict": "first", "verdict": "second"}',
    '{"reason": "r", "verdict": "first"} {"reason": "r", "verdict": "second"}',
    '```json\n{"reason": "r", "verdict": "first"}\n```',
    'The verdict: {"reason": "r", "verdict": "first"}',
    '{"reason": "r", "verdict": "fir',
    "[" * 100_000,
]
SCORES = ["-1", "11", "7.0", "7.5", '"7"', "true", "null", "NaN", "1e1", "9" * 5000]


@pytest.mark.parametrize("read", [read_comparison, read_comparison_apart, read_score])
@pytest.mark.parametrize("text", WRONG)
def test_a_reply_that_is_not_exactly_the_schema_is_refused(text: str, read: Callable[[str], float]) -> None:
    with pytest.raises(ValueError, match=r"\w") as raised:
        read(text)
    assert len(str(raised.value)) <= 200 and "\n" not in str(raised.value)


@pytest.mark.parametrize("score", SCORES)
def test_a_score_that_is_no_whole_number_from_0_to_10_is_refused(score: str) -> None:
    with pytest.raises(ValueError, match=r"score|JSON"):
        read_score(f'{{"reason": "r", "score": {score}}}')


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_no_text_but_the_schema_gives_a_verdict(text: str) -> None:
    for read in (read_comparison, read_comparison_apart, read_score):
        with pytest.raises(ValueError, match=r"\w"):
            read(text)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=50), st.sampled_from(["first", "second", "tie"]))
def test_whatever_the_reason_says_the_verdict_counts(reason: str, word: str) -> None:
    assert (
        read_comparison(json.dumps({"reason": reason, "verdict": word})) == {"first": 1, "second": 0, "tie": 0.5}[word]
    )


def test_it_is_a_metered_judge_that_passes_on_what_its_calls_say() -> None:
    judge, calls = scripted(verdict("first"))
    assert isinstance(judge, MeteredJudge) and judge.name == "llm:scripted" and judge.stop_reason is None
    judge.compare([(ACTS, REFUSES)])
    calls.stop_reason = "budget used up"
    assert judge.stop_reason == "budget used up" and judge.pop_usage().calls == 1
    assert judge.compare([]) == [] == judge.score([])


def test_a_card_of_one_prompt_is_not_one_of_the_other() -> None:
    apart, _ = scripted(verdict("first"), prompt="apart")
    assert apart.name == "llm:scripted (apart)"


def test_pairs_of_different_requests_are_a_fault_of_the_caller() -> None:
    judge, calls = scripted(verdict("first"))
    other: Trajectory = make_trajectory(query="another")
    with pytest.raises(AssertionError, match="one request"):
        judge.compare([(ACTS, other)])
    assert calls.questions == []


def test_options_that_cannot_be_are_refused() -> None:
    prompt: Any = "sideways"
    with pytest.raises(ValueError, match="together or apart"):
        scripted(prompt=prompt)
    with pytest.raises(ValueError, match="max_chars must be at least"):
        scripted(max_chars=10)


def test_the_hash_of_the_prompts_is_a_sha256() -> None:
    assert len(PROMPTS_HASH) == 64 and int(PROMPTS_HASH, 16) > 0
