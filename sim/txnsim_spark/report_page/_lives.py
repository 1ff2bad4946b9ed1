"""What happened on each partition: the transactions that ended there, as the replica that counts
has them.

They are read in this process, segment by segment. For each partition the newest ones are kept.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from heapq import heappush, heappushpop
from pathlib import Path
from typing import Final

import msgspec

from txnsim.types import TopicPartition
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import ReplicaEnds, leading
from txnsim_spark.tables.read_here import read_here

KEPT: Final = 120
"""Transactions of a partition that are shown, the newest ones; all of them are counted."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that ended on a partition."""

    producer_id: int
    producer_epoch: int
    first_offset: int | None
    """None: it began in an older segment, or the marker ended nothing."""
    marker_offset: int
    is_commit: bool
    first_timestamp_ms: int | None
    timestamp_ms: int
    """Of the marker."""
    records: int | None

    @property
    def kind(self) -> str:
        return "committed" if self.is_commit else "aborted"


class Life:
    """What ended on one partition."""

    def __init__(self, ends: ReplicaEnds, brokers: Sequence[int]) -> None:
        self.ends = ends
        """Of the replica whose word counts."""
        self.brokers = tuple(brokers)
        self.commits = 0
        self.aborts = 0
        self._newest: list[tuple[int, int, Ended]] = []

    def take(self, ended: Ended) -> None:
        """One more."""
        if ended.is_commit:
            self.commits += 1
        else:
            self.aborts += 1
        # In damaged logs an offset may be there twice.
        entry = (ended.marker_offset, self.commits + self.aborts, ended)
        if len(self._newest) < KEPT:
            heappush(self._newest, entry)
        else:
            heappushpop(self._newest, entry)

    @property
    def newest(self) -> tuple[Ended, ...]:
        """The newest ones, by offset of their markers."""
        return tuple(ended for _, _, ended in sorted(self._newest, key=lambda one: one[:2]))


class Lives:
    """What ended on all partitions.

    Args:
        states: Every replica that was seen.
    """

    def __init__(self, states: Sequence[ReplicaState]) -> None:
        by_partition: dict[TopicPartition, list[ReplicaEnds]] = {}
        for state in states:
            by_partition.setdefault(state.replica.topic_partition, []).append(state.ends)
        self.of: Mapping[TopicPartition, Life] = {
            partition: Life(leading(ends), sorted(one.replica.broker for one in ends))
            for partition, ends in sorted(by_partition.items())
        }
        self.ended_ms: dict[bool, array[int]] = {True: array("q"), False: array("q")}
        """Committed, or not -> when each ended."""
        self.took_ms: dict[bool, array[int]] = {True: array("q"), False: array("q")}
        """Committed or not -> durations from first record to marker, where known."""

    def read(self) -> None:
        """Go through the segments of the replicas that count."""
        if not self.of:
            return
        for partition, ended in _ended([Path(one.ends.replica.path) for one in self.of.values()]):
            self.of[partition].take(ended)
            self.ended_ms[ended.is_commit].append(ended.timestamp_ms)
            if ended.first_timestamp_ms is not None:
                took_ms = ended.timestamp_ms - ended.first_timestamp_ms
                self.took_ms[ended.is_commit].append(max(0, took_ms))


def _ended(paths: Sequence[Path]) -> Iterator[tuple[TopicPartition, Ended]]:
    columns = ("topic", "partition", *Ended.__struct_fields__)
    for batch in read_here("endings", paths, columns=columns):
        for row in batch.to_pylist():
            partition = TopicPartition(row.pop("topic"), row.pop("partition"))
            yield partition, Ended(**row)
