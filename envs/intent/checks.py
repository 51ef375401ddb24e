"""What a contract says of a call: the checks before it, in the article's order, and what is done after it.

    checker = Checker(contract, tools)
    verdict = checker.check(call, history, state)     # allowed tools, order, constraints, approval, goal boundary
    checker.unmet(history, state)                     # the acceptance criteria that are still open

Each check either stops the call, warns, or has nothing to say; none can be skipped. A verdict names its check
(`stage`), the rule it hit (`relation`) and the arguments (`evidence`). What cannot be decided, such as a number
given as a text, counts against the call.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from typing import Any, Final, NamedTuple

import regex

from demur.envs.intent.contract import (
    Between,
    CallPattern,
    Compared,
    Criterion,
    Equals,
    IntentContract,
    Like,
    Matches,
    OneOf,
    Predicate,
)
from demur.envs.tool import EffectClass, Tool
from demur.envs.trace import Level, ToolCall, Turn, Verdict

NAME: Final = "contract"
ASK_BELOW: Final = 0.5
"""A reading less sure than this leads to a question before anything is changed."""
REGEX_SECONDS: Final = 0.05
"""A pattern that takes longer on an argument raises TimeoutError, and a guard that raises blocks."""

State = Mapping[str, Any]
"""Facts about the environment for rules that compare with them; paths are keys joined by dots."""

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class PastCall(NamedTuple):
    """A call that was made before. ok: it was carried out, without an error."""

    call: ToolCall
    ok: bool = True
    result: str = ""


def past_calls(turns: Sequence[Turn]) -> list[PastCall]:
    """The calls of earlier turns that ran."""
    return [
        PastCall(turn.action.call, not turn.failed, turn.observation or "")
        for turn in turns
        if turn.executed and turn.action.call is not None
    ]


class Checker:
    """A contract made ready for many checks. `tools` tell what kind of change a call makes."""

    def __init__(self, contract: IntentContract, tools: Mapping[str, Tool]) -> None:
        self.contract = contract
        self._tools = tools
        self._rules: dict[str, _Rules] = {}
        self._made: dict[int, _ByName] = {}

    def check(
        self,
        call: ToolCall,
        history: Sequence[PastCall] = (),
        state: State | None = None,
        *,
        confidence: float | None = None,
        lifted: frozenset[Level] = frozenset(),
    ) -> Verdict:
        """The first verdict that stops the call, else the first warning, else allow.

        confidence: as of now, if it is not the contract's own. lifted: levels that do not stop this call any
        more, since the user confirmed it (ask) or an approver granted it (require_approval).
        """
        rules, facts = self._rules_for(call.name), _Facts(call.arguments, state or {})
        warning: Verdict | None = None
        for verdict in self._verdicts(rules, call, facts, history, confidence):
            if not verdict.level.lets_run and verdict.level not in lifted:
                return verdict
            warning = warning or (verdict if verdict.level is Level.WARN else None)
        return warning or Verdict(level=Level.ALLOW, guard=NAME)

    def unmet(self, history: Sequence[PastCall], state: State | None = None) -> list[Criterion]:
        """The acceptance criteria that rules can decide and that are not met."""
        return [c for c in self.contract.acceptance if c.by_rule and not self._met(c, history, state or {})]

    def completed(self, history: Sequence[PastCall], state: State | None = None) -> bool:
        """Whether there are criteria, all of them decided by rules, and all met."""
        criteria = self.contract.acceptance
        return bool(criteria) and all(c.by_rule for c in criteria) and not self.unmet(history, state)

    def _rules_for(self, name: str) -> _Rules:
        if name not in self._rules:
            self._rules[name] = _Rules(self.contract, name, self._effect(name))
        return self._rules[name]

    def _effect(self, name: str) -> EffectClass:
        """What kind of change a tool makes; one that nobody described may change anything."""
        tool = self._tools.get(name)
        return tool.effect if tool else EffectClass.PERSISTENT_WRITE

    def _verdicts(
        self, rules: _Rules, call: ToolCall, facts: _Facts, history: Sequence[PastCall], confidence: float | None
    ) -> Iterator[Verdict]:
        yield from self._allowed(rules, call, facts, history)
        yield from self._order(rules, facts, history)
        yield from _constraints(rules, facts)
        yield from _approval(rules, facts)
        if rules.writes:
            yield from self._sure(call, confidence)
        yield from self._boundary(rules, facts)

    def _allowed(self, rules: _Rules, call: ToolCall, facts: _Facts, history: Sequence[PastCall]) -> Iterator[Verdict]:
        if not rules.allowed:
            yield _stop("allowed_tools", call.name, f"the contract does not allow {call.name}")
            return
        fitting = [one for one in rules.allowed if one.holds(facts) is True]
        if not fitting:
            near = rules.allowed[0]
            reason = f"the contract allows {call.name} only as {' or '.join(str(one.pattern) for one in rules.allowed)}"
            yield _stop("allowed_tools", str(near.pattern), reason, near.hit(facts, wanted=True))
        elif not any(self._has_left(one, history) for one in fitting):
            reason = f"the contract allows it {fitting[0].pattern.at_most} times, and that is used up"
            yield _stop("allowed_tools", str(fitting[0].pattern), reason, facts.spelled())

    def _order(self, rules: _Rules, facts: _Facts, history: Sequence[PastCall]) -> Iterator[Verdict]:
        for rule, before in rules.order:
            if before.holds(facts) is not False and not any(self._fitting(rule.first, history)):
                yield _stop("order", rule.id, f"it needs an earlier call of {rule.first}", facts.spelled())

    def _has_left(self, one: _Pattern, history: Sequence[PastCall]) -> bool:
        limit = one.pattern.at_most
        return limit is None or sum(1 for _ in self._fitting(one.pattern, history)) < limit

    def _fitting(self, pattern: CallPattern, history: Sequence[PastCall]) -> Iterator[PastCall]:
        """The earlier calls of a pattern that were carried out."""
        made = self._made.get(id(pattern))  # patterns live as long as the contract
        if made is None:
            made = self._made[id(pattern)] = _ByName(pattern, self._effect)
        if not pattern.is_glob:  # most are not, and a long history is quickly sifted by name
            history = [past for past in history if past.call.name == pattern.tool]
        for past in history:
            if past.ok and (one := made[past.call.name]) and one.holds(_Facts(past.call.arguments, {})) is True:
                yield past

    def _met(self, criterion: Criterion, history: Sequence[PastCall], state: State) -> bool:
        if not all(_compile(predicate)(_Facts(state, state)) is True for predicate in criterion.state):
            return False
        if criterion.done_when is None:
            return True
        fitting = self._fitting(criterion.done_when, history)
        if criterion.result is not None:
            wanted = regex.compile(criterion.result)
            fitting = (past for past in fitting if wanted.search(past.result, timeout=REGEX_SECONDS))
        return sum(1 for _ in fitting) >= criterion.times

    def _sure(self, call: ToolCall, confidence: float | None) -> Iterator[Verdict]:
        sure = self.contract.confidence if confidence is None else confidence
        if sure < ASK_BELOW:
            reason = f"the reading of the intent is unsure ({sure:.2f} < {ASK_BELOW})"
            question = f"Shall I go on with {call.name}({', '.join(_spelled(call.arguments))})?"
            yield Verdict(level=Level.ASK, guard=NAME, stage="confidence", reason=reason, question=question)

    def _boundary(self, rules: _Rules, facts: _Facts) -> Iterator[Verdict]:
        for name, globs in self.contract.scope.items():
            value = facts.argument(name)
            if value is not _ABSENT and not any(fnmatchcase(str(value), one) for one in globs):
                reason = f"{name} is out of scope: it must be like {' or '.join(globs)}"
                yield _stop("boundary", f"scope:{name}", reason, (f"{name}={value!r}",))
        if rules.writes and not any(one.holds(facts) is True for one in rules.criteria):
            reason = "it changes something that no acceptance criterion needs"
            yield Verdict(level=Level.WARN, guard=NAME, stage="boundary", reason=reason, evidence=facts.spelled())


def confidence_now(contract: IntentContract, levels: Sequence[Level]) -> float:
    """The contract's confidence in the light of the verdicts so far, re-evaluated after the first call and then
    after every fifth: c·(a + 1) / (n + 1), for a of n calls allowed without a warning."""
    n = len(levels) if len(levels) < 5 else len(levels) // 5 * 5
    n = 1 if 1 < n < 5 else n
    allowed = sum(level is Level.ALLOW for level in levels[:n])
    return contract.confidence * (allowed + 1) / (n + 1)


class _Facts(NamedTuple):
    """What a predicate looks at."""

    arguments: Mapping[str, Any]
    state: State

    def argument(self, path: str) -> Any:
        return _find(self.arguments, path)

    def spelled(self) -> tuple[str, ...]:
        return _spelled(self.arguments)


Holds = Callable[[_Facts], bool | None]
"""Whether a condition is fulfilled; None where that cannot be told."""


class _Pattern:
    """A call pattern made ready for the calls of one tool."""

    __slots__ = ("_conditions", "pattern")

    def __init__(self, pattern: CallPattern) -> None:
        self.pattern = pattern
        self._conditions = [_compile(predicate) for predicate in pattern.where]

    @classmethod
    def of(cls, pattern: CallPattern, name: str, effect: EffectClass) -> _Pattern | None:
        """None if it is not about calls of the tool `name`."""
        fits = fnmatchcase(name, pattern.tool) and pattern.effect in (None, effect)
        return cls(pattern) if fits else None

    def holds(self, facts: _Facts) -> bool | None:
        unsure = False
        for condition in self._conditions:
            held = condition(facts)
            if held is False:
                return False
            unsure = unsure or held is None
        return None if unsure else True

    def hit(self, facts: _Facts, *, wanted: bool) -> tuple[str, ...]:
        """The arguments behind the answer: of the conditions that fail if the pattern was wanted, else of all."""
        pairs = zip(self.pattern.where, self._conditions, strict=True)
        names = dict.fromkeys(p.argument for p, held in pairs if not (wanted and held(facts) is True))
        found = ((name, facts.argument(name)) for name in names)
        return tuple(f"{name} is missing" if value is _ABSENT else f"{name}={value!r}" for name, value in found)


class _ByName(dict[str, "_Pattern | None"]):
    """A pattern made ready for each tool it is asked about."""

    def __init__(self, pattern: CallPattern, effect: Callable[[str], EffectClass]) -> None:
        self._pattern, self._effect = pattern, effect

    def __missing__(self, name: str) -> _Pattern | None:
        one = self[name] = _Pattern.of(self._pattern, name, self._effect(name))
        return one


class _Rules:
    """All that a contract says of one tool."""

    __slots__ = ("allowed", "approval", "constraints", "criteria", "effect", "order", "writes")

    def __init__(self, contract: IntentContract, name: str, effect: EffectClass) -> None:
        def about(pattern: CallPattern | None) -> _Pattern | None:
            return None if pattern is None else _Pattern.of(pattern, name, effect)

        def all_about(patterns: Sequence[CallPattern]) -> list[_Pattern]:
            return [one for pattern in patterns if (one := about(pattern))]

        self.effect = effect
        self.writes = effect is not EffectClass.READ
        self.allowed = all_about(contract.allowed)
        self.approval = all_about(contract.approval)
        self.constraints = [(rule, one) for rule in contract.constraints if (one := about(rule.forbid))]
        self.criteria = [one for criterion in contract.acceptance if (one := about(criterion.done_when))]
        self.order = [(rule, one) for rule in contract.order if (one := about(rule.before))]


def _constraints(rules: _Rules, facts: _Facts) -> Iterator[Verdict]:
    for rule, forbidden in rules.constraints:
        if forbidden.holds(facts) is not False:
            reason = f"the user said: {rule.text}"
            evidence = forbidden.hit(facts, wanted=False) or facts.spelled()
            question = f"You said: {rule.text} Shall this be done all the same?" if rule.level is Level.ASK else None
            yield Verdict(
                level=rule.level,
                guard=NAME,
                stage="constraint",
                relation=rule.id,
                reason=reason,
                evidence=evidence,
                question=question,
            )


def _approval(rules: _Rules, facts: _Facts) -> Iterator[Verdict]:
    for needed in rules.approval:
        if needed.holds(facts) is not False:
            yield Verdict(
                level=Level.REQUIRE_APPROVAL,
                guard=NAME,
                stage="approval",
                relation=str(needed.pattern),
                reason="somebody has to approve it first",
                evidence=facts.spelled(),
            )


def _stop(stage: str, rule: str, reason: str, evidence: tuple[str, ...] = ()) -> Verdict:
    return Verdict(level=Level.BLOCK, guard=NAME, stage=stage, relation=rule, reason=reason, evidence=evidence)


def _compile(predicate: Predicate) -> Holds:
    """A predicate as a function of the facts. An absent argument fulfils none, and so each negated one."""
    decide = _decider(predicate)
    path, negated = predicate.argument, predicate.negated

    def holds(facts: _Facts) -> bool | None:
        value = facts.argument(path)
        held = False if value is _ABSENT else decide(value, facts)
        return held if held is None else held is not negated

    return holds


def _decider(predicate: Predicate) -> Callable[[Any, _Facts], bool | None]:
    match predicate:
        case Equals(value=wanted):
            return lambda value, _: _same(value, wanted)
        case OneOf(values=wanted_values):
            return lambda value, _: any(_same(value, one) for one in wanted_values)
        case Between(minimum=low, maximum=high):
            return lambda value, _: _within(value, low, high)
        case Matches(pattern=pattern):
            whole = regex.compile(pattern).fullmatch
            return lambda value, _: _if_text(value, lambda text: whole(text, timeout=REGEX_SECONDS) is not None)
        case Like(pattern=pattern):
            like = re.compile(translate(pattern)).match
            return lambda value, _: _if_text(value, lambda text: like(text) is not None)
        case Compared(relation=relation, other=other):
            source, _, path = other.partition(":")
            compare, of_state = _COMPARE[relation], source == "state"
            return lambda value, facts: _related(
                compare, value, _find(facts.state if of_state else facts.arguments, path)
            )
    raise AssertionError(f"no rule for {predicate}")


def _same(value: Any, wanted: Any) -> bool:
    """Equal in value and kind: True is not 1, and the text "1" is no number."""
    return isinstance(value, bool) is isinstance(wanted, bool) and bool(value == wanted)


def _within(value: Any, low: float | None, high: float | None) -> bool | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return (low is None or low <= value) and (high is None or value <= high)


def _if_text(value: Any, decide: Callable[[str], bool]) -> bool | None:
    return decide(value) if isinstance(value, str) else None


def _related(compare: Callable[[Any, Any], bool], value: Any, other: Any) -> bool | None:
    if other is _ABSENT:
        return None
    try:
        return bool(compare(value, other))
    except TypeError:  # such as a text and a number
        return None


def _find(place: Mapping[str, Any], path: str) -> Any:
    """What lies at a path of keys joined by dots; the whole path may be a key as well."""
    if path in place:
        return place[path]
    found: Any = place
    for key in path.split("."):
        if not isinstance(found, Mapping) or key not in found:
            return _ABSENT
        found = found[key]
    return found


def _spelled(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{name}={value!r}" for name, value in arguments.items())


class _Absent:
    """Marks an argument that a call does not have."""


_ABSENT: Final = _Absent()
