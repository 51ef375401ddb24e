"""What a later reading of an intent allows that an earlier one did not, or no longer asks for.

    for line in widened(earlier, later):
        print(line)

A line too many is possible where rules cannot be compared, such as two regular expressions; one too few is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from demur.envs.intent.checks import Checker
from demur.envs.intent.contract import (
    Between,
    CallPattern,
    Constraint,
    Criterion,
    Equals,
    IntentContract,
    OneOf,
    Predicate,
    Scalar,
)
from demur.envs.trace import ToolCall


def widened(earlier: IntentContract, later: IntentContract) -> list[str]:
    """A sentence for each way in which `later` is wider than `earlier`; empty if it is at most as wide."""
    return [
        *_allowed(earlier, later),
        *_scope(earlier, later),
        *(f"constraint dropped or weakened: {one.text} ({one.id})" for one in _dropped_constraints(earlier, later)),
        *(
            f"approval no longer needed: {pattern}"
            for pattern in earlier.approval
            if not any(covers(other, pattern) for other in later.approval)
        ),
        *(
            f"order no longer kept: {rule.before} after {rule.first}"
            for rule in earlier.order
            if not any(covers(o.before, rule.before) and covers(rule.first, o.first) for o in later.order)
        ),
        *(
            f"criterion dropped or changed: {criterion.text} ({criterion.id})"
            for criterion in earlier.acceptance
            if _rules(criterion) not in map(_rules, later.acceptance)
        ),
    ]


def covers(wide: CallPattern, narrow: CallPattern) -> bool:
    """Whether every call that fits `narrow` surely fits `wide`, and no more of them may be made."""
    within_limit = wide.at_most is None or (narrow.at_most is not None and narrow.at_most <= wide.at_most)
    return (
        _names_cover(wide, narrow)
        and wide.effect in (None, narrow.effect)
        and all(any(_implies(have, needed) for have in narrow.where) for needed in wide.where)
        and within_limit
    )


def _allowed(earlier: IntentContract, later: IntentContract) -> Iterator[str]:
    for pattern in later.allowed:
        if any(covers(other, pattern) for other in earlier.allowed):
            continue
        before = [str(other) for other in earlier.allowed if other.shares_tools(pattern)]
        kind = f"wider than {' or '.join(before)}" if before else "was not allowed at all"
        limit = f", at most {pattern.at_most} times" if pattern.at_most else ""
        yield f"tool allowed: {pattern}{limit}: {kind}"


def _scope(earlier: IntentContract, later: IntentContract) -> Iterator[str]:
    for name, globs in earlier.scope.items():
        if name not in later.scope:
            yield f"scope dropped: {name} was like {' or '.join(globs)}"
        elif more := [one for one in later.scope[name] if one not in globs]:
            yield f"scope wider: {name} may be like {' or '.join(more)} too"


def _dropped_constraints(earlier: IntentContract, later: IntentContract) -> list[Constraint]:
    def keeps(new: Constraint, old: Constraint) -> bool:
        if new.level.severity < old.level.severity:
            return False
        if old.forbid is None:  # only words; a judge reads them
            return new.text == old.text
        return new.forbid is not None and covers(new.forbid, old.forbid)

    return [old for old in earlier.constraints if not any(keeps(new, old) for new in later.constraints)]


def _rules(criterion: Criterion) -> str:
    """A criterion without its id, and without its words if rules decide it."""
    words = {"id": ""} | ({"text": ""} if criterion.by_rule else {})
    return criterion.model_copy(update=words).model_dump_json()


def _names_cover(wide: CallPattern, narrow: CallPattern) -> bool:
    if wide.tool == narrow.tool:
        return True
    if not narrow.is_glob:
        return wide.shares_tools(narrow)
    head = wide.tool.removesuffix("*")
    only_a_head = wide.tool.endswith("*") and not any(mark in head for mark in "*?[")
    return only_a_head and narrow.tool.startswith(head)


def _implies(have: Predicate, needed: Predicate) -> bool:
    """Whether an argument that fulfils `have` surely fulfils `needed`."""
    if have.model_dump_json() == needed.model_dump_json():  # in Python 1 equals True, and a rule tells them apart
        return True
    if have.argument != needed.argument or have.negated:
        return False
    if isinstance(have, Equals | OneOf):
        return _fulfil(have, needed)
    if isinstance(have, Between) and isinstance(needed, Between) and not needed.negated:
        low = needed.minimum is None or (have.minimum is not None and have.minimum >= needed.minimum)
        return low and (needed.maximum is None or (have.maximum is not None and have.maximum <= needed.maximum))
    return False


def _fulfil(have: Equals | OneOf, needed: Predicate) -> bool:
    """Whether each of the few values that `have` allows fulfils the other predicate: the checker knows."""
    values: Sequence[Scalar] = (have.value,) if isinstance(have, Equals) else have.values
    only = CallPattern(tool="x", where=(needed,))
    checker = Checker(IntentContract(goal="", allowed=(only,)), {})
    verdicts = (checker.check(ToolCall(name="x", arguments={have.argument: value})) for value in values)
    return all(verdict.stage != "allowed_tools" for verdict in verdicts)
