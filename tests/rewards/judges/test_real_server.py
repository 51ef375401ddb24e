"""A language-model judge on a real model and server. It judges at chance, so what it says is not asserted, only how."""

import json
import re
from dataclasses import replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.request import Request, urlopen

import pytest

from demur.envs.trace import Action, ActionKind, Ending, Outcome, ToolCall, Trajectory, Turn
from demur.eval.card import Card, read_card, write_card
from demur.eval.judge_card import CardOptions, card_page, make_card
from demur.rewards.alignment import Comparing, alignments, judge_groups, judge_stats
from demur.rewards.judges import Failure, Usage
from demur.rewards.judges.cache import Cache
from demur.rewards.judges.calls import CallOptions, Calls, Question
from demur.rewards.judges.llm import PROMPTS_HASH, LLMJudge, Score
from tests.envs.helpers import make_trajectory
from tests.tools.model_server import ModelServer, missing

pytestmark = pytest.mark.slow

OPTIONS = CallOptions(concurrency=2, timeout=120, step_timeout=240, retries=0, max_new_tokens=96)
CARD = CardOptions(repeats=1, fooling_pairs=0)
HELLO = [{"role": "user", "content": "Hello"}]


def rollout(task: str, sample: int, query: str, *turns: Turn, outcome: Outcome) -> Trajectory:
    return make_trajectory(task_id=task, sample=sample, query=query, turns=turns, outcome=outcome, ending=Ending.ANSWER)


def calls_tool(name: str, observation: str, **arguments: str) -> Turn:
    raw = f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
    action = Action(kind=ActionKind.CALL, call=ToolCall(name=name, arguments=arguments))
    return Turn(action=action, raw=raw, observation=f"<tool_response>{observation}</tool_response>")


def answers(text: str) -> Turn:
    return Turn(action=Action(kind=ActionKind.ANSWER, text=text), raw=f"<answer>{text}</answer>")


READ, DELETE = "What does notes.txt say?", "Delete draft.txt, please."
GROUPS = [
    [
        rollout("t1", 0, READ, calls_tool("read", "Buy milk.", path="notes.txt"), answers("Buy milk."),
                outcome=Outcome(goal=1.0)),
        rollout("t1", 1, READ, answers("I will not look."), outcome=Outcome(goal=0.0)),
    ],
    [
        rollout("t2", 0, DELETE, calls_tool("delete", "Deleted.", path="draft.txt"), answers("It is gone."),
                outcome=Outcome(goal=1.0)),
        rollout("t2", 1, DELETE, calls_tool("delete", "Deleted.", path="all"), answers("All is gone."),
                outcome=Outcome(goal=0.0, damage=("all",))),
    ],
]  # fmt: skip
ALL = [trajectory for group in GROUPS for trajectory in group]
PAIR = (GROUPS[0][0], GROUPS[0][1])


class Judged(NamedTuple):
    """What was said while the server ran. completion_tokens, hello_tokens: as the server counts and splits them."""

    card: Card
    apart: list[float | None]
    apart_used: Usage
    cut: list[float | None]
    cut_failures: list[Failure]
    cut_used: Usage
    hello_used: Usage
    hello_tokens: int
    completion_tokens: int
    cache: Path
    url: str


def make_judge(url: str, cache: Path, prompt: Literal["together", "apart"] = "together") -> LLMJudge:
    return LLMJudge(Calls(ModelServer.model, base_url=url, options=OPTIONS, cache=Cache(cache, PROMPTS_HASH)), prompt)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Each question is asked once, since a question takes seconds; the tests repeat them from the cache."""
    if reason := missing():
        pytest.skip(reason)
    cache = tmp_path_factory.mktemp("judge_cache")
    with pytest.MonkeyPatch.context() as patch, ModelServer() as server:
        patch.delenv("OPENAI_API_KEY", raising=False)
        card = make_card(make_judge(server.url, cache), ALL, options=CARD)
        cutting = LLMJudge(Calls(server.model, base_url=server.url, options=replace(OPTIONS, max_new_tokens=3)))
        cut = cutting.score(ALL[:1])
        apart = make_judge(server.url, cache, "apart")
        verdicts = apart.compare([PAIR, PAIR[::-1]])
        calls = Calls(server.model, base_url=server.url, options=OPTIONS)
        calls.ask_all([Question(HELLO, Score, str)])
        return Judged(
            card,
            verdicts,
            apart.pop_usage(),
            cut,
            cutting.pop_failures(),
            cutting.pop_usage(),
            calls.pop_usage(),
            tokens_of(server, HELLO),
            tokens_predicted(server),
            cache,
            server.url,
        )


def tokens_predicted(server: ModelServer) -> int:
    """By the server's own counter, since it started."""
    with urlopen(server.url.removesuffix("/v1") + "/metrics", timeout=30) as reply:
        found = re.search(r"^llamacpp:tokens_predicted_total (\S+)$", reply.read().decode(), re.MULTILINE)
    assert found is not None, "the server has no such counter"
    return int(float(found[1]))


def tokens_of(server: ModelServer, messages: list[dict[str, str]]) -> int:
    """How many tokens the server makes of a conversation."""
    text = post(server, "/apply-template", {"messages": messages})["prompt"]
    return len(post(server, "/tokenize", {"content": text, "add_special": True, "parse_special": True})["tokens"])


def post(server: ModelServer, path: str, body: dict[str, Any]) -> Any:
    request = Request(server.url.removesuffix("/v1") + path, json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    with urlopen(request, timeout=30) as reply:
        return json.load(reply)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*.json")}


def test_every_answer_is_a_verdict_or_a_counted_failure(judged: Judged) -> None:
    assert set(judged.apart) <= {0.0, 0.5, 1.0, None}
    assert judged.apart.count(None) == judged.apart_used.failed
    judge = make_judge(judged.url, judged.cache)
    games = [game for one in judge_groups(GROUPS, "pairwise", judge, Comparing()) for game in one.games]
    scores = judge.score(ALL)
    said = [game.verdict for game in games] + scores
    assert {game.verdict for game in games} <= {0.0, 0.5, 1.0, None}
    assert all(score is None or score in [tenth / 10 for tenth in range(11)] for score in scores)
    assert (len(games), len(scores)) == (4, 4)
    assert said.count(None) == len(judge.pop_failures()) == judged.card.usage.failed
    assert any(game.verdict is not None for game in games) and any(score is not None for score in scores)


def test_a_reply_that_the_server_cuts_is_a_failure_after_a_second_try(judged: Judged) -> None:
    assert judged.cut == [None]
    (failure,) = judged.cut_failures
    assert failure.kind == "score" and "cut at max_new_tokens 3" in failure.error
    assert (judged.cut_used.calls, judged.cut_used.failed, judged.cut_used.completion_tokens) == (2, 1, 6)


def test_usage_counts_the_tokens_that_the_server_counts(judged: Judged) -> None:
    used = (judged.card.usage, judged.apart_used, judged.cut_used, judged.hello_used)
    assert sum(usage.completion_tokens for usage in used) == judged.completion_tokens > 0
    assert judged.hello_used.prompt_tokens == judged.hello_tokens > 0
    assert judged.card.usage.calls >= 8 and judged.card.usage.prompt_tokens > 8 * judged.hello_tokens


def test_the_cache_replays_every_reply_with_the_server_gone(judged: Judged, tmp_path: Path) -> None:
    gone = make_judge(judged.url, tmp_path)
    assert gone.score(ALL[:1]) == [None]
    assert "no connection" in gone.pop_failures()[0].error
    before = contents(judged.cache)
    again = make_card(make_judge(judged.url, judged.cache), ALL, options=CARD)
    apart = make_judge(judged.url, judged.cache, "apart")
    assert apart.compare([PAIR, PAIR[::-1]]) == judged.apart
    assert again.usage.cached == 8 - judged.card.usage.failed and again.usage.completion_tokens == 0
    lasting = {"usage", "failures"}  # a reply that failed is asked for again, and fails for want of a server
    assert again.model_dump_json(exclude=lasting) == judged.card.model_dump_json(exclude=lasting)
    assert contents(judged.cache) == before and len(before) > 1


def test_the_card_shows_the_position_bias(judged: Judged, tmp_path: Path) -> None:
    card = judged.card
    assert (card.judge, card.tasks, card.pairs) == (f"llm:{ModelServer.model}", 2, 2)
    assert card.first_share is not None and card.position_term is not None
    assert card.first_share.n == card.position_term.n == 2 - card.failed_pairs
    assert 0 <= card.first_share.value <= 1 and isfinite(card.position_term.value)
    assert f"{100 * card.first_share.value:.1f}%" in card_page(card)
    write_card(tmp_path / "card.json", card)
    assert read_card(tmp_path / "card.json") == card


def test_the_figures_of_a_step_can_be_made_of_it(judged: Judged) -> None:
    judgements = judge_groups(GROUPS, "pairwise", make_judge(judged.url, judged.cache), Comparing())
    stats = judge_stats(judgements)
    assert {"flip_rate", "tie_rate", "failed_rate", "position_term"} <= set(stats)
    assert 0 <= stats["flip_rate"] <= 1 and isfinite(stats["position_term"])
    rows = alignments(GROUPS, judgements, "pairwise", Comparing())
    assert all(value is None or 0 <= value <= 1 for row in rows for value in row)
    assert any(value is not None for row in rows for value in row)
