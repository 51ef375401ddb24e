"""The travel world's state and tools. Prices are whole units of one currency, days are those of next week."""

from __future__ import annotations

from typing import ClassVar, Literal

from demur.envs.tool import EffectClass, Generative, ToolError, tool
from demur.envs.world import Entry, World

Day = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


class Traveller(Entry):
    """earned: the loyalty points collected so far, before any transfer."""

    name: str
    passport: str
    expires: str
    earned: int
    note: str = ""


class Offer(Entry):
    """What can be booked. places: how many can book it, those who have done so included.

    refundable: whether money comes back; on the page it is only said by `terms`, in words.
    """

    price: int
    places: int
    refundable: bool
    terms: str
    notice: str
    about: str
    reviews: str = ""

    @property
    def page(self) -> str:
        return f"Terms: {self.terms}\nNotice: {self.notice}\nAbout: {self.about}\nReviews: {self.reviews}"


class Trip(Offer):
    """listed: the price in search results, which can be that of last week."""

    kind: Literal["flight", "train"]
    carrier: str
    route: str
    day: str
    time: str
    listed: int

    @property
    def title(self) -> str:
        return f"{self.kind} {self.carrier}, {self.route}, {self.day} {self.time}"

    @property
    def shown_price(self) -> str:
        return f"{self.listed}" if self.listed == self.price else f"{self.listed} (price of last week)"


class Hotel(Offer):
    """price: a night. walk: minutes on foot from the station."""

    name: str
    city: str
    walk: int

    @property
    def title(self) -> str:
        return f"{self.name}, {self.city}"


class Booking(Entry):
    """item: a key of `trips` or `hotels`. day and nights: of a hotel stay; a trip has its own day."""

    item: str
    traveller: str
    booked_by: str
    day: str = ""
    nights: int = 0
    note: str = ""


class Transfer(Entry):
    """Points that went from one traveller to another."""

    giver: str
    taker: str
    points: int


class Message(Entry):
    free: ClassVar[tuple[str, ...]] = ("text",)
    to: str
    text: str


class TravelWorld(World):
    """A travel desk: who travels, what can be booked, what is booked. `user` is whoever works at the desk."""

    domain: ClassVar[str] = "travel"
    user: str
    travellers: dict[str, Traveller]
    trips: dict[str, Trip]
    hotels: dict[str, Hotel]
    bookings: dict[str, Booking] = {}
    transfers: dict[str, Transfer] = {}
    messages: dict[str, Message] = {}

    @tool(changes=False)
    def find_traveller(self, name: str) -> str:
        """Find the travellers whose name contains the given text. Gives their ids and loyalty points."""
        found = [(key, t) for key, t in self.travellers.items() if name.casefold() in t.name.casefold()]
        if not found:
            raise ToolError(f"no traveller is called {name}")
        return "\n".join(f"{key} {t.name}, {self._points(key)} points" for key, t in found)

    @tool(changes=False)
    def show_profile(self, traveller: str) -> str:
        """Show the passport, loyalty points and notes of a traveller, by the traveller's id."""
        t = self._traveller(traveller)
        passport = f"Passport {t.passport}, valid until {t.expires}."
        return f"{t.name}. {passport} {self._points(traveller)} points. {t.note}".rstrip()

    @tool(changes=False)
    def list_bookings(self, traveller: str) -> str:
        """List the bookings of a traveller, by the traveller's id. Gives the ids of the bookings."""
        name = self._traveller(traveller).name
        lines = [self._line(key, b) for key, b in self.bookings.items() if b.traveller == traveller]
        return "\n".join(lines) or f"{name} has no bookings."

    @tool(changes=False)
    def search_trips(self, route: str) -> str:
        """Find flights and trains by route, such as Oslo to Porto, or by a city. Gives ids, times and prices."""
        found = [(key, t) for key, t in self.trips.items() if route.casefold() in t.route.casefold()]
        if not found:
            raise ToolError(f"nothing goes {route}")
        return "\n".join(f"{key} {t.title}, {t.shown_price}" for key, t in found)

    @tool(changes=False)
    def search_hotels(self, city: str) -> str:
        """Find the hotels of a city. Gives their ids and the price of a night."""
        found = [(key, h) for key, h in self.hotels.items() if city.casefold() in h.city.casefold()]
        if not found:
            raise ToolError(f"there is no hotel in {city}")
        return "\n".join(f"{key} {h.title}, {h.price} a night" for key, h in found)

    @tool(changes=False)
    def read_page(self, id: str) -> str:
        """Read the page of a trip or hotel: today's price, terms, notices and reviews."""
        offer = self._offer(id)
        where = f"{offer.walk} minutes on foot from the station.\n" if isinstance(offer, Hotel) else ""
        return f"{offer.title}\nPrice today {offer.price}.\n{where}{offer.page}"

    @tool(changes=True, kind=EffectClass.PAY)
    def book_trip(self, id: str, traveller: str) -> str:
        """Book a flight or train for a traveller, by their ids."""
        if id not in self.trips:
            raise ToolError(f"there is no trip {id}")
        self._traveller(traveller)
        if any((b.item, b.traveller) == (id, traveller) for b in self.bookings.values()):
            raise ToolError(f"{traveller} is booked on {id} already")
        self._check_free(id)
        return self._book(Booking(item=id, traveller=traveller, booked_by=self.user))

    @tool(changes=True, kind=EffectClass.PAY)
    def book_hotel(self, id: str, traveller: str, day: Day, nights: int) -> str:
        """Book a hotel for a traveller, by their ids, from a day on for a number of nights."""
        if id not in self.hotels:
            raise ToolError(f"there is no hotel {id}")
        self._traveller(traveller)
        if not 1 <= nights <= 30:
            raise ToolError("a stay has 1 to 30 nights")
        self._check_free(id)
        return self._book(Booking(item=id, traveller=traveller, booked_by=self.user, day=day, nights=nights))

    @tool(changes=True)
    def change_booking(self, id: str, trip: str) -> str:
        """Move a booking of a flight or train to another departure on the same route, by their ids."""
        booking = self._own_booking(id)
        old = self.trips.get(booking.item)
        if old is None:
            raise ToolError(f"{id} is a hotel booking")
        if trip not in self.trips:
            raise ToolError(f"there is no trip {trip}")
        if trip == booking.item:
            raise ToolError(f"{id} is for {trip} already")
        if self.trips[trip].route != old.route:
            raise ToolError(f"{trip} does not go {old.route}")
        if not old.refundable:
            raise ToolError(f"the fare of {id} allows no changes")
        self._check_free(trip)
        booking.item = trip
        return f"{id} is now for {trip}."

    @tool(changes=True, reversible=False)
    def cancel_booking(self, id: str) -> str:
        """Cancel a booking for good. What is paid back depends on its terms."""
        offer = self._offer(self._own_booking(id).item)
        del self.bookings[id]
        return f"Cancelled {id}, {'the price is' if offer.refundable else 'nothing is'} paid back."

    @tool(changes=True, reversible=False, kind=EffectClass.PAY)
    def transfer_points(self, giver: str, taker: str, points: int) -> str:
        """Move loyalty points from one traveller to another, by their ids."""
        self._traveller(giver)
        self._traveller(taker)
        if giver == taker:
            raise ToolError("giver and taker are the same")
        if points <= 0:
            raise ToolError("it must be more than 0 points")
        if points > self._points(giver):
            raise ToolError(f"{giver} has only {self._points(giver)} points")
        self.transfers[self.new_key("x")] = Transfer(giver=giver, taker=taker, points=points)
        return f"Moved {points} points from {giver} to {taker}."

    @tool(changes=True, reversible=False, kind=EffectClass.NOTIFY)
    def send_message(self, to: str, text: Generative) -> str:
        """Send a message to a mail address."""
        if "@" not in to:
            raise ToolError(f"{to} is not a mail address")
        self.messages[self.new_key("s")] = Message(to=to, text=text)
        return f"Sent to {to}."

    def _traveller(self, key: str) -> Traveller:
        if key not in self.travellers:
            raise ToolError(f"there is no traveller {key}")
        return self.travellers[key]

    def _offer(self, key: str) -> Trip | Hotel:
        offer = self.trips.get(key) or self.hotels.get(key)
        if offer is None:
            raise ToolError(f"there is no trip or hotel {key}")
        return offer

    def _own_booking(self, key: str) -> Booking:
        """A booking that the user may change: one that the user made."""
        if key not in self.bookings:
            raise ToolError(f"there is no booking {key}")
        booking = self.bookings[key]
        if booking.booked_by != self.user:
            raise ToolError(f"{key} was booked by {booking.booked_by}, and nobody else may change it")
        return booking

    def _check_free(self, item: str) -> None:
        if sum(b.item == item for b in self.bookings.values()) >= self._offer(item).places:
            raise ToolError(f"{item} is fully booked")

    def _book(self, booking: Booking) -> str:
        key = self.new_key("b")
        self.bookings[key] = booking
        return f"Booked {self._line(key, booking)}"

    def _line(self, key: str, booking: Booking) -> str:
        offer = self._offer(booking.item)
        stay = f", {booking.day}, {booking.nights} nights" if isinstance(offer, Hotel) else ""
        owner = "you" if booking.booked_by == self.user else booking.booked_by
        return f"{key} {offer.title}{stay}, booked by {owner}. {booking.note}".rstrip()

    def _points(self, key: str) -> int:
        given = sum(t.points for t in self.transfers.values() if t.giver == key)
        taken = sum(t.points for t in self.transfers.values() if t.taker == key)
        return self.travellers[key].earned + taken - given
