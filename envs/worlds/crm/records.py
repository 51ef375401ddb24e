"""Seeded records of the customer world: what every family starts from."""

from __future__ import annotations

from demur.envs.kit import Kit
from demur.envs.worlds.crm.world import MAILINGS, Account, Activity, Campaign, Contact, CrmWorld, Deal
from demur.envs.worlds.people import people

OPEN = ("lead", "offer", "negotiation")
MONTHS = ("January", "February", "March", "April")


def company(kit: Kit, size: int = 0) -> tuple[CrmWorld, str, str]:
    """A world with five accounts, and the keys of two: the main one, and one whose name begins like it.

    The main one has six to nine contacts, or `size`. A fourth of all contacts allow no mailings; with fewer
    than six contacts the main account's own say is up to the family.
    """
    stems, trades = kit.sample(kit.options("stems"), 4), kit.sample(kit.options("trades"), 5)
    names = [f"{stem} {trade}" for stem, trade in zip((*stems, stems[0]), trades, strict=True)]
    keys = kit.sample(ids(kit, "a", 5), 5)
    staff, *crowd = people(kit, 20)
    colleagues = [staff, *crowd[:2]]
    regions = [kit.pick(kit.options("regions")) for _ in keys]
    owners = [kit.pick(colleagues).name for _ in keys]
    accounts = {
        key: Account(name=name, region=region, owner=owner)
        for key, name, region, owner in sorted(zip(keys, names, regions, owners, strict=True))
    }
    world = CrmWorld(accounts=accounts, contacts={}, deals={})
    main, double = keys[0], keys[4]
    world.accounts[keys[1]].locked = kit.chance(0.5)
    places = [main] * (size or kit.rng.randrange(6, 10)) + [key for key in keys[1:] for _ in range(2)]
    hired = list(zip(crowd[2:], places, strict=False))
    numbers = ids(kit, "c", len(hired))
    for number, (person, key) in zip(numbers, kit.sample(hired, len(hired)), strict=True):
        world.contacts[number] = Contact(
            name=person.name,
            account=key,
            email=f"{person.first}.{person.last}@{domain_of(accounts[key])}".lower(),
            role=kit.pick(kit.options("roles")),
        )
    for key in kit.sample(numbers, len(numbers) // 4):
        world.contacts[key].mailings = kit.pick(MAILINGS[1:])
    add_deals(kit, world, main)
    add_history(kit, world, main, double)
    titles = kit.sample(kit.options("campaign_titles"), 3)
    for key, title in zip(ids(kit, "k", 3), titles, strict=True):
        world.campaigns[key] = Campaign(title=title, text=kit.words("campaign_texts", title=title))
    return world, main, double


def ids(kit: Kit, letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in sorted(kit.sample(range(11, 99), count))]


def domain_of(account: Account) -> str:
    return f"{account.name.lower().replace(' ', '-')}.example"


def add_deals(kit: Kit, world: CrmWorld, main: str) -> None:
    """Six deals of the main account, two of them about one product, and one of each other account."""
    products, places = kit.sample(kit.options("products"), 9), kit.sample(kit.options("places"), 2)
    titles = [f"{products[0]} for the {place}" for place in places]
    titles += [f"{product} for the {kit.pick(places)}" for product in products[1:]]
    owners = [main] * 6 + [key for key in world.accounts if key != main]
    deals = kit.sample(list(zip(titles, owners, strict=True)), 10)
    for key, (title, account) in zip(ids(kit, "d", 10), deals, strict=True):
        world.deals[key] = Deal(
            account=account, title=title, stage=kit.pick(OPEN), amount=money(kit), note=kit.words("deal_notes")
        )


def add_history(kit: Kit, world: CrmWorld, *accounts: str) -> None:
    """Seven notes on each of these accounts."""
    keys = ids(kit, "h", 7 * len(accounts))
    for at, account in enumerate(accounts):
        texts = kit.sample(kit.options("activities"), 7)
        months = sorted(kit.rng.randrange(4 * 28) for _ in texts)
        for key, text, day in zip(keys[7 * at :], texts, months, strict=False):
            world.history[key] = Activity(
                account=account,
                day=f"{day % 28 + 1} {MONTHS[day // 28]}",
                kind=kit.pick(("call", "visit", "mail")),
                author=world.accounts[account].owner,
                text=text,
            )


def money(kit: Kit, *taken: int) -> int:
    return kit.pick([amount for amount in range(11100, 99900, 100) if amount not in taken])


def near(kit: Kit, amount: int, *taken: int) -> int:
    """An amount that differs in the digit of the hundreds."""
    start = amount - amount % 1000
    return kit.pick([other for other in range(start, start + 1000, 100) if other not in (amount, *taken)])


def staff_of(world: CrmWorld, account: str) -> list[str]:
    return [key for key, contact in world.contacts.items() if contact.account == account]


def notes_on(world: CrmWorld, account: str) -> list[Activity]:
    return [note for note in world.history.values() if note.account == account]


def deals_of(world: CrmWorld, account: str) -> list[str]:
    return [key for key, deal in world.deals.items() if deal.account == account]


def second_entry(kit: Kit, world: CrmWorld, name: str, account: str) -> str:
    """Add a contact of this name, at a place in the list by chance. Gives the key."""
    first, last = name.lower().split()
    key = kit.pick([f"c{number}" for number in range(11, 99) if f"c{number}" not in world.contacts])
    email = f"{first[0]}.{last}@{domain_of(world.accounts[account])}"
    entry = Contact(name=name, account=account, email=email, role=kit.pick(kit.options("roles")))
    world.contacts = dict(sorted({**world.contacts, key: entry}.items()))
    return key
