"""A seeded account: servers in pairs of like names, their storage, and the people who may use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from demur.envs.kit import Kit
from demur.envs.world import Entry
from demur.envs.worlds.cloud.world import (
    OWNER,
    Alert,
    CloudWorld,
    Key,
    Page,
    Process,
    Rule,
    Server,
    Snapshot,
    User,
    Volume,
)
from demur.envs.worlds.people import Person

TEAM, OTHER_TEAM = "platform", "research"
SIZES = ("small", "medium", "large", "huge")
MONTHS = ("January", "February", "March", "April", "May")
PORTS = (22, 443, 5432, 6379, 8080, 8443, 9200)
NETWORKS = ("192.0.2", "198.51.100", "203.0.113")

E = TypeVar("E", bound=Entry)


def login(person: Person) -> str:
    return person.address.partition("@")[0]


def address(kit: Kit) -> str:
    """One that no rule of the account names yet."""
    return f"{kit.pick(NETWORKS)}.{kit.rng.randrange(2, 100)}"


def day(kit: Kit, month: str) -> str:
    return f"{kit.rng.randrange(1, 29)} {month}"


def keyed(kit: Kit, letter: str, entries: Sequence[E]) -> dict[str, E]:
    """The entries in a random order, under ids that count up."""
    ids = sorted(kit.sample(range(10, 100), len(entries)))
    return {f"{letter}{i}": entry for i, entry in zip(ids, kit.sample(entries, len(entries)), strict=True)}


def key_of(records: Mapping[str, Entry], wanted: Entry) -> str:
    """The id of this very record."""
    return next(key for key, record in records.items() if record is wanted)


def account(kit: Kit, known: Sequence[Person]) -> CloudWorld:
    """Four services of the user's team and one of another: each has two servers and volumes of almost one name.

    The first three services have a third volume, which no server uses. The last of the people is the owner.
    """
    services = kit.sample(kit.options("services"), 5)
    parts = kit.sample(kit.options("parts"), 5)
    servers, volumes = [], []
    for at, (service, part) in enumerate(zip(services, parts, strict=True)):
        team = OTHER_TEAM if at == 4 else TEAM
        pair = [
            Server(name=name, size=kit.pick(SIZES), team=team, note=kit.words("notes"), log=log(kit))
            for name in numbered(kit, service, 2)
        ]
        users = [pair[0].name, pair[1].name, *([""] if at < 3 else [])]
        names = kit.sample(numbered(kit, f"{service}-{part}", len(users)), len(users))
        servers += pair
        volumes += [
            Volume(name=name, gb=gb, team=team, server=user, note=kit.words("notes"))
            for name, user, gb in zip(names, users, kit.sample(range(40, 900, 10), len(users)), strict=True)
        ]
    return CloudWorld(
        team=TEAM,
        today=day(kit, "June"),
        servers=keyed(kit, "s", servers),
        volumes=keyed(kit, "v", volumes),
        snapshots=keyed(kit, "n", [one for volume in volumes[:4] for one in snapshots(kit, volume)]),
        rules=keyed(kit, "r", [rule(kit, server) for server in kit.sample(servers, 8)]),
        users=keyed(kit, "u", users_of(known)),
        keys=keyed(kit, "k", [key for person in known for key in keys(kit, person)]),
        alerts=keyed(kit, "a", alerts(kit, servers)),
        processes=keyed(kit, "p", [one for server in servers[:8:2] for one in processes(kit, server)]),
        pages=keyed(kit, "g", pages(kit, servers)),
    )


def numbered(kit: Kit, stem: str, count: int) -> list[str]:
    """Names that differ in their last digit only."""
    tens = kit.rng.randrange(1, 10)
    return [f"{stem}-{tens}{digit}" for digit in sorted(kit.sample(range(1, 10), count))]


def log(kit: Kit) -> str:
    hours = sorted(kit.sample(range(24), 7))
    lines = kit.sample(kit.options("log_lines"), 7)
    return "\n".join(f"{hour:02d}:{kit.rng.randrange(60):02d} {line}" for hour, line in zip(hours, lines, strict=True))


def snapshots(kit: Kit, volume: Volume) -> list[Snapshot]:
    """Three of them, a month or more apart."""
    return [Snapshot(volume=volume.name, day=day(kit, month), team=volume.team) for month in kit.sample(MONTHS, 3)]


def rule(kit: Kit, server: Server) -> Rule:
    source = f"{kit.pick(NETWORKS)}.{kit.rng.randrange(100, 255)}"
    return Rule(server=server.name, port=kit.pick(PORTS), source=source, state=kit.pick(["on", "on", "off"]))


def users_of(known: Sequence[Person]) -> list[User]:
    return [
        User(name=person.name, login=login(person), role=OWNER if person is known[-1] else "viewer") for person in known
    ]


def keys(kit: Kit, person: Person) -> list[Key]:
    """Two for everybody, last used in different months."""
    labels, months = kit.sample(kit.options("labels"), 2), kit.sample(MONTHS, 2)
    return [
        Key(user=login(person), label=label, last_used=day(kit, month))
        for label, month in zip(labels, months, strict=True)
    ]


def alerts(kit: Kit, servers: Sequence[Server]) -> list[Alert]:
    names = kit.options("alert_names")
    return [
        Alert(name=name, server=server.name, note=kit.words("alert_notes"))
        for name, server in zip(names, kit.sample(servers[:8], len(names)), strict=True)
    ]


def processes(kit: Kit, server: Server) -> list[Process]:
    """Three, under numbers that differ in one digit."""
    first, digits = kit.rng.randrange(100, 999), kit.sample(range(10), 3)
    return [
        Process(server=server.name, name=name, pid=first * 10 + digit, load=kit.words("loads"))
        for name, digit in zip(kit.sample(kit.options("process_names"), 3), digits, strict=True)
    ]


def pages(kit: Kit, servers: Sequence[Server]) -> list[Page]:
    """Two tickets whose numbers are easily confused, and a plan."""
    hundreds, one, two = kit.rng.randrange(10, 99), *kit.sample(range(1, 10), 2)
    tickets = [
        Page(
            title=f"ticket {number}",
            text=kit.words(
                "tickets", number=number, server=server.name, port=kit.pick(PORTS[1:]), address=address(kit)
            ),
        )
        for number, server in zip((f"{hundreds}{one}{two}", f"{hundreds}{two}{one}"), servers, strict=False)
    ]
    sizes = "\n".join(f"{server.name}: {size_but(kit, server.size)}" for server in servers)
    return [
        *tickets,
        Page(title=kit.words("plan_titles"), text=kit.words("plans_of_sizes", sizes=sizes)),
    ]


def size_but(kit: Kit, size: str) -> str:
    return kit.pick([other for other in SIZES if other != size])
