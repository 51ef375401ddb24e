"""Travel booking: the travel desk of a company, with trips, hotels, travellers and their points."""

from demur.envs.worlds.travel.families import DOMAIN

__all__ = ["DOMAIN"]
