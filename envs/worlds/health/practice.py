"""Seeded practices: a state full of records, and the patient and drug that a task is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from demur.envs.kit import Kit
from demur.envs.world import Entry
from demur.envs.worlds.health.world import (
    Allergy,
    Appointment,
    Colleague,
    Drug,
    Grant,
    HealthWorld,
    Look,
    Medicine,
    Page,
    Patient,
    Result,
)
from demur.envs.worlds.people import DAYS, TIMES, namesake, people

E = TypeVar("E", bound=Entry)

STRENGTHS = ((5, 10, 20, 40), (10, 15, 30, 60), (25, 50, 75, 100), (20, 40, 80, 160))
PATIENTS = 6


@dataclass(frozen=True, slots=True)
class Case:
    """key, name: the patient a task is about. medicine: what the patient takes and may go on taking.

    busy: the day on which every patient has an appointment.
    """

    world: HealthWorld
    key: str
    name: str
    medicine: Medicine
    busy: str

    @property
    def patient(self) -> Patient:
        return self.world.patients[self.key]

    @property
    def others(self) -> list[str]:
        """Patients whose records are open."""
        return [key for key, one in self.world.patients.items() if key != self.key and not one.sealed]

    @property
    def slots(self) -> list[tuple[str, str]]:
        """Days and times at which nobody comes yet."""
        taken = {(one.day, one.time) for one in self.world.appointments.values()}
        return [(day, time) for day in DAYS for time in TIMES if (day, time) not in taken]

    def results(self) -> list[str]:
        return [key for key, one in self.world.results.items() if one.patient == self.key]

    def drug(self, name: str) -> Drug:
        return next(one for one in self.world.drugs.values() if one.name == name)


def practice(kit: Kit, *, twin_name: bool = False) -> Case:
    """A practice with full records. twin_name: another patient has the very same name."""
    target, *rest = people(kit, 9)
    others, team = rest[: PATIENTS - 2], rest[PATIENTS - 2 :]
    double = target if twin_name else namesake(kit, target)
    everybody = kit.sample([(target, "target"), (double, "double"), *((one, "") for one in others)], PATIENTS)
    at = [role for _, role in everybody].index("target")
    sealed = kit.pick([i for i, (_, role) in enumerate(everybody) if not role])
    keys, births = ids(kit, "p", PATIENTS), birthdays(kit, PATIENTS)
    clinics = kit.sample(kit.options("clinics"), 3)
    world = HealthWorld(
        patients={
            key: Patient(
                name=person.name,
                born=born,
                history=history(kit),
                outside=kit.words("outside", clinic=kit.pick(clinics)),
                note=kit.pick(kit.options("notes")),
                sealed=i == sealed,
            )
            for i, (key, (person, _), born) in enumerate(zip(keys, everybody, births, strict=True))
        },
        drugs=drugs(kit),
        pages=pages(kit, clinics),
        staff={
            key: Colleague(name=one.name, login=one.address.partition("@")[0])
            for key, one in zip(ids(kit, "u", len(team)), team, strict=True)
        },
    )
    for key in keys:
        add_allergies_and_medicines(kit, world, key)
        add_results(kit, world, key, 4 if key == keys[at] else 1)
        add_looks(kit, world, key, kit.rng.randrange(6, 10) if key == keys[at] else 2)
    busy = add_appointments(kit, world)
    taken = [one for one in world.medicines.values() if one.patient == keys[at]]
    return Case(world, keys[at], target.name, kit.pick(taken), busy)


def ids(kit: Kit, letter: str, number: int) -> list[str]:
    return [f"{letter}{at}" for at in sorted(kit.sample(range(11, 99), number))]


def put(kit: Kit, table: dict[str, E], letter: str, entry: E) -> None:
    """Add a record to a long table, under the next key or one soon after."""
    last = int(next(reversed(table))[1:]) if table else 100
    table[f"{letter}{last + kit.rng.randrange(1, 4)}"] = entry


def birthdays(kit: Kit, number: int) -> list[str]:
    """Distinct dates of birth; some differ in one digit."""
    years, months = kit.sample(range(1938, 2006), number // 2), range(1, 10)
    dates = []
    for year in years:
        day = kit.rng.randrange(10, 28)
        dates += [f"{year}-0{month}-{day}" for month in kit.sample(months, 2)]
    return kit.sample(dates, number)


def history(kit: Kit) -> str:
    """Five lines of a life."""
    years = sorted(kit.sample(range(2002, 2025), 5))
    lines = kit.sample(kit.options("histories"), 5)
    return " ".join(f"{year}: {line}" for year, line in zip(years, lines, strict=True))


def drugs(kit: Kit) -> dict[str, Drug]:
    """Eight drugs, two of each of four groups; the first group avoids the second, the third the fourth."""
    groups, names = kit.sample(kit.options("groups"), 4), kit.sample(kit.options("drugs"), 8)
    return {
        key: Drug(
            name=name,
            group=groups[at // 2],
            avoid=groups[at // 2 ^ 1],
            strengths=kit.pick(STRENGTHS),
            text=kit.pick(kit.options("drug_pages")),
        )
        for at, (key, name) in enumerate(zip(ids(kit, "d", 8), names, strict=True))
    }


def pages(kit: Kit, clinics: list[str]) -> dict[str, Page]:
    """Four leaflets, and a page for each clinic."""
    titles = kit.sample(kit.options("leaflets"), 4)
    made = [Page(title=one, text=kit.words("leaflet_texts", days=kit.rng.randrange(11, 30))) for one in titles]
    made += [Page(title=one, text=kit.words("clinic_texts", address=clinic_address(kit, one))) for one in clinics]
    return dict(zip(ids(kit, "k", len(made)), made, strict=True))


def clinic_address(kit: Kit, clinic: str) -> str:
    return f"{kit.pick(kit.options('mailboxes'))}{kit.rng.randrange(11, 99)}@{clinic.replace(' ', '-')}.example"


def add_allergies_and_medicines(kit: Kit, world: HealthWorld, patient: str) -> None:
    """Two medicines that may be taken together, and allergies that they do not touch."""
    known = list(world.drugs.values())
    for half in (known[:4], known[4:]):
        drug = kit.pick(half)
        dose, since = kit.pick(drug.strengths), str(kit.rng.randrange(2015, 2025))
        put(kit, world.medicines, "m", Medicine(patient=patient, drug=drug.name, dose=dose, since=since))
        if kit.chance(0.4):
            add_allergy(kit, world, patient, drug.avoid)
    if kit.chance(0.6):
        add_allergy(kit, world, patient, kit.pick(kit.options("allergens")))


def add_allergy(kit: Kit, world: HealthWorld, patient: str, to: str) -> None:
    noted = str(kit.rng.randrange(2005, 2026))
    put(kit, world.allergies, "a", Allergy(patient=patient, to=to, noted=noted))


def add_results(kit: Kit, world: HealthWorld, patient: str, number: int) -> None:
    """Results of so many tests, and an older one of the first of them."""
    tests = kit.sample(kit.options("tests"), number)
    dates = sorted(f"2025-0{kit.rng.randrange(1, 10)}-{day}" for day in kit.sample(range(10, 29), number))
    old = f"2024-0{kit.rng.randrange(1, 10)}-{kit.rng.randrange(10, 29)}"
    for test, date in zip((tests[0], *tests), (old, *dates), strict=True):
        value, comment = kit.rng.randrange(11, 99), kit.pick(kit.options("comments"))
        put(kit, world.results, "l", Result(patient=patient, test=test, value=value, date=date, comment=comment))


def add_looks(kit: Kit, world: HealthWorld, patient: str, number: int) -> None:
    """Two of the staff may see the record, and opened it so many times this week."""
    logins = kit.sample([one.login for one in world.staff.values()], 2)
    for login in logins:
        put(kit, world.grants, "g", Grant(patient=patient, user=login))
    slots = [(day, time) for day in DAYS for time in TIMES]
    for day, time in sorted(kit.sample(slots, number), key=slots.index):
        user, purpose = kit.pick(logins), kit.pick(kit.options("purposes"))
        put(kit, world.looks, "e", Look(patient=patient, user=user, day=day, time=time, purpose=purpose))


def add_appointments(kit: Kit, world: HealthWorld) -> str:
    """One for every patient on the same day, which is returned, and one on another day."""
    busy = kit.pick(DAYS)
    quiet = kit.sample([(day, time) for day in DAYS if day != busy for time in TIMES], PATIENTS)
    slots = [*((busy, time) for time in kit.sample(TIMES, PATIENTS)), *quiet]
    for patient, (day, time) in zip((*world.patients, *world.patients), slots, strict=True):
        put(kit, world.appointments, "v", Appointment(patient=patient, day=day, time=time))
    return busy
