"""Finds the entries of transactional ids, as transaction coordinators wrote them, by producer id.
Pure.

The newest record of a transactional id in its partition of ``__transaction_state`` is its entry. A
tombstone removes the entry. The last *decision* is the newest PrepareCommit or PrepareAbort. It is
kept beside the entry, because the entry of a complete transaction lists no partitions: only its
decision tells which partitions should have got a marker.

If a log is missing or cut off, the result says so: an id that is not found there may still have an
entry. Kafka's counterparts: TransactionLog, TransactionStateManager.loadTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from txnsim.types import TopicPartition, partition_for

COMMITTING: Final = "PrepareCommit"
ABORTING: Final = "PrepareAbort"
DECIDED_STATES: Final = frozenset({COMMITTING, ABORTING})
"""States in which the coordinator has decided, and sends a marker to every partition of the
record.
"""
COMPLETE_STATES: Final = frozenset({"CompleteCommit", "CompleteAbort"})
OUTCOMES: Final[Mapping[str, str]] = {
    COMMITTING: "commit",
    ABORTING: "abort",
    "CompleteCommit": "commit",
    "CompleteAbort": "abort",
}
"""State -> the decision that it means."""
PARTITIONS_MAX: Final = 10_000
"""Limit when the number of partitions of ``__transaction_state`` is guessed; the default is 50."""


class TxnRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One record of ``__transaction_state``."""

    log_partition: int
    """The partition of ``__transaction_state`` that holds it."""
    offset: int
    transactional_id: str
    state: str
    """State by the name that ListTransactions uses; empty in a tombstone."""
    producer_id: int = -1
    producer_epoch: int = -1
    previous_producer_id: int = -1
    next_producer_id: int = -1
    """The producer id after this transaction, if the epochs of the present one are used up
    (KIP-890).
    """
    timeout_ms: int = -1
    partitions: frozenset[TopicPartition] = frozenset()
    start_timestamp_ms: int = -1
    last_update_timestamp_ms: int = -1
    is_v2: bool = False
    """Whether the transaction follows transactions v2."""

    @property
    def is_tombstone(self) -> bool:
        """Whether the record deletes the transactional id."""
        return not self.state

    @property
    def producer_ids(self) -> tuple[int, int, int]:
        return self.producer_id, self.previous_producer_id, self.next_producer_id


class CoordinatorEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that the coordinators' logs still have on a transactional id."""

    newest_record: TxnRecord
    decision: TxnRecord | None = None
    """The newest record of a decision, which may belong to an earlier transaction."""


class Coordinators(msgspec.Struct, frozen=True, kw_only=True):
    """The coordinators' logs, as far as the directories have them."""

    entry_by_producer: Mapping[int, CoordinatorEntry] = {}
    """Current producer id -> entry."""
    entry_by_other_producer: Mapping[int, CoordinatorEntry] = {}
    """Previous or next producer id of an entry -> the entry."""
    forgotten_id_by_producer: Mapping[int, str] = {}
    """Producer id -> transactional id, where the entry is gone (a tombstone)."""
    decisions_by_producer: Mapping[int, Sequence[TxnRecord]] = {}
    """Producer id -> every decision about its transactions that the logs still have, and the
    beginning of each epoch (Empty), in order.
    """
    owing_entries: tuple[CoordinatorEntry, ...] = ()
    """Entries of transactions that are decided but not completed, sorted by transactional id."""
    partition_count: int = 0
    """Number of partitions of ``__transaction_state``, as far as it is known."""
    missing_partitions: tuple[int, ...] = ()
    """Partitions that no directory holds."""
    damaged_partitions: frozenset[int] = frozenset()
    """Partitions with unreadable records on every broker."""
    cut_off_by_partition: Mapping[int, str] = {}
    """Partition -> place and cause of a lost end."""
    newest_timestamp_ms: int = -1
    """Newest timestamp of a record in the coordinators' logs; -1 without records."""
    not_in_sync_text_by_partition: Mapping[int, str] = {}
    """Partition without an in-sync replica in the directories -> replicas in them."""

    @property
    def is_complete(self) -> bool:
        """Whether no log is missing or damaged: then an id that is missing here has no entry
        anywhere.
        """
        return (
            self.partition_count > 0 and not self.missing_partitions and not self.damaged_partitions
        )

    @property
    def gap_text(self) -> str:
        """The missing partitions in words; empty if complete."""
        if not self.partition_count:
            return "the directories hold no partition of __transaction_state"
        sentences = []
        if self.missing_partitions:
            partition_numbers = ", ".join(map(str, self.missing_partitions))
            sentences.append(
                f"the directories lack __transaction_state, partition {partition_numbers}"
            )
        if self.damaged_partitions:
            partition_numbers = ", ".join(map(str, sorted(self.damaged_partitions)))
            sentences.append(
                f"__transaction_state, partition {partition_numbers}, can't be read to its end"
            )
        return "; ".join(sentences)


class EntryBuilder:
    """Folds the records of each partition, in order, into entries."""

    __slots__ = ("_entries", "decisions_by_producer", "forgotten_id_by_producer")

    def __init__(self) -> None:
        self._entries: dict[str, CoordinatorEntry] = {}
        self.forgotten_id_by_producer: dict[int, str] = {}
        """Producer id -> transactional id that was deleted."""
        self.decisions_by_producer: dict[int, list[TxnRecord]] = {}
        """Producer id -> every decision, in order, and the beginning of each epoch (Empty)."""

    def take_record(self, record: TxnRecord) -> None:
        """Apply the next record."""
        entry = self._entries.get(record.transactional_id)
        if record.is_tombstone:
            if entry is not None:
                del self._entries[record.transactional_id]
                self.forgotten_id_by_producer[entry.newest_record.producer_id] = (
                    record.transactional_id
                )
            return
        decision = None if entry is None else entry.decision
        if record.state in DECIDED_STATES:
            decision = record
        if record.state in DECIDED_STATES or record.state == "Empty":
            self.decisions_by_producer.setdefault(record.producer_id, []).append(record)
        self._entries[record.transactional_id] = CoordinatorEntry(
            newest_record=record, decision=decision
        )

    @property
    def entries(self) -> tuple[CoordinatorEntry, ...]:
        return tuple(self._entries.values())


def coordinators_of(
    entries: Iterable[CoordinatorEntry],
    *,
    forgotten_id_by_producer: Mapping[int, str],
    partitions_on_disk: Iterable[int],
    damaged_partitions: Iterable[int] = (),
    cut_off_by_partition: Mapping[int, str] | None = None,
    newest_timestamp_ms: int = -1,
    decisions_by_producer: Mapping[int, Sequence[TxnRecord]] | None = None,
) -> Coordinators:
    """Index the entries by producer id.

    Args:
        entries: One per transactional id.
        forgotten_id_by_producer: Producer id -> transactional id of those with a tombstone.
        partitions_on_disk: Partitions of ``__transaction_state`` that were there.
        damaged_partitions: Partitions that could not be read to their end.
        cut_off_by_partition: Partition of a log without its end -> the place where it breaks off,
            and the reason.
        newest_timestamp_ms: Newest timestamp in the logs.
        decisions_by_producer: Producer id -> every decision, in order; unless given, the last
            decision of each entry.
    """
    all_entries = tuple(entries)
    entry_by_producer: dict[int, CoordinatorEntry] = {}
    entry_by_other_producer: dict[int, CoordinatorEntry] = {}
    for entry in all_entries:
        entry_by_producer[entry.newest_record.producer_id] = entry
        for earlier_id in entry.newest_record.producer_ids[1:]:
            if earlier_id >= 0:
                entry_by_other_producer[earlier_id] = entry
    present_partitions = frozenset(partitions_on_disk)
    ids_and_partitions = {
        (entry.newest_record.transactional_id, entry.newest_record.log_partition)
        for entry in all_entries
    }
    partition_count = partitions_of_log(present_partitions, ids_and_partitions)
    decided_entries = (
        entry for entry in all_entries if entry.newest_record.state in DECIDED_STATES
    )
    return Coordinators(
        entry_by_producer=entry_by_producer,
        entry_by_other_producer=entry_by_other_producer,
        forgotten_id_by_producer=forgotten_id_by_producer,
        decisions_by_producer=_last_decisions(all_entries)
        if decisions_by_producer is None
        else decisions_by_producer,
        owing_entries=tuple(
            sorted(decided_entries, key=lambda entry: entry.newest_record.transactional_id)
        ),
        partition_count=partition_count,
        missing_partitions=tuple(sorted(frozenset(range(partition_count)) - present_partitions)),
        damaged_partitions=frozenset(damaged_partitions),
        cut_off_by_partition=cut_off_by_partition or {},
        newest_timestamp_ms=newest_timestamp_ms,
    )


def _last_decisions(entries: Iterable[CoordinatorEntry]) -> Mapping[int, Sequence[TxnRecord]]:
    decisions = (entry.decision for entry in entries if entry.decision is not None)
    return {decision.producer_id: (decision,) for decision in decisions}


def partitions_of_log(
    present_partitions: frozenset[int], ids_and_partitions: Iterable[tuple[str, int]]
) -> int:
    """The number of partitions of ``__transaction_state``, which no file contains. It is the
    smallest number, greater than all present partitions, for which each transactional id hashes to
    the partition where it was found.
    """
    if not present_partitions:
        return 0
    known_pairs = tuple(ids_and_partitions)
    for partition_count in range(max(present_partitions) + 1, PARTITIONS_MAX + 1):
        if all(
            partition_for(transactional_id, partition_count) == partition
            for transactional_id, partition in known_pairs
        ):
            return partition_count
    return max(present_partitions) + 1  # the topic was enlarged: ids lie where they belonged before
