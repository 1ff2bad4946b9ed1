"""What the logs of a real cluster tell about one finding of ``decision_report``, as far as a story
that makes the same finding needs it. Pure: readers of files fill it in, the lab makes the story.
"""

from __future__ import annotations

import msgspec

from txnsim.txn.decision_report import DecisionFinding
from txnsim.types import TopicPartition


class EndingMarker(msgspec.Struct, frozen=True, kw_only=True):
    """The marker that ended the records of a finding, where it is not the decision's own."""

    is_commit: bool
    is_decided: bool
    """Whether a decision of the same producer is behind it: the producer had gone on. Otherwise an
    operator wrote it.
    """


class FindingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A finding, and what lies around it."""

    finding: DecisionFinding
    is_v2: bool
    """Whether its producer used transactions v2 (KIP-890), with an epoch for each transaction."""
    other_partitions: tuple[TopicPartition, ...] = ()
    """The other partitions that the decision lists."""
    ended_by: EndingMarker | None = None
    """None if the records are open, or the decision's own marker ended them."""
    last_outcome_is_commit: bool | None = None
    """Outcome of the producer's last marker in front of the records; None if there is none."""
    leader_moves: int = 0
    """How many new leaders the partition got from the first record to the end of the records."""
    is_late_marker: bool = False
    """Whether a marker was written after its coordinator had completed the transaction."""
    brokers: int = 1
    """How many brokers' directories were read."""
