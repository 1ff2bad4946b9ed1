"""Writes the log directory of a broker, as the broker leaves it after a clean shutdown: a folder
for each replica, checkpoints of their offsets, and the directory's owner.

A replica's folder has: each segment with its indexes and aborted transactions, the snapshots of
producer state and one more at the log's end, leader epochs, the topic's id. A real broker that
starts with such a folder accepts it as its own; ``kafka-dump-log`` reads every file. Kafka's
counterparts: LogManager.shutdown, CleanShutdownFileHandler, MetaPropertiesEnsemble, LocalLog.close,
LogSegment.flush, ProducerStateManager.takeSnapshot.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from txnsim.log.partition_log import PartitionLog
from txnsim.log.segment import Segment
from txnsim.log.txn_index import AbortedTxn
from txnsim.storage import checkpoints, names, producer_snapshot, txn_index
from txnsim.storage._indexes import encode_indexes
from txnsim.storage.checkpoints import encode_offsets
from txnsim.storage.metadata_files import (
    MetaProperties,
    encode_meta_properties,
    encode_partition_metadata,
)
from txnsim.storage.names import FileName, Suffix
from txnsim.storage.stored_file import StoredFile

CLEAN_SHUTDOWN_VERSION: Final = 0


class StoredReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica to write into the directory."""

    log: PartitionLog
    topic_id: uuid.UUID


def log_dir_files(
    replicas: Iterable[StoredReplica], meta: MetaProperties, *, broker_epoch: int
) -> Iterator[StoredFile]:
    """Yield the files of a log directory, with the present state of the logs; the file of a clean
    shutdown has ``broker_epoch``.
    """
    sorted_replicas = sorted(replicas, key=lambda replica: replica.log.topic_partition)
    for replica in sorted_replicas:
        folder = names.directory_name(replica.log.topic_partition)
        for file in partition_files(replica.log, topic_id=replica.topic_id):
            yield file.in_folder(folder)
    logs = [replica.log for replica in sorted_replicas]
    checkpoints = {
        names.FileName.HIGH_WATERMARKS: {log.topic_partition: log.high_watermark for log in logs},
        names.FileName.RECOVERY_POINTS: {log.topic_partition: log.log_end_offset for log in logs},
        # Only if it differs from the name of the oldest segment
        # (LogManager.checkpointLogStartOffsetsInDir).
        names.FileName.LOG_STARTS: {
            log.topic_partition: log.log_start_offset
            for log in logs
            if log.log_start_offset > log.local.segments.first_base_offset
        },
        names.FileName.CLEANER_OFFSETS: {
            log.topic_partition: log.local.cleaned_until
            for log in logs
            if log.local.cleaned_until is not None
        },
    }
    for checkpoint_name, checkpoint_offsets in checkpoints.items():
        yield StoredFile.of(checkpoint_name, encode_offsets(checkpoint_offsets).encode())
    yield StoredFile.of(names.FileName.META_PROPERTIES, encode_meta_properties(meta).encode())
    clean_shutdown = {"version": CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
    yield StoredFile.of(names.FileName.CLEAN_SHUTDOWN, msgspec.json.encode(clean_shutdown))


def partition_files(log: PartitionLog, *, topic_id: uuid.UUID) -> Iterator[StoredFile]:
    """Yield the files of a replica's folder, with the log's present state; batches are referred to,
    not copied.
    """
    log_snapshot = log.snapshot()
    segments = tuple(log.local.segments)
    segment_ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset + 1]
    index_interval_bytes = log.config.index_interval_bytes
    for segment, segment_end in zip(segments, segment_ends, strict=True):
        aborted_txns = [
            txn
            for txn in log_snapshot.aborted
            if segment.base_offset <= txn.last_offset < segment_end
        ]
        yield from _segment_files(segment, aborted_txns, index_interval_bytes=index_interval_bytes)
    for snapshot_offset, producer_entries in log.producers.snapshots_with(log.log_end_offset):
        yield StoredFile.of(
            Suffix.SNAPSHOT.file_name(snapshot_offset), producer_snapshot.encode(producer_entries)
        )
    epochs_text = checkpoints.encode_leader_epochs(log_snapshot.leader_epochs)
    yield StoredFile.of(FileName.LEADER_EPOCHS, epochs_text.encode())
    yield StoredFile.of(FileName.PARTITION_METADATA, encode_partition_metadata(topic_id).encode())


def _segment_files(
    segment: Segment, aborted_txns: list[AbortedTxn], *, index_interval_bytes: int
) -> Iterator[StoredFile]:
    base_offset = segment.base_offset
    batches = tuple(segment.batches())
    offset_index, time_index = encode_indexes(
        batches, base_offset=base_offset, index_interval_bytes=index_interval_bytes
    )
    yield StoredFile(path=Suffix.LOG.file_name(base_offset), parts=batches)
    yield StoredFile.of(Suffix.INDEX.file_name(base_offset), offset_index)
    yield StoredFile.of(Suffix.TIME_INDEX.file_name(base_offset), time_index)
    if aborted_txns:
        yield StoredFile.of(Suffix.TXN_INDEX.file_name(base_offset), txn_index.encode(aborted_txns))
