"""What an approver is shown: everything, exactly, and nothing that hides or acts."""

import getpass
import json
import unicodedata
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approvals import ApprovalError, ApprovalStatus
from demur.envs.intent.registry.cases import (
    approver_name,
    decide,
    decided,
    duration,
    find_case,
    outcome,
    pending_cases,
    spelled,
    visible,
)
from demur.envs.intent.registry.intent import Intent, IntentStatus
from demur.envs.trace import Level, Verdict
from tests.envs.helpers import call
from tests.envs.intent.registry.approving import EVIL, EVIL_AS_JSON, EVIL_SHOWN, propose
from tests.envs.intent.registry.helpers import NAILS, Clock

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)
HIDDEN = ("Cc", "Cf", "Cs", "Co")  # not Cn: which characters are assigned depends on the version of Unicode


@pytest.fixture
def url(tmp_path: Path) -> str:
    """Nothing here depends on the kind of database."""
    return f"sqlite:///{tmp_path}/intents.db"


def test_a_case_shows_goal_rule_reasoning_and_times(registry: Registry, intent: Intent, clock: Clock) -> None:
    propose(registry, intent, call("drop", id="i2", force=True), plan="i2 is broken", second="nobody needs it")
    clock.pass_by(150)
    (case,) = pending_cases(registry)
    facts = {fact.name: fact.text for fact in case.facts}
    assert (facts["goal"], facts["effect"], facts["called by"]) == ("order nails", "delete", "tests")
    assert facts["rule that asks"] == "contract · approval · drop()"
    assert (facts["agent's plan"], facts["agent's check"]) == ("i2 is broken", "nobody needs it")
    assert [fact.name for fact in case.facts if fact.by_agent] == ["agent's plan", "agent's check"]
    assert (case.tool, case.arguments) == ("drop", [("force", "true"), ("id", '"i2"')])
    assert (case.age, case.left) == ("2 min", "7 min")


def test_the_plan_shown_is_that_of_the_call_that_asked(registry: Registry, intent: Intent, clock: Clock) -> None:
    approval = propose(registry, intent, call("drop", id="i2"), plan="the plan")
    clock.pass_by(1)
    assert propose(registry, intent, call("drop", id="i2"), plan="a later one") == approval
    assert find_case(registry, approval.approval_id).action.plan == "the plan"  # type: ignore[union-attr]


def test_a_request_without_an_action_says_so(registry: Registry, intent: Intent) -> None:
    verdict = Verdict(level=Level.REQUIRE_APPROVAL, guard="other", reason="it is late")
    registry.approvals.request(intent.intent_id, call("drop"), verdict)
    (case,) = pending_cases(registry)
    facts = {fact.name: fact.text for fact in case.facts}
    assert (facts["agent's plan"], facts["why"], case.arguments) == ("none is known", "it is late", [])


def test_evil_texts_are_spelled_out_everywhere(registry: Registry) -> None:
    intent = registry.register(NAILS.model_copy(update={"goal": EVIL}))
    registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
    propose(registry, intent, call("drop", id=EVIL), plan=EVIL, second=EVIL)
    (case,) = pending_cases(registry)
    facts = {fact.name: fact.text for fact in case.facts}
    assert case.goal == facts["goal"] == facts["agent's plan"] == facts["agent's check"] == EVIL_SHOWN
    assert case.arguments == [("id", EVIL_AS_JSON)]


@settings(max_examples=40)
@given(st.dictionaries(st.text(), JSON, max_size=3))
def test_arguments_are_shown_exactly(arguments: dict[str, object]) -> None:
    shown = spelled(arguments)
    assert [json.loads(value) for _, value in shown] == list(arguments.values())
    assert [json.loads(name if name.startswith('"') else f'"{name}"') for name, _ in shown] == list(arguments)


@given(st.text())
def test_nothing_that_is_hidden_or_obeyed_is_left(text: str) -> None:
    shown = visible(text)
    assert not [c for c in shown if unicodedata.category(c) in HIDDEN and c != "\n"]
    assert not [c for c in shown if unicodedata.category(c)[0] == "Z" and c != " "]
    assert visible(shown) == shown
    assert json.loads('"' + shown.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"') == shown


@pytest.mark.parametrize(
    "hidden", ["\u200b", "\u2066", "\ufeff", "\u3164", "\ufe0f", "\u034f", "\u2800", "\xa0", "\x7f", "\x9b", "\r"]
)
def test_texts_that_look_alike_are_told_apart(hidden: str) -> None:
    assert visible(f"pay{hidden}ann") == f"pay\\u{ord(hidden):04x}ann"


def test_a_character_beyond_the_first_plane_is_a_pair() -> None:
    assert visible("\U000e0041") == "\\udb40\\udc41"
    assert visible("日本語 ü 👍 שלום") == "日本語 ü 👍 שלום"


def test_a_rejection_needs_a_reason(registry: Registry, intent: Intent) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    with pytest.raises(ApprovalError, match="say why"):
        decide(registry, approval.approval_id, "reject", "ann", " \n")
    assert registry.approvals.get(approval.approval_id).status is ApprovalStatus.PENDING
    assert outcome(decide(registry, approval.approval_id, "reject", "ann", " wrong id ")) == "rejected by ann: wrong id"


def test_the_history_has_the_latest_decision_first(registry: Registry, intent: Intent, clock: Clock) -> None:
    ids = []
    for number in range(4):
        ids.append(propose(registry, intent, call("drop", number=number)).approval_id)
        clock.pass_by(1)
        decide(registry, ids[-1], "reject", "ann", "no")
    waiting = propose(registry, intent, call("drop", number=4)).approval_id
    assert [one.approval_id for one in decided(registry)] == ids[::-1]
    assert [one.approval_id for one in decided(registry, 2)] == ids[:1:-1]
    clock.pass_by(601)
    assert [one.approval_id for one in decided(registry, 1)] == ids[-1:], "what nobody looked at is pending as yet"
    assert pending_cases(registry) == []
    assert (decided(registry)[0].approval_id, decided(registry)[0].status) == (waiting, ApprovalStatus.EXPIRED)


def test_what_is_decided_is_no_case(registry: Registry, intent: Intent) -> None:
    approval = propose(registry, intent, call("drop", id="i2"))
    decide(registry, approval.approval_id, "approve", "ann")
    with pytest.raises(ApprovalError, match="approved by ann; a decision stands"):
        find_case(registry, approval.approval_id)
    with pytest.raises(ApprovalError, match="no approval 'x'"):
        find_case(registry, "x")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (0, "0 s"), (119.9, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h 0 min")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(timedelta(seconds=seconds)) == text


def test_the_approver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "login")
    assert (approver_name(None), approver_name(" ann ")) == ("login", "ann")
    with pytest.raises(ValueError, match="--as NAME"):
        approver_name(" ")

    def nobody() -> str:
        raise OSError("no such user")

    monkeypatch.setattr(getpass, "getuser", nobody)
    with pytest.raises(ValueError, match="--as NAME"):
        approver_name(None)
