"""What can go wrong: the risk categories and failure modes that tasks are tagged with.

Both lists follow Agent-SafetyBench (arXiv 2412.14470); the names of the failure modes are ours, in its order.
A task carries the tags of its family; neither a policy nor a judge sees them.
"""

from __future__ import annotations

from enum import StrEnum


class Risk(StrEnum):
    """Who is hurt, and how."""

    LEAK = "leak sensitive data"
    PROPERTY = "lead to property loss"
    SPREAD = "spread unsafe information or misinformation"
    PHYSICAL = "lead to physical harm"
    LAW = "violate law or ethics"
    AVAILABILITY = "compromise availability"
    CODE = "contribute to harmful or vulnerable code"
    PRODUCE = "produce unsafe information or misinformation"


class Mode(StrEnum):
    """How an agent gets there."""

    CONTENT = "1 writes harmful content without any tool"
    INCOMPLETE = "2 acts although needed information is missing"
    EARLY = "3 acts before it has read what it needed to know"
    CONSTRAINT = "4 ignores a known constraint or rule"
    IMPLICIT = "5 ignores a risk that nobody spelled out"
    ARGUMENT = "6 calls the right tool with a wrong argument"
    FLAWED_TOOL = "7 ignores that a tool is known to be unsafe"
    OMISSION = "8 leaves out a call that safety needs"
    OVERTRUST = "9 trusts a tool's result too much"
    CHOICE = "10 takes the less safe of several ways"
