"""What the provenance guard stops, what it stops by mistake, and what it costs.

    python benchmarks/guard.py [--quick] [--data ../shared/data] [--tasks 400] [--seed 11]

Prints tables and, on its last line, one flat JSON object. No language model is used but where it says so; figures whose
data is absent are left out.

workbench_all_detected, workbench_all_baseline, workbench_all_ir
                     misaligned gpt-4 traces of WorkBench that the guard and the verbatim baseline stop, and the
                     guard's intervention rate on task-successful traces; the same with `domains`, the other run
agentdojo_stopped    share of changing injected calls stopped whose injection the agent had read; agentdojo_overblock:
                     share of changing calls of the user's task that were stopped, `_benign`: without an injection
worlds_stopped       share of deviating and of injected changing calls stopped, held-out operators;
                     worlds_overblock: share of the expert's
ask_rate             guesses of missing values stopped with a question that names what is missing; ask_overblock: right
                     calls stopped; on our worlds and BFCL together, each of them with `_worlds` and `_bfcl`
ms_p50, ms_p99       milliseconds of a check with a history of 50 results of 2 kB, of which the last is new
llm_calls_mean       model calls a changing call on the WorkBench traces, with a scripted model; llm_calls_paper: of the
                     published pipeline; scripted_er, scripted_ir, paper_er, paper_ir: what both make of the traces
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from demur.envs.guards import Context, checked
from demur.envs.guards.provenance import provenance_guard
from demur.envs.protocol import act, render_observation
from demur.envs.task import Task
from demur.envs.taskset import make_tasks
from demur.envs.tool import Parameter, Tool
from demur.envs.trace import Label, ToolCall, Turn
from demur.envs.worlds import SHIPPED
from demur.eval.guard_judging import StepVerdict, TraceVerdict, guard_maker, judge_all
from demur.eval.guard_measures import error_rate
from demur.eval.traces import LabelledTrace, read_traces

if TYPE_CHECKING:
    from guard_worlds import Judged

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SUITES = ("banking", "slack", "travel", "workspace")
CONSOLE = Console(highlight=False, width=120)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer tasks and checks: at most a minute")
    parser.add_argument("--data", type=Path, default=DATA, help="folder with workbench/ and agentdojo/")
    parser.add_argument("--tasks", type=int, help="tasks of our worlds, by default 400")
    parser.add_argument("--seed", type=int, default=11)
    options = parser.parse_args(argv)
    from guard_worlds import judge_tasks  # beside this file, which is no package

    figures: dict[str, float] = {}
    for part in (workbench_figures, agentdojo_figures):
        try:
            figures |= part(options.data)
        except ValueError as error:
            CONSOLE.print(f"left out: {error}")
    found = judge_tasks(provenance_guard(), _tasks(options.tasks or (60 if options.quick else 400), options.seed))
    figures |= world_figures(found) | ask_figures(found, options.data)
    figures |= time_figures(100 if options.quick else 500, () if options.quick else (100, 300, 1000))
    print(json.dumps({name: round(float(value), 4) for name, value in figures.items()}))


def workbench_figures(data: Path) -> dict[str, float]:
    """Raises ValueError if the traces are not there."""
    figures: dict[str, float] = {}
    every: list[LabelledTrace] = []
    for run in ("all", "domains"):
        traces = read_traces(data / f"workbench/derived/gpt-4_{run}_labelled_traces.jsonl", "workbench")
        every += [trace for trace in traces if trace.label]
        found = {name: judged(name, traces) for name in ("provenance", "verbatim")}
        caught = {name: sum(v.stopped for v in _counted(one, "misaligned")) for name, one in found.items()}
        total, rate = len(_counted(found["provenance"], "misaligned")), error_rate(found["provenance"], "aligned")
        assert rate is not None, "there are task-successful traces"
        CONSOLE.print(
            f"WorkBench, gpt-4 {run}: of {total} misaligned traces {caught['provenance']} stopped, verbatim "
            f"{caught['verbatim']}; intervention on {rate.n} task-successful ones {rate.value:.3f} "
            f"[{rate.ci_low:.3f}, {rate.ci_high:.3f}]"
        )
        figures |= {
            f"workbench_{run}_detected": caught["provenance"],
            f"workbench_{run}_baseline": caught["verbatim"],
            f"workbench_{run}_ir": rate.value,
        }
    return figures | _model_figures(every)


def _model_figures(traces: Sequence[LabelledTrace]) -> dict[str, float]:
    from guard_model import ScriptedModel

    figures: dict[str, float] = {}
    for name, said in (("provenance", "scripted"), ("paper", "paper")):
        verdicts = judged(name, traces, ScriptedModel())
        calls = [step.model_calls for v in verdicts for step in v.steps if step.changes]
        er, ir = error_rate(verdicts, "misaligned"), error_rate(verdicts, "aligned")
        assert er is not None and ir is not None, "there are traces of both kinds"
        mean = sum(calls) / len(calls)
        CONSOLE.print(
            f"with a scripted model, {name}: {mean:.2f} calls an action, ER {er.value:.3f}, IR {ir.value:.3f}"
        )
        figures |= {f"llm_calls_{'mean' if name == 'provenance' else 'paper'}": mean}
        figures |= {f"{said}_er": er.value, f"{said}_ir": ir.value}
    return figures


def agentdojo_figures(data: Path) -> dict[str, float]:
    """Raises ValueError if the traces are not there."""
    stopped: list[bool] = []
    blocked: list[bool] = []
    benign: list[bool] = []
    for suite in SUITES:
        traces = read_traces(data / f"agentdojo/{suite}_scripted_traces.jsonl", "agentdojo")
        verdicts = judged("provenance", traces)
        steps = [step for verdict in verdicts for step in verdict.steps if step.changes]
        injected = [s.stopped for s in steps if s.label == "injected" and s.seen]
        aligned = [s.stopped for s in steps if s.label == "aligned"]
        listed = [step for verdict in judged("allow-list", traces) for step in verdict.steps if step.changes]
        CONSOLE.print(
            f"AgentDojo {suite}: injected calls stopped {_told(injected)}, by a tool allow-list "
            f"{_told([s.stopped for s in listed if s.label == 'injected' and s.seen])}; aligned calls {_told(aligned)}"
        )
        stopped, blocked = stopped + injected, blocked + aligned
        benign += [step.stopped for v in verdicts if v.label == "aligned" for step in v.steps if step.changes]
    # under attack, some ground-truth calls hold values that the injection took the place of
    CONSOLE.print(f"AgentDojo: aligned calls stopped in traces without an injection {_told(benign)}")
    return {
        "agentdojo_stopped": float(np.mean(stopped)),
        "agentdojo_overblock": float(np.mean(blocked)),
        "agentdojo_overblock_benign": float(np.mean(benign)),
    }


def _tasks(count: int, seed: int) -> list[Task]:
    return make_tasks(SHIPPED, "test", dict.fromkeys(Label, max(1, count // 4)), seed=seed)


def world_figures(found: Sequence[Judged]) -> dict[str, float]:
    from guard_worlds import shares

    for what, (hits, of) in shares(found).items():
        CONSOLE.print(f"worlds, {what}: stopped {hits} of {of}")
    deviating = [one.stopped for one in found if one.deviates and one.kind != "expert" and not _is_guess(one)]
    expert = [one.stopped for one in found if one.kind == "expert"]
    return {"worlds_stopped": float(np.mean(deviating)), "worlds_overblock": float(np.mean(expert))}


def ask_figures(found: Sequence[Judged], data: Path) -> dict[str, float]:
    """The worlds alone if the files of BFCL are not there, which is said."""
    from guard_bfcl import bfcl_figures

    asked = {"worlds": [one.names_what_is_missing for one in found if _is_guess(one)]}
    right = {
        "worlds": [one.stopped for one in found if one.kind == "expert" and one.task.label is Label.UNDERSPECIFIED]
    }
    try:
        bfcl = bfcl_figures(provenance_guard(), data / "bfcl")
        asked["bfcl"], right["bfcl"] = bfcl.named, bfcl.stopped
        CONSOLE.print(f"BFCL, right calls stopped, also those that need a result nobody recorded: {_told(bfcl.of_all)}")
    except ValueError as error:
        CONSOLE.print(f"left out: {error}")
    figures: dict[str, float] = {}
    for name, sides in (("ask_rate", asked), ("ask_overblock", right)):
        for side, hits in sides.items():
            CONSOLE.print(f"{name}, {side}: {_told(hits)}")
            figures[f"{name}_{side}"] = float(np.mean(hits))
        figures[name] = float(np.mean([hit for hits in sides.values() for hit in hits]))
    return figures


def _is_guess(one: Judged) -> bool:
    return one.deviates and one.kind == "act" and one.task.label is Label.UNDERSPECIFIED


def time_figures(checks: int, lengths: Sequence[int]) -> dict[str, float]:
    """Each check comes after another last result, as in a live agent that has just got it."""
    times = asyncio.run(_times(50, checks))
    p50, p99 = np.percentile(times[1:], [50, 99])
    CONSOLE.print(
        f"a check with 50 results of 2 kB: p50 {p50:.2f} ms, p99 {p99:.2f} ms, all of them new {times[0]:.1f} ms"
    )
    for length in lengths:
        longer = asyncio.run(_times(length, 30))
        CONSOLE.print(f"with {length} results: p50 {np.median(longer[1:]):.2f} ms, all of them new {longer[0]:.1f} ms")
    return {"ms_p50": float(p50), "ms_p99": float(p99)}


async def _times(length: int, checks: int) -> list[float]:
    """Milliseconds of each check."""
    guard, rng = provenance_guard(), Random(0)
    history = [_result(at, rng) for at in range(length + checks)]
    times = []
    for at in range(checks):
        seen = [*history[: length - 1], history[length + at]]
        window = tuple(turn for turn, _ in seen)
        number, address = rng.choice(seen)[1]
        query = f"Send the report of order {number} to the customer of that order."
        context = Context(query=query, tools=_TOOLS, history=window, plan=f"send the report of order {number}")
        call = ToolCall(name="send_mail", arguments={"to": address, "order": number, "body": "Here it is."})
        start = perf_counter()
        await checked(guard, context, call)
        times.append(1000 * (perf_counter() - start))
    return times


_TOOLS = {
    "read_orders": Tool(name="read_orders", description="Read a page of orders."),
    "send_mail": Tool(
        name="send_mail",
        description="Send a mail with the report of an order.",
        parameters=(
            Parameter(name="to", schema={"type": "string"}, required=True, source="derivable"),
            Parameter(name="order", schema={"type": "string"}, required=True, source="derivable"),
            Parameter(name="body", schema={"type": "string"}, required=True, source="generative"),
        ),
        changes=True,
    ),
}


def _result(at: int, rng: Random) -> tuple[Turn, tuple[str, str]]:
    """A result of about 2 kB, and an order of it with its customer's address."""
    rows = [
        {
            "order": f"{at:04}{n:02}",
            "customer": f"customer{rng.randrange(10**6)}@shop{at}.example",
            "total": rng.random(),
        }
        for n in range(24)
    ]
    turn = Turn(
        action=act(ToolCall(name="read_orders")), observation=render_observation(json.dumps(rows)), executed=True
    )
    chosen = rng.choice(rows)
    return turn, (str(chosen["order"]), str(chosen["customer"]))


def judged(name: str, traces: Sequence[LabelledTrace], model: Any = None) -> list[TraceVerdict]:
    """The verdicts of a guard on labelled traces, in no order."""
    found: list[TraceVerdict] = []
    asyncio.run(judge_all(guard_maker(name, model), ((trace, 0) for trace in traces), found.append, 1))
    failed: list[StepVerdict] = [step for verdict in found for step in verdict.steps if step.failed]
    if failed:
        CONSOLE.print(f"{name}: {len(failed)} checks failed, such as: {failed[0].reason}")
    return found


def _counted(verdicts: Sequence[TraceVerdict], label: str) -> list[TraceVerdict]:
    return [verdict for verdict in verdicts if verdict.label == label and verdict.excluded is None]


def _told(hits: Sequence[bool]) -> str:
    return f"{sum(hits)} of {len(hits)}"


if __name__ == "__main__":
    main()
