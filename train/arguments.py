"""What a training run can be told, beyond what TRL's own configurations offer.

Each entry point is called as `--config file.yaml --any_key value`; keys come from the classes below, from
TRL's `GRPOConfig` or `SFTConfig`, and from TRL's `ModelConfig` (LoRA: `use_peft`, `lora_r`, …).
"""

from __future__ import annotations

import re
import sys
from argparse import Action
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, NoReturn

import yaml
from trl import GRPOConfig, SFTConfig, TrlParser

from demur.envs.episode import PromptOptions
from demur.envs.guards import Guard
from demur.envs.guards.provenance import provenance_guard
from demur.envs.intent.decoys import DecoySplit
from demur.envs.intent.guard import ContractGuard
from demur.envs.task import Task
from demur.envs.taskset import LEVELS, Mix, make_tasks
from demur.envs.trace import Label
from demur.envs.worlds import SHIPPED
from demur.rewards.parts import EVERY_INTENT_TERM, INTENT_TERMS, IntentTerm
from demur.train.folder import RunFolder
from demur.train.judging import JudgeArguments
from demur.train.scratch import Scratch


@dataclass
class TaskArguments:
    """Which tasks, and how they are put to the policy."""

    run: str = field(
        default="runs/quickstart", metadata={"help": "Folder of the run; everything it writes goes there."}
    )
    worlds: list[str] = field(
        default_factory=lambda: list(SHIPPED),
        metadata={"help": "Worlds to draw tasks from: shipped names, or package.module:DOMAIN of your own."},
    )
    train_benign: int = field(default=400, metadata={"help": "Benign training tasks."})
    train_harmful: int = field(default=300, metadata={"help": "Harmful training tasks."})
    train_injected: int = field(default=200, metadata={"help": "Training tasks with an injection."})
    train_underspecified: int = field(default=200, metadata={"help": "Training tasks that lack a value."})
    world_weights: list[float] = field(
        default_factory=list, metadata={"help": "A share for each world, in the order of --worlds. Default: equal."}
    )
    levels: list[int] = field(
        default_factory=lambda: list(LEVELS), metadata={"help": "Levels of difficulty to draw from, 1 to 5."}
    )
    chinese: float = field(default=0.0, metadata={"help": "Share of Chinese queries in worlds that have them, 0 to 1."})
    curriculum: bool = field(default=False, metadata={"help": "Train on easy tasks first, not in a mixed order."})
    rename_tools: bool = field(default=False, metadata={"help": "Give the tools of each task made-up names."})
    shuffle_tools: bool = field(default=False, metadata={"help": "Put the tools of each task in another order."})
    offered_tools: int = field(
        default=0, metadata={"help": "Tools of the world on offer in a task, 0 for all; needed ones always are."}
    )
    prompt: Literal["full", "compact"] = field(
        default="full",
        metadata={"help": "System prompt: rules and JSON schemas, or only tool names (small warmed-up models)."},
    )
    safety_thoughts: bool = field(
        default=True, metadata={"help": "Offer the check; False (the ablation): a turn with one is malformed."}
    )
    refusal: bool = field(default=True, metadata={"help": "Offer refuse_unsafe_task. False is the ablation."})
    asking: bool = field(default=True, metadata={"help": "Offer ask_user. False is the ablation."})
    turn_limit: int = field(default=8, metadata={"help": "Turns after which an episode is cut off."})
    max_turn_tokens: int = field(default=512, metadata={"help": "Tokens a policy may write in one turn."})
    dry_run: bool = field(default=False, metadata={"help": "Print the resolved configuration and stop."})
    resume: bool = field(default=False, metadata={"help": "Go on from the run's last checkpoint."})
    overwrite: bool = field(default=False, metadata={"help": "Delete what the run folder holds and start anew."})

    def __post_init__(self) -> None:
        for key in ("turn_limit", "max_turn_tokens"):
            if getattr(self, key) < 1:
                raise ValueError(f"{key} must be at least 1, not {getattr(self, key)}")
        if not 0 <= self.chinese <= 1:
            raise ValueError(f"chinese must be from 0 to 1, not {self.chinese}")
        self.mix()
        if not self.counts:
            raise ValueError("there is nothing to train on: set --train_benign or another --train_… above 0")

    @property
    def counts(self) -> dict[Label, int]:
        """Training tasks by label, without the labels that have none."""
        every = {label: int(getattr(self, f"train_{label}")) for label in Label}
        return {label: count for label, count in every.items() if count > 0}

    @property
    def prompt_options(self) -> PromptOptions:
        return PromptOptions(style=self.prompt, safety_thoughts=self.safety_thoughts)

    def mix(self) -> Mix:
        return Mix(
            weights=self.world_weights,
            levels=self.levels,
            languages={"en": 1 - self.chinese, "zh": self.chinese} if self.chinese else None,
            curriculum=self.curriculum,
            rename_tools=self.rename_tools,
            shuffle_tools=self.shuffle_tools,
            offered_tools=self.offered_tools,
        )

    def tasks(self, split: str, counts: Mapping[Label, int], seed: int) -> list[Task]:
        """Tasks of the run's mixture, with its turn limit and switches."""
        return [
            replace(task, turn_limit=self.turn_limit, offers_refusal=self.refusal, offers_asking=self.asking)
            for task in make_tasks(self.worlds, split, counts, seed, self.mix())
        ]

    def complete(self, args: GRPOConfig, weights: Sequence[float], folder: RunFolder) -> GRPOConfig:
        """Set what follows from our own keys: where checkpoints go, turn length, weights, logging."""
        args.output_dir = str(folder.checkpoints)
        args.generation_kwargs = {
            **(args.generation_kwargs or {}),
            "max_tokens" if args.use_vllm else "max_new_tokens": self.max_turn_tokens,
        }
        align, form, length, intent = weights
        args.reward_weights = [align, form, -length, intent]
        args.logging_steps, args.report_to, args.disable_tqdm = 1, [], True
        args.shuffle_dataset = not self.curriculum
        return args


@dataclass
class GRPOArguments(GRPOConfig):
    """TRL's configuration with one other default: scaling by the group brings back the advantages that the
    outcome gate takes away, since dividing by a tiny deviation makes them large."""

    scale_rewards: str = field(
        default="batch", metadata={"help": "Divide advantages by the deviation of the batch, the group, or none."}
    )


@dataclass
class RewardArguments:
    """How rollouts are rewarded, and how the run is judged before and after."""

    reward: Literal["pairwise", "pointwise", "outcome"] = field(
        default="pairwise",
        metadata={"help": "Alignment: preferences within a group, a score a rollout, or facts alone."},
    )
    outcome_gate: bool = field(
        default=True, metadata={"help": "In a group without an acceptable rollout only the format counts."}
    )
    align_weight: float = field(default=3.0, metadata={"help": "w_a, weight of the alignment in [0, 1]."})
    format_weight: float = field(default=2.0, metadata={"help": "w_f, weight of the format in [0, 1]."})
    length_weight: float = field(default=1.0, metadata={"help": "w_l, weight of the length penalty."})
    intent_weight: float = field(default=0.0, metadata={"help": "λ, weight of the intent part in [-1, 1]."})
    intent_terms: list[str] = field(
        default_factory=lambda: list(INTENT_TERMS),
        metadata={"help": "Terms of the intent part that count: adherence, acted, earliness; guarded, with a guard."},
    )
    intent_scores: bool = field(
        default=False, metadata={"help": "Let a frozen scorer read the rollouts for the term acted."}
    )
    intent_decoys: DecoySplit = field(default="train", metadata={"help": "Intent tools that the scorer looks for."})
    intent_model: str = field(
        default="", metadata={"help": "Another model as the scorer. Default: the policy as it was before training."}
    )
    intent_eval: bool = field(
        default=False,
        metadata={"help": "Let a frozen scorer read the evaluation, too, with both sets of intent tools."},
    )
    guard: Literal["none", "contract", "provenance"] = field(
        default="none", metadata={"help": "Who checks each call of rollouts and evaluations before it runs."}
    )
    length_budget: int = field(default=400, metadata={"help": "L0, tokens a turn may take for free."})
    eval_benign: int = field(default=200, metadata={"help": "Benign test tasks."})
    eval_harmful: int = field(default=200, metadata={"help": "Harmful test tasks."})
    eval_injected: int = field(default=100, metadata={"help": "Test tasks with an injection."})
    eval_underspecified: int = field(default=100, metadata={"help": "Test tasks that lack a value."})
    eval_batch: int = field(default=64, metadata={"help": "Episodes evaluated at once."})
    min_valid_turns: float = field(
        default=0.9, metadata={"help": "Do not start from a policy that writes fewer valid turns than this."}
    )
    min_completion: float = field(
        default=0.5,
        metadata={"help": "Do not start from a policy that completes fewer benign tasks than this."},
    )
    wandb: bool = field(
        default=False, metadata={"help": "Log to Weights & Biases; offline unless WANDB_API_KEY is set."}
    )

    def __post_init__(self) -> None:
        if not self.eval_counts:
            raise ValueError("there is nothing to evaluate: set --eval_benign or another --eval_… above 0")
        self._check_intent()

    def _check_intent(self) -> None:
        unknown = sorted(set(self.intent_terms) - set(EVERY_INTENT_TERM))
        if unknown:
            raise ValueError(f"intent_terms must be of {', '.join(EVERY_INTENT_TERM)}, not {unknown[0]!r}")
        if self.intent_scores and (self.intent_weight <= 0 or "acted" not in self.intent_terms):
            raise ValueError(
                "intent_scores would be computed and not count: set --intent_weight above 0 and keep acted among "
                "--intent_terms, or leave --intent_scores out"
            )
        if "guarded" in self.intent_terms and self.guard == "none":
            raise ValueError(
                "the intent term guarded counts a guard's verdicts: set --guard contract or --guard provenance, "
                "or take it out of --intent_terms"
            )
        if self.intent_model and not (self.intent_scores or self.intent_eval):
            raise ValueError(
                "intent_model would score nothing: set --intent_scores or --intent_eval true, or leave it out"
            )

    @property
    def weights(self) -> tuple[float, float, float, float]:
        """w_a, w_f, w_l, λ."""
        return self.align_weight, self.format_weight, self.length_weight, self.intent_weight

    @property
    def counted_intent(self) -> tuple[IntentTerm, ...]:
        return tuple(term for term in EVERY_INTENT_TERM if term in self.intent_terms)

    def make_guard(self) -> Guard | None:
        """The guard in front of rollouts and evaluations, None for none."""
        if self.guard == "none":
            return None
        return ContractGuard() if self.guard == "contract" else provenance_guard()

    @property
    def eval_counts(self) -> dict[Label, int]:
        every = {label: int(getattr(self, f"eval_{label}")) for label in Label}
        return {label: count for label, count in every.items() if count > 0}


@dataclass
class WarmUpArguments:
    """What demonstrations show, and the sizes of a model made from nothing."""

    expert_benign: float = field(default=1.0, metadata={"help": "Share of benign demonstrations done right."})
    expert_harmful: float = field(default=1.0, metadata={"help": "Share of harmful tasks refused."})
    expert_injected: float = field(default=1.0, metadata={"help": "Share of injections ignored."})
    expert_underspecified: float = field(default=1.0, metadata={"help": "Share of missing values asked for."})
    check_share: float = field(default=0.1, metadata={"help": "Share of harmless calls with a check before them."})
    declare_share: float = field(
        default=0.0, metadata={"help": "Share of demonstrations that offer intent tools and call one before a harm."}
    )
    eval_per_label: int = field(default=50, metadata={"help": "Validation tasks a label, played at the end."})
    from_scratch: bool = field(default=False, metadata={"help": "Make a new small model and tokenizer."})
    layers: int = field(default=3, metadata={"help": "Layers of a new model."})
    width: int = field(default=128, metadata={"help": "Width of a new model."})
    heads: int = field(default=4, metadata={"help": "Attention heads of a new model."})
    hidden: int = field(default=384, metadata={"help": "Width of a new model's feed-forward part."})
    muon_learning_rate: float = field(
        default=0.0, metadata={"help": "Above 0: train the layers' matrices with Muon at this rate (small new models)."}
    )
    vocabulary: int = field(default=2048, metadata={"help": "Most tokens of a new tokenizer."})
    context: int = field(default=1024, metadata={"help": "Tokens of an episode that a new model can read."})

    @property
    def expert_share(self) -> dict[Label, float]:
        return {label: float(getattr(self, f"expert_{label}")) for label in Label}

    @property
    def eval_counts(self) -> dict[Label, int]:
        return dict.fromkeys(Label, self.eval_per_label)

    @property
    def sizes(self) -> Scratch:
        return Scratch(**{entry.name: getattr(self, entry.name) for entry in fields(Scratch)})

    def complete(self, args: SFTConfig, folder: RunFolder, curriculum: bool = False) -> SFTConfig:
        """Set what follows from our own keys; demonstrations come with their labels."""
        args.output_dir = str(folder.checkpoints)
        args.dataset_kwargs = {"skip_prepare_dataset": True}
        args.report_to, args.disable_tqdm = [], True
        if curriculum:
            args.train_sampling_strategy = "sequential"
        return args


def parse(classes: Sequence[type], argv: Sequence[str] | None = None) -> tuple[Any, ...]:
    """Read the command line and its `--config` file.

    Returns an object a class and, last, the resolved configuration: every key that was given or that we
    define, with its value. Raises ValueError for what is not understood.
    """
    argv = list(sys.argv[1:] if argv is None else argv)
    _check_config_file(argv, classes)
    # TRL insists on a folder of its own; ours is `run`
    if not any(word.startswith("--output_dir") for word in argv):
        argv += ["--output_dir", "unset"]
    parser = _Parser(classes)
    try:
        *parsed, unknown = parser.parse_args_and_config(argv, return_remaining_strings=True)
    except ValueError as error:
        raise ValueError(_clearer(str(error))) from error
    if unknown:
        flag = next((word for word in unknown if word.startswith("--")), unknown[0]).partition("=")[0]
        known = {entry.name for one in classes for entry in fields(one)} | {"config"}
        raise ValueError(f"there is no flag {flag}{_suggestion(flag.lstrip('-'), known)}")
    return *parsed, _resolved(classes, parser)


class _Parser(TrlParser):
    """TRL's parser, which says what is wrong in one line and not with pages of usage."""

    given: dict[str, Any]
    """All values as they were given, before TRL derives others from them."""

    def __init__(self, classes: Sequence[type]) -> None:
        super().__init__(list(classes), allow_abbrev=False)
        # of two flags for one value, such as --bf16 and --no_bf16, the first has the default
        self.defaults = {action.dest: action.default for action in reversed(self._actions)}

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        values, rest = super().parse_known_args(args, namespace)
        self.given = dict(vars(values))
        if self.given["dry_run"]:
            values.use_cpu = True  # a configuration for GPUs can be looked at without one
        return values, rest

    def set_defaults_with_config(self, **kwargs: Any) -> list[str]:
        """argparse checks the values of flags; this checks those of the file."""
        for action in self._actions:
            if kwargs.get(action.dest) is not None:
                kwargs[action.dest] = _checked(action, kwargs[action.dest])
        unused: list[str] = super().set_defaults_with_config(**kwargs)
        return unused


def _checked(action: Action, value: Any) -> Any:
    """A value from YAML as the argument takes it. Raises ValueError; a text is left to argparse."""
    if action.choices is not None:
        known = list(map(str, action.choices))
        if str(value) not in known:
            close = _suggestion(str(value), set(known))
            raise ValueError(f"{action.dest} must be one of {', '.join(known)}, not {value!r}{close}")
    elif action.nargs == "+":
        return value if isinstance(value, list) else [value]
    elif (kind := getattr(action.type, "__name__", "")) in _KINDS and not isinstance(value, str):
        types, words = _KINDS[kind]
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ValueError(f"{action.dest} must be {words}, not {value!r}")
    return value


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "string_to_bool": ((bool,), "true or false"),  # the parser's own function for switches
}
"""What a value may be, by the name of the function that reads it from a flag."""


def _clearer(message: str) -> str:
    """Messages of TRL that do not name the keys to change."""
    batch = re.match(r"generation_batch_size \((\d+)\) must be divisible by num_generations \((\d+)\)", message)
    if batch is None:
        return message
    return (
        f"a batch of {batch[1]} rollouts (per_device_train_batch_size × processes × gradient_accumulation_steps) "
        f"cannot be split into groups of num_generations {batch[2]}: change one of them"
    )


def _resolved(classes: Sequence[type], parser: _Parser) -> dict[str, Any]:
    """The configuration as YAML would hold it; what TRL leaves at its default is left out."""
    keys: dict[str, Any] = {}
    for one in classes:
        ours = issubclass(one, TaskArguments | RewardArguments | JudgeArguments | WarmUpArguments)
        for entry in fields(one):
            if entry.name in _TRANSIENT or entry.name not in parser.given:
                continue
            value = parser.given[entry.name]
            if ours or value != parser.defaults[entry.name]:
                keys[entry.name] = _plain(value)
    return keys


def as_yaml(config: dict[str, Any]) -> str:
    return yaml.safe_dump(config, sort_keys=True, allow_unicode=True)


_TRANSIENT = {"output_dir", "dry_run", "resume", "overwrite", "run", "config", "logging_dir"}


def _check_config_file(argv: Sequence[str], classes: Sequence[type]) -> None:
    """The parser's own messages for a bad file are stack traces; these are sentences."""
    if "--config" not in argv:
        return
    at = list(argv).index("--config") + 1
    if at >= len(argv):
        raise ValueError("--config needs the path of a YAML file behind it")
    path = Path(argv[at])
    if not path.is_file():
        raise ValueError(f"there is no configuration file {path}")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold keys and values, one a line")
    known = {entry.name for one in classes for entry in fields(one)}
    for key in content:
        if key not in known:
            raise ValueError(f"{path}: there is no key {key!r}{_suggestion(str(key), known)}")


def _suggestion(key: str, known: set[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(key, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _plain(value: Any) -> Any:
    """What YAML can spell: enums and paths become text."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, bool | int | float | str):
        return getattr(value, "value", value)
    return str(getattr(value, "value", value))
