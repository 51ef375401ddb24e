"""Health records of a practice, as the assistant of its staff sees them."""

from demur.envs.worlds.health.families import DOMAIN

__all__ = ["DOMAIN"]
