"""A stored batch with the header fields that a log needs: for followers, and when a log is
reloaded.

A leader that has just appended knows these fields and passes them on; if only bytes are left (older
batches, a restart), the header is read once. Kafka's counterpart: the batches of MemoryRecords,
which each broker parses for itself.
"""

from __future__ import annotations

from txnsim.interbroker.replication import ReplicatedBatch
from txnsim.wire.batch import COMMIT, BatchHeader, read_batch_header, read_control_record


def describe_batch(batch: bytes, header: BatchHeader | None = None) -> ReplicatedBatch:
    """Describe stored bytes for an append.

    Raises:
        CorruptBatchError: The bytes are no batch.
    """
    if header is None:
        header = read_batch_header(batch, 0)
    is_marker, is_commit, coordinator_epoch = False, False, -1
    if header.is_control:
        control_record = read_control_record(batch)
        if control_record is not None and control_record.is_marker:
            is_marker = True
            is_commit = control_record.type == COMMIT
            coordinator_epoch = control_record.coordinator_epoch
    return ReplicatedBatch(
        batch_bytes=batch,
        base_offset=header.base_offset,
        last_offset=header.last_offset,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        last_sequence=header.last_sequence,
        timestamp_ms=header.max_timestamp_ms,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        is_marker=is_marker,
        committed=is_commit,
        coordinator_epoch=coordinator_epoch,
    )
