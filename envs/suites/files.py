"""Files of benchmarks, read from where they lie and held against the fingerprints in `fingerprints.yaml`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

_KNOWN: Final = Path(__file__).with_name("fingerprints.yaml")


class Files(NamedTuple):
    """contents: by name. fingerprint: SHA-256 over the files, in the order of their names."""

    contents: Mapping[str, bytes]
    fingerprint: str


class KnownFiles(NamedTuple):
    """source: where a user gets them. digests: SHA-256 in hexadecimal digits, by name."""

    source: str
    digests: Mapping[str, str]


@cache
def known_files(benchmark: str) -> KnownFiles:
    """What is known of a benchmark's files."""
    entry: dict[str, Any] = yaml.safe_load(_KNOWN.read_text(encoding="utf-8"))[benchmark]
    return KnownFiles(entry["source"], entry["files"])


def read_known(folder: Path, benchmark: str, names: Sequence[str]) -> Files:
    """The named files. Raises ValueError, naming the file and what to do, for one missing, cut or altered."""
    known = known_files(benchmark)
    contents = {name: read_file(folder / name, known.source) for name in sorted(names)}
    for name, content in contents.items():
        if (found := sha256(content)) != (expected := known.digests[name]):
            what = f"has the fingerprint {found[:12]}…, not {expected[:12]}…: it was cut or altered"
            raise broken(folder / name, what, known.source)
    return Files(contents, fingerprint_of(contents))


def read_file(path: Path, source: str) -> bytes:
    """Raises ValueError, with where to get the file, if it can not be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise broken(path, f"can not be read ({error.strerror or error})", source) from error


def broken(path: Path, what: str, source: str) -> ValueError:
    return ValueError(f"{path} {what}. Get it again from {source}")


def fingerprint_of(contents: Mapping[str, bytes]) -> str:
    return sha256("".join(f"{sha256(contents[name])} {name}\n" for name in sorted(contents)).encode())


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
