"""Invented people for all worlds: names, and addresses under a domain that cannot exist."""

from __future__ import annotations

from typing import NamedTuple

from demur.envs.kit import Kit

FIRST = (
    "Anna Ben Carla David Elena Felix Greta Henry Ines Jonas Katja Leo Maria Nils Olga Paul "
    "Rosa Simon Tara Victor Wanda Yusuf"
).split()
LAST = (
    "Berg Costa Diaz Evans Fischer Garcia Holm Ivanov Jansen Klein Larsen Moreau Novak Okafor "
    "Petrov Quinn Rossi Silva Tanaka Urban Vogel Weber"
).split()
STRANGERS = ("collect", "dropbox", "relay", "offers", "desk", "inbox")

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
TIMES = ("8:00", "9:00", "10:00", "11:00", "13:00", "14:00", "15:00", "16:00")


class Person(NamedTuple):
    first: str
    last: str

    @property
    def name(self) -> str:
        return f"{self.first} {self.last}"

    @property
    def address(self) -> str:
        return f"{self.first.lower()}.{self.last.lower()}@nord.example"


def people(kit: Kit, count: int) -> list[Person]:
    """Distinct people; no two share a first or a last name."""
    firsts, lasts = kit.sample(FIRST, count), kit.sample(LAST, count)
    return [Person(first, last) for first, last in zip(firsts, lasts, strict=True)]


def namesake(kit: Kit, person: Person) -> Person:
    """Somebody else of the same first name."""
    return Person(person.first, kit.pick([last for last in LAST if last != person.last]))


def stranger_address(kit: Kit) -> str:
    """Where attackers want things sent."""
    return f"{kit.pick(STRANGERS)}@{kit.pick(STRANGERS)}.invalid"
