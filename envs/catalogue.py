"""What the worlds hold: `python -m demur.envs.catalogue`, `… --world bank --family pay_person`.

Without a family it prints counts for each world and which risks and failure modes they cover; with one, three
samples of it. `--markdown` prints the tables as the documentation has them.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demur.envs.family import SPLITS, Domain, Family
from demur.envs.risks import Mode, Risk
from demur.envs.trace import Label
from demur.envs.worlds import SHIPPED, load_domain

SAMPLES = 3
Grid = list[list[str]]
"""Rows of cells; the first row is the head."""


def main(argv: Sequence[str] | None = None) -> int:
    options = _options(argv)
    try:
        domains = [load_domain(name) for name in options.world or SHIPPED]
        if options.family:
            _print_samples(_owner(domains, options.family), options.family, options.split)
            return 0
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.markdown:
        print(markdown(domains))
    else:
        _print_tables(domains)
    return 0


def counts(domains: Sequence[Domain]) -> Grid:
    """A row a world: tools, families by label, wordings of queries."""
    head = ["world", "tools", "that change", "for good", *(label.value for label in Label), "wordings", "languages"]
    return [head, *map(_counted, domains)]


def coverage(domains: Sequence[Domain], tags: type[StrEnum]) -> Grid:
    """A row a risk or failure mode: how many families of each world are about it."""
    rows = [[tag.value, *(str(_tagged(domain, tag)) for domain in domains)] for tag in tags]
    return [["", *(domain.name for domain in domains)], *rows]


def families(domains: Sequence[Domain]) -> Grid:
    """A row a family."""
    head = ["family", "labels", "risks", "failure modes"]
    return [head, *(_described(domain, family) for domain in domains for family in domain.families.values())]


def markdown(domains: Sequence[Domain]) -> str:
    parts = [
        _markdown_table(counts(domains)),
        "## Risks\n\nFamilies a world whose harmful or injected tasks are about each risk.",
        _markdown_table(coverage(domains, Risk)),
        "## Failure modes\n\nFamilies a world in which an agent can fail in each way.",
        _markdown_table(coverage(domains, Mode)),
        "## Families",
        _markdown_table(families(domains)),
    ]
    return "\n\n".join(parts)


def _counted(domain: Domain) -> list[str]:
    tools = domain.world.tools().values()
    labels = Counter(label for family in domain.families.values() for label in family.labels)
    numbers = [
        len(tools),
        sum(tool.changes for tool in tools),
        sum(tool.changes and not tool.reversible for tool in tools),
        *(labels[label] for label in Label),
        sum(_wordings(domain, family) for family in domain.families.values()),
    ]
    return [domain.name, *map(str, numbers), ", ".join(domain.languages)]


def _wordings(domain: Domain, family: Family) -> int:
    """Query templates in all splits and languages; alternatives inside them are not counted."""
    sources = [domain.wordings, *(domain.wordings.get(language, {}) for language in domain.languages[1:])]
    return sum(_lines(source.get(family.name, {}).get("queries", {})) for source in sources)


def _lines(node: object) -> int:
    if isinstance(node, list):
        return len(node)
    return sum(map(_lines, node.values())) if isinstance(node, dict) else 0


def _tagged(domain: Domain, tag: StrEnum) -> int:
    return sum(tag in family.risks or tag in family.modes for family in domain.families.values())


def _described(domain: Domain, family: Family) -> list[str]:
    return [
        f"{domain.name}/{family.name}",
        ", ".join(label.value for label in family.labels),
        ", ".join(risk.value for risk in family.risks),
        ", ".join(mode.value.split()[0] for mode in family.modes),
    ]


def _markdown_table(grid: Grid) -> str:
    head, *rows = grid
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _print_tables(domains: Sequence[Domain]) -> None:
    console = Console(highlight=False)
    tables = {
        "Worlds, and families by label": counts(domains),
        "Families by risk": coverage(domains, Risk),
        "Families by failure mode": coverage(domains, Mode),
    }
    for title, (head, *rows) in tables.items():
        table = Table(*head, title=title, title_justify="left", box=None, header_style="dim")
        for row in rows:
            table.add_row(*row)
        console.print(table, "")
    names = ", ".join(f"{domain.name}: {' '.join(domain.families)}" for domain in domains[:1])
    console.print(Text(f"Samples: add --world W --family F. {names}", style="dim"))


def _owner(domains: Iterable[Domain], family: str) -> Domain:
    known: list[str] = []
    for domain in domains:
        if family in domain.families:
            return domain
        known += domain.families
    raise ValueError(f"there is no family {family}; there are {', '.join(known)}")


def _print_samples(domain: Domain, name: str, split: str) -> None:
    console = Console(highlight=False)
    family = domain.families[name]
    console.print(Text(f"{domain.name}/{name}: {' '.join((family.make.__doc__ or '').split())}", style="bold"))
    for seed in range(SAMPLES):
        for label in family.labels:
            task = domain.task(name, label, split, seed)
            console.print(Text(f"\n{label}, level {task.level}: {task.query}"))
            for step in task.expert:
                said = step.answer if step.call is None else f"{step.call.name} {step.call.arguments}"
                console.print(Text(f"   {said}", style="dim"))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demur.envs.catalogue", description=(__doc__ or "").split("\n")[2])
    parser.add_argument("--world", nargs="+", help=f"by default all: {', '.join(SHIPPED)}")
    parser.add_argument("--family", help="print three samples of this family, a label each")
    parser.add_argument("--split", choices=SPLITS, default="train", help="whose wordings the samples use")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
