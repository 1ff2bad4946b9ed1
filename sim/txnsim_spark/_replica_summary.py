"""A summary of the files in a replica's folder, read once, for any broker's files."""

from __future__ import annotations

from pathlib import Path

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.storage import names, producer_snapshot
from txnsim.storage.log_file import StoredBatch, TornTail, read_log_file
from txnsim.storage.regular_file import RegularFile
from txnsim.wire.batch import read_control_record


class OpenTransaction(msgspec.Struct, frozen=True, kw_only=True):
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
    open_transactions: tuple[OpenTransaction, ...]
    """The transactions that are still open, by first offset."""
    torn: TornTail | None = None
    """The data that a broker would cut off; later data, also in later segments, is not counted."""
    torn_file: str = ""


def summarize(replica: names.PartitionDirectory) -> ReplicaSummary:
    """Read a replica from its oldest segment to its end, or to the first malformed place.

    Raises:
        OSError: A file can't be read.
    """
    files = names.Suffix.LOG.files_in(replica.path)
    first_offset = files[0][0] if files else 0
    walk = _Walk(first_offset, _transactions_open_before(replica.path, first_offset))
    torn: list[TornTail] = []
    torn_file = ""
    for _, path in files:
        for stored in read_log_file(path, on_torn=torn.append):
            walk.take(stored)
        if torn:
            torn_file = path.name
            break
    return ReplicaSummary(
        topic=replica.topic_partition.topic,
        partition=replica.topic_partition.partition,
        directory=str(replica.path),
        segments=len(files),
        batches=walk.batches,
        bytes=walk.bytes,
        first_offset=first_offset,
        end_offset=walk.end_offset,
        open_transactions=tuple(sorted(walk.open.values(), key=lambda txn: txn.first_offset)),
        torn=torn[0] if torn else None,
        torn_file=torn_file,
    )


def _transactions_open_before(directory: Path, offset: int) -> dict[int, OpenTransaction]:
    """Transactions that began in segments which are deleted by now, from the snapshot there."""
    path = directory / names.Suffix.SNAPSHOT.file_name(offset)
    try:
        entries = producer_snapshot.decode(RegularFile(path).read())
    except (OSError, CorruptLogRecordError):
        return {}  # a broker goes on without it, too
    return {
        entry.producer_id: OpenTransaction(
            producer_id=entry.producer_id,
            producer_epoch=entry.producer_epoch,
            first_offset=entry.txn_first_offset,
        )
        for entry in entries
        if entry.txn_first_offset >= 0
    }


class _Walk:
    """The state of the walk over the batches so far."""

    __slots__ = ("batches", "bytes", "end_offset", "open")

    def __init__(self, offset: int, opened: dict[int, OpenTransaction]) -> None:
        self.batches = 0
        self.bytes = 0
        self.end_offset = offset
        self.open = opened

    def take(self, stored: StoredBatch) -> None:
        """Add the next batch."""
        header = stored.header
        self.batches += 1
        self.bytes += header.size
        self.end_offset = header.last_offset + 1
        if header.is_control:
            control = read_control_record(stored.data)
            if control is not None and control.is_marker:
                self.open.pop(header.producer_id, None)
        elif (
            header.has_producer_id
            and header.is_transactional
            and header.producer_id not in self.open
        ):
            self.open[header.producer_id] = OpenTransaction(
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
                first_offset=header.base_offset,
            )
