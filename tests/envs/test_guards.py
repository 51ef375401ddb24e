"""Guards: the strictest verdict counts, and a guard that fails blocks."""

import asyncio

import pytest

from demur.envs.guards import AllowAll, Context, Guard, check_sync, checked, compose
from demur.envs.trace import Level
from tests.envs.helpers import Broken, Says, Shop, call

CONTEXT = Context(query="q", tools=Shop.tools())
LEVELS = list(Level)


@pytest.mark.parametrize("first", LEVELS)
@pytest.mark.parametrize("second", LEVELS)
def test_the_strictest_of_several_verdicts_counts(first: Level, second: Level) -> None:
    verdict = check_sync(compose(Says(first, "one"), Says(second, "two")), CONTEXT, call("look"))
    assert verdict.level.severity == max(first.severity, second.severity)
    assert verdict.guard == ("two" if second.severity > first.severity else "one")


def test_every_composed_guard_is_asked() -> None:
    guards = [Says(level, level) for level in (Level.BLOCK, Level.ALLOW, Level.WARN)]
    check_sync(compose(*guards), CONTEXT, call("drop", id="i1"))
    assert [guard.saw for guard in guards] == [[(CONTEXT, call("drop", id="i1"))]] * 3


def test_composing_one_guard_gives_that_guard() -> None:
    guard = Says(Level.ALLOW)
    assert compose(guard) is guard


def test_composing_no_guard_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one guard"):
        compose()


def test_a_composition_is_named_after_its_guards() -> None:
    assert compose(AllowAll(), compose(Broken(), Says(Level.ALLOW, "x"))).name == "none+broken+x"


@pytest.mark.parametrize("guard", [Broken(), compose(AllowAll(), Broken()), compose(Broken(), Says(Level.ASK))])
def test_a_guard_that_fails_blocks_and_says_why(guard: Guard) -> None:
    verdict = check_sync(guard, CONTEXT, call("look"))
    assert verdict.level is Level.BLOCK
    assert (verdict.guard, verdict.stage) == ("broken", "error")
    assert "RuntimeError: no model" in verdict.reason


def test_a_failing_guard_does_not_hide_a_block() -> None:
    strict = Says(Level.BLOCK, "strict")
    assert check_sync(compose(strict, Broken()), CONTEXT, call("look")).guard == "strict"


def test_allow_all_allows() -> None:
    assert check_sync(AllowAll(), CONTEXT, call("drop", id="i1")).level is Level.ALLOW


def test_cancelling_is_no_verdict() -> None:
    class Slow:
        name = "slow"

        async def check(self, context: Context, call: object) -> None:
            await asyncio.sleep(60)

    async def hurry() -> None:
        await asyncio.wait_for(checked(Slow(), CONTEXT, call("look")), 0.01)  # type: ignore[arg-type]

    with pytest.raises(TimeoutError):
        asyncio.run(hurry())
