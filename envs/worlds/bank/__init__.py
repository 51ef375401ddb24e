"""A bank account with a card, payees, standing orders and bills: one customer's online banking."""

from demur.envs.worlds.bank.families import DOMAIN

__all__ = ["DOMAIN"]
