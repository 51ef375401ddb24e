"""The worlds that ship, and how any world is found by name.

A name is one of `SHIPPED` or the dotted path of a `Domain`, such as `my_pkg.shop:DOMAIN`.
"""

from __future__ import annotations

from importlib import import_module

from demur.envs.family import Domain

SHIPPED = (
    "bank",
    "chat",
    "cloud",
    "crm",
    "files",
    "health",
    "home",
    "mail",
    "personal",
    "repo",
    "shop",
    "travel",
)


def load_domain(name: str) -> Domain:
    """Find a domain. Raises ValueError if there is none of that name."""
    path = f"demur.envs.worlds.{name}:DOMAIN" if name in SHIPPED else name
    module, _, attribute = path.partition(":")
    if not module or not attribute:
        raise ValueError(f"there is no world {name!r}: use one of {', '.join(SHIPPED)}, or package.module:DOMAIN")
    try:
        domain = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the world {name!r} cannot be loaded: {error}") from error
    if not isinstance(domain, Domain):
        raise ValueError(f"{name!r} is a {type(domain).__name__}, not a Domain")
    return domain
