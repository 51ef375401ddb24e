"""Flags of the entry points that TRL's parser does not read: what is wrong with them is one line, and status 2.

options = Parser(description="…").parse_args(arguments)   # ValueError: the line
except ValueError as error:
    return bad_input(error)
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """argparse's parser, which raises ValueError for flags that it does not understand, in place of pages of usage."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def bad_input(error: Exception) -> int:
    """Say on one line of stderr what is wrong. The exit status for it, 2."""
    print(f"error: {' '.join(str(error).split())[:500]}", file=sys.stderr)
    return 2


def check_file(path: Path, flag: str) -> None:
    """Raises ValueError, naming the flag, unless there is such a file."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}: name one that exists with {flag}")


def check_folder(path: Path, flag: str) -> None:
    """Raises ValueError, naming the flag, if no folder can be made at `path`. Nothing is made yet."""
    found = next(one for one in (path, *path.parents, Path("/")) if one.exists())
    if not found.is_dir():
        raise ValueError(f"{found} is a file: name a folder with {flag}")
    if not os.access(found, os.W_OK):
        raise ValueError(f"nothing can be written in {found}: name another place with {flag}")
