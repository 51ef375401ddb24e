"""Runs each cell as a process of its own, on every rank that the launcher started.

A process a cell, not `main` again in one: a rank that raises, is killed or runs out of memory would leave the others
waiting in a collective for ever, and what it left on the GPU would meet the next cell. Here the ranks tell each other
through the launcher's store, end the cell together, and go on to the next.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

POLL_SECONDS = 0.2
GRACE_SECONDS = 20.0
MODULE = "demur.train.grpo"


class Ranks:
    """The ranks of this launch. environment: as the launcher made it, before configurations were read: reading them
    for a dry run puts accelerate on the CPU, which the runs must not inherit."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._launched = dict(environment)
        self.rank, self.count = int(environment.get("RANK", "0")), int(environment.get("WORLD_SIZE", "1"))
        self._store: Any = self._open() if self.count > 1 else None
        self._alone: dict[str, str] = {}  # what one rank would tell the others

    def run(self, cell: str, arguments: Sequence[str], log: Path) -> str | None:
        """Train one cell. Returns why it failed, the same on all ranks, or None. log: gets what it prints."""
        with log.open("w", encoding="utf-8") as out:
            child = subprocess.Popen(
                [sys.executable, "-m", MODULE, *arguments],
                env=self._environment(cell),
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
            try:
                self._wait(cell, child)
            finally:
                _end(child)
        if child.returncode != 0 and not self._failed(cell):
            self._set(f"{cell}/error", _reason(child.returncode, log))
        self.meet(cell)
        return self._get(f"{cell}/error") if self._failed(cell) else None

    def _open(self) -> Any:
        from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

        agent = self._launched.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return PrefixStore(
            "ablation",
            TCPStore(
                self._launched["MASTER_ADDR"],
                int(self._launched["MASTER_PORT"]),
                self.count,
                is_master=self.rank == 0 and not agent,
                timeout=timedelta(minutes=10),
                multi_tenant=True,
            ),
        )

    def _environment(self, cell: str) -> dict[str, str]:
        """The launcher's, with a meeting point of the cell's own: keys of an earlier cell are still at the old one."""
        environment = dict(self._launched)
        if self._store is not None:
            if self.rank == 0:
                self._set(f"{cell}/port", str(_free_port()))
            environment |= {"MASTER_PORT": self._get(f"{cell}/port"), "TORCHELASTIC_USE_AGENT_STORE": "False"}
        return environment

    def _wait(self, cell: str, child: subprocess.Popen[bytes]) -> None:
        """Until the child ends, or another rank's has failed."""
        while child.poll() is None:
            if self._failed(cell):
                return
            time.sleep(POLL_SECONDS)

    def _failed(self, cell: str) -> bool:
        key = f"{cell}/error"
        return key in self._alone if self._store is None else bool(self._store.check([key]))

    def _set(self, key: str, value: str) -> None:
        if self._store is None:
            self._alone[key] = value
        else:
            self._store.set(key, value)

    def _get(self, key: str) -> str:
        return self._alone[key] if self._store is None else self._store.get(key).decode()

    def meet(self, name: str) -> None:
        """Go on when all ranks are here. name: of one meeting."""
        if self._store is None:
            return
        key = f"{name}/there"
        self._store.add(key, 1)
        while self._store.add(key, 0) < self.count:
            time.sleep(POLL_SECONDS)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child that still runs: politely, then not."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _reason(status: int, log: Path) -> str:
    """The last line that was printed, which of our scripts and of a traceback is the error."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    last = lines[-1].removeprefix("error: ")[:500] if lines else "nothing was printed"
    return f"stopped by signal {-status}; last words: {last}" if status < 0 else last


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
