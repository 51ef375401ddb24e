"""Replies of judges on disk, found by what was asked, so that a run can be repeated without a key or an endpoint.

    cache = Cache("runs/mine/judge_cache", PROMPTS_HASH)
    key = cache.key(model, parameters, messages)
    reply = cache.get(key)          # None: never asked
    cache.put(key, "…")

One small JSON file an entry, `ab/abcd….json`, which appears whole or not at all. The first entry under a key stays, so
processes that share a folder, and a later run, all read the same reply. The folder belongs to one version of the
prompts, which its `cache.json` names.
"""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""What file systems without hard links say."""


class Cache:
    """prompts: the hash of the prompt files. Raises ValueError for a folder of other prompts or that is unusable.

    An entry that cannot be read counts as missing and is written anew. After an entry that cannot be written, such as
    on a full disk, nothing more is written: one warning says so.
    """

    def __init__(self, folder: Path | str, prompts: str) -> None:
        self._folder, self._prompts = Path(folder), prompts
        self._writes = True
        about = self._folder / "cache.json"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not about.exists():
                _write(about, {"prompts": prompts}, replace=False)
            found = _read(about).get("prompts")
        except OSError as error:
            raise ValueError(f"the folder {folder} cannot hold a cache: {error}") from error
        if not isinstance(found, str):
            raise ValueError(f"{about} is damaged: delete {folder}, or name another folder")
        if found != prompts:
            raise ValueError(
                f"the cache in {folder} was written with other judge prompts ({found[:12]}, now {prompts[:12]}): "
                "name another folder, or go back to the prompts it was written with"
            )

    def key(self, model: str, parameters: Mapping[str, Any], messages: Sequence[Mapping[str, str]]) -> str:
        """The sha256 of a call in hexadecimal: the prompts' hash, the model, its parameters (JSON) and the texts."""
        asked = [self._prompts, model, dict(parameters), [dict(message) for message in messages]]
        return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def get(self, key: str) -> str | None:
        """The reply, or None."""
        try:
            entry = _read(self._path(key))
        except OSError:
            return None
        reply = entry.get("reply")
        return reply if entry.get("key") == key and isinstance(reply, str) else None

    def put(self, key: str, reply: str) -> None:
        """Keep a reply, unless there is one under this key."""
        if not self._writes or self.get(key) is not None:
            return
        path = self._path(key)
        try:
            path.parent.mkdir(exist_ok=True)
            entry = {"key": key, "reply": reply}
            if not _write(path, entry, replace=False) and self.get(key) is None:  # a damaged one stands there
                _write(path, entry, replace=True)
        except OSError as error:
            self._writes = False
            warnings.warn(f"the judge cache {self._folder} is off from here on: {error}", stacklevel=2)

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"


def _read(path: Path) -> dict[str, Any]:
    """The object in a file; empty for a damaged one. Raises OSError if there is no file."""
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, entry: dict[str, str], *, replace: bool) -> bool:
    """Whether the whole entry stands at `path` now; without `replace` only if nothing did."""
    partial = path.with_name(f".{uuid4().hex}.partial")
    try:
        partial.write_text(json.dumps(entry) + "\n", encoding="ascii")
        if not replace:
            try:
                os.link(partial, path)  # unlike a rename, it fails where another process was first
                return True
            except FileExistsError:
                return False
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return True
