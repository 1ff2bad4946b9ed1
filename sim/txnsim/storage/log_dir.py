"""Writes the log directory of a broker, as the broker leaves it after a clean shutdown: a folder
for each replica, checkpoints of their offsets, and the directory's owner.

This is done in two phases. A ``ReplicaCut`` is a replica at one moment, and is cheap: the cuts of
all replicas of all brokers are taken in one step of the loop. Files are made of cuts in small
steps, while brokers go on.

A replica's folder has: each segment with its indexes and aborted transactions, the snapshots of
producer state and one more at the log's end, leader epochs, the topic's id. A real broker that
starts with such a folder accepts it as its own; ``kafka-dump-log`` reads every file. Kafka's
counterparts: LogManager.shutdown, CleanShutdownFileHandler, MetaPropertiesEnsemble, LocalLog.close,
LogSegment.flush, ProducerStateManager.takeSnapshot.
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable
from typing import Final

import msgspec

from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state_manager import ProducerSnapshots
from txnsim.log.txn_index import AbortedTxn
from txnsim.storage import checkpoints, names, producer_snapshot, txn_index
from txnsim.storage._indexes import encode_indexes_in_steps
from txnsim.storage.checkpoints import encode_offsets
from txnsim.storage.metadata_files import (
    MetaProperties,
    encode_meta_properties,
    encode_partition_metadata,
)
from txnsim.storage.names import FileName, Suffix
from txnsim.storage.stored_file import StoredFile
from txnsim.types import TopicPartition

CLEAN_SHUTDOWN_VERSION: Final = 0


class SegmentCut(msgspec.Struct, frozen=True):
    """A segment as it was at one moment."""

    base_offset: int
    end_offset: int
    """Where the next segment begins; behind the log's end for the last one."""
    batches: tuple[bytes, ...]


class ReplicaCut(msgspec.Struct, frozen=True, kw_only=True):
    """A replica as it was at one moment: all that its folder and the checkpoints say. Batches are
    referred to, not copied.
    """

    topic_partition: TopicPartition
    topic_id: uuid.UUID
    segments: tuple[SegmentCut, ...]
    aborted: tuple[AbortedTxn, ...]
    producer_snapshots: ProducerSnapshots
    leader_epochs: tuple[tuple[int, int], ...]
    """(leader epoch, first offset) pairs."""
    index_interval_bytes: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    cleaned_until: int | None
    """Offset up to which the cleaner has come; None if it never ran."""

    @classmethod
    def of_log(cls, log: PartitionLog, *, topic_id: uuid.UUID) -> ReplicaCut:
        """Take the present state of a log, without encoding anything: many replicas are cut in one
        step.
        """
        segments = tuple(log.local.segments)
        segment_ends = [*(segment.base_offset for segment in segments[1:]), log.log_end_offset + 1]
        return cls(
            topic_partition=log.topic_partition,
            topic_id=topic_id,
            segments=tuple(
                [
                    SegmentCut(segment.base_offset, segment_end, tuple(segment.batches()))
                    for segment, segment_end in zip(segments, segment_ends, strict=True)
                ]
            ),
            aborted=log.local.index.entries(),
            producer_snapshots=log.producers.snapshots_with(log.log_end_offset),
            leader_epochs=log.epochs.entries(),
            index_interval_bytes=log.config.index_interval_bytes,
            log_start_offset=log.log_start_offset,
            log_end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            cleaned_until=log.local.cleaned_until,
        )


def log_dir_files_in_steps(
    replicas: Iterable[ReplicaCut], meta: MetaProperties, *, broker_epoch: int
) -> Generator[int, None, list[StoredFile]]:
    """Make the files of a log directory; the file of a clean shutdown has ``broker_epoch``.

    Yields:
        How many elements were encoded, after a millisecond of work or two: other tasks may run,
        as a cut never changes.
    """
    sorted_replicas = sorted(replicas, key=lambda replica: replica.topic_partition)
    files: list[StoredFile] = []
    for replica in sorted_replicas:
        folder = names.directory_name(replica.topic_partition)
        folder_files = yield from replica_files_in_steps(replica)
        files += [file.in_folder(folder) for file in folder_files]
        yield len(folder_files)
    offsets_by_file_name = {
        FileName.HIGH_WATERMARKS: {
            replica.topic_partition: replica.high_watermark for replica in sorted_replicas
        },
        FileName.RECOVERY_POINTS: {
            replica.topic_partition: replica.log_end_offset for replica in sorted_replicas
        },
        # Only if it differs from the name of the oldest segment
        # (LogManager.checkpointLogStartOffsetsInDir).
        FileName.LOG_STARTS: {
            replica.topic_partition: replica.log_start_offset
            for replica in sorted_replicas
            if replica.log_start_offset > replica.segments[0].base_offset
        },
        FileName.CLEANER_OFFSETS: {
            replica.topic_partition: replica.cleaned_until
            for replica in sorted_replicas
            if replica.cleaned_until is not None
        },
    }
    for checkpoint_name, checkpoint_offsets in offsets_by_file_name.items():
        files.append(StoredFile.of(checkpoint_name, encode_offsets(checkpoint_offsets).encode()))
        yield len(checkpoint_offsets)
    clean_shutdown_fields = {"version": CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
    return [
        *files,
        StoredFile.of(FileName.META_PROPERTIES, encode_meta_properties(meta).encode()),
        StoredFile.of(FileName.CLEAN_SHUTDOWN, msgspec.json.encode(clean_shutdown_fields)),
    ]


def replica_files_in_steps(replica: ReplicaCut) -> Generator[int, None, list[StoredFile]]:
    """Make the files of a replica's folder, with breaks as ``log_dir_files_in_steps`` has them."""
    files: list[StoredFile] = []
    for segment in replica.segments:
        aborted_txns = [
            txn
            for txn in replica.aborted
            if segment.base_offset <= txn.last_offset < segment.end_offset
        ]
        offset_index, time_index = yield from encode_indexes_in_steps(
            segment.batches,
            base_offset=segment.base_offset,
            index_interval_bytes=replica.index_interval_bytes,
        )
        base_offset = segment.base_offset
        files += [
            StoredFile(path=Suffix.LOG.file_name(base_offset), parts=segment.batches),
            StoredFile.of(Suffix.INDEX.file_name(base_offset), offset_index),
            StoredFile.of(Suffix.TIME_INDEX.file_name(base_offset), time_index),
        ]
        if aborted_txns:
            encoded_txns = txn_index.encode(aborted_txns)
            files.append(StoredFile.of(Suffix.TXN_INDEX.file_name(base_offset), encoded_txns))
    for snapshot_offset, producer_entries in replica.producer_snapshots.all_snapshots():
        encoded_entries = yield from producer_snapshot.encode_in_steps(producer_entries)
        files.append(StoredFile.of(Suffix.SNAPSHOT.file_name(snapshot_offset), encoded_entries))
    epochs_text = checkpoints.encode_leader_epochs(replica.leader_epochs)
    partition_metadata = encode_partition_metadata(replica.topic_id)
    return [
        *files,
        StoredFile.of(FileName.LEADER_EPOCHS, epochs_text.encode()),
        StoredFile.of(FileName.PARTITION_METADATA, partition_metadata.encode()),
    ]
