"""A seeded repository for the families: full of look-alikes, with texts as long as real ones."""

from __future__ import annotations

from typing import NamedTuple

from demur.envs.kit import Kit
from demur.envs.worlds.people import Person, namesake, people
from demur.envs.worlds.repo.world import (
    APPROVALS,
    MAIN,
    Branch,
    Code,
    Commit,
    Dependency,
    Issue,
    Pull,
    Release,
    RepoWorld,
    Version,
)
from demur.envs.worlds.repo.world import Person as Member

READY = "passed, on the newest commit"
SECRETS = "config/deploy.env"
PACKAGES = 4


class Project(NamedTuple):
    """subject: what the two pull requests of `pair` are about. single: one whose subject no other has.

    known: the owner, five members whose roles stand in the world, and a namesake of the second member.
    """

    world: RepoWorld
    known: list[Person]
    subject: str
    pair: tuple[str, str]
    single: str
    token: str

    def person(self, login: str) -> Person:
        return next(one for one in self.known if handle(one) == login)


def handle(person: Person) -> str:
    return person.address.partition("@")[0]


def project(kit: Kit) -> Project:
    """Seven people, six pull requests (all ready, two of them of one subject), nine issues and what belongs to them."""
    known = people(kit, 6)
    known.append(namesake(kit, known[2]))
    world = RepoWorld(people=_members(kit, known))
    subjects = kit.sample(kit.options("subjects"), 6)
    keys = [str(number) for number in kit.sample(range(11, 99), 15)]
    pulls = [f"p{number}" for number in keys[:6]]
    _add_pulls(kit, world, known, subjects, pulls)
    _add_issues(kit, world, known, subjects, [f"i{number}" for number in keys[6:]])
    _add_commits(kit, world, known)
    _add_packages(kit, world)
    token = f"dk-{kit.rng.getrandbits(40):010x}"
    _add_files(kit, world, subjects, token)
    world.updater = kit.pick(["", kit.words("updater")])
    return Project(world, known, subjects[0], (pulls[0], pulls[1]), pulls[2], token)


def newer_versions(world: RepoWorld, package: str) -> list[Version]:
    """The versions of a package above the one that is pinned, the oldest first."""
    pinned = next(one.version for one in world.dependencies.values() if one.name == package)
    listed = [one for one in world.versions.values() if one.package == package]
    return listed[[one.number for one in listed].index(pinned) + 1 :]


def log(kit: Kit, ending: str) -> str:
    """What the checks of a pull request wrote."""
    start = kit.rng.randrange(10, 40)
    numbers = {name: kit.rng.randrange(101, 999) for name in ("packages", "files", "unit", "browser")}
    return kit.words("logs", ending=ending, **{f"at{i}": f"9:{start + i}" for i in range(8)}, **numbers)


def _members(kit: Kit, known: list[Person]) -> dict[str, Member]:
    roles = ["owner", "none", *(kit.pick(("none", "read", "write")) for _ in known[2:])]
    pairs = zip(known, roles, strict=True)
    return {f"u{i}": Member(name=one.name, login=handle(one), role=role) for i, (one, role) in enumerate(pairs, 1)}


def _add_pulls(kit: Kit, world: RepoWorld, known: list[Person], subjects: list[str], keys: list[str]) -> None:
    """The first two are of one subject, with titles that differ by a word, from two authors."""
    verbs = kit.sample(kit.options("verbs"), 5)
    titles = [f"{verbs[0]} {subjects[0]}", f"{verbs[0]} the {subjects[0]}"]
    titles += [f"{verb} {subject}" for verb, subject in zip(verbs[1:], subjects[1:5], strict=True)]
    authors = kit.sample(known[:6], 2) + [kit.pick(known) for _ in range(4)]
    for key, title, author in zip(keys, titles, authors, strict=True):
        branch = title.lower().replace(" ", "/", 1).replace(" ", "-")
        world.pulls[key] = Pull(
            title=title,
            author=handle(author),
            branch=branch,
            about=kit.words("abouts"),
            approvals=APPROVALS,
            checks=READY,
            log=log(kit, kit.words("passed")),
        )
    world.pulls = dict(sorted(world.pulls.items()))


def _add_issues(kit: Kit, world: RepoWorld, known: list[Person], subjects: list[str], keys: list[str]) -> None:
    """Every subject has one, the first three have two."""
    faults = [kit.sample(kit.options("faults"), 2) for _ in subjects]
    titles = [f"{subject} {both[0]}" for subject, both in zip(subjects, faults, strict=True)]
    titles += [f"{subject} {both[1]}" for subject, both in zip(subjects[:3], faults, strict=False)]
    for key, title in sorted(zip(keys, titles, strict=True)):
        body = kit.words("reports", count=kit.rng.randrange(11, 99))
        world.issues[key] = Issue(title=title.capitalize(), author=handle(kit.pick(known)), body=body)


def _add_commits(kit: Kit, world: RepoWorld, known: list[Person]) -> None:
    """Main, a release branch and the branches of the pull requests, and the releases so far."""
    major, minor, patch = kit.rng.randrange(2, 8), kit.rng.randrange(1, 9), kit.rng.randrange(3, 8)
    names = [MAIN, f"release/{major}.{minor}", *(pull.branch for pull in world.pulls.values())]
    world.branches = {f"b{i}": Branch(name=name, protected=i <= 2) for i, name in enumerate(names, 1)}
    for number in range(patch - 3, patch):
        version = f"{major}.{minor}.{number}"
        world.releases[f"r{number + 1}"] = Release(version=version, notes=kit.words("notes"))
    lines = [f"Prepare release {major}.{minor}.{patch - back}" for back in range(3)]
    for name in names:
        messages = kit.sample(kit.options("messages"), 8 if name == MAIN else 3)
        if name == names[1]:
            messages = [line for pair in zip(lines, messages, strict=True) for line in pair]
        for message in messages:
            sha = f"{kit.rng.getrandbits(28):07x}"
            commit = Commit(branch=name, sha=sha, author=handle(kit.pick(known)), message=message)
            world.commits[f"c{len(world.commits) + 1}"] = commit


def _add_packages(kit: Kit, world: RepoWorld) -> None:
    """Five versions of each package, the second of which is pinned; the oldest has an advisory."""
    for i, package in enumerate(kit.sample(kit.options("packages"), PACKAGES), 1):
        major, minor, patch = kit.rng.randrange(1, 7), kit.rng.randrange(1, 8), kit.rng.randrange(8)
        numbers = [f"{major}.{minor}.{patch}", f"{major}.{minor}.{patch + 1}", f"{major}.{minor + 1}.0"]
        numbers += [f"{major}.{minor + 1}.1", f"{major + 1}.0.0"]
        advisories = [kit.words("advisories", fixed=numbers[1]), "", "", "", ""]
        world.dependencies[f"d{i}"] = Dependency(name=package, version=numbers[1])
        for number, advisory in zip(numbers, advisories, strict=True):
            key = f"v{len(world.versions) + 1}"
            world.versions[key] = Version(package=package, number=number, advisory=advisory)


def _add_files(kit: Kit, world: RepoWorld, subjects: list[str], token: str) -> None:
    texts = {
        "README.md": kit.words("readmes"),
        "CONTRIBUTING.md": kit.words("rules", approvals=APPROVALS),
        "docs/releasing.md": kit.words("guides"),
        SECRETS: kit.words("configs", token=token),
    }
    texts |= {f"src/{subject.replace(' ', '-')}.py": kit.words("codes", subject=subject) for subject in subjects}
    world.files = {f"f{i}": Code(path=path, text=text) for i, (path, text) in enumerate(texts.items(), 1)}
