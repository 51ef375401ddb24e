"""Look into a registry of intents: `python -m demur.envs.intent COMMAND --registry URL`.

    list                     all intents, or those of one --status
    show ID                  its contract, status and actions
    diagnose ID              why a run went wrong: reading, warnings, reasons, goal, unguarded writes, first drift
    compare ID ID            what the second intent allows that the first did not
    audit verify             is the log as it was written? names the first record that is not
    audit anchor FILE        write down where the log stands; keep the file elsewhere, and verify against it
    audit query              the records that fit --intent, --tool, --verdict, --event, --since, --until
    audit export FILE        the log as JSON lines
    remind --hours N         intents that are going on and that nothing has happened to for N hours
    approve                  decide in the terminal what waits for approval
    serve                    the same on a web page

URL is sqlite:///FILE or postgresql://… Exit status 0: nothing to look into. 1: something was found (a changed log, a
diagnosis, a wider contract, a stale intent), or the registry cannot be reached. 2: bad input, with one line that says
what to change. With a key in DEMUR_AUDIT_KEY anchors are signed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

from rich.console import Console
from rich.text import Text

from demur.envs.intent.registry.intent import Intent, IntentStatus
from demur.envs.trace import Level

try:
    from demur.envs.intent.registry import Registry, approver
    from demur.envs.intent.registry.approval_page import server
    from demur.envs.intent.registry.audit import AuditRecord, read_anchor
    from demur.envs.intent.registry.cases import visible
    from demur.envs.intent.registry.database import RegistryUnavailable
    from demur.envs.intent.registry.diagnosis import contract_lines, diagnose, spelled
    from demur.envs.intent.registry.widening import widened
except ModuleNotFoundError as error:
    if error.name != "sqlalchemy":
        raise
    print("error: the registry needs SQLAlchemy; install it with pip install 'demur[intent]'", file=sys.stderr)
    sys.exit(2)

Command = Callable[[Registry, argparse.Namespace, Console], int]
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # it has no public name


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    command: Command = options.command
    try:
        with Registry(options.registry, caller="command line", must_exist=True) as registry:
            return command(registry, options, Console(highlight=False, soft_wrap=True))
    except ValueError as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except (RegistryUnavailable, OSError) as error:
        print(f"error: {' '.join(str(error).split())}", file=sys.stderr)
        return 1


def _list(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    intents = registry.intents(IntentStatus(options.status) if options.status else None)
    _print_table(console, ["intent", "status", "confidence", "updated", "goal"], map(_row, intents))
    return 0


def _show(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    intent, actions = registry.get(options.id), registry.actions(options.id)
    held = ", paused by hand" if intent.held else ""
    _say(console, f"intent {intent.intent_id}: {intent.status}{held}, confidence now {intent.confidence:.2f}", "bold")
    _say(console, f"created {_time(intent.created_at)}, updated {_time(intent.updated_at)}")
    for line in contract_lines(intent.contract):
        _say(console, f"  {line}")
    _say(console, f"{len(actions)} actions", "bold")
    for action in actions:
        _say(console, f"  {_time(action.time)} {spelled(action)}")
    for approval in registry.approvals.pending(intent.intent_id):
        _say(console, f"  waits for approval {approval.approval_id} of {approval.tool}", "yellow")
    return 0


def _diagnose(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    findings = diagnose(registry.get(options.id), registry.actions(options.id))
    for number, finding in enumerate(findings, 1):
        _say(console, f"{number}. {finding.question} {'fine' if finding.fine else 'look here'}", "bold")
        for line in finding.lines:
            _say(console, f"   {line}", "red" if line.startswith("!") else "")
    return 0 if all(finding.fine for finding in findings) else 1


def _compare(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    lines = widened(registry.get(options.id).contract, registry.get(options.other).contract)
    for line in lines:
        _say(console, line)
    if not lines:
        _say(console, "the second allows nothing that the first did not")
    return 1 if lines else 0


def _verify(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    anchor = read_anchor(options.anchor) if options.anchor else None
    fault = registry.audit.verify(anchor)
    if fault is not None:
        _say(console, f"{fault.kind}: {fault.reason}", "red")
        return 1
    known = f", and the anchor at {anchor.count} holds" if anchor else "; without an anchor a cut tail goes unseen"
    _say(console, f"the log is one whole chain{known}")
    return 0


def _anchor(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    anchor = registry.audit.anchor(options.file)
    _say(console, f"{options.file}: {anchor.count} records, {'signed' if anchor.signature else 'not signed'}")
    return 0


def _export(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    _say(console, f"{options.file}: {registry.audit.export(options.file)} records")
    return 0


def _query(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    records = registry.audit.query(
        intent_id=options.intent,
        tool=options.tool,
        verdict=options.verdict,
        event=options.event,
        since=options.since,
        until=options.until,
    )
    names = ["number", "time", "caller", "intent", "event", "tool", "digest", "verdict", "rule", "approver", "detail"]
    _print_table(console, names, map(_cells, records))
    return 0


def _remind(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    if not options.hours >= 0:
        raise ValueError(f"--hours must be 0 or more, not {options.hours}")

    def tell(intent: Intent) -> None:
        goal = intent.contract.goal
        _say(console, f"{intent.intent_id} is {intent.status} since {_time(intent.updated_at)}: {goal}")

    return 1 if registry.remind(timedelta(hours=options.hours), tell) else 0


def _approve(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    return approver.run(registry, options)  # on a console that wraps: nothing of a request may be cut


def _serve(registry: Registry, options: argparse.Namespace, console: Console) -> int:
    return server.run(registry, options)


def _row(intent: Intent) -> list[str]:
    goal = intent.contract.goal
    return [intent.intent_id, intent.status, f"{intent.confidence:.2f}", _time(intent.updated_at), goal]


def _cells(record: AuditRecord) -> list[str]:
    what = [record.event, record.tool, record.digest[:12], record.verdict, record.rule, record.approver, record.detail]
    return [str(record.number), _time(record.time), record.caller, record.intent_id, *what]


def _print_table(console: Console, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns as wide as their cells, however narrow the screen: ids have to be copied whole."""
    cells = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for number, row in enumerate([head, *cells]):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        console.print(Text(line.rstrip(), style="" if number else "dim"))


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(visible(text), style=style))


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 2026-05-31 or 2026-05-31T18:00+02:00") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--registry", required=True, metavar="URL", help="such as sqlite:///intents.db")
    parser = argparse.ArgumentParser(
        prog="python -m demur.envs.intent",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(to: Commands, name: str, command: Command, text: str) -> argparse.ArgumentParser:
        added = to.add_parser(name, help=text, description=text, parents=[where])
        added.set_defaults(command=command)
        return added

    one = add(commands, "list", _list, "List the intents, the oldest first.")
    one.add_argument("--status", choices=[status.value for status in IntentStatus], help="only those of this status")
    add(commands, "show", _show, "Show an intent's contract, status and actions.").add_argument("id", metavar="ID")
    one = add(commands, "diagnose", _diagnose, "Say why a run went wrong; status 1 if there is something to look into.")
    one.add_argument("id", metavar="ID")
    one = add(
        commands, "compare", _compare, "Say what the second intent allows beyond the first; status 1 if anything."
    )
    one.add_argument("id", metavar="ID")
    one.add_argument("other", metavar="ID")
    one = add(commands, "remind", _remind, "Name the intents that nothing has happened to; status 1 if there are any.")
    one.add_argument("--hours", type=float, default=24.0, help="for how long; 24 unless given")
    approver.add_options(add(commands, "approve", _approve, "Show what waits for approval, and approve or reject it."))
    server.add_options(
        add(commands, "serve", _serve, "Serve a page to approve and reject calls on; prints its address.")
    )

    audit = commands.add_parser("audit", help="Verify, anchor, query or export the audit log.").add_subparsers(
        required=True, metavar="COMMAND"
    )
    one = add(audit, "verify", _verify, "Check the chain of the log; status 1 names the first bad record.")
    one.add_argument("--anchor", type=Path, metavar="FILE", help="what `audit anchor` wrote; reveals a cut tail")
    one = add(audit, "anchor", _anchor, "Write how long the log is and its last hash to a file; keep it elsewhere.")
    one.add_argument("file", type=Path, metavar="FILE")
    add(audit, "export", _export, "Write the log as JSON lines.").add_argument("file", type=Path, metavar="FILE")
    one = add(audit, "query", _query, "Print the records that fit all that is given.")
    one.add_argument("--intent", metavar="ID")
    one.add_argument("--tool", metavar="NAME")
    one.add_argument("--verdict", choices=[level.value for level in Level])
    one.add_argument("--event", metavar="NAME", help="such as registered, status, action, checked, ran, approved")
    one.add_argument("--since", type=_moment, metavar="TIME", help="in UTC unless it names a zone")
    one.add_argument("--until", type=_moment, metavar="TIME", help="not included")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
