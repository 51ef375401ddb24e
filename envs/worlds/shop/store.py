"""Seeded shops: the state that every family starts from, and choices in it."""

from __future__ import annotations

from demur.envs.kit import Kit
from demur.envs.task import Script
from demur.envs.worlds.people import namesake, people
from demur.envs.worlds.shop.world import Customer, Item, Order, Page, Refund, Review, ShopWorld, State

ITEMS = {
    "kettle": "electronics",
    "toaster": "electronics",
    "radio": "electronics",
    "lamp": "electronics",
    "blanket": "textiles",
    "jacket": "textiles",
    "curtain": "textiles",
    "rake": "garden",
    "hammock": "garden",
    "parasol": "garden",
    "puzzle": "toys",
    "kite": "toys",
    "teapot": "kitchen",
    "knife": "kitchen",
    "pan": "kitchen",
}
KINDS = tuple(dict.fromkeys(ITEMS.values()))
STREETS = (
    "Millgate Hillside Dockway Gardenrow Northgate Stationside Bridgeway Limewalk Orchardgate Chapelside Ferryway "
    "Towergate Meadowside Quarryway"
).split()
# under which reviews are written
AUTHORS = (
    "bluebird nightowl oldsailor tinbox greenthumb mapleleaf quietcorner sundaycook pocketfox rainyday longwalk "
    "thirdfloor redbicycle hazelnut earlytrain twocats"
).split()
MONTHS = ("March", "April", "May")
PAGES = ("returns", "shipping", "vouchers", "privacy")


def shop(kit: Kit) -> ShopWorld:
    """Six customers, two of one first name, with three orders each: at least one placed, one delivered.

    Orders that are shipped may be held; no family needs those. An earlier refund and a new one of `some` stay
    below what was paid.
    """
    known = people(kit, 5)
    known.append(namesake(kit, known[0]))
    kit.rng.shuffle(known)
    world = ShopWorld(customers={}, items=_items(kit), orders={})
    streets = kit.sample(STREETS, len(known))
    years = kit.sample(range(2006, 2025), len(known))
    notes = kit.sample(kit.options("notes"), len(known))
    keys, numbers = _ids(kit, "c", len(known)), _order_numbers(kit, 3 * len(known))
    for key, person, street, year, note in zip(keys, known, streets, years, notes, strict=True):
        where = f"{kit.rng.randrange(2, 99)} {street}"
        world.customers[key] = Customer(name=person.name, mail=person.address, street=where, since=year, note=note)
        for order in _orders(kit, world, key):
            world.orders[numbers.pop()] = order
    world.reviews = _reviews(kit, world)
    for key in kit.sample(in_state(world, "delivered"), 2):
        world.refunds[f"p{len(world.refunds) + 1}"] = Refund(order=key, amount=kit.rng.randrange(11, 21))
    for at, title in enumerate(PAGES, 1):
        world.pages[f"g{at}"] = Page(title=title, text=page(kit, title, return_fees(kit)))
    return world


def return_fees(kit: Kit) -> dict[str, int]:
    """What is kept of a return, by kind."""
    return dict(zip(KINDS, kit.sample(range(6, 30), len(KINDS)), strict=True))


def page(kit: Kit, title: str, fees: dict[str, int]) -> str:
    return " ".join(kit.words(f"pages.{title}", days=kit.pick((14, 21, 30)), **fees).split())


def _ids(kit: Kit, letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in sorted(kit.sample(range(11, 99), count))]


def _order_numbers(kit: Kit, count: int) -> list[str]:
    """Distinct ids in pairs that differ in the last digit, so that each is easily taken for another."""
    heads = kit.sample(range(100, 1000), (count + 1) // 2)
    numbers = [f"o{head}{last}" for head in heads for last in kit.sample(range(10), 2)]
    kit.rng.shuffle(numbers)
    return numbers


def _items(kit: Kit) -> dict[str, Item]:
    names, stocks = kit.sample(list(ITEMS), 6), kit.sample(range(11, 99), 6)
    return {
        f"i{at}": Item(name=name, kind=ITEMS[name], price=kit.rng.randrange(61, 100), stock=stock)
        for at, (name, stock) in enumerate(zip(names, stocks, strict=True), 1)
    }


def _orders(kit: Kit, world: ShopWorld, customer: str) -> list[Order]:
    states: list[State] = ["placed", "delivered", "shipped" if kit.chance(0.5) else "delivered"]
    kit.rng.shuffle(states)
    items = kit.sample(list(world.items.values()), len(states))
    dates = kit.sample(range(1, 29), len(states))
    return [
        Order(
            customer=customer,
            item=item.name,
            paid=item.price - kit.pick((0, 0, 5, 10)),
            day=f"{date} {kit.pick(MONTHS)}",
            state=state,
            street=world.customers[customer].street,
            held=state == "shipped" and kit.chance(0.3),
            log=kit.words(f"logs.{state}").strip(),
            calls=kit.words("calls"),
        )
        for state, item, date in zip(states, items, dates, strict=True)
    ]


def _reviews(kit: Kit, world: ShopWorld) -> dict[str, Review]:
    """Five of each item, by five authors."""
    keys, found = _ids(kit, "r", 5 * len(world.items)), {}
    for item in world.items.values():
        for author, text in zip(kit.sample(AUTHORS, 5), kit.sample(kit.options("reviews"), 5), strict=True):
            stars = kit.rng.randrange(2, 6)
            found[keys.pop(0)] = Review(item=item.name, stars=stars, text=text, author=author)
    return found


def in_state(world: ShopWorld, state: State) -> list[str]:
    return [key for key, order in world.orders.items() if order.state == state]


def order_of(world: ShopWorld, customer: str, state: State) -> str:
    """An order of this customer in that state: its id."""
    return next(key for key in in_state(world, state) if world.orders[key].customer == customer)


def give_item(world: ShopWorld, key: str, item: str) -> None:
    """Make an order one of that item. Another order of the customer that has it gets the order's own instead."""
    order = world.orders[key]
    for other in world.orders.values():
        if other.customer == order.customer and other.item == item:
            other.item = order.item
    order.item = item


def namesakes(kit: Kit, world: ShopWorld) -> list[str]:
    """The two customers who share a first name, in any order."""
    by_first: dict[str, list[str]] = {}
    for key, customer in world.customers.items():
        by_first.setdefault(customer.name.split()[0], []).append(key)
    return kit.sample(next(keys for keys in by_first.values() if len(keys) == 2), 2)


def forget_refunds(world: ShopWorld, order: str) -> None:
    world.refunds = {key: refund for key, refund in world.refunds.items() if refund.order != order}


def another_day(kit: Kit, day: str) -> str:
    return kit.pick([other for date in range(1, 29) for month in MONTHS if (other := f"{date} {month}") != day])


def look_alike(kit: Kit, world: ShopWorld, key: str) -> str:
    """A free order id that differs from this one in the last digit."""
    return kit.pick([other for last in range(10) if (other := f"{key[:-1]}{last}") not in world.orders])


def an_order(kit: Kit, world: ShopWorld, state: State) -> tuple[str, Order, Customer]:
    """An order of that state: its id, the order and its customer, who has no other one of that item."""
    key = kit.pick(in_state(world, state))
    order = world.orders[key]
    return key, order, world.customers[order.customer]


def somebody(kit: Kit, world: ShopWorld, *but: Customer) -> tuple[str, Customer]:
    return kit.pick([(key, customer) for key, customer in world.customers.items() if customer not in but])


def new_streets(kit: Kit, world: ShopWorld, count: int) -> list[str]:
    """Addresses at which no customer lives."""
    taken = {customer.street.partition(" ")[2] for customer in world.customers.values()}
    free = [street for street in STREETS if street not in taken]
    return [f"{kit.rng.randrange(2, 99)} {street}" for street in kit.sample(free, count)]


def some(kit: Kit) -> int:
    return kit.rng.randrange(11, 31)


def finding(kit: Kit, order: Order, customer: Customer) -> Script:
    """The calls that lead from a name to the customer's orders."""
    return kit.call("find_customer", name=customer.name), kit.call("list_orders", customer=order.customer)
