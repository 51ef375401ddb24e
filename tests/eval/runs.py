"""Trajectories and whole run folders to test the evaluation on, made without any model."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import yaml

from demur.envs.engine import run_batched
from demur.envs.episode import Episode, Generation
from demur.envs.policies.scripted import ScriptedPolicy
from demur.envs.protocol import parse
from demur.envs.task import Script, Task
from demur.envs.taskset import make_tasks
from demur.envs.trace import (
    Action,
    ActionKind,
    Ending,
    Label,
    Level,
    Outcome,
    TokenCounts,
    ToolCall,
    Trajectory,
    Turn,
    Verdict,
    write_jsonl,
)
from demur.eval.manifest import manifest
from demur.eval.metrics import metric_rows
from demur.eval.summary import Summary, write_summary

COUNTS = {Label.BENIGN: 24, Label.HARMFUL: 24, Label.INJECTED: 12, Label.UNDERSPECIFIED: 12}


def make_trace(label: Label = Label.BENIGN, **changes: object) -> Trajectory:
    """A trajectory of one answer turn, with fields replaced; `outcome` may be a dict of its own fields."""
    outcome = changes.pop("outcome", {})
    fields: dict[str, object] = {
        "task_id": "t1",
        "world": "mail",
        "family": "write_message",
        "label": label,
        "split": "test",
        "query": "Write to Anna.",
        "turns": (make_turn(),),
        "ending": Ending.ANSWER,
        "outcome": Outcome.model_validate(outcome),
        "turn_limit": 8,
        "policy": "after",
    }
    return Trajectory.model_validate(fields | changes)


def make_turn(kind: ActionKind = ActionKind.ANSWER, *, check: str | None = None, tokens: int = 0) -> Turn:
    counts = TokenCounts(check=tokens // 4, plan=tokens // 4, action=tokens // 4, total=tokens)
    call = ToolCall(name="send_mail") if kind is ActionKind.CALL else None
    return Turn(plan="Do it.", check=check, action=Action(kind=kind, text="Done.", call=call), tokens=counts)


class Counted(ScriptedPolicy):
    """A scripted policy that counts its words as tokens."""

    def generate(self, episodes: Sequence[Episode]) -> list[Generation]:
        return [replace(g, tokens=count_words(g.text)) for g in super().generate(episodes)]


def count_words(text: str) -> TokenCounts:
    turn = parse(text)
    plan, check = len(turn.plan.split()), len((turn.check or "").split())
    action = len((turn.action.text or str(turn.action.call)).split())
    return TokenCounts(plan=plan, check=check, action=action, total=plan + check + action + 6)


def sometimes(expert: float, seed: int) -> Callable[[Task], Script]:
    """The expert's script with this probability, else the undoubting one."""

    def script(task: Task) -> Script:
        return task.expert if Random(f"{seed}/{task.id}").random() < expert else task.act

    return script


def evaluate(tasks: Sequence[Task], before: float = 0.4, after: float = 0.95) -> list[Trajectory]:
    """Trajectories of policies `before` and `after` on the same tasks."""
    policies = (Counted("before", sometimes(before, 1)), Counted("after", sometimes(after, 2)))
    return [t for policy in policies for t in run_batched([Episode(task) for task in tasks], policy)]


def make_run(folder: Path, *, counts: dict[Label, int] = COUNTS, steps: int = 60) -> Path:
    """A finished run as the trainer leaves it, its curves invented."""
    tasks = make_tasks(["mail"], "test", counts)
    trajectories = evaluate(tasks)
    return write_run(folder, trajectories, tasks, steps=steps)


def write_run(
    folder: Path,
    trajectories: Sequence[Trajectory],
    tasks: Sequence[Task] = (),
    *,
    steps: int = 60,
    config: dict[str, object] | None = None,
) -> Path:
    folder.mkdir(parents=True)
    about = manifest(seeds={"train": 0, "tasks": 0}, data={"test": tasks}, notes={"eval_judge": "<none>"})
    (folder / "config.yaml").write_text(yaml.safe_dump(config or CONFIG, sort_keys=False), encoding="utf-8")
    (folder / "manifest.json").write_text(about.model_dump_json(), encoding="utf-8")
    lines = [json.dumps(step_record(step, steps)) + "\n" for step in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    final = folder / "eval" / "final"
    write_jsonl(final / "trajectories.jsonl", trajectories)
    write_summary(final / "summary.json", Summary(manifest=about, rows=tuple(metric_rows(trajectories))))
    return folder


HOSTILE = (
    '</script><img src=x onerror="window.pwned=1"><!--<script>{{ 7 * 7 }}</textarea>'
    "\u2028\u2029\u202e&lt;b&gt;<svg onload='window.pwned=1'>\\u003c"
)


def hostile_trajectories() -> list[Trajectory]:
    """One task, before and after, with markup in every text that a model, a tool or a user writes."""
    call = ToolCall(name="read_mail" + HOSTILE, arguments={HOSTILE: HOSTILE, "id": 7})
    verdict = Verdict(
        level=Level.BLOCK, guard=HOSTILE, reason=HOSTILE, stage=HOSTILE, relation=HOSTILE, evidence=(HOSTILE,)
    )
    doing = Turn(
        plan=HOSTILE,
        check=HOSTILE,
        action=Action(kind=ActionKind.CALL, call=call),
        observation=HOSTILE,
        verdicts=(verdict,),
    )
    asking = Turn(action=Action(kind=ActionKind.ASK, text=HOSTILE, call=call), observation=HOSTILE)
    broken = Turn(action=Action(kind=ActionKind.MALFORMED, text=HOSTILE, fault=HOSTILE), observation=HOSTILE)
    marks = {"harms": (HOSTILE,), "leaks": (HOSTILE,)}
    fields = {"query": HOSTILE, "world": HOSTILE, "family": HOSTILE, "turns": (doing, asking, broken)}
    return [
        make_trace(Label.HARMFUL, policy="before", outcome=marks, **fields),
        make_trace(Label.HARMFUL, policy="after", ending=Ending.ERROR, error=HOSTILE, **fields),
        make_trace(Label.BENIGN, task_id="t2", policy="before", outcome={"damage": (HOSTILE,)}, **fields),
        make_trace(Label.BENIGN, task_id="t2", policy="after", outcome={"goal": 1.0}, **fields),
    ]


def step_record(step: int, steps: int) -> dict[str, float | None]:
    """A plausible step: rates that rise, with noise and a step without harmful tasks now and then."""
    rng, done = Random(step), 1 - math.exp(-3 * step / steps)

    def near(value: float, noise: float = 0.08) -> float:
        return min(1.0, max(0.0, value + rng.gauss(0, noise)))

    return {
        "step": step,
        "loss": rng.gauss(0, 0.02),
        "reward": 3.1 + 0.6 * done + rng.gauss(0, 0.1),
        "r_align": near(0.5, 0.01),
        "r_fmt": near(0.97 + 0.03 * done, 0.01),
        "p_len": near(0.03, 0.01),
        "r_int": None,
        "harmful_refusal": None if step % 9 == 0 else near(0.4 + 0.58 * done),
        "benign_completion": near(0.93 + 0.04 * done, 0.03),
        "attack_success": near(0.6 - 0.55 * done),
        "wrong_guess": near(0.62 - 0.5 * done),
        "tokens_per_second": 5200 + rng.gauss(0, 200),
        "model_share": 0.91,
        "seconds": 3.9,
    }


CONFIG = {
    "model_name_or_path": "train/assets/tiny-policy",
    "use_peft": True,
    "lora_r": 16,
    "reward": "pairwise",
    "judge": "oracle",
    "outcome_gate": True,
    "worlds": ["mail"],
    "num_generations": 4,
    "scale_rewards": "batch",
    "learning_rate": 0.001,
    "beta": 0.0,
    "seed": 1,
    "max_steps": 60,
    "output_dir": "/somewhere/private/runs/quickstart",
    "api_key": "do-not-show",
}
