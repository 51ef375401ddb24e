"""A person's own data and social posting: profile, albums, documents, circles, posts and connected apps."""

from demur.envs.worlds.personal.families import DOMAIN

__all__ = ["DOMAIN"]
