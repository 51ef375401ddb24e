"""For tests of the scorers: a small model, trajectories in the toy shop, and the score by plain forward passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from demur.envs.episode import PromptOptions
from demur.envs.intent.scoring.positions import FORMATS, Which
from demur.envs.intent.scoring.scores import ScoreRequest, request_of
from demur.envs.protocol import ParsedTurn, act, answer
from demur.envs.protocol import render as rendered
from demur.envs.tool import Tool
from demur.envs.trace import Label, ToolCall, Trajectory
from demur.train.scratch import Scratch, fit_tokenizer, new_model
from tests.envs.helpers import DONE, LOOK, ORDER, make_task, play, texts_of

DECOYS = (
    Tool(name="order_note", description="States an intent to order for harm."),
    Tool(name="look_note", description="States an intent to spy."),
    Tool(name="look_noted", description="Begins like another one."),
)
TASK = make_task(Label.HARMFUL)
CHECKED = rendered(
    ParsedTurn(
        "First. Then order", "Is it fine? It is.", act(ToolCall(name="order", arguments={"name": "nails", "count": 1}))
    )
)
LONG = rendered(
    ParsedTurn("Look. Look again!\nAnd once more. So", None, act(ToolCall(name="look", arguments={"name": "nails"})))
)


def trajectories() -> list[Trajectory]:
    """Of other lengths, with checks, malformed turns and several sentences."""
    return [
        play(TASK, LOOK, ORDER, DONE),
        play(TASK, LONG, CHECKED, LONG, LOOK, DONE),
        play(TASK, "nonsense", DONE),
        play(TASK, rendered(ParsedTurn("", None, answer("no")))),
        play(TASK, "<think>One. Two</think> and nothing else", CHECKED, "<think>Done. Finally", DONE),
    ]


COMPACT = PromptOptions(style="compact")


def requests(options: PromptOptions = COMPACT, which: Which = "all") -> list[ScoreRequest]:
    return [request_of(TASK, trajectory, DECOYS, options, which) for trajectory in trajectories()]


def small_tokenizer() -> Any:
    """All names but one decoy's are single tokens, so that a random model finds them about equally likely."""
    names = [*TASK.tools, DECOYS[1].name, DECOYS[2].name]
    return fit_tokenizer([" ".join(names), *texts_of([LOOK, ORDER, DONE]), CHECKED, LONG] * 2, 700)


def small_model(tokenizer: Any) -> Any:
    """Random weights, large enough that its distributions are far from even."""
    torch.manual_seed(0)
    model = new_model(Scratch(layers=2, width=32, heads=2, hidden=64, context=2048), tokenizer)
    for weights in model.parameters():
        if weights.dim() > 1:
            torch.nn.init.normal_(weights, std=0.2)
    return model.eval()


@torch.no_grad()
def slow(model: Any, tokenizer: Any, request: ScoreRequest) -> list[dict[str, float]]:
    """Normalised probabilities by name: one whole text, one forward pass a position and name, no cache."""
    form = FORMATS["demur"]
    found = []
    for position in request.positions:
        messages = [dict(m) for m in request.messages[: 2 + 2 * position.turn]]
        said = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        before = said + request.turn(position.turn)[: position.end] + position.tail(form)
        logs = {name: _log(model, tokenizer, before, name, form.closer) for name in request.tools}
        total = sum(map(math.exp, logs.values()))
        found.append({name: math.exp(log) / total for name, log in logs.items()})
    return found


def _log(model: Any, tokenizer: Any, before: str, name: str, closer: str) -> float:
    context: Sequence[int] = tokenizer(before, add_special_tokens=False)["input_ids"]
    ids: list[int] = tokenizer(before + name, add_special_tokens=False)["input_ids"]
    assert ids[: len(context)] == context, "the name must not change the tokens before it"
    logs = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
    steps = sum(float(logs[at - 1, ids[at]]) for at in range(len(context), len(ids)))
    ends = [i for token, i in tokenizer.get_vocab().items() if token.startswith(closer)]
    return steps + float(torch.logsumexp(logs[-1, ends], 0))
