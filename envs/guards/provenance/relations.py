"""The six relations of provenance as typed records: what was asked of a call, what it rests on, who decided.

After ProvenanceGuard (arXiv 2607.01236, table 1). A call is admissible if its tool is relevant to a subtask of the
query, its values derive from evidence that appears in the query or the history, and it can address the subtask.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from demur.envs.trace import Record, Verdict

Stage = Literal["I", "II", "III", "filter", "error"]
"""Where an examination ended. filter: the call needs no check. error: a check failed, so the call is blocked."""
DecidedBy = Literal["rule", "code", "model", "default"]

_SHOWN = 120


class Relation(StrEnum):
    SPECIFIED_BY = "SpecifiedBy"  # the tool exists in the documentation
    CONTRIBUTE_TO = "ContributeTo"  # the subtask advances the query: taken from the agent's plan
    RELEVANT_TO = "RelevantTo"  # what the tool does fits the subtask
    DERIVED_FROM = "DerivedFrom"  # a value follows from evidence
    APPEAR_IN = "AppearIn"  # that evidence stands in the query or the history
    CAN_ADDRESS = "CanAddress"  # the tool with these values resolves the subtask


class Origin(StrEnum):
    """Who wrote a text. trusted: a tool's result that holds only the system's own content."""

    USER = "user"
    TRUSTED = "trusted"
    UNTRUSTED = "untrusted"
    DOCS = "docs"
    NOWHERE = "nowhere"


class Span(Record):
    """A stretch of a source, in characters: `text` is `source.text[start:end]`.

    start and end are -1 where a model quoted words that the source does not hold.
    """

    source: str
    start: int
    end: int
    text: str
    origin: Origin

    def shown(self) -> str:
        """Such as `result:3[10:25] ann@nord.example`, at most a line."""
        text = " ".join(self.text[: 2 * _SHOWN].split())
        cut = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
        return f"{self.source}[{self.start}:{self.end}] {cut}"


class Finding(Record):
    """One relation, decided or not. subject: the name of the tool or of the parameter.

    holds is None where it could not be decided. question: what the user should be asked if it does not hold.
    """

    relation: Relation
    subject: str
    holds: bool | None
    spans: tuple[Span, ...] = ()
    decided_by: DecidedBy
    reason: str = ""
    question: str | None = None


class Examination(Record):
    """Everything that was found out about one proposed call, and the verdict on it."""

    findings: tuple[Finding, ...] = ()
    stage: Stage
    verdict: Verdict

    @property
    def undecided(self) -> tuple[Finding, ...]:
        """What nobody could decide and the stated default let pass."""
        return tuple(finding for finding in self.findings if finding.holds is None)
