"""Stage III without a model: what was looked up left nothing to choose."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from demur.envs.guards.provenance.code.lookups import LookUp, LookUps
from demur.envs.guards.provenance.code.records import series_of
from demur.envs.guards.provenance.code.rows import Row, form_of
from demur.envs.guards.provenance.code.values import moment_of
from demur.envs.guards.provenance.deciders import Question
from demur.envs.guards.provenance.relations import Finding, Origin
from demur.envs.guards.provenance.sources import Source

_MOST_CHARS: Final = 20_000
"""Of a result with one record. A longer one is left to the model."""
_ONE: Final = re.compile(r"[\w.@#+/-]{1,200}", re.ASCII)


class OneCandidate:
    """Stage III: holds if each tool that looked something up found one record, the same each time.

    Numbers by day are measurements and no record. Undecided, so that a model is asked: if no record was found, if a
    result is no flat JSON of one record, if a record names two of a kind, if the agent saw more of a result than is
    known here, or if there are other sources, such as a memory. It tells nothing of records that nobody looked for:
    stage II looks at what a look-up was made with. Nor does it tell who wrote a result: stages I and II do.
    """

    async def decide(self, question: Question, sources: Sequence[Source]) -> Finding:
        assert question.blind, "it is asked without the call"
        made = [one for one in LookUps(sources).all if not (_changes(question, one) or series_of(one.source))]
        rows = [(one.source, row) for one in made for row in one.table.rows]
        by_tool: dict[str | None, set[tuple[str, ...]]] = defaultdict(set)
        for source, row in rows:
            by_tool[source.tool].add(tuple(field.text for field in row.fields))
        several = any(len(different) > 1 for different in by_tool.values()) or any(_names_two(row) for _, row in rows)
        if rows and not several and not _is_more(sources) and all(_is_flat(one.source.text) for one in made):
            spans = dict.fromkeys(row.span(source) for source, row in rows)
            return question.finding(True, "code", "every look-up found one record", spans=spans)
        return question.undecided("code", "what was looked up does not settle which record is meant")


def _changes(question: Question, one: LookUp) -> bool:
    tool = question.context.tools.get(one.source.tool or "")
    return tool is None or tool.changes


def _is_more(sources: Sequence[Source]) -> bool:
    """Whether something else could hold records: a source that no call made, or a result that is not known whole."""
    return any(s.partial or (s.call is None and s.origin not in (Origin.USER, Origin.DOCS)) for s in sources)


def _is_flat(text: str) -> bool:
    """An id or address, or JSON of such and of records of single values. Prose, which may name any number, is not."""
    if len(text) > _MOST_CHARS:
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _ONE.fullmatch(text) is not None
    return all(map(_is_single, data if isinstance(data, list) else [data]))


def _is_single(record: object) -> bool:
    if isinstance(record, dict):
        return not any(isinstance(value, dict | list) for value in record.values())
    return isinstance(record, str) and _ONE.fullmatch(record) is not None


def _names_two(row: Row) -> bool:
    """Whether two ids of one kind stand in it, such as two addresses: either could be meant."""
    ids = [id for id in row.ids if moment_of(id) is None]
    kinds = Counter((form_of(id), len(id) if id.isdecimal() else 0) for id in ids)
    return any(count > 1 for count in kinds.values())
