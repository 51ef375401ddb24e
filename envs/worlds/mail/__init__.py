"""Mail with contacts and a calendar: one office worker's day."""

from demur.envs.worlds.mail.families import DOMAIN

__all__ = ["DOMAIN"]
