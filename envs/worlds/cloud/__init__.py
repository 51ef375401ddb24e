"""A company's cloud account: servers, storage, firewall, users and keys, as an administrator sees it."""

from demur.envs.worlds.cloud.families import DOMAIN

__all__ = ["DOMAIN"]
