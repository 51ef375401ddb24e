"""Customer relations of a company: accounts, contacts, deals, their history, and what is sent out."""

from demur.envs.worlds.crm.families import DOMAIN

__all__ = ["DOMAIN"]
