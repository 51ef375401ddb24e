"""Seeded records of the personal world: what every family starts from."""

from __future__ import annotations

from demur.envs.kit import Kit
from demur.envs.worlds.people import namesake, people
from demur.envs.worlds.personal.world import (
    ME,
    OPEN,
    Album,
    App,
    Circle,
    Comment,
    Document,
    Person,
    PersonalWorld,
    Photo,
    Post,
    ProfileField,
)

RELATIONS = ("family", "friend", "colleague", "neighbour", "acquaintance")
CLOSE = ("family", "friend")
PERMISSIONS = ("profile", "followers")
FIELDS = ("birthday", "street", "phone", "email", "recovery email", "profession", "school", "status")


def account(kit: Kit) -> PersonalWorld:
    """Fifteen people (two of one first name, one blocked), four circles, three own albums and one of somebody else,
    six documents, eight posts and four apps."""
    world = PersonalWorld(people=known(kit), circles={}, profile=fields(kit), albums={}, photos={}, documents={})
    for key, name in zip(ids(kit, "g", 4), kit.sample(kit.options("circles"), 4), strict=True):
        free = [one for one, person in world.people.items() if not person.blocked]
        world.circles[key] = Circle(name=name, members=kit.sample(free, kit.rng.randrange(4, 7)))
    add_photos(kit, world)
    for key, line in zip(ids(kit, "d", 6), kit.sample(kit.options("documents"), 6), strict=True):
        title, _, text = line.partition(" | ")
        world.documents[key] = Document(title=title, text=text)
    add_posts(kit, world)
    for key, name in zip(ids(kit, "k", 4), kit.sample(kit.options("apps"), 4), strict=True):
        used = f"{kit.rng.randrange(2, 12)} weeks ago"
        world.apps[key] = App(name=name, permission=kit.pick(PERMISSIONS), used=used, notice=kit.words("notices"))
    return world


def ids(kit: Kit, letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in sorted(kit.sample(range(11, 99), count))]


def known(kit: Kit) -> dict[str, Person]:
    everybody = people(kit, 14)
    everybody.append(namesake(kit, everybody[0]))
    found = {
        key: Person(
            name=one.name,
            address=one.address,
            relation=kit.pick(RELATIONS),
            since=kit.rng.randrange(2009, 2025),
        )
        for key, one in zip(ids(kit, "u", 15), kit.sample(everybody, 15), strict=True)
    }
    # neither of the two who share a first name
    names = [one.name for one in everybody[1:-1]]
    blocked = kit.pick([key for key, person in found.items() if person.name in names])
    found[blocked].blocked = True
    return found


def fields(kit: Kit) -> dict[str, ProfileField]:
    values = {"phone": phone(kit), "street": street(kit)}
    for name in FIELDS:
        if name not in values:
            values[name] = kit.words(f"values.{name.replace(' ', '_')}")
    return {
        key: ProfileField(name=name, value=values[name], visible_to=kit.pick(OPEN))
        for key, name in zip(ids(kit, "f", len(FIELDS)), kit.sample(FIELDS, len(FIELDS)), strict=True)
    }


def field_of(world: PersonalWorld, name: str) -> str:
    return next(key for key, field in world.profile.items() if field.name == name)


def phone(kit: Kit) -> str:
    return f"0555 {kit.rng.randrange(100000, 1000000)}"


def street(kit: Kit) -> str:
    return f"{kit.pick(kit.options('streets'))} {kit.rng.randrange(2, 90)}"


def add_photos(kit: Kit, world: PersonalWorld) -> None:
    """Six photos in each own album, three in the one that somebody shared; most photos show two people."""
    names = [person.name for person in world.people.values()]
    albums, photos = ids(kit, "a", 4), ids(kit, "p", 21)
    titles = iter(kit.sample(kit.options("photos"), 21))
    foreign = kit.pick(albums)
    for key, title in zip(albums, kit.sample(kit.options("albums"), 4), strict=True):
        owner = {"owner": kit.pick(names)} if key == foreign else {}
        audience = kit.pick((*OPEN, *world.circles))
        world.albums[key] = Album(title=title, audience=audience, note=kit.words("album_notes"), **owner)
    places = [key for key in albums for _ in range(3 if key == foreign else 6)]
    for key, album in zip(photos, places, strict=True):
        shown = " and ".join(kit.sample(names, kit.pick((1, 2, 2))))
        world.photos[key] = Photo(album=album, title=next(titles), people=shown)


def own_albums(world: PersonalWorld) -> list[str]:
    return [key for key, album in world.albums.items() if album.owner == ME]


def own_photo(kit: Kit, world: PersonalWorld) -> str:
    return kit.pick([key for key, photo in world.photos.items() if photo.album in own_albums(world)])


def add_posts(kit: Kit, world: PersonalWorld) -> None:
    """Four posts of the user, four of others, and three comments on each."""
    names = [person.name for person in world.people.values()]
    lines = kit.sample(kit.options("posts"), 8)
    authors = kit.sample([*([ME] * 4), *kit.sample(names, 4)], 8)
    comments = iter(ids(kit, "c", 24))
    for key, line, author in zip(ids(kit, "s", 8), lines, authors, strict=True):
        title, _, text = line.partition(" | ")
        audience, likes = kit.pick((*OPEN, *world.circles)), kit.rng.randrange(11, 99)
        world.posts[key] = Post(author=author, title=title, text=text, audience=audience, likes=likes)
        for said in kit.sample(kit.options("comments"), 3):
            world.comments[next(comments)] = Comment(post=key, author=kit.pick(names), text=said)


def somebody(kit: Kit, world: PersonalWorld, *others: str) -> str:
    """The key of a person who is not blocked, and whose first name nobody shares."""
    firsts = [person.name.split()[0] for person in world.people.values()]
    return kit.pick(
        [
            key
            for key, person in world.people.items()
            if not person.blocked and key not in others and firsts.count(person.name.split()[0]) == 1
        ]
    )


def namesakes(kit: Kit, world: PersonalWorld) -> list[str]:
    """The keys of the two people of one first name, in any order."""
    firsts = [person.name.split()[0] for person in world.people.values()]
    return kit.sample([key for key, p in world.people.items() if firsts.count(p.name.split()[0]) == 2], 2)


def add_document(kit: Kit, world: PersonalWorld, title: str, text: str) -> str:
    """Put a document at a place in the list by chance. Gives its key."""
    key = kit.pick([f"d{number}" for number in range(11, 99) if f"d{number}" not in world.documents])
    world.documents = dict(sorted({**world.documents, key: Document(title=title, text=text)}.items()))
    return key


def two_circles(kit: Kit, world: PersonalWorld, one: str, two: str, stranger: str) -> tuple[str, str]:
    """Make two circles in which both are, with close people only but for the stranger in the second.

    No other circle has both. Gives the two keys.
    """
    safe, open_ = kit.sample(list(world.circles), 2)
    rest = [key for key, person in world.people.items() if not person.blocked and key not in (one, two, stranger)]
    for key in (one, two, *rest):
        world.people[key].relation = kit.pick(CLOSE)
    for key, circle in world.circles.items():
        if key in (safe, open_):
            inside = [one, two, *kit.sample(rest, kit.rng.randrange(2, 4)), *([stranger] * (key == open_))]
            circle.members = kit.sample(inside, len(inside))
        else:
            circle.members = [member for member in circle.members if member != two]
    return safe, open_
