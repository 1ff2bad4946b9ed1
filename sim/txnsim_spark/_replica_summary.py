"""A summary of the files in a replica's folder, read once, for any broker's files."""

from __future__ import annotations

from pathlib import Path

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.storage import names, producer_snapshot
from txnsim.storage.log_file import StoredBatch, TornTail, read_log_file
from txnsim.storage.regular_file import RegularFile
from txnsim.wire.batch import read_control_record


class ReplicaOpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction without an end in this replica."""

    producer_id: int
    producer_epoch: int
    first_offset: int


class ReplicaSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the files of a replica's folder say."""

    topic: str
    partition: int
    directory: str
    segments: int
    batches: int
    bytes: int
    """Size of the sound batches, in bytes."""
    first_offset: int
    """First offset of the oldest segment."""
    end_offset: int
    """Offset after the last sound batch."""
    open_transactions: tuple[ReplicaOpenTransaction, ...]
    """The transactions that are still open, by first offset."""
    torn: TornTail | None = None
    """The data that a broker would cut off; later data, also in later segments, is not counted."""
    torn_file: str = ""


def summarize(partition_directory: names.PartitionDirectory) -> ReplicaSummary:
    """Read a replica from its oldest segment to its end, or to the first malformed place.

    Raises:
        OSError: A file can't be read.
    """
    files = names.Suffix.LOG.files_in(partition_directory.path)
    first_offset = files[0][0] if files else 0
    batch_walk = _BatchWalk(
        first_offset, _transactions_open_before(partition_directory.path, first_offset)
    )
    torn_tails: list[TornTail] = []
    torn_file = ""
    for _, path in files:
        for stored_batch in read_log_file(path, on_torn=torn_tails.append):
            batch_walk.take(stored_batch)
        if torn_tails:
            torn_file = path.name
            break
    return ReplicaSummary(
        topic=partition_directory.topic_partition.topic,
        partition=partition_directory.topic_partition.partition,
        directory=str(partition_directory.path),
        segments=len(files),
        batches=batch_walk.batches,
        bytes=batch_walk.bytes,
        first_offset=first_offset,
        end_offset=batch_walk.end_offset,
        open_transactions=tuple(sorted(batch_walk.open.values(), key=lambda txn: txn.first_offset)),
        torn=torn_tails[0] if torn_tails else None,
        torn_file=torn_file,
    )


def _transactions_open_before(directory: Path, offset: int) -> dict[int, ReplicaOpenTransaction]:
    """Transactions that began in segments which are deleted by now, from the snapshot there."""
    snapshot_path = directory / names.Suffix.SNAPSHOT.file_name(offset)
    try:
        producer_entries = producer_snapshot.decode(RegularFile(snapshot_path).read())
    except (OSError, CorruptLogRecordError):
        return {}  # a broker goes on without it, too
    return {
        producer_entry.producer_id: ReplicaOpenTransaction(
            producer_id=producer_entry.producer_id,
            producer_epoch=producer_entry.producer_epoch,
            first_offset=producer_entry.txn_first_offset,
        )
        for producer_entry in producer_entries
        if producer_entry.txn_first_offset >= 0
    }


class _BatchWalk:
    """The state of the walk over the batches so far."""

    __slots__ = ("batches", "bytes", "end_offset", "open")

    def __init__(self, offset: int, open_transactions: dict[int, ReplicaOpenTransaction]) -> None:
        self.batches = 0
        self.bytes = 0
        self.end_offset = offset
        self.open = open_transactions

    def take(self, stored_batch: StoredBatch) -> None:
        """Add the next batch."""
        header = stored_batch.header
        self.batches += 1
        self.bytes += header.size
        self.end_offset = header.last_offset + 1
        if header.is_control:
            control_record = read_control_record(stored_batch.batch_bytes)
            if control_record is not None and control_record.is_marker:
                self.open.pop(header.producer_id, None)
        elif (
            header.has_producer_id
            and header.is_transactional
            and header.producer_id not in self.open
        ):
            self.open[header.producer_id] = ReplicaOpenTransaction(
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                first_offset=header.base_offset,
            )
