"""The folder of one replica, as a broker leaves it that stops in order.

In it are: each segment with its indexes and aborted transactions, the snapshots of producer state
and one more at the log's end, leader epochs, the topic's id. A stopped broker that finds such a
folder under its log directory takes it as its own; ``kafka-dump-log`` reads every file. Kafka's
counterparts: LocalLog.close, LogSegment.flush, ProducerStateManager.takeSnapshot.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from txnsim.log.partition_log import PartitionLog
from txnsim.log.segment import Segment
from txnsim.log.txn_index import AbortedTxn
from txnsim.storage import checkpoints, producer_snapshot, txn_index
from txnsim.storage.indexes import encode_indexes
from txnsim.storage.metadata_files import encode_partition_metadata
from txnsim.storage.names import (
    INDEX_SUFFIX,
    LEADER_EPOCHS_NAME,
    LOG_SUFFIX,
    PARTITION_METADATA_NAME,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    file_name,
)
from txnsim.storage.stored_file import StoredFile


def partition_files(log: PartitionLog, *, topic_id: uuid.UUID) -> Iterator[StoredFile]:
    """The files of a replica's folder, with the log's state as it is now.

    Args:
        log: Its batches are referred to, not copied.
        topic_id: For ``partition.metadata``.
    """
    state = log.snapshot()
    segments = tuple(log.local.segments)
    ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset + 1]
    interval = log.config.index_interval_bytes
    for segment, end in zip(segments, ends, strict=True):
        aborted = [one for one in state.aborted if segment.base_offset <= one.last_offset < end]
        yield from _segment_files(segment, aborted, index_interval_bytes=interval)
    for offset, entries in log.producers.snapshots_with(log.log_end_offset):
        yield StoredFile.of(file_name(offset, SNAPSHOT_SUFFIX), producer_snapshot.encode(entries))
    epochs = checkpoints.encode_leader_epochs(state.epochs)
    yield StoredFile.of(LEADER_EPOCHS_NAME, epochs.encode())
    yield StoredFile.of(PARTITION_METADATA_NAME, encode_partition_metadata(topic_id).encode())


def _segment_files(
    segment: Segment, aborted: list[AbortedTxn], *, index_interval_bytes: int
) -> Iterator[StoredFile]:
    base_offset = segment.base_offset
    batches = tuple(segment.batches())
    offsets, times = encode_indexes(
        batches, base_offset=base_offset, index_interval_bytes=index_interval_bytes
    )
    yield StoredFile(path=file_name(base_offset, LOG_SUFFIX), parts=batches)
    yield StoredFile.of(file_name(base_offset, INDEX_SUFFIX), offsets)
    yield StoredFile.of(file_name(base_offset, TIME_INDEX_SUFFIX), times)
    if aborted:
        yield StoredFile.of(file_name(base_offset, TXN_INDEX_SUFFIX), txn_index.encode(aborted))
