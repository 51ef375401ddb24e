"""Does a registry lose a write when many processes share it and one of them is killed?

    python benchmarks/intent_registry.py [URL]

Eight processes append 10,000 actions each, and note the id of each one that was acknowledged; one is killed with
signal 9 half way. The last line is a flat JSON object:

registry_lost                acknowledged actions that the registry does not have; must be 0
registry_verified            1 if the audit log is one unbroken chain, else 0
registry_writes_per_second   acknowledged actions a second, all processes together, process start left out
registry_single_per_second   the same with one process alone
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from contextlib import suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path
from time import perf_counter, sleep

from demur.envs.intent.contract import CallPattern, IntentContract
from demur.envs.intent.registry import Registry
from demur.envs.intent.registry.intent import IntentStatus
from demur.envs.tool import EffectClass
from demur.envs.trace import ToolCall

START_SECONDS = 300.0
"""A process that has not begun by then will not."""


def hammer(url: str, processes: int = 8, actions: int = 10_000, kill_one: bool = True) -> dict[str, float]:
    """Let `processes` append `actions` each to a new registry at `url`; see the module for the figures."""
    with tempfile.TemporaryDirectory() as folder, Registry(url, caller="hammer") as registry:
        context = multiprocessing.get_context("spawn")
        start = context.Barrier(processes + 1)
        notes = [Path(folder) / f"{number}.txt" for number in range(processes)]
        shares = [sys.maxsize if kill_one else actions] + [actions] * (processes - 1)  # who is killed would go on
        workers = [
            context.Process(target=_append, args=(url, note, share, start))
            for note, share in zip(notes, shares, strict=True)
        ]
        for worker in workers:
            worker.start()
        start.wait(START_SECONDS)
        began = perf_counter()
        if kill_one:
            while _noted(notes[0]) < actions // 2 and workers[0].is_alive():
                sleep(0.002)
            workers[0].kill()
        for worker in workers:
            worker.join()
        seconds = perf_counter() - began
        failed = sum(worker.exitcode != 0 for worker in workers[1 if kill_one else 0 :])
        if failed:
            raise RuntimeError(f"{failed} of {processes} processes failed; their messages stand above")
        acknowledged = {line for note in notes for line in note.read_text().split("\n")[:-1]}
        kept = {action.action_id for intent in registry.intents() for action in registry.actions(intent.intent_id)}
        return {
            "acknowledged": len(acknowledged),
            "kept": len(kept),
            "lost": len(acknowledged - kept),
            "verified": float(registry.audit.verify() is None),
            "writes_per_second": len(acknowledged) / seconds,
        }


def _append(url: str, note: Path, actions: int, start: Barrier) -> None:
    with Registry(url, caller=note.stem) as registry:
        intent = registry.register(IntentContract(goal="count", allowed=(CallPattern(tool="add"),)))
        registry.update_status(intent.intent_id, IntentStatus.ACTIVATED)
        file = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        start.wait(START_SECONDS)
        for number in range(actions):
            call = ToolCall(name="add", arguments={"number": number})
            action = registry.append_action(
                intent.intent_id, call, effect=EffectClass.PERSISTENT_WRITE, plan="count on", check="harmless"
            )
            os.write(file, f"{action.action_id}\n".encode())  # in the kernel's hands: a kill does not lose it
        os.close(file)


def _noted(note: Path) -> int:
    """How many ids a process has noted so far; each takes 33 bytes."""
    with suppress(FileNotFoundError):
        return note.stat().st_size // 33
    return 0


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        given = sys.argv[1] if len(sys.argv) > 1 else None
        alone = hammer(given or f"sqlite:///{folder}/alone.db", 1, 10_000, kill_one=False)
        print(f"one process: {alone}")
        together = hammer(given or f"sqlite:///{folder}/together.db")
        print(f"eight processes: {together}")
    figures = {f"registry_{name}": together[name] for name in ("lost", "verified", "writes_per_second")}
    print(json.dumps({**figures, "registry_single_per_second": alone["writes_per_second"]}))


if __name__ == "__main__":
    main()
