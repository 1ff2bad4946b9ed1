"""Which decisions of a coordinator a partition has had its markers for. Pure.

A coordinator decides once for each transaction, and each partition in it gets one marker: the
marker *pays* the decision there. What a partition has open behind the marker that paid the last
decision was in no transaction that was decided. COMMIT would publish it. Where the marker never
came (KAFKA-20734), the same decision is due. So whoever pairs a decision with a partition asks here
first.

Three things tell whether the last marker in front of the open transaction pays a decision:

- **Epoch.** A marker bears its decision's epoch. Transactions v2 raise it with each end, so there
  it is proof. Before that an epoch has many transactions.
- **Order.** The marker is written after the decision, and before the id's next transaction begins.
  Two brokers stamp them. Their clocks are taken to agree within ``SKEW_MS``.
- **Count.** Where both logs are whole since a moment between two transactions, each decision since
  then has its marker, or one is lost. Clocks that differ by more show here: count and clocks
  contradict each other.

Where these do not agree, or the markers are gone (retention, compaction) or could not be read, the
answer is ``UNKNOWN``. Kafka's counterparts: TransactionMetadata, ProducerStateManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from txnsim.types import TopicPartition

SKEW_MS: Final = 1_000
"""Clocks of two brokers differ by less."""
FROM_THE_START: Final = -(1 << 62)
"""Milliseconds: before every marker."""
NEVER_WHOLE: Final = 1 << 62
"""Milliseconds: after every marker."""


class CoordinatorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record of a transactional id in its coordinator's log."""

    state: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]
    is_v2: bool
    """Of transactions v2: its end stands at the next epoch."""
    timestamp_ms: int
    """When the coordinator wrote it, by its own clock."""
    start_timestamp_ms: int
    """When the coordinator's transaction began, by the same clock; ``timestamp_ms`` if unknown."""

    @property
    def is_decision(self) -> bool:
        return self.state in ("PrepareCommit", "PrepareAbort")

    @property
    def is_commit(self) -> bool:
        """Of decisions."""
        return self.state == "PrepareCommit"

    def may_end(self, producer_epoch: int) -> bool:
        """Whether this decision can be that of records of a producer epoch. Transactions v2, and a
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
    """When the leader wrote it, by its own clock."""


class PartitionMarkers(msgspec.Struct, frozen=True, kw_only=True):
    """The markers of a producer on a partition in front of its open transaction."""

    markers: tuple[PartitionMarker, ...] = ()
    """By offset."""
    whole_since_ms: int = NEVER_WHOLE
    """No marker with this timestamp or a later one is missing."""


NO_MARKERS: Final = PartitionMarkers()
"""The log could not be read."""


class Payment(StrEnum):
    """Whether a partition has had the marker of a decision."""

    PAID = "paid"
    UNPAID = "unpaid"
    UNKNOWN = "unknown"


class DueDecisions(msgspec.Struct, frozen=True, kw_only=True):
    """A coordinator's decisions that list a partition, and whether its markers pay them."""

    decisions: tuple[CoordinatorRecord, ...]
    """Oldest first. The newest decision is that of the partition's open transaction, if any is."""
    first_known_ms: int | None
    """When their epoch began, by the coordinator's log; None where the log has that no more."""
    skew_ms: int = SKEW_MS
    """By how much clocks differ; 0 where one clock stamps both sides."""

    @classmethod
    def on(
        cls,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        log: Sequence[CoordinatorRecord],
        *,
        skew_ms: int = SKEW_MS,
    ) -> DueDecisions | None:
        """Select them.

        Args:
            partition: What has the transaction open.
            producer_id: As its leader tells.
            producer_epoch: As its leader tells.
            log: What the coordinator wrote down of the producer's id, oldest first.
            skew_ms: By how much the clocks of decisions and of markers may differ.

        Returns:
            None where no decision lists the partition.
        """
        producer_records = [noted for noted in log if noted.producer_id == producer_id]
        decisions = [
            noted
            for noted in producer_records
            if noted.is_decision and partition in noted.partitions
        ]
        while decisions and not decisions[-1].may_end(producer_epoch):
            decisions.pop()
        if not decisions:
            return None
        newest_epoch = decisions[-1].producer_epoch
        beginnings = [
            noted.timestamp_ms
            for noted in producer_records
            if noted.state == "Empty" and noted.producer_epoch == newest_epoch
        ]
        return cls(
            decisions=tuple(decisions),
            first_known_ms=beginnings[0] if beginnings else None,
            skew_ms=skew_ms,
        )

    @property
    def newest(self) -> CoordinatorRecord:
        return self.decisions[-1]

    @property
    def since_ms(self) -> int:
        """The time from which on the markers are needed."""
        return self._count_from()[1]

    def payment(self, markers: PartitionMarkers) -> Payment:
        """Whether the newest decision has its marker on the partition."""
        decision = self.newest
        if markers.whole_since_ms > min(decision.start_timestamp_ms, decision.timestamp_ms) - (
            self.skew_ms
        ):
            # What came before is unknown. A marker that came later is proof all the same.
            is_behind = bool(markers.markers) and self._is_after_decision(markers.markers[-1])
            return Payment.PAID if is_behind else Payment.UNKNOWN
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
        """Whether the newest record of the open transaction, by its timestamp, came after the
        newest decision. A producer writes before it asks for the end.
        """
        return last_write_ms is not None and last_write_ms > self.newest.timestamp_ms + self.skew_ms

    def has_mixed_outcomes(self, markers: PartitionMarkers) -> bool:
        """Whether the open transaction may hold records of two decisions with different outcomes,
        as an earlier one is not known to have its marker. The newest decision has none.
        """
        for number in range(len(self.decisions) - 1, 0, -1):
            earlier = msgspec.structs.replace(self, decisions=self.decisions[:number])
            paid = earlier.payment(markers)
            if paid is Payment.PAID:
                return False
            if earlier.newest.is_commit != self.newest.is_commit:
                return True
        return False

    def _payment_in_epoch(self, markers: PartitionMarkers, last_marker: PartitionMarker) -> Payment:
        """Before transactions v2: whether the last marker of the epoch pays its last decision."""
        decision = self.newest
        number, since_ms = self._count_from()
        if self.first_known_ms is not None and markers.whole_since_ms == FROM_THE_START:
            number, since_ms = 0, FROM_THE_START  # no clock is needed
        is_whole = number >= 0 and markers.whole_since_ms <= since_ms
        written = [
            marker
            for marker in markers.markers
            if marker.producer_epoch == decision.producer_epoch and marker.timestamp_ms >= since_ms
        ]
        decided = self._of_epoch()[max(0, number) :]
        is_short = is_whole and len(written) < len(decided)
        if self._is_after_decision(last_marker):
            return Payment.UNKNOWN if is_short else Payment.PAID
        if self._is_before_decision(last_marker):
            is_contradicted = is_whole and not is_short
            return Payment.UNKNOWN if is_contradicted else Payment.UNPAID
        if last_marker.is_commit != decision.is_commit:
            return Payment.UNKNOWN
        if last_marker.timestamp_ms >= decision.start_timestamp_ms + self.skew_ms:
            return Payment.PAID
        is_paid = (
            is_whole and not is_short and last_marker.timestamp_ms >= decision.start_timestamp_ms
        )
        return Payment.PAID if is_paid else Payment.UNKNOWN

    def _is_after_decision(self, marker: PartitionMarker) -> bool:
        """Whether a marker was written after the decision, whatever the clocks."""
        return marker.timestamp_ms >= self.newest.timestamp_ms + self.skew_ms

    def _is_before_decision(self, marker: PartitionMarker) -> bool:
        return marker.timestamp_ms < self.newest.timestamp_ms - self.skew_ms

    def _of_epoch(self) -> tuple[CoordinatorRecord, ...]:
        """The decisions whose markers bear the newest one's epoch."""
        epoch = self.newest.producer_epoch
        return tuple(decision for decision in self.decisions if decision.producer_epoch == epoch)

    def _count_from(self) -> tuple[int, int]:
        """Where counting begins: number of a decision, and the time since which markers count. The
        epoch begins with that decision, or a pause lies before it; number -1: nothing is countable.
        """
        decisions = self._of_epoch()
        for number in range(len(decisions) - 1, 0, -1):
            pause_ms = decisions[number].start_timestamp_ms - decisions[number - 1].timestamp_ms
            if pause_ms > 2 * self.skew_ms:
                return number, decisions[number].start_timestamp_ms - self.skew_ms
        if self.first_known_ms is not None:
            return 0, self.first_known_ms - self.skew_ms
        return -1, decisions[0].start_timestamp_ms - self.skew_ms
