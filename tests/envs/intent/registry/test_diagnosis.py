"""Diagnosis: each question points at what went wrong, and at nothing in a run that went well."""

import asyncio

import pytest

from demur.envs.guards import Context, check_sync
from demur.envs.intent.contract import CallPattern, Constraint, Criterion, IntentContract
from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.diagnosis import Finding, diagnose
from demur.envs.intent.registry.intent import IntentStatus
from demur.envs.intent.registry.session import IntentGuard
from demur.envs.trace import ToolCall
from tests.envs.helpers import Shop, call
from tests.envs.intent.registry.helpers import NAILS

LOOK, ORDER = call("look", name="nails"), call("order", name="nails", count=1)
QUESTIONS = ("read", "warnings", "reasons", "goal", "guard", "contract")


def run(
    registry: Registry,
    contract: IntentContract,
    *calls: ToolCall,
    plan: str = "a plan",
    past_guard: tuple[ToolCall, ...] = (),
) -> dict[str, Finding]:
    """Play calls through a guard, and some past it; the findings by the last word of the question."""
    intent = registry.register(contract)
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    guard = IntentGuard(registry, intent.intent_id, Shop.tools())
    for one in calls:
        if check_sync(guard, Context(query="q", tools=Shop.tools(), plan=plan), one).level.lets_run:
            asyncio.run(guard.ran(one, "done"))
    for one in past_guard:
        asyncio.run(guard.ran(one, "done"))
    findings = diagnose(registry.get(intent.intent_id), registry.actions(intent.intent_id))
    assert len(findings) == len(QUESTIONS)
    return dict(zip(QUESTIONS, findings, strict=True))


def bad(findings: dict[str, Finding]) -> set[str]:
    return {name for name, finding in findings.items() if not finding.fine}


def test_a_run_that_went_well_has_nothing_to_look_into(registry: Registry) -> None:
    assert bad(run(registry, NAILS, LOOK, ORDER, ORDER)) == set()


def test_the_first_action_off_the_contract_is_named(registry: Registry) -> None:
    findings = run(registry, NAILS, LOOK, call("order", name="tape", count=1), call("drop", id="i1"), ORDER, ORDER)
    assert bad(findings) == {"contract"}
    assert "action 2 of 5" in findings["contract"].lines[0]
    assert "name='tape'" in findings["contract"].lines[0]


def test_warnings_that_pile_up_are_counted(registry: Registry) -> None:
    contract = NAILS.model_copy(update={"constraints": (), "approval": ()})
    findings = run(registry, contract, LOOK, *[call("open_at", part="morning")] * 3, ORDER, ORDER)
    assert bad(findings) == {"warnings", "contract"}
    assert findings["warnings"].lines == ("3 allow, 3 warn", "! warnings are dense: 3 of 6 actions")


def test_one_warning_among_many_is_not_dense(registry: Registry) -> None:
    contract = NAILS.model_copy(update={"constraints": (), "approval": ()})
    findings = run(registry, contract, LOOK, LOOK, call("open_at", part="morning"), ORDER, ORDER)
    assert findings["warnings"].fine


def test_actions_without_reasons_are_named(registry: Registry) -> None:
    findings = run(registry, NAILS, LOOK, ORDER, ORDER, plan="  ")
    assert bad(findings) == {"reasons"}
    assert findings["reasons"].lines[0] == "3 of 3 actions came without a plan or a check"


def test_open_criteria_are_named(registry: Registry) -> None:
    findings = run(registry, NAILS, LOOK, ORDER)
    assert bad(findings) == {"goal"}
    assert findings["goal"].lines == (
        "0 of 1 criteria are met by what ran; the status is activated",
        "! open: two orders (nails)",
    )


def test_a_write_past_the_guard_is_named(registry: Registry) -> None:
    findings = run(registry, NAILS, LOOK, ORDER, past_guard=(call("drop", id="i1"),))
    assert {"guard", "contract", "goal"} <= bad(findings)
    assert "! #" in findings["guard"].lines[0] and "checked only afterwards" in findings["guard"].lines[0]


def test_a_read_past_the_guard_is_listed_and_does_no_harm(registry: Registry) -> None:
    findings = run(registry, NAILS, LOOK, ORDER, past_guard=(LOOK,))
    assert findings["guard"].fine
    assert "checked only afterwards" in findings["guard"].lines[0]


def test_a_blocked_write_that_ran_is_named(registry: Registry) -> None:
    findings = run(registry, NAILS, LOOK, call("drop", id="i1"), past_guard=(call("drop", id="i1"),))
    assert "block constraint keep-i1; ran" in findings["guard"].lines[0]


@pytest.mark.parametrize(
    ("contract", "doubt"),
    [
        (IntentContract(goal="g"), "no tool is allowed"),
        (IntentContract(goal="g", allowed=(CallPattern(),)), "never completed"),
        (NAILS.model_copy(update={"confidence": 0.3}), "unsure (0.30 < 0.5)"),
        (NAILS.model_copy(update={"constraints": (Constraint(id="k", text="be kind"),)}), "be kind"),
        (NAILS.model_copy(update={"acceptance": (Criterion(id="n", text="it is nice"),)}), "it is nice"),
    ],
)
def test_a_doubtful_reading_is_said(registry: Registry, contract: IntentContract, doubt: str) -> None:
    finding = run(registry, contract)["read"]
    assert not finding.fine
    assert any(doubt in line for line in finding.lines if line.startswith("!"))
