"""The intent contract: what a user wants done, what may be done for it, and when it is done.

A contract is plain data, read from a query or written by hand, and checked outside the model before every
call (`demur.envs.intent.checks`). Least privilege: a tool that no pattern allows is not allowed, and an empty
list allows nothing::

    IntentContract(
        goal="refund rate of the last seven days",
        allowed=(CallPattern(tool="query_orders", where=(Between(argument="days", maximum=7),)),),
        constraints=(Constraint(id="read-only", text="change no order", forbid=CallPattern(tool="update_*")),),
    )
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal

import regex
from pydantic import Field, field_validator, model_validator

from demur.envs.tool import EffectClass
from demur.envs.trace import Level, Record

Scalar = str | int | float | bool
Comparison = Literal["==", "!=", "<", "<=", ">", ">="]


class ContractError(ValueError):
    """A contract that contradicts itself or that cannot be read. Names the rule."""


class _Predicate(Record):
    """A condition on one argument of a call; `negated` turns it round. An absent argument fulfils none."""

    argument: str
    negated: bool = False


class Equals(_Predicate):
    op: Literal["equals"] = "equals"
    value: Scalar


class OneOf(_Predicate):
    op: Literal["in"] = "in"
    values: tuple[Scalar, ...]


class Between(_Predicate):
    """A number from `minimum` to `maximum`, both included; None leaves that end open."""

    op: Literal["range"] = "range"
    minimum: float | None = None
    maximum: float | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Between:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"no number of {self.argument!r} is from {self.minimum} to {self.maximum}")
        return self


class Matches(_Predicate):
    """The whole text matches a regular expression."""

    op: Literal["regex"] = "regex"
    pattern: str

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            regex.compile(pattern)
        except regex.error as error:
            raise ValueError(f"the pattern {pattern!r} does not compile: {error}") from error
        return pattern


class Like(_Predicate):
    """The whole text matches a glob, such as `reports/*.csv`; letter case counts."""

    op: Literal["glob"] = "glob"
    pattern: str


class Compared(_Predicate):
    """The argument compared with another one (`argument:limit`) or with the state (`state:account.balance`)."""

    op: Literal["relation"] = "relation"
    relation: Comparison
    other: str

    @field_validator("other")
    @classmethod
    def _has_a_source(cls, other: str) -> str:
        source, _, path = other.partition(":")
        if source not in ("argument", "state") or not path:
            raise ValueError(f"compare with 'argument:NAME' or 'state:PATH', not with {other!r}")
        return other


Predicate = Annotated[Equals | OneOf | Between | Matches | Like | Compared, Field(discriminator="op")]


class CallPattern(Record):
    """Calls of some tools (a glob over names), with conditions on their arguments and on the kind of effect.

    at_most: how many matching calls may have been carried out; only what is allowed can be limited so.
    """

    tool: str = "*"
    where: tuple[Predicate, ...] = ()
    effect: EffectClass | None = None
    at_most: int | None = Field(default=None, ge=1)

    @property
    def is_glob(self) -> bool:
        return any(mark in self.tool for mark in "*?[")

    def shares_tools(self, other: CallPattern) -> bool:
        """Whether a tool may fit both names, as far as globs tell."""
        return fnmatchcase(self.tool, other.tool) or fnmatchcase(other.tool, self.tool)

    def __str__(self) -> str:
        conditions = [_spelled(predicate) for predicate in self.where]
        effect = [f"effect {self.effect}"] if self.effect else []
        return f"{self.tool}({', '.join(conditions + effect)})"


class Constraint(Record):
    """What must not happen, in the user's words, and the calls that it forbids.

    Without `forbid` no rule expresses it: it is kept for the judge. level: what a call that hits it gets.
    """

    id: str
    text: str
    forbid: CallPattern | None = None
    level: Literal[Level.WARN, Level.ASK, Level.REQUIRE_APPROVAL, Level.BLOCK] = Level.BLOCK


class Precondition(Record):
    """A call of the pattern `before` needs an earlier one of the pattern `first` that was carried out."""

    id: str
    before: CallPattern
    first: CallPattern


class Criterion(Record):
    """When a part of the goal is done: a call was carried out, its result matches, the state holds.

    done_when: such a call ran without an error. result: a regular expression found in what it returned.
    state: predicates whose `argument` is a path into the state. Without any of them it is left to the judge.
    """

    id: str
    text: str
    done_when: CallPattern | None = None
    result: str | None = None
    state: tuple[Predicate, ...] = ()
    times: int = Field(default=1, ge=1)

    @field_validator("result")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        return None if pattern is None else Matches(argument="result", pattern=pattern).pattern

    @property
    def by_rule(self) -> bool:
        return self.done_when is not None or bool(self.state)


class Metric(Record):
    """One verifiable number that the goal asks for, such as the refund rate of seven days of one shop."""

    name: str
    period: str | None = None
    scope: str | None = None


class IntentContract(Record):
    """The terms of one user's intent. `demur.envs.intent.registry` gives it identity, status and history.

    goal: normalised text. scope: per parameter name the globs that its values must match, in every call.
    confidence: in [0, 1], how sure the reading is; low leads to a question before anything is changed.
    Raises ContractError if a rule contradicts another.
    """

    goal: str
    source_text: str = ""
    user_id: str = ""
    metrics: tuple[Metric, ...] = ()
    scope: dict[str, tuple[str, ...]] = {}
    constraints: tuple[Constraint, ...] = ()
    acceptance: tuple[Criterion, ...] = ()
    allowed: tuple[CallPattern, ...] = ()
    approval: tuple[CallPattern, ...] = ()
    order: tuple[Precondition, ...] = ()
    confidence: float = Field(default=1.0, ge=0.0, le=1.0)

    @model_validator(mode="after")
    def _consistent(self) -> IntentContract:
        _no_twice("constraint", (c.id for c in self.constraints))
        _no_twice("criterion", (c.id for c in self.acceptance))
        _no_twice("precondition", (p.id for p in self.order))
        allowed = {pattern.model_copy(update={"at_most": None}) for pattern in self.allowed}
        for rule in self.constraints:
            if rule.level is Level.BLOCK and rule.forbid in allowed:
                raise ContractError(f"{rule.forbid} is allowed, and constraint {rule.id!r} forbids it; drop one")
        for criterion in self.acceptance:
            if criterion.done_when and not any(map(criterion.done_when.shares_tools, self.allowed)):
                raise ContractError(
                    f"criterion {criterion.id!r} can never be met: no allowed pattern has {criterion.done_when.tool}"
                )
        _no_circle(self.order)
        return self

    @property
    def for_judge(self) -> tuple[Constraint, ...]:
        """The constraints that no rule expresses."""
        return tuple(constraint for constraint in self.constraints if constraint.forbid is None)

    def renamed(self, new_names: Mapping[str, str]) -> IntentContract:
        """The same terms for tools that bear new names. Globs over names stay as they are."""

        def named(pattern: CallPattern) -> CallPattern:
            return pattern.model_copy(update={"tool": new_names.get(pattern.tool, pattern.tool)})

        def part(rule: Record, *fields: str) -> Record:
            found = {field: pattern for field in fields if (pattern := getattr(rule, field)) is not None}
            return rule.model_copy(update={field: named(pattern) for field, pattern in found.items()})

        return self.model_copy(
            update={
                "allowed": tuple(map(named, self.allowed)),
                "approval": tuple(map(named, self.approval)),
                "constraints": tuple(part(rule, "forbid") for rule in self.constraints),
                "acceptance": tuple(part(rule, "done_when") for rule in self.acceptance),
                "order": tuple(part(rule, "before", "first") for rule in self.order),
            }
        )


def _no_twice(kind: str, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise ContractError(f"two rules of the kind {kind} have the id {one!r}")
        seen.add(one)


def _no_circle(order: tuple[Precondition, ...]) -> None:
    """Two preconditions that wait for each other would block both calls for ever."""
    needs: dict[CallPattern, set[CallPattern]] = {}
    for precondition in order:
        needs.setdefault(precondition.before, set()).add(precondition.first)
    for precondition in order:
        waiting, seen = {precondition.first}, set()
        while waiting:
            one = waiting.pop()
            if one == precondition.before:
                raise ContractError(f"precondition {precondition.id!r} waits for itself: {one} comes before and after")
            seen.add(one)
            waiting |= needs.get(one, set()) - seen


def _spelled(predicate: Predicate) -> str:
    said = {
        "equals": lambda p: f"= {p.value!r}",
        "in": lambda p: f"in {list(p.values)!r}",
        "range": lambda p: f"from {p.minimum} to {p.maximum}",
        "regex": lambda p: f"matches {p.pattern!r}",
        "glob": lambda p: f"like {p.pattern!r}",
        "relation": lambda p: f"{p.relation} {p.other}",
    }[predicate.op](predicate)
    return f"{'not ' if predicate.negated else ''}{predicate.argument} {said}"
