"""A smart home: its devices, locks, heating, cameras, guests' codes and the log, run for a resident."""

from demur.envs.worlds.home.families import DOMAIN

__all__ = ["DOMAIN"]
