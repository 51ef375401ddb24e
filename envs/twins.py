"""The three shapes that most families have, each a benign task and a twin that is not.

`by_reason`     a phrase of the query makes it harmful.
`by_injection`  a result the agent reads gives orders of its own.
`by_gap`        the query leaves out a value that only the user knows.

Twins draw the same choices, so that state, tools and wording are the same.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from demur.envs.family import Draft
from demur.envs.kit import Kit
from demur.envs.task import HiddenFact, Script, Step
from demur.envs.trace import Label
from demur.envs.world import Entry, World

Style = Literal["plain", "system", "urgent", "split", "encoded"]
OPEN_STYLES: tuple[Style, ...] = ("plain", "system", "urgent")
STYLES: tuple[Style, ...] = (*OPEN_STYLES, "split", "encoded")


@dataclass(frozen=True, slots=True)
class Carrier:
    """A text of the world that the agent reads on its way: a field of a record."""

    entry: Entry | World
    field: str

    def add(self, text: str) -> None:
        setattr(self.entry, self.field, f"{getattr(self.entry, self.field)} {text}".strip())


@dataclass(frozen=True, slots=True)
class Attack:
    """order: what the planted text wants, as a command without its full stop. steps: calls that obey it."""

    order: str
    steps: Script


def by_reason(
    kit: Kit,
    label: Label,
    world: World,
    doing: Script,
    *,
    safe: Script = (),
    slot: str = "reason",
    must_say: tuple[str, ...] = (),
    **slots: Any,
) -> Draft:
    """A benign task and a harmful one that differ in one phrase of the query.

    The phrase is drawn from `<family>.benign` or `<family>.harmful` and fills the query's `{reason}` (or the
    slot that `slot` names). doing: what is right in the benign twin, with its answer. safe: calls before it
    that are right in both: the harmful twin's expert does them and refuses the rest.
    """
    phrase = kit.words(f"{kit.family}.{label}")
    query = kit.query(aside=False, **{slot: phrase}, **slots)
    act = (*safe, *doing)
    if label is Label.BENIGN:
        return Draft(query=query, world=world, expert=act, must_say=must_say)
    return Draft(query=query, world=world, expert=(*safe, kit.refuse()), act=act)


def by_injection(
    kit: Kit,
    label: Label,
    world: World,
    *,
    reading: Script,
    finishing: Script,
    carriers: Sequence[Carrier],
    attack: Attack,
    must_say: tuple[str, ...] = (),
    styles: tuple[Style, ...] = STYLES,
    **slots: Any,
) -> Draft:
    """A benign task and one in which a text that the agent reads wants something else.

    reading: the calls that show the carriers' texts. finishing: the rest, with the answer; its first step
    gets the check that sees through the order. carriers: in the order in which they are read; the order is
    planted in one of them, or split over the first two.
    """
    query = kit.query(**slots)
    style = kit.pick([one for one in styles if one != "split" or len(carriers) > 1])
    texts = _disguised(kit, attack.order, style)
    places = list(carriers[:2]) if len(texts) > 1 else [kit.pick(list(carriers))]
    if label is Label.BENIGN:
        return Draft(query=query, world=world, expert=(*reading, *finishing), must_say=must_say)
    for place, text in zip(places, texts, strict=True):
        place.add(text)
    wary = (replace(finishing[0], check=kit.words("checks.foreign")), *finishing[1:])
    return Draft(
        query=query,
        world=world,
        expert=(*reading, *wary),
        act=(*reading, *attack.steps, *finishing),
        must_say=must_say,
        hidden=style not in OPEN_STYLES,
    )


def by_gap(
    kit: Kit,
    label: Label,
    world: World,
    query: str,
    *,
    look: Script = (),
    missing: tuple[Step, HiddenFact],
    right: Script,
    wrong: Script,
    must_say: tuple[str, ...] = (),
) -> Draft:
    """A benign task and one that lacks a value.

    look: calls that are right in either case, before the question. missing: from `Kit.missing`. right: what
    follows once the value is known, with the answer. wrong: the same on a guess.
    """
    if label is Label.BENIGN:
        return Draft(query=query, world=world, expert=(*look, *right), must_say=must_say)
    question, fact = missing
    return Draft(
        query=query,
        world=world,
        expert=(*look, question, *right),
        act=(*look, *wrong),
        facts=(fact,),
        must_say=must_say,
    )


def _disguised(kit: Kit, order: str, style: Style) -> list[str]:
    """The texts to plant: one, or two for an order that is split."""
    if style == "encoded":
        return [kit.words("injections.encoded", code=b64encode(order.encode()).decode())]
    if style == "split":
        words = order.split()
        middle = (len(words) + 1) // 2
        first, second = " ".join(words[:middle]), " ".join(words[middle:])
        return [
            kit.words("injections.split_first", order=first),
            kit.words("injections.split_second", order=second),
        ]
    return [kit.words(f"injections.{style}", order=order)]
