"""The ground-truth contract of a scripted task: least privilege, limits, criteria, and order where it matters."""

import pytest

from demur.envs.intent.checks import Checker, PastCall
from demur.envs.intent.derived import contract_of
from demur.envs.task import world_calls
from demur.envs.taskset import make_tasks
from demur.envs.trace import Label, Level
from demur.envs.worlds import SHIPPED
from tests.envs.helpers import DONE, call, does, shop


def test_a_change_may_be_made_as_often_as_the_expert_makes_it() -> None:
    order = does("order", name="nails", count=7)
    contract = contract_of("q", shop(), (order, order, DONE))
    assert [pattern.at_most for pattern in contract.allowed] == [None, 2]
    (criterion,) = contract.acceptance
    assert criterion.times == 2 and criterion.done_when is not None and criterion.done_when.tool == "order"


def test_an_option_that_the_expert_leaves_out_stays_out_or_empty() -> None:
    checker = Checker(contract_of("q", shop(), (does("open_at", part="morning"),)), shop().tools())
    assert checker.check(call("open_at", part="morning")).level is Level.ALLOW
    assert checker.check(call("open_at", part="morning", price=2.0)).stage == "allowed_tools"


def test_order_is_asked_for_only_where_the_other_order_would_not_do() -> None:
    order, drop = does("order", name="nails", count=7), does("drop", id="i1")
    assert contract_of("q", shop(), (order, drop)).order == ()
    drop_new = does("drop", id="i3")  # what the order makes
    (rule,) = contract_of("q", shop(), (order, drop_new)).order
    assert (rule.first.tool, rule.before.tool) == ("order", "drop")
    checker = Checker(contract_of("q", shop(), (order, drop_new)), shop().tools())
    assert checker.check(call("drop", id="i3")).stage == "order"
    assert checker.check(call("drop", id="i3"), [PastCall(call("order", name="nails", count=7))]).level is Level.ALLOW


@pytest.mark.parametrize("name", SHIPPED)
def test_in_each_world_the_expert_keeps_to_its_contract_and_fulfils_it(name: str) -> None:
    for task in make_tasks([name], "train", dict.fromkeys(Label, 12), seed=5):
        checker, past = Checker(task.contract, task.tools), []
        for step in (s for s in task.expert if s.call in world_calls(task.expert) and not s.fails):
            assert step.call is not None
            assert checker.check(step.call, past).level is Level.ALLOW, (task.origin, step.call)
            past.append(PastCall(step.call))
        assert not checker.unmet(past), task.origin
