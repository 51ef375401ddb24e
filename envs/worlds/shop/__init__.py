"""A web shop's customer service: orders, refunds, vouchers, addresses and reviews."""

from demur.envs.worlds.shop.families import DOMAIN

__all__ = ["DOMAIN"]
