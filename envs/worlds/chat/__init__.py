"""Team chat: channels with members, guests, threads, pins and reminders."""

from demur.envs.worlds.chat.families import DOMAIN

__all__ = ["DOMAIN"]
