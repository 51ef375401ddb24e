"""Decide in the terminal what agents ask approval for.

    python -m demur.envs.intent approve --registry sqlite:///intents.db --as ann --watch

Each request is shown with its evidence, the exact arguments last. Type `a` to approve, `r REASON` to reject, Enter to
skip.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from enum import Enum
from time import sleep
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.approvals import ApprovalError
from demur.envs.intent.registry.cases import Case, Decision, approver_name, decide, find_case, outcome, pending_cases
from demur.envs.intent.registry.database import RegistryUnavailable

PROMPT: Final = "approve, reject, skip or quit (a [REASON], r REASON, Enter, q)> "
POLL_SECONDS: Final = 1.0


class Word(Enum):
    """What was typed, if it is no decision."""

    SKIP = "skip"
    QUIT = "quit"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="approver", metavar="NAME", help="who decides; the login name unless given")
    parser.add_argument("--watch", action="store_true", help="wait for new requests until Ctrl-C")
    parser.add_argument("--id", metavar="ID", help="only this request")
    at_once = parser.add_mutually_exclusive_group()
    at_once.add_argument("--approve", action="store_true", help="with --id: approve it without showing it")
    at_once.add_argument("--reject", metavar="REASON", help="with --id: reject it without showing it")


def run(registry: Registry, options: argparse.Namespace, console: Console | None = None) -> int:
    """Do what the command line says. Raises ValueError for bad input, and RegistryUnavailable."""
    console = console or Console(highlight=False)
    approver = approver_name(options.approver)
    decision: Decision | None = "approve" if options.approve else None if options.reject is None else "reject"
    if decision and options.id is None:
        raise ValueError(f"say which request with --id, or leave out --{decision} to be shown one by one")
    if options.watch and options.id is not None:
        raise ValueError("--watch waits for all requests; leave out --id or --watch")
    try:
        if decision:
            _say(console, outcome(decide(registry, options.id, decision, approver, options.reject or "")))
        elif options.id is not None:
            settle(registry, approver, console, find_case(registry, options.id))
        else:
            work_through(registry, approver, console, watch=options.watch)
    except KeyboardInterrupt:
        console.print()
    return 0


def work_through(registry: Registry, approver: str, console: Console, *, watch: bool = False) -> None:
    """Show what is pending and ask about each, once. watch: wait for more afterwards, also through an outage."""
    shown: set[str] = set()
    trouble = ""
    if watch:
        _say(console, "Waiting for requests; Ctrl-C ends.", "dim")
    while True:
        try:
            if not _round(registry, approver, console, shown):
                return
            trouble = ""
        except RegistryUnavailable as error:
            if not watch:
                raise
            if str(error) != trouble:
                _say(console, f"{error}. Trying again.", "red")
            trouble = str(error)
        if not watch:
            if not shown:
                _say(console, "Nothing waits for approval.")
            return
        sleep(POLL_SECONDS)


def _round(registry: Registry, approver: str, console: Console, shown: set[str]) -> bool:
    """Go through the requests that were not shown yet. Returns whether to go on."""
    new = [case for case in pending_cases(registry) if case.approval.approval_id not in shown]
    if new:
        console.print(overview(new))
    for case in new:
        approval_id = case.approval.approval_id
        try:
            now = find_case(registry, approval_id)
        except ApprovalError as error:  # while the ones before were looked at
            _say(console, str(error), "yellow")
        else:
            if not settle(registry, approver, console, now):
                return False
        shown.add(approval_id)
    return True


def settle(registry: Registry, approver: str, console: Console, case: Case) -> bool:
    """Show one request and do what is typed. Returns whether to go on with others."""
    show(case, console)
    while True:
        answer = _ask(console)
        if isinstance(answer, Word):
            return answer is Word.SKIP
        decision, reason = answer
        try:
            approval = decide(registry, case.approval.approval_id, decision, approver, reason)
        except ApprovalError as error:
            _say(console, str(error), "red")
            return True
        except RegistryUnavailable as error:
            _say(console, f"{error}. Answer again once it can; a decision that was taken stands.", "red")
            continue
        _say(console, outcome(approval), "green" if decision == "approve" else "red")
        return True


def show(case: Case, console: Console) -> None:
    """Print a request in full: nothing is cut, and no text of an agent is taken for markup or obeyed."""
    console.print()
    console.rule(Text(f"{case.approval.approval_id} · asked {case.age} ago · {case.left} left"), align="left")
    table = _grid()
    for name, text, by_agent in case.facts:
        table.add_row(Text(name, style="dim"), Text(text, style="italic" if by_agent else "", overflow="fold"))
    console.print(table)
    console.print(Text(case.tool, style="bold", overflow="fold"))
    table = _grid()
    for name, value in case.arguments:
        table.add_row(Text(f"  {name}", style="cyan", overflow="fold"), Text(value, style="bold", overflow="fold"))
    console.print(table if case.arguments else Text("  without arguments", style="dim"))


def overview(cases: Sequence[Case]) -> Table:
    """A line a request."""
    table = Table("tool", "goal", "asked", "left", "id", box=None, header_style="dim")
    for case in cases:
        texts = (case.tool, case.goal, f"{case.age} ago", case.left, case.approval.approval_id)
        table.add_row(*(Text(text, overflow="fold") for text in texts))
    return table


def _ask(console: Console) -> tuple[Decision, str] | Word:
    """What is typed next, until it can be understood. The end of the input quits; nothing approves by default."""
    _forget_typed_ahead()
    while True:
        try:
            word, _, reason = console.input(Text(PROMPT)).strip().partition(" ")
        except EOFError:
            console.print()
            return Word.QUIT
        reason = reason.strip()
        if word in ("", "s", "skip"):
            return Word.SKIP
        if word in ("q", "quit"):
            return Word.QUIT
        if word in ("a", "approve"):
            return "approve", reason
        if word in ("r", "reject") and reason:
            return "reject", reason
        told = "a rejection needs a reason: r REASON" if word in ("r", "reject") else "type a, r REASON, Enter or q"
        _say(console, told, "yellow")


def _forget_typed_ahead() -> None:
    """What was typed before a request was shown is no answer to it."""
    if sys.platform != "win32" and sys.stdin.isatty():
        import termios

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=False)
    table.add_column(ratio=1)
    return table


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style))
