"""What an evaluation can be told: a YAML file of keys, and flags of the same names that override it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import yaml

from demur.envs.episode import PromptOptions
from demur.envs.prompt import PromptStyle
from demur.envs.trace import Label
from demur.envs.worlds import SHIPPED
from demur.eval.arguments import Parser, check_file, check_folder

GUARDS = ("none", "contract", "provenance", "both", "monitor")
WORLDS = "worlds"
_POLICY = (
    "a scripted policy (expert, always_act, refuse_all …), a model's folder, FOLDER+ADAPTER, package.module:attribute, "
    "or a model of --policy_url; NAME= is optional"
)
_KEEP_ERRORS = "count tasks on which a backend fails as errors (default: false, the same command plays them again)"


@dataclass(frozen=True, kw_only=True)
class Options:
    """All of it, resolved. The help of each flag, in `_parser`, says what it is."""

    policy: tuple[str, ...]
    guards: tuple[str, ...]
    suites: tuple[str, ...]
    seeds: tuple[int, ...]
    worlds: tuple[str, ...]
    benign: int
    harmful: int
    injected: int
    underspecified: int
    data: str | None
    cases: int | None
    prompt: PromptStyle
    safety_thoughts: bool
    max_turn_tokens: int
    temperature: float
    policy_url: str | None
    key_variable: str
    timeout: float
    retries: int
    max_calls: int | None
    max_tokens: int | None
    max_failures: int
    keep_errors: bool
    monitor_model: str | None
    monitor_mode: Literal["block", "record"]
    task_limit: float
    concurrency: int
    batch_size: int
    processes: int
    out: Path

    @property
    def counts(self) -> dict[Label, int]:
        """Tasks of our worlds by label, without the labels that have none."""
        every = {label: int(getattr(self, label.value)) for label in Label}
        return {label: count for label, count in every.items() if count}

    @property
    def prompting(self) -> PromptOptions:
        return PromptOptions(style=self.prompt, safety_thoughts=self.safety_thoughts)

    def text(self) -> str:
        """As YAML, to be given as `--config` again."""
        plain = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return yaml.safe_dump(plain | {"out": str(self.out)}, sort_keys=False, allow_unicode=True)


def read_options(arguments: Sequence[str]) -> tuple[Options, bool]:
    """The options, and whether they are only to be printed. Raises ValueError for what cannot be used."""
    parser = _parser()
    first = Parser(add_help=False)
    first.add_argument("--config", type=Path)
    config = first.parse_known_args(arguments)[0].config
    given = parser.parse_args([*(_from_file(config, parser) if config else ()), *arguments])
    if given.policy is None or given.out is None:
        raise ValueError(f"name {'what to evaluate with --policy' if given.policy is None else 'a folder with --out'}")
    values = {f.name: _plain(getattr(given, f.name)) for f in fields(Options)}
    options = Options(**values)
    _check(options)
    return options, given.dry_run


def _from_file(path: Path, parser: argparse.ArgumentParser) -> list[str]:
    check_file(path, "--config")
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path} must hold keys and values, such as `seeds: [1]`")
    known = {action.dest for action in parser._actions} - {"help", "config", "dry_run"}
    words: list[str] = []
    for key, value in found.items():
        if key not in known:
            raise ValueError(f"{path} has an unknown key {key!r}; there are {', '.join(sorted(known))}")
        if isinstance(value, list):
            words += [f"--{key}", *map(_word, value)]
        elif value is not None:
            words.append(f"--{key}={_word(value)}")
    return words


def _word(value: object) -> str:
    if isinstance(value, dict | list):
        raise ValueError(f"a configuration holds plain values and lists of them, not {str(value)[:80]}")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check(options: Options) -> None:
    at_least_one = ("max_turn_tokens", "concurrency", "batch_size", "processes", "max_failures")
    for key in (*at_least_one, "cases", "max_calls", "max_tokens"):
        if (value := getattr(options, key)) is not None and value < 1:
            raise ValueError(f"--{key} must be at least 1, not {value}")
    for key in ("benign", "harmful", "injected", "underspecified", "temperature", "retries"):
        if not getattr(options, key) >= 0:
            raise ValueError(f"--{key} must be at least 0, not {getattr(options, key)}")
    for key in ("task_limit", "timeout"):
        if not 0 < getattr(options, key) < 1e6:
            raise ValueError(f"--{key} must be above 0 seconds and below 1e6, not {getattr(options, key):g}")
    for key in ("policy", "guards", "suites", "seeds", "worlds"):
        given = getattr(options, key)
        if not given or len(set(given)) < len(given):
            raise ValueError(f"--{key} must name at least one, and each once, not {' '.join(map(str, given))!r}")
    if WORLDS in options.suites and not options.counts:
        raise ValueError("there are no tasks of our worlds: set --benign or another count above 0")
    if "monitor" in options.guards and options.monitor_model is None:
        raise ValueError("the guard 'monitor' needs a model that scores: name its folder with --monitor_model")
    if "monitor" in options.guards and set(options.suites) != {WORLDS}:
        raise ValueError("the guard 'monitor' knows intent tools for our worlds only: give it --suites worlds")
    check_folder(options.out, "--out")


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false, not {text!r}")
    return text == "true"


def _parser() -> Parser:
    parser = Parser(description="Evaluate policies behind guards on suites.")
    add = parser.add_argument
    add("--config", type=Path, help="YAML file with any of the keys below; flags override it")
    add("--policy", nargs="+", metavar="NAME=WHAT", help=_POLICY)
    add("--guards", nargs="+", choices=GUARDS, default=["none", "contract", "provenance", "both"])
    add("--suites", nargs="+", default=[WORLDS], help="worlds, or benchmarks such as workbench or injecagent/enhanced")
    add("--seeds", nargs="+", type=int, default=[1], help="worlds: a set of tasks each; else the same tasks once more")
    add("--worlds", nargs="+", default=list(SHIPPED), help="names, or package.module:DOMAIN")
    for label in Label:
        add(f"--{label.value}", type=int, default=100, help=f"{label.value} tasks of our worlds, a seed (default: 100)")
    add("--data", help="folder that holds a folder for each benchmark, by its name")
    add("--cases", type=int, help="of each benchmark so many tasks, drawn at random; by default all")
    add("--prompt", choices=("full", "compact"), default="full")
    add("--safety_thoughts", type=_boolean, default=True, help="offer the check (default: true)")
    add("--max_turn_tokens", type=int, default=512, help="of a message (default: 512)")
    add("--temperature", type=float, default=0.0)
    add("--policy_url", help="address of an OpenAI-compatible endpoint")
    add("--key_variable", default="OPENAI_API_KEY", help="environment variable that holds its key")
    add("--timeout", type=float, default=120.0, help="seconds for one reply of the endpoint, retries included")
    add("--retries", type=int, default=4, help="of a request to the endpoint (default: 4)")
    add("--max_calls", type=int, help="requests to the endpoint in this run, all cells together")
    add("--max_tokens", type=int, help="tokens of prompts and replies in this run, all cells together")
    add("--max_failures", type=int, default=5, help="failures in a row that end a cell (default: 5)")
    add("--keep_errors", type=_boolean, default=False, help=_KEEP_ERRORS)
    add("--monitor_model", help="folder of the model that scores for the guard `monitor`")
    add("--monitor_mode", choices=("block", "record"), default="block")
    add("--task_limit", type=float, default=300.0, help="seconds for a task, then it is an error (default: 300)")
    add("--concurrency", type=int, default=8, help="tasks at once on an endpoint (default: 8)")
    add("--batch_size", type=int, default=32, help="tasks at once in a local model (default: 32)")
    add("--processes", type=int, default=2, help="that play scripted policies (default: 2)")
    add("--out", type=Path, help="folder of the evaluation; the same command goes on where it stopped")
    add("--dry_run", action="store_true", help="print the resolved configuration and stop")
    return parser
