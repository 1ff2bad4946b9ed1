"""Decides which decisions of a coordinator a partition has the markers of. Pure.

A coordinator decides once for each transaction, and each partition of it gets one marker: the
marker *pays* the decision there. Records after the marker that paid the last decision belong to no
decided transaction; a COMMIT marker would publish them. If the marker never came (KAFKA-20734), the
same decision is due. So all code that pairs a decision with a partition asks here first.

Three things tell whether the last marker before the open transaction pays a decision:

- **Epoch.** A marker has its decision's epoch. Transactions v2 raise the epoch with each end, so
  there it is proof. Before v2 an epoch has many transactions.
- **Order.** The marker is written after the decision, and before the id's next transaction begins.
  Two brokers set the timestamps; their clocks are assumed to agree within ``SKEW_MS``.
- **Count.** If both logs are complete since a moment between two transactions, each decision since
  then has its marker, or one is lost. Clocks that differ by more show here: count and clocks
  contradict each other.

If these do not agree, or the markers are gone (retention, compaction) or could not be read, the
answer is ``UNKNOWN``. Kafka's counterparts: TransactionMetadata, ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Self

import msgspec

from txnsim.txn.state import TxnTransition
from txnsim.types import TopicPartition, TransactionVersion

SKEW_MS: Final = 1_000
"""Assumed limit for the difference between the clocks of two brokers, in milliseconds."""
BEFORE_ALL_MARKERS_MS: Final = -(1 << 62)
"""A time in milliseconds before every marker."""
AFTER_ALL_MARKERS_MS: Final = 1 << 62
"""A time in milliseconds after every marker."""


class CoordinatorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a transactional id in its coordinator's log."""

    state: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    is_v2: bool
    """Whether the record belongs to transactions v2, whose end has the next epoch."""
    timestamp_ms: int
    """Time of the record by the coordinator's clock."""
    start_timestamp_ms: int
    """Start of the transaction by the same clock; ``timestamp_ms`` if unknown."""

    @classmethod
    def of_transition(cls, transition: TxnTransition) -> Self:
        """The record of a transition, as the coordinator's log has it."""
        updated_ms, started_ms = (
            transition.last_update_timestamp_ms,
            transition.start_timestamp_ms,
        )
        return cls(
            state=transition.state.wire_name,
            producer_id=transition.producer_id,
            producer_epoch=transition.producer_epoch,
            partitions=transition.partitions,
            is_v2=transition.client_version >= TransactionVersion.TV_2,
            timestamp_ms=updated_ms,
            start_timestamp_ms=started_ms if started_ms >= 0 else updated_ms,
        )

    @property
    def is_decision(self) -> bool:
        return self.state in ("PrepareCommit", "PrepareAbort")

    @property
    def is_commit(self) -> bool:
        """Whether a decision is a commit."""
        return self.state == "PrepareCommit"

    def may_end(self, producer_epoch: int) -> bool:
        """Whether this decision can be about records with a producer epoch. Transactions v2, and a
        fence before them, raise the epoch with the end.
        """
        if self.producer_epoch == producer_epoch:
            return not self.is_v2
        is_raised = self.is_v2 or not self.is_commit
        return is_raised and self.producer_epoch == producer_epoch + 1


class PartitionMarker(msgspec.Struct, frozen=True, kw_only=True):
    """A marker of a producer in a partition's log."""

    offset: int
    producer_epoch: int
    is_commit: bool
    timestamp_ms: int
    """Time of the marker by the leader's clock."""


class PartitionMarkers(msgspec.Struct, frozen=True, kw_only=True):
    """The markers of a producer on a partition before its open transaction."""

    markers: tuple[PartitionMarker, ...] = ()
    """The markers in the order of their offsets."""
    complete_since_ms: int = AFTER_ALL_MARKERS_MS
    """Time since which no marker is missing."""


NO_MARKERS: Final = PartitionMarkers()
"""Stands for a log that could not be read."""


class Payment(StrEnum):
    """Whether a partition has the marker of a decision."""

    PAID = "paid"
    UNPAID = "unpaid"
    UNKNOWN = "unknown"


class DueDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator's decisions that list a partition; tells whether the partition's markers pay
    them.
    """

    decisions: tuple[CoordinatorRecord, ...]
    """Oldest first. If any decision belongs to the partition's open transaction, it is the
    newest.
    """
    epoch_began_ms: int | None
    """Time at which their epoch began, by the coordinator's log; None if the log no longer has
    it.
    """
    skew_ms: int = SKEW_MS
    """Possible difference between the clocks; 0 if one clock sets the timestamps of both sides."""

    @classmethod
    def for_partition(
        cls,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_records: Sequence[CoordinatorRecord],
        *,
        skew_ms: int = SKEW_MS,
    ) -> DueDecisions | None:
        """Select the decisions that list a partition and may be about its open transaction.

        Args:
            partition: The partition with the open transaction.
            producer_id: Producer id of the open transaction, from the partition's leader.
            producer_epoch: Its producer epoch, from the partition's leader.
            coordinator_records: The coordinator's records about the transactional id, oldest first.
            skew_ms: Possible difference between the clocks of decisions and of markers.

        Returns:
            The decisions; None if no decision lists the partition.
        """
        producer_records = [
            record for record in coordinator_records if record.producer_id == producer_id
        ]
        decisions = [
            record
            for record in producer_records
            if record.is_decision and partition in record.partitions
        ]
        while decisions and not decisions[-1].may_end(producer_epoch):
            decisions.pop()
        if not decisions:
            return None
        newest_epoch = decisions[-1].producer_epoch
        begin_times_ms = [
            record.timestamp_ms
            for record in producer_records
            if record.state == "Empty" and record.producer_epoch == newest_epoch
        ]
        return cls(
            decisions=tuple(decisions),
            epoch_began_ms=begin_times_ms[0] if begin_times_ms else None,
            skew_ms=skew_ms,
        )

    @property
    def newest_decision(self) -> CoordinatorRecord:
        return self.decisions[-1]

    @property
    def markers_needed_since_ms(self) -> int:
        """Time from which on the partition's markers are needed."""
        return self._counting_start()[1]

    def payment(self, markers: PartitionMarkers) -> Payment:
        """Whether the partition has the marker of the newest decision."""
        decision = self.newest_decision
        if markers.complete_since_ms > min(decision.start_timestamp_ms, decision.timestamp_ms) - (
            self.skew_ms
        ):
            # Earlier records are unknown. A marker that came later is proof all the same.
            is_later = bool(markers.markers) and self._is_after_decision(markers.markers[-1])
            return Payment.PAID if is_later else Payment.UNKNOWN
        if not markers.markers:
            return Payment.UNPAID
        last_marker = markers.markers[-1]
        if self.skew_ms == 0:
            return Payment.PAID if self._is_after_decision(last_marker) else Payment.UNPAID
        if last_marker.producer_epoch == decision.producer_epoch:
            return Payment.PAID if decision.is_v2 else self._payment_in_epoch(markers, last_marker)
        if last_marker.producer_epoch < decision.producer_epoch:
            return Payment.PAID if self._is_after_decision(last_marker) else Payment.UNPAID
        return Payment.UNKNOWN if self._is_before_decision(last_marker) else Payment.PAID

    def is_older_than_write(self, last_write_ms: int | None) -> bool:
        """Whether the newest decision is older than the newest record of the open transaction, by
        their timestamps. A producer writes before it asks for the end.
        """
        return (
            last_write_ms is not None
            and last_write_ms > self.newest_decision.timestamp_ms + self.skew_ms
        )

    def has_mixed_outcomes(self, markers: PartitionMarkers) -> bool:
        """Whether the open transaction may hold records of two decisions with different outcomes,
        because an earlier one may have no marker either.
        """
        for decision_count in range(len(self.decisions) - 1, 0, -1):
            earlier_decisions = msgspec.structs.replace(
                self, decisions=self.decisions[:decision_count]
            )
            earlier_payment = earlier_decisions.payment(markers)
            if earlier_payment is Payment.PAID:
                return False
            if earlier_decisions.newest_decision.is_commit != self.newest_decision.is_commit:
                return True
        return False

    def _payment_in_epoch(self, markers: PartitionMarkers, last_marker: PartitionMarker) -> Payment:
        """Whether the last marker of the epoch pays the epoch's last decision; for transactions
        before v2.
        """
        decision = self.newest_decision
        first_counted_index, since_ms = self._counting_start()
        if self.epoch_began_ms is not None and markers.complete_since_ms == BEFORE_ALL_MARKERS_MS:
            first_counted_index, since_ms = 0, BEFORE_ALL_MARKERS_MS  # no clock is needed
        is_countable = first_counted_index >= 0 and markers.complete_since_ms <= since_ms
        epoch_markers = [
            marker
            for marker in markers.markers
            if marker.producer_epoch == decision.producer_epoch and marker.timestamp_ms >= since_ms
        ]
        epoch_decisions = self._newest_epoch_decisions()[max(0, first_counted_index) :]
        lacks_marker = is_countable and len(epoch_markers) < len(epoch_decisions)
        if self._is_after_decision(last_marker):
            return Payment.UNKNOWN if lacks_marker else Payment.PAID
        if self._is_before_decision(last_marker):
            is_contradicted = is_countable and not lacks_marker
            return Payment.UNKNOWN if is_contradicted else Payment.UNPAID
        if last_marker.is_commit != decision.is_commit:
            return Payment.UNKNOWN
        if last_marker.timestamp_ms >= decision.start_timestamp_ms + self.skew_ms:
            return Payment.PAID
        is_paid = (
            is_countable
            and not lacks_marker
            and last_marker.timestamp_ms >= decision.start_timestamp_ms
        )
        return Payment.PAID if is_paid else Payment.UNKNOWN

    def _is_after_decision(self, marker: PartitionMarker) -> bool:
        """Whether a marker was written after the newest decision, whatever the difference of the
        clocks.
        """
        return marker.timestamp_ms >= self.newest_decision.timestamp_ms + self.skew_ms

    def _is_before_decision(self, marker: PartitionMarker) -> bool:
        return marker.timestamp_ms < self.newest_decision.timestamp_ms - self.skew_ms

    def _newest_epoch_decisions(self) -> tuple[CoordinatorRecord, ...]:
        epoch = self.newest_decision.producer_epoch
        return tuple(decision for decision in self.decisions if decision.producer_epoch == epoch)

    def _counting_start(self) -> tuple[int, int]:
        """(index of the decision from which on to count, time from which on markers count). The
        epoch begins with that decision, or a pause comes before it; the index is -1 if counting is
        impossible.
        """
        decisions = self._newest_epoch_decisions()
        for index in range(len(decisions) - 1, 0, -1):
            pause_ms = decisions[index].start_timestamp_ms - decisions[index - 1].timestamp_ms
            if pause_ms > 2 * self.skew_ms:
                return index, decisions[index].start_timestamp_ms - self.skew_ms
        if self.epoch_began_ms is not None:
            return 0, self.epoch_began_ms - self.skew_ms
        return -1, decisions[0].start_timestamp_ms - self.skew_ms
