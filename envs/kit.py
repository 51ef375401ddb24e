"""The kit a family works with: seeded choices, wordings, and the steps of a script.

Wordings are data (`wordings.yaml` beside a family's code). A list is drawn from; lists by split are held out::

    pay_person:
      queries:
        train: ["[Pay|Please pay] {name} {amount}, {reason}."]
        validation: [...]
        test: [...]

`[Pay|Please pay]` stands for one of the alternatives. A second language is a file of the same shape that
holds only what differs (`wordings.zh.yaml`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from demur.envs.task import HiddenFact, Step
from demur.envs.trace import ASK_TOOL, REFUSE_TOOL, ToolCall
from demur.envs.world import World

T = TypeVar("T")
Wordings = dict[str, Any]

_ALTERNATIVES = re.compile(r"\[([^\[\]]*)\]")
_ENDS = ".?!。？！"
ASIDE_SHARE = 0.9
"""How many queries that give no reason end in an aside. Harmful queries mostly give one: without asides
their length alone would tell them from the others."""


class Kit:
    """Seeded choices and the domain's wordings, for one task of one family."""

    def __init__(self, wordings: Wordings, split: str, rng: Random, family: str = "", language: str = "en") -> None:
        self.rng = rng
        self.family = family
        self.language = language
        self._wordings = wordings
        self._split = split

    # Choices

    def pick(self, options: Sequence[T]) -> T:
        return self.rng.choice(options)

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """Distinct choices."""
        return self.rng.sample(options, count)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # Words

    def words(self, key: str, **slots: object) -> str:
        """One wording of `key` (dots go down the file), with its alternatives chosen and its slots filled."""
        # one draw, whatever the list holds, so that twins go on drawing the same
        inside = Random(self.rng.getrandbits(64))
        template = inside.choice(self.options(key))
        return _ALTERNATIVES.sub(lambda found: inside.choice(found[1].split("|")), template).format(**slots)

    def options(self, key: str) -> list[str]:
        """All wordings of `key` for this task's split and language."""
        node = _find(self._wordings.get(self.language, {}), key)
        if node is None:
            node = _find(self._wordings, key)
        if node is None:
            raise KeyError(f"there are no wordings {key!r}")
        if isinstance(node, dict):
            node = node[self._split]
        assert isinstance(node, list), f"wordings {key!r} must be a list, or lists by split"
        return node

    def query(self, *, like: str = "", aside: bool = True, **slots: object) -> str:
        """What the user asks: one of `<family>.queries`, now and then with an opener before it.

        like: another family whose queries to use. aside: whether an idle remark may follow; leave it out
        where the query gives a reason.
        """
        text = self.words("openers") + self.words(f"{like or self.family}.queries", **slots)
        remark, attach = self.words("asides"), self.chance(ASIDE_SHARE)
        return _join(text, remark, self.language) if aside and attach else text

    # Steps of a script

    def call(self, tool: str, /, check: str | None = None, **arguments: Any) -> Step:
        """A scripted call; its plan is the tool's line under `plans`."""
        plan = self.words(f"plans.{tool}", **arguments)
        return Step(plan=plan, check=check, call=ToolCall(name=tool, arguments=arguments))

    def retried(self, world: World, tool: str, /, **arguments: Any) -> tuple[Step, Step]:
        """The same call twice, in a world in which the first one hits a rate limit."""
        world.busy = (*world.busy, tool)
        call = ToolCall(name=tool, arguments=arguments)
        first = Step(plan=self.words(f"plans.{tool}", **arguments), call=call, fails=True)
        return first, Step(plan=self.words("plans.retry"), call=call)

    def answer(self, text: str, check: str | None = None) -> Step:
        return Step(plan=self.words("plans.answer"), check=check, answer=text)

    def refuse(self, key: str = "harm") -> Step:
        """A refusal with the check that led to it; `key` names the lines under `checks` and `refusals`."""
        call = ToolCall(name=REFUSE_TOOL, arguments={"reason": self.words(f"refusals.{key}")})
        return Step(plan=self.words("plans.refuse"), check=self.words(f"checks.{key}"), call=call)

    def ask(self, question: str, check: str | None = None) -> Step:
        """A question to the user; without a check of its own it says that something is missing."""
        call = ToolCall(name=ASK_TOOL, arguments={"question": question})
        return Step(plan=self.words("plans.ask"), check=check or self.words("checks.missing"), call=call)

    def missing(self, key: str, value: object, **slots: object) -> tuple[Step, HiddenFact]:
        """The question about something only the user knows, and the fact that answers it.

        `key` names an entry under `missing` with `questions`, `topics` (what a question must name to be
        answered) and `replies`, in which `{value}` stands for the value.
        """
        slots = {**slots, "value": value}
        step = self.ask(self.words(f"missing.{key}.questions", **slots))
        topics = tuple(topic.format(**slots) for topic in self.options(f"missing.{key}.topics"))
        return step, HiddenFact(topics=topics, reply=self.words(f"missing.{key}.replies", **slots))


def _find(node: Any, key: str) -> Any:
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return None
        node = node[part]
    return node


def _join(text: str, remark: str, language: str) -> str:
    """The remark inside the last sentence, as reasons stand there too.

    It ends in a full stop: question marks would tell queries that seek an answer from those that want a deed.
    """
    comma, stop = ("，", "。") if language == "zh" else (", ", ".")
    return f"{text.rstrip(_ENDS)}{comma}{remark}{stop}"
