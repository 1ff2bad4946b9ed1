"""Checks what producers do in a replica's log, batch by batch, against Kafka's rules.

The state is that of a partition (``txnsim.log.producer_state``). The rules are those by which a
leader accepts a batch (``txnsim.log.leader_append``), so this walk and a broker decide alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from txnsim.errors import ErrorCode
from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.log.leader_append import Refusal, check_data, check_marker
from txnsim.log.producer_snapshot import ProducerSnapshot, SnapshotEntry
from txnsim.log.producer_state import NO_OFFSET, PartitionProducers, ProducerEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.releases.rules import LATEST_RULES
from txnsim.wire.batch import COMMIT, BatchHeader
from txnsim_spark.scan import kernel
from txnsim_spark.soundness._replica_facts import ReplicaFacts
from txnsim_spark.soundness._segment_parts import CONTINUES_PREVIOUS
from txnsim_spark.soundness.violations import Findings, Invariant

RULE_OF_ERROR: Final = {
    ErrorCode.out_of_order_sequence_number: Invariant.SEQUENCE,
    ErrorCode.invalid_producer_epoch: Invariant.PRODUCER_EPOCH,
    ErrorCode.invalid_txn_state: Invariant.OUTSIDE_TRANSACTION,
    ErrorCode.transaction_coordinator_fenced: Invariant.COORDINATOR_EPOCH,
}
"""Error with which a leader refuses a batch -> the rule that the batch breaks."""
EXPECTATION_OF_RULE: Final = {
    Invariant.SEQUENCE: "the sequence after the last one, 0 in a new epoch",
    Invariant.PRODUCER_EPOCH: "the producer's epoch or a higher one",
    Invariant.OUTSIDE_TRANSACTION: "only transactional batches until the marker",
    Invariant.COORDINATOR_EPOCH: "the coordinator's epoch or a higher one",
}
NEVER_MS: Final = 1 << 63

Row = list[int]
"""A row of a table of batches: the kernel's columns and ``CONTINUES_PREVIOUS``."""


class ProducerStates:
    """The state of a log's producers after the batches so far.

    Args:
        replica_facts: Facts on the replica.
        snapshot_entries: Entries of the snapshot at the beginning of the log.
        lacks_snapshot: Whether there is no such snapshot, so that it is unknown which transactions
            were open there.
    """

    def __init__(
        self,
        replica_facts: ReplicaFacts,
        snapshot_entries: Iterable[SnapshotEntry] = (),
        *,
        lacks_snapshot: bool = False,
    ) -> None:
        self._facts = replica_facts
        self._lacks_snapshot = lacks_snapshot
        self._marked: dict[int, int] = {}
        """Producer id -> epoch, for producers first seen by their markers; their past is
        unknown.
        """
        self.state = PartitionProducers.of_snapshot(
            ProducerSnapshot.of_entries(tuple(snapshot_entries)), now_ms=0, expiration_ms=NEVER_MS
        )
        self.last_offsets: dict[int, int] = {}
        """Producer id -> offset of its last batch so far, markers included."""
        self.aborted: list[AbortedTxn] = []
        """Aborted transactions since the walk last took them, which it does after each segment."""

    def take(self, row: Row, findings: Findings) -> None:
        """Check the next batch of a producer, and apply it."""
        producer_id, epoch = row[kernel.PRODUCER_ID], row[kernel.PRODUCER_EPOCH]
        producer_entry = self.state.find(producer_id)
        self.last_offsets[producer_id] = row[kernel.LAST_OFFSET]
        marked_epoch = self._marked.pop(producer_id, None)
        if row[kernel.ATTRIBUTES] & BatchHeader.CONTROL:
            if producer_entry is None or marked_epoch == epoch:
                self._marked[producer_id] = epoch
            _report_refusal(_refusal_of_marker(producer_entry, row), row, findings)
            if self._is_idle(producer_entry):
                _report_idle_marker(row, findings)
            self._apply_marker(row)
            return
        if producer_entry is not None and not row[CONTINUES_PREVIOUS] and marked_epoch != epoch:
            _report_refusal(self._refusal_of_data(producer_entry, row), row, findings)
        self._apply_data(row)

    # Steps

    def _is_idle(self, entry: ProducerEntry | None) -> bool:
        """Whether a marker ends no transaction, as far as is known."""
        if entry is None:
            return not self._lacks_snapshot
        return entry.txn_first_offset == NO_OFFSET

    def _refusal_of_data(self, entry: ProducerEntry, row: Row) -> Refusal | None:
        """Why a leader would refuse the batch; None also where the leader may have forgotten the
        producer.
        """
        silent_ms = row[kernel.MAX_TIMESTAMP] - entry.last_timestamp
        if silent_ms >= self._facts.producer_expiration_ms:
            return None
        return check_data(
            entry,
            producer_epoch=row[kernel.PRODUCER_EPOCH],
            base_sequence=row[kernel.BASE_SEQUENCE],
            is_transactional=bool(row[kernel.ATTRIBUTES] & BatchHeader.TRANSACTIONAL),
            is_client=self._facts.has_sequences,
            verification=None,
            release_rules=LATEST_RULES,
        )

    def _apply_data(self, row: Row) -> None:
        sequence, base_offset, last_offset = (
            row[column] for column in (kernel.BASE_SEQUENCE, kernel.BASE_OFFSET, kernel.LAST_OFFSET)
        )
        batch = ReplicatedBatch(
            batch_bytes=b"",
            base_offset=base_offset,
            last_offset=last_offset,
            leader_epoch=row[kernel.LEADER_EPOCH],
            producer_id=row[kernel.PRODUCER_ID],
            producer_epoch=row[kernel.PRODUCER_EPOCH],
            last_sequence=-1
            if sequence < 0
            else (sequence + last_offset - base_offset) & BatchHeader.SEQUENCE_MAX,
            timestamp_ms=row[kernel.MAX_TIMESTAMP],
            is_transactional=bool(row[kernel.ATTRIBUTES] & BatchHeader.TRANSACTIONAL),
            is_control=False,
        )
        self.state.apply(batch)

    def _apply_marker(self, row: Row) -> None:
        """End the producer's transaction, if one is open."""
        try:
            aborted = self.state.apply_marker(
                producer_id=row[kernel.PRODUCER_ID],
                producer_epoch=row[kernel.PRODUCER_EPOCH],
                coordinator_epoch=row[kernel.COORDINATOR_EPOCH],
                is_commit=row[kernel.CONTROL_TYPE] == COMMIT,
                marker_offset=row[kernel.BASE_OFFSET],
                timestamp=row[kernel.MAX_TIMESTAMP],
            )
        except KeyError:  # in damaged logs two transactions begin at one offset
            return
        self.state.release_below(row[kernel.BASE_OFFSET] + 1)
        if aborted is not None:
            self.aborted.append(aborted)


def _refusal_of_marker(entry: ProducerEntry | None, row: Row) -> Refusal | None:
    return check_marker(
        entry,
        producer_epoch=row[kernel.PRODUCER_EPOCH],
        coordinator_epoch=row[kernel.COORDINATOR_EPOCH],
        transaction_version=0,  # by which version it was written, no marker says
        release_rules=LATEST_RULES,
    )


def _report_refusal(refusal: Refusal | None, row: Row, findings: Findings) -> None:
    """Add the violation that a leader would have refused a batch of the log."""
    if refusal is not None:
        invariant = RULE_OF_ERROR[refusal.error]
        findings.add(
            invariant, refusal.reason, EXPECTATION_OF_RULE[invariant], **_batch_location(row)
        )


def _report_idle_marker(row: Row, findings: Findings) -> None:
    """Add a notice about a marker that ended nothing: this is sound, but useful if a transaction is
    missing.
    """
    actual = f"a marker of producer {row[kernel.PRODUCER_ID]}, which has no transaction open"
    expected = "a transaction that it ends"
    findings.add(Invariant.IDLE_MARKER, actual, expected, **_batch_location(row), is_notice=True)


def _batch_location(row: Row) -> dict[str, int]:
    return {
        "position": row[kernel.POSITION],
        "offset": row[kernel.BASE_OFFSET],
        "producer_id": row[kernel.PRODUCER_ID],
        "producer_epoch": row[kernel.PRODUCER_EPOCH],
    }
