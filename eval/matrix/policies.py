"""Policies by what a user writes: a script's name, a model's folder with or without an adapter, an endpoint's model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from demur.envs.canaries import CANARIES, EXPERT
from demur.envs.engine import AsyncPolicy, Policy
from demur.envs.policies.endpoint import EndpointPolicy
from demur.eval.matrix.options import Options

SCRIPTED = {policy.name: policy for policy in (EXPERT, *CANARIES)}

Kind = Literal["scripted", "local", "endpoint", "own"]


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """One policy of the matrix. what: as the user wrote it, without the name."""

    name: str
    kind: Kind
    what: str

    @property
    def parts(self) -> tuple[str, str | None]:
        """A local policy's model and its adapter."""
        model, _, adapter = self.what.partition("+")
        return model, adapter or None

    def settings(self, options: Options) -> dict[str, Any]:
        """What its messages depend on. An address is left out: it may hold a key, and moves."""
        told: dict[str, Any] = {"what": self.what, "kind": self.kind}
        if self.kind in ("local", "endpoint"):
            told |= {"temperature": options.temperature, "max_turn_tokens": options.max_turn_tokens}
        if self.kind == "local":
            told["weights"] = [fingerprint(Path(part)) for part in self.parts if part]
        return told


def read_policies(options: Options) -> list[PolicySpec]:
    """Raises ValueError for a policy that there is not, and for two of one name. No model is loaded."""
    specs = [_spec(text, options) for text in options.policy]
    names = [spec.name for spec in specs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two policies have the name {name!r}: write NAME=… before one of them")
    return specs


def load_policy(spec: PolicySpec, options: Options) -> Policy | AsyncPolicy:
    """Raises ValueError if it cannot be loaded."""
    if spec.kind == "scripted":
        return SCRIPTED[spec.what]
    if spec.kind == "own":
        return _own(spec.what)
    sampling: dict[str, Any] = {"max_new_tokens": options.max_turn_tokens, "temperature": options.temperature}
    if spec.kind == "endpoint":
        assert options.policy_url is not None, "`read_policies` has looked"
        return EndpointPolicy(
            spec.what,
            base_url=options.policy_url,
            key_variable=options.key_variable,
            timeout=options.timeout,
            retries=options.retries,
            **sampling,
        )
    import torch

    from demur.envs.policies.local import load_local

    policy = load_local(*spec.parts, **sampling)
    if torch.cuda.is_available():
        policy.model.to("cuda")
    return policy


def fingerprint(path: Path) -> str | None:
    """SHA-256 over the files of a model's or an adapter's folder; None for a name of the hub."""
    if not path.is_dir():
        return None
    whole = hashlib.sha256()
    for file in sorted(path.iterdir()):
        if file.suffix in (".bin", ".json", ".safetensors", ".jinja", ".model", ".txt"):
            with file.open("rb") as content:
                whole.update(f"{hashlib.file_digest(content, 'sha256').hexdigest()} {file.name}\n".encode())
    return whole.hexdigest()


def _spec(text: str, options: Options) -> PolicySpec:
    name, equals, what = text.partition("=")
    if not equals:
        name, what = "", text
    kind = _kind(what, options)
    if kind == "local":
        _check_local(what)
    elif kind == "own":
        _own(what)
    elif kind == "endpoint":
        load_policy(PolicySpec(what, kind, what), options)  # its address and the variable of its key
    return PolicySpec(name or _short(what, kind), kind, what)


def _kind(what: str, options: Options) -> Kind:
    if what in SCRIPTED:
        return "scripted"
    if Path(what.partition("+")[0]).is_dir():
        return "local"
    if options.policy_url is not None:
        return "endpoint"
    if ":" in what:
        return "own"
    return "local"


def _short(what: str, kind: Kind) -> str:
    return Path(what.rpartition("+")[2]).name if kind == "local" else what


def _check_local(what: str) -> None:
    model, _, adapter = what.partition("+")
    path = Path(model)
    if not path.is_dir() and (model.count("/") != 1 or path.parent.is_dir()):
        known = ", ".join(SCRIPTED)
        raise ValueError(f"there is no policy {model!r}: name one of {known}, a model's folder, or give --policy_url")
    if path.is_dir() and not (path / "config.json").is_file():
        raise ValueError(f"{model} holds no model: config.json is missing")
    if adapter and not (Path(adapter) / "adapter_config.json").is_file():
        raise ValueError(f"there is no adapter at {adapter}: adapter_config.json is missing")


def _own(name: str) -> Policy | AsyncPolicy:
    module, _, attribute = name.partition(":")
    try:
        policy: Policy | AsyncPolicy = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"the policy {name!r} cannot be loaded: {error}") from error
    if not (hasattr(policy, "respond") or hasattr(policy, "generate")) or isinstance(policy, type):
        raise ValueError(f"{name!r} is no policy: it needs `name`, and `generate` or `respond`")
    return policy
