"""A code repository with its pull requests, issues, people, dependencies and releases: one maintainer's week."""

from demur.envs.worlds.repo.families import DOMAIN

__all__ = ["DOMAIN"]
