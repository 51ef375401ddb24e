"""Run a policy on the cases of a public benchmark, and record what it did: traces to label and to test guards on.

    python eval/generate_traces.py --suite agent_safetybench --data agent_safetybench --policy qwen \
        --policy_url http://127.0.0.1:8000/v1 --tools qwen --tools_url http://127.0.0.1:8000/v1 --out traces.jsonl

A case is a line of the file, and a run that was killed goes on with the same command. Exit status 2, with one line that
says why, for files or options that cannot be used; 1 if cases failed, which the same command tries again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

from rich.console import Console
from rich.progress import Progress

import demur
from demur.envs.endpoint import EndpointError
from demur.envs.engine import AsyncPolicy, Policy, run_async, run_lockstep
from demur.envs.episode import Episode
from demur.envs.policies.endpoint import EndpointPolicy
from demur.envs.suites.agent_safetybench import EndpointTools, Simulator, StateTools, case_task, read_cases
from demur.envs.suites.agent_safetybench.cases import FILES, INCOMPLETE
from demur.envs.suites.agent_safetybench.simulators import prompt
from demur.envs.suites.agent_safetybench.world import TURN_LIMIT, CaseTask
from demur.envs.trace import Trajectory
from demur.eval.arguments import bad_input
from demur.eval.guard_judging import fingerprint
from demur.eval.journal import Lines
from demur.eval.traces.recorded import Recorded

SUITES = ("agent_safetybench",)
STATE = "state"
ERROR = Console(stderr=True, highlight=False)


class Finished(NamedTuple):
    """A case that was run. trajectory: None if a tool could not be played. error: why the case failed, or None."""

    task: CaseTask
    trajectory: Trajectory | None
    error: str | None


Report = Callable[[Finished], None]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except (ValueError, OSError) as error:
        return bad_input(error)


def _run(options: argparse.Namespace) -> int:
    for name in ("concurrency", "turn_limit", "max_new_tokens", "cases"):
        if (given := getattr(options, name)) is not None and given < 1:
            raise ValueError(f"--{name} must be at least 1")
    simulator = _simulator(options)
    cases = read_cases(options.data, options.failure_modes)[: options.cases]
    tasks = [case_task(case, simulator, options.turn_limit) for case in cases]
    policy = _policy(options)  # before anything is written: what is wrong with it must leave no file behind
    journal = Lines(
        options.out, Recorded, _settings(options), what="trace", settings_path=options.out.with_suffix(".settings.json")
    )
    have = {recorded.trajectory.task_id for recorded in journal.records}
    to_do = [task for task in tasks if task.id not in have]
    if have:
        ERROR.print(f"going on: {len(have)} traces are there, {len(to_do)} to go")
    errors: list[str] = []
    with Progress(console=ERROR, transient=True) as progress:
        bar = progress.add_task("cases", total=len(to_do))

        def report(finished: Finished) -> None:
            progress.advance(bar)
            if finished.trajectory is None or finished.error is not None:
                errors.append(f"{finished.task.id}: {finished.error}")
            else:
                tools = tuple(finished.task.initial.offered().values())
                journal.add(Recorded(trajectory=finished.trajectory, tools=tools))

        run_tasks(to_do, policy, report, at_once=options.concurrency)
    place = {task.id: at for at, task in enumerate(tasks)}
    journal.sort(lambda recorded: place.get(recorded.trajectory.task_id, len(place)))
    endings = Counter(str(recorded.trajectory.ending) for recorded in journal.records)
    print(f"{options.out}: {len(journal.records)} traces, ended by {dict(endings)}")
    if errors:
        first = " ".join(errors[0].split())[:300]
        print(f"{len(errors)} cases failed, such as {first}. The same command tries them again.", file=sys.stderr)
    return 1 if errors else 0


def run_tasks(tasks: Sequence[CaseTask], policy: Policy | AsyncPolicy, report: Report, *, at_once: int = 8) -> None:
    """Run `policy` on each task, and report each one when it is finished.

    A policy that writes many messages together gets `at_once` conversations, any other one at a time, with as many
    under way. An EndpointError of a simulator fails its case, or those that run together with it.
    """
    if hasattr(policy, "respond"):
        asyncio.run(_run_apart(tasks, cast(AsyncPolicy, policy), report, at_once))
        return
    for start in range(0, len(tasks), at_once):
        batch = tasks[start : start + at_once]
        try:
            done = [_finished(*pair) for pair in zip(batch, run_lockstep(_episodes(batch), policy), strict=True)]
        except EndpointError as error:
            done = [Finished(task, None, str(error)) for task in batch]
        for finished in done:
            report(finished)


async def _run_apart(tasks: Sequence[CaseTask], policy: AsyncPolicy, report: Report, at_once: int) -> None:
    slots = asyncio.Semaphore(at_once)
    # tools are played in threads, and each case may have one
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(at_once))

    async def run(task: CaseTask) -> None:
        async with slots:
            try:
                (trajectory,) = await run_async(_episodes([task]), policy)
            except EndpointError as error:
                report(Finished(task, None, str(error)))
            else:
                report(_finished(task, trajectory))

    try:
        await asyncio.gather(*map(run, tasks))
    finally:
        if isinstance(policy, EndpointPolicy):
            await policy.close()


def _episodes(tasks: Sequence[CaseTask]) -> list[Episode]:
    return [Episode(task) for task in tasks]


def _finished(task: CaseTask, trajectory: Trajectory) -> Finished:
    return Finished(task, trajectory, (trajectory.error or "the policy failed") if trajectory.ending.is_error else None)


# Options


def _simulator(options: argparse.Namespace) -> Simulator:
    if options.tools_url is None:
        if options.tools != STATE:
            raise ValueError(f"--tools {options.tools} needs --tools_url, the address of an OpenAI-compatible endpoint")
        return StateTools()
    if options.tools == STATE:
        raise ValueError("--tools_url needs --tools NAME, the model that plays the tools as the endpoint calls it")
    return EndpointTools(
        options.tools, base_url=options.tools_url, key_variable=options.tools_key_variable, timeout=options.timeout
    )


def _policy(options: argparse.Namespace) -> Policy | AsyncPolicy:
    sampling: dict[str, Any] = {"max_new_tokens": options.max_new_tokens, "temperature": options.temperature}
    if options.policy_url is not None:
        return EndpointPolicy(
            options.policy,
            base_url=options.policy_url,
            key_variable=options.key_variable,
            timeout=options.timeout,
            **sampling,
        )
    module, _, attribute = options.policy.partition(":")
    if attribute and not Path(options.policy).exists():
        return _of_the_user(options.policy, module, attribute)
    from demur.envs.policies.local import load_local  # brings torch

    return load_local(options.policy, options.adapter, **sampling)


def _of_the_user(name: str, module: str, attribute: str) -> Policy | AsyncPolicy:
    try:
        policy: Policy | AsyncPolicy = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the policy {name!r} cannot be loaded: {error}") from error
    if not (hasattr(policy, "respond") or hasattr(policy, "generate")) or isinstance(policy, type):
        raise ValueError(f"{name!r} is no policy: it needs `name`, and `generate` or `respond`")
    return policy


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """What the traces depend on. Addresses are left out: they may hold a key, and move."""
    names = ("suite", "policy", "adapter", "tools", "turn_limit", "temperature", "max_new_tokens")
    return {
        "demur": demur.__version__,
        "data": {name: fingerprint(options.data / name) for name in FILES},
        "failure_modes": sorted(set(options.failure_modes)),
        "prompt": prompt() if options.tools_url else None,
        **{name: getattr(options, name) for name in names},
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Record what a policy does on public cases.", allow_abbrev=False)
    add = parser.add_argument
    add("--suite", choices=SUITES, default=SUITES[0])
    add("--data", type=Path, required=True, help=f"folder with {' and '.join(FILES)}")
    add("--failure_modes", type=int, nargs="+", default=[INCOMPLETE], help="cases that have one of them (default: 2)")
    add("--cases", type=int, help="the first so many; by default all")
    add("--policy", required=True, help="a folder, package.module:attribute, or a model of --policy_url")
    add("--policy_url", help="an OpenAI-compatible endpoint")
    add("--adapter", help="a folder, on top of the policy's folder")
    add("--tools", default=STATE, help=f"the model of --tools_url that plays the tools, or {STATE}: a rule (default)")
    add("--tools_url", help="an OpenAI-compatible endpoint")
    for name in ("key_variable", "tools_key_variable"):
        add(f"--{name}", default="OPENAI_API_KEY", help="environment variable that holds the key")
    add("--temperature", type=float, default=0.0, help="of the policy (default: 0)")
    add("--max_new_tokens", type=int, default=1024, help="of the policy, a message (default: 1024)")
    add("--timeout", type=float, default=120.0, help="seconds for one reply (default: 120)")
    add("--turn_limit", type=int, default=TURN_LIMIT, help=f"messages of the policy a case (default: {TURN_LIMIT})")
    add("--concurrency", type=int, default=8, help="cases at the same time (default: 8)")
    add("--out", type=Path, required=True, help="JSONL, beside it FILE.settings.json")
    return parser


if __name__ == "__main__":
    sys.exit(main())
