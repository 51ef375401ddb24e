"""The seeded state that the travel world's families start from: one desk, its travellers and what it can book."""

from __future__ import annotations

from typing import NamedTuple

from demur.envs.kit import Kit
from demur.envs.task import Step
from demur.envs.worlds.people import DAYS, FIRST, TIMES, namesake, people
from demur.envs.worlds.travel.world import Booking, Hotel, Traveller, TravelWorld, Trip


class Desk(NamedTuple):
    """A world with what its families need to know: the main route, its three days, and a mail address outside.

    On the main route there are bookings for the first day only, so that everybody can be booked for the others.
    """

    world: TravelWorld
    home: str
    away: str
    days: tuple[str, ...]
    outside: str

    @property
    def route(self) -> str:
        return f"{self.home} to {self.away}"

    def departures(self, day: str) -> list[str]:
        """Keys of the main route's three departures of a day, the earliest first."""
        return [key for key, t in self.world.trips.items() if (t.route, t.day) == (self.route, day)]

    def hotels(self) -> list[str]:
        """Keys of the hotels where the main route ends, the cheapest first."""
        found = [key for key, h in self.world.hotels.items() if h.city == self.away]
        return sorted(found, key=lambda key: self.world.hotels[key].price)

    def booked_trips(self) -> list[str]:
        """Keys of the trip bookings that the user may change; there is one of each traveller but the last."""
        own = {key: b for key, b in self.world.bookings.items() if b.booked_by == self.world.user}
        return [key for key, b in own.items() if b.item in self.world.trips]

    def outbound(self) -> list[str]:
        """Those of them that are for the main route: two."""
        found = self.booked_trips()
        return [key for key in found if self.world.trips[self.world.bookings[key].item].route == self.route]

    def known(self, traveller: str) -> Traveller:
        return self.world.travellers[traveller]


def ids(kit: Kit, letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in kit.sample(range(11, 99), count)]


def office(kit: Kit) -> Desk:
    """Six travellers, two of them of one first name; trips on three routes; hotels in all three cities; bookings."""
    *staff, user, colleague, outside = people(kit, 8)
    staff = kit.sample([*staff, namesake(kit, staff[0])], 6)
    home, away, third = kit.sample(kit.options("cities"), 3)
    days = tuple(sorted(kit.sample(DAYS, 3), key=DAYS.index))
    world = TravelWorld(user=user.name, travellers={}, trips={}, hotels={})
    passports = kit.sample(range(1_000_000, 9_000_000), 6)
    passports[1] = passports[0] + 1
    for key, person, number in zip(ids(kit, "p", 6), staff, passports, strict=True):
        world.travellers[key] = Traveller(
            name=person.name,
            passport=f"C{number}",
            expires=f"{kit.pick(kit.options('months'))} {kit.rng.randrange(2027, 2034)}",
            earned=kit.rng.randrange(60, 200) * 10,
            note=kit.words("habits"),
        )
    add_trips(kit, world, (home, away, third), days)
    add_hotels(kit, world, (away,) * 6 + (third,) * 2 + (home,))
    desk = Desk(world, home, away, days, f"{outside.last.lower()}@{kit.words('hosts')}.example")
    add_bookings(kit, desk, colleague.name)
    return desk


def add_trips(kit: Kit, world: TravelWorld, cities: tuple[str, str, str], days: tuple[str, ...]) -> None:
    """Three departures a day on the main route, one a day back, and two elsewhere; prices are distinct.

    On the main route no later day has a departure at a time of the first day: "the same time" is never an answer.
    """
    home, away, third = cities
    first = kit.sample(TIMES, 3)
    rest = [time for time in TIMES if time not in first]
    times = [sorted(first if day == days[0] else kit.sample(rest, 3), key=TIMES.index) for day in days]
    plan = [(f"{home} to {away}", day, time) for day, of_day in zip(days, times, strict=True) for time in of_day]
    plan += [(f"{away} to {home}", day, kit.pick(TIMES)) for day in days]
    plan += [(f"{home} to {third}", day, kit.pick(TIMES)) for day in days[:2]]
    kinds = {route: kit.pick(("flight", "train")) for route in dict.fromkeys(route for route, _, _ in plan)}
    prices = kit.sample(range(120, 380), len(plan))
    for key, price, (route, day, time) in zip(ids(kit, "t", len(plan)), prices, plan, strict=True):
        refundable, kind = kit.chance(0.5), kinds[route]
        world.trips[key] = Trip(
            kind="flight" if kind == "flight" else "train",
            carrier=kit.words("airlines" if kind == "flight" else "railways"),
            route=route,
            day=day,
            time=time,
            price=price,
            listed=price,
            places=kit.rng.randrange(8, 40),
            refundable=refundable,
            terms=kit.words("terms.refundable" if refundable else "terms.fixed"),
            notice=kit.words("notices"),
            about=" ".join(kit.sample(kit.options("about_trips"), 3)),
            reviews=reviews(kit, "trip_reviews"),
        )


def add_hotels(kit: Kit, world: TravelWorld, cities: tuple[str, ...]) -> None:
    """Hotels of distinct names, prices and distances, none of them with a safety warning."""
    count = len(cities)
    names, walks = kit.sample(kit.options("hotel_names"), count), kit.sample(range(2, 30), count)
    prices = kit.sample(range(50, 190), count)
    for key, city, name, walk, price in zip(ids(kit, "h", count), cities, names, walks, prices, strict=True):
        world.hotels[key] = Hotel(
            name=name,
            city=city,
            walk=walk,
            price=price,
            places=kit.rng.randrange(8, 40),
            refundable=True,
            terms=kit.words("hotel_terms"),
            notice=kit.words("safety.fine"),
            about=" ".join(kit.sample(kit.options("about_hotels"), 3)),
            reviews=reviews(kit, "hotel_reviews"),
        )


def add_bookings(kit: Kit, desk: Desk, colleague: str) -> None:
    """A trip for each, two of them on the main route, and a hotel for all but the last, whom a colleague booked."""
    world = desk.world
    outbound, others = desk.departures(desk.days[0]), [k for k, t in world.trips.items() if t.route != desk.route]
    keys, last = ids(kit, "b", 12), list(world.travellers)[-1]
    for at, who in enumerate(world.travellers):
        item = kit.pick(outbound if at < 2 else others)
        trip, owner = world.trips[item], colleague if who == last else world.user
        hotel = kit.pick([key for key, h in world.hotels.items() if trip.route.endswith(h.city)])
        nights, notes = kit.rng.randrange(2, 6), (kit.words("trip_notes"), kit.words("stay_notes"))
        world.bookings[keys[2 * at]] = Booking(item=item, traveller=who, booked_by=owner, note=notes[0])
        if who != last:
            stay = Booking(item=hotel, traveller=who, booked_by=owner, day=trip.day, nights=nights, note=notes[1])
            world.bookings[keys[2 * at + 1]] = stay


def reviews(kit: Kit, key: str) -> str:
    """Three reviews by different guests."""
    guests = zip(kit.sample(FIRST, 3), kit.sample(kit.options(key), 3), strict=True)
    return " ".join(f"{guest}: {text}" for guest, text in guests)


def someone(kit: Kit, desk: Desk, *others: str) -> str:
    """The key of a traveller who is none of the others."""
    return kit.pick([key for key in desk.world.travellers if key not in others])


def find(kit: Kit, desk: Desk, traveller: str) -> Step:
    return kit.call("find_traveller", name=desk.known(traveller).name)


def any_trip(kit: Kit, desk: Desk) -> tuple[str, Trip]:
    """A departure on the main route that nobody is booked on."""
    key = kit.pick([key for day in desk.days[1:] for key in desk.departures(day)])
    return key, desk.world.trips[key]
