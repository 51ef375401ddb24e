"""What a run's numbers rest on: code, versions, seeds, data, prompts and hardware.

A manifest holds no path, host name, user name or environment variable, so that it can be published.
"""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from pydantic import Field

import demur
from demur.envs.exchange import fingerprint
from demur.envs.task import Task
from demur.envs.trace import Record

PACKAGES = ("numpy pydantic jinja2 openai torch transformers trl peft accelerate datasets vllm deepspeed").split()


class Hardware(Record):
    """accelerators: names of the GPUs that torch sees; empty where torch was not loaded."""

    system: str
    machine: str
    cpu: str | None
    cores: int | None
    memory_gib: float | None
    accelerators: tuple[str, ...] = ()


class Manifest(Record):
    """git: the revision of the checkout, None outside one. data, prompts: SHA-256 by name.

    notes: further facts of the run, such as who judged.
    """

    demur: str
    python: str
    git: str | None
    git_dirty: bool | None
    versions: dict[str, str]
    seeds: dict[str, int]
    data: dict[str, str]
    prompts: dict[str, str]
    hardware: Hardware
    notes: dict[str, str | int | float | bool | None] = Field(default_factory=dict)


def manifest(
    *,
    seeds: Mapping[str, int],
    data: Mapping[str, Iterable[Task]] | None = None,
    notes: Mapping[str, str | int | float | bool | None] | None = None,
) -> Manifest:
    """Describe this process. data: sets of tasks by name, which are fingerprinted."""
    root = Path(demur.__file__).parent.parent
    revision = _git(root, "rev-parse", "HEAD")
    changes = _git(root, "status", "--porcelain", "--untracked-files=no") if revision else None
    return Manifest(
        demur=demur.__version__,
        python=platform.python_version(),
        git=revision,
        git_dirty=None if changes is None else bool(changes),
        versions=dict(_versions()),
        seeds=dict(seeds),
        data={name: fingerprint(tasks) for name, tasks in (data or {}).items()},
        prompts=prompt_hashes(),
        hardware=hardware(),
        notes=dict(notes or {}),
    )


def prompt_hashes() -> dict[str, str]:
    """SHA-256 of the system prompts by file name."""
    folder = files("demur.envs").joinpath("prompts")
    texts = (item for item in folder.iterdir() if item.name.endswith(".txt"))
    return {
        item.name: hashlib.sha256(item.read_bytes()).hexdigest() for item in sorted(texts, key=lambda item: item.name)
    }


def hardware() -> Hardware:
    return Hardware(
        system=platform.system(),
        machine=platform.machine(),
        cpu=_cpu_name(),
        cores=os.cpu_count(),
        memory_gib=_memory_gib(),
        accelerators=_accelerators(),
    )


def _versions() -> Iterable[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:
            continue  # an extra that is not installed


def _git(root: Path, *arguments: str) -> str | None:
    """What git prints; None without git, or where demur is installed and not checked out."""
    if not (root / ".git").exists():
        return None
    try:
        run = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.strip() if run.returncode == 0 else None


def _cpu_name() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return platform.processor() or None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def _memory_gib() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):  # not POSIX
        return None


def _accelerators() -> tuple[str, ...]:
    """Asks torch only if the run has loaded it: loading it here would cost seconds."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return ()
    return tuple(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
