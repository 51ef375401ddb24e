"""The seeded team that every task of the chat world is about."""

from __future__ import annotations

from dataclasses import dataclass

from demur.envs.kit import Kit
from demur.envs.worlds.chat.world import Channel, ChatWorld, Membership, Message, Profile, Reminder
from demur.envs.worlds.people import DAYS, TIMES, Person, namesake, people


def handle(person: Person) -> str:
    return f"@{person.address.partition('@')[0]}"


@dataclass(slots=True)
class Team:
    """The user and five colleagues, one of whom has a namesake; a colleague to be added; a guest.

    main, side: private channels of projects of their own. pair: two of one project, in one of which, `mixed`,
    the guest is. general: everybody's. The namesake and the newcomer are in that one alone.
    """

    kit: Kit
    world: ChatWorld
    me: Person
    staff: list[Person]
    outsiders: list[Person]
    main: Channel
    side: Channel
    pair: list[Channel]
    mixed: Channel
    general: Channel
    projects: dict[str, str]
    _chatter: list[str]
    _key: int = 10
    _minutes: int = 480

    @property
    def inside(self) -> Channel:
        """The one of the pair without a guest."""
        return next(channel for channel in self.pair if channel is not self.mixed)

    def project(self, channel: Channel) -> str:
        return self.projects[channel.name]

    def talk(self, place: str, writers: list[Person], *special: tuple[Person, str], lines: int = 6) -> list[str]:
        """Messages in a place: so many lines of small talk, and the special ones in between. Gives their keys."""
        small = [(self.kit.pick(writers), self._chatter.pop()) for _ in range(lines)]
        spots = set(self.kit.sample(range(lines + len(special)), len(special)))
        rest, wanted, keys = iter(small), iter(special), []
        for at in range(lines + len(special)):
            key = self.post(place, *next(wanted if at in spots else rest))
            keys += [key] if at in spots else []
        return keys

    def post(self, place: str, author: Person, text: str, *, thread: str = "", pinned: bool = False) -> str:
        """One more message, a while after the last one."""
        self._key += self.kit.rng.randrange(1, 4)
        self._minutes += self.kit.rng.randrange(1, 9)
        at = f"{self._minutes // 60}:{self._minutes % 60:02}"
        self.world.messages[f"m{self._key}"] = Message(
            place=place, author=handle(author), text=text, at=at, thread=thread, pinned=pinned
        )
        return f"m{self._key}"

    def profile(self, person: Person) -> Profile:
        return next(p for p in self.world.people.values() if p.handle == handle(person))


def make_team(kit: Kit) -> Team:
    """A team whose channels hold a few lines each."""
    me, *staff, newcomer, guest = people(kit, 8)
    double = namesake(kit, staff[0])
    projects, suffixes = kit.sample(kit.options("projects"), 3), kit.sample(kit.options("suffixes"), 4)
    topics = kit.sample(kit.options("topics"), 5)
    pair = [
        _channel(f"#{projects[0]}-{suffix}", me, topic) for suffix, topic in zip(suffixes, topics[:2], strict=False)
    ]
    main = _channel(f"#{projects[1]}-{suffixes[2]}", me, topics[2])
    side = _channel(f"#{projects[2]}-{suffixes[3]}", me, topics[3])
    general = Channel(name="#general", owner=handle(staff[1]), private=False, topic=topics[4])
    mixed = kit.pick(pair)
    crews = {
        pair[0].name: [me, *staff[:4]],
        pair[1].name: [me, *staff[1:]],
        main.name: [me, *staff],
        side.name: [me, *staff[:3]],
        general.name: [me, *staff, newcomer, double],
    }
    seats = [(name, person) for name, crew in crews.items() for person in crew] + [(mixed.name, guest)]
    channels = [*pair, main, side, general]
    team = Team(
        kit=kit,
        world=ChatWorld(
            me=handle(me),
            people=_profiles(kit, [me, *staff, newcomer, double], guest),
            channels={f"c{n}": channel for n, channel in enumerate(channels, 1)},
            members={f"k{n}": Membership(channel=name, person=handle(one)) for n, (name, one) in enumerate(seats, 1)},
            reminders={"r1": _reminder(kit, general)},
        ),
        me=me,
        staff=staff,
        outsiders=[newcomer, double],
        main=main,
        side=side,
        pair=pair,
        mixed=mixed,
        general=general,
        _chatter=kit.sample(kit.options("chatter"), len(kit.options("chatter"))),
        projects=dict(zip([c.name for c in channels[:4]], [projects[0], *projects], strict=True)),
    )
    for channel in channels:
        team.talk(channel.name, crews[channel.name], lines=2)
    team.talk(handle(staff[1]), [me, staff[1]], lines=2)
    return team


def _channel(name: str, owner: Person, topic: str) -> Channel:
    return Channel(name=name, owner=handle(owner), private=True, topic=topic)


def _reminder(kit: Kit, channel: Channel) -> Reminder:
    text = f"Please {kit.words('duties')}."
    return Reminder(place=channel.name, by=channel.owner, day=kit.pick(DAYS), time=kit.pick(TIMES), text=text)


def _profiles(kit: Kit, staff: list[Person], guest: Person) -> dict[str, Profile]:
    everybody = kit.sample([*staff, guest], len(staff) + 1)
    return {
        f"p{n}": Profile(
            name=person.name,
            handle=handle(person),
            team=kit.words("teams"),
            company=kit.words("companies") if person is guest else "",
            status=kit.words("statuses"),
        )
        for n, person in enumerate(everybody, 1)
    }
