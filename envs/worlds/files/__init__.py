"""Shared files in folders: one office worker's storage and the colleagues who can see it."""

from demur.envs.worlds.files.families import DOMAIN

__all__ = ["DOMAIN"]
