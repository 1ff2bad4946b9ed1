"""Loads a replica's log from its folder, as a starting broker does.

After a clean shutdown every file is trusted. After a kill the segments from the recovery point on
are read batch by batch: everything after the last valid batch is dropped, with all later segments;
indexes and snapshots of that part are rebuilt. The caller gets all dropped data, with place and
size. Nothing is written. Kafka's counterparts: LogLoader, LogSegment.recover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import ConfigError, CorruptBatchError, CorruptLogRecordError
from txnsim.log.config import LogConfig
from txnsim.log.log_loader import LogLoader
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_snapshot import SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.storage import checkpoints, names, producer_snapshot, txn_index
from txnsim.storage.log_file import TornTail, read_log_file
from txnsim.storage.regular_file import RegularFile
from txnsim.storage.replica_files import ReplicaFiles, SegmentFiles, replica_files
from txnsim.types import STORED_EPOCH_MAX, STORED_NUMBER_MAX
from txnsim.wire.batch import BatchHeader, read_control_record

DEVIATIONS: Final = (
    "`serve --load`: a batch that can't be separated from its neighbours, or whose offsets go back,"
    " ends the log also after a clean stop of the broker. Apache Kafka does not look there, and"
    " fails to read the batches after it.",
    "`serve --load`: a leader-epoch-checkpoint that is missing or damaged is made anew from the"
    " batches; Apache Kafka goes on without, or takes the log directory offline.",
    "`serve --load`: segments that span more than 2³¹ offsets are not split.",
)

_OLD_BATCH_MIN: Final = 14
"""Smallest size of a message of format 0, after offset and size."""
_MILLION: Final = 1_000_000


class CheckpointedOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of one replica in the checkpoints of its log directory."""

    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_until: int | None = None


class DataLoss(msgspec.Struct, frozen=True, kw_only=True):
    """Data that a starting broker drops."""

    path: str
    position: int
    """Position of the first dropped byte in the file."""
    size: int
    """Number of dropped bytes."""
    reason: str

    def __str__(self) -> str:
        file_position = f"{self.path}, byte {self.position}"
        return f"{file_position}: {self.reason}; {self.size} bytes are thrown away"


class LoadedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica's log, and the data that was dropped."""

    log: PartitionLog
    losses: tuple[DataLoss, ...]


def load_replica(
    replica: names.PartitionDirectory,
    *,
    config: LogConfig,
    checkpointed_offsets: CheckpointedOffsets,
    was_clean: bool,
    now_ms: int,
) -> LoadedReplica:
    """Load the log with which a broker would go on.

    Raises:
        ConfigError: The log has batches of an old format, an offset or a leader epoch that leaves
            no room for the next ones, or after a clean shutdown a marker that can't be read; the
            message names the place.
        OSError: A file can't be read.
    """
    try:
        return _load_log(replica, config, checkpointed_offsets, was_clean=was_clean, now_ms=now_ms)
    except CorruptBatchError as error:
        # A broker gives up the whole directory (LogManager.loadLogs).
        raise ConfigError(f"{replica.path}: {error}") from error


def _load_log(
    replica: names.PartitionDirectory,
    config: LogConfig,
    checkpointed_offsets: CheckpointedOffsets,
    *,
    was_clean: bool,
    now_ms: int,
) -> LoadedReplica:
    files = replica_files(replica.path)
    first_offset = (
        files.segments[0].base_offset if files.segments else checkpointed_offsets.log_start_offset
    )
    last_start = files.segments[-1].base_offset if files.segments else 0
    for offset in (checkpointed_offsets.log_start_offset, last_start):
        if offset > STORED_NUMBER_MAX:
            raise ConfigError(f"{replica.path}: {_without_room('the log begins at', offset)}")
    losses: list[DataLoss] = []
    loader = LogLoader(
        topic_partition=replica.topic_partition,
        config=config,
        start_offset=first_offset,
        log_start_offset=checkpointed_offsets.log_start_offset,
        leader_epochs=_leader_epochs(replica.path, losses),
        snapshots=_producer_snapshots(files, losses),
    )
    _load_segments(
        loader,
        files.segments,
        losses,
        # The segment that holds the recovery point is not wholly on disk, either.
        recovers_from=None if was_clean else checkpointed_offsets.recovery_point,
        now_ms=now_ms,
    )
    end_offset = loader.end_offset
    is_kept = loader.finish(
        recovery_point=checkpointed_offsets.recovery_point,
        cleaned_until=checkpointed_offsets.cleaned_until,
        was_clean=was_clean,
        now_ms=now_ms,
    )
    if not is_kept:
        losses.append(
            DataLoss(
                path=str(replica.path),
                position=0,
                size=sum(segment.log.stat().st_size for segment in files.segments),
                reason=(
                    f"the log ends at {end_offset}, below its start"
                    f" {checkpointed_offsets.log_start_offset}"
                ),
            )
        )
    return LoadedReplica(log=loader.log, losses=tuple(losses))


def _load_segments(
    loader: LogLoader,
    segments: Sequence[SegmentFiles],
    losses: list[DataLoss],
    *,
    recovers_from: int | None,
    now_ms: int,
) -> None:
    for segment_index, segment in enumerate(segments):
        segment_end = (
            segments[segment_index + 1].base_offset if segment_index + 1 < len(segments) else None
        )
        is_unflushed = recovers_from is not None and (
            segment_end is None or segment_end > recovers_from
        )
        aborted_txns = (
            _aborted_txns(segment, segment_end, losses)
            if segment.has_index and not is_unflushed
            else None
        )
        modified_ms = segment.log.stat().st_mtime_ns // _MILLION
        torn_tails: list[TornTail] = []
        batches = _batches(
            segment,
            torn_tails,
            least_offset=loader.end_offset if segment_index else 0,
            checks_crc=aborted_txns is None,
        )
        if aborted_txns is None:
            loader.recover_segment(
                segment.base_offset, batches, modified_ms=modified_ms, now_ms=now_ms
            )
        else:
            loader.load_segment(
                segment.base_offset, batches, aborted_txns=aborted_txns, modified_ms=modified_ms
            )
        losses += [_loss_of_tail(segment.log, torn_tail) for torn_tail in torn_tails]
        if torn_tails and (is_unflushed or aborted_txns is not None):
            losses += [
                _loss_of_all(later_segment.log, segment.log)
                for later_segment in segments[segment_index + 1 :]
            ]
            return


def _batches(
    segment: SegmentFiles, torn_tails: list[TornTail], *, least_offset: int, checks_crc: bool
) -> Iterator[tuple[bytes, BatchHeader]]:
    """The batches of a segment up to the first invalid one; that one and the rest become a torn
    tail.
    """
    for stored_batch in read_log_file(
        segment.log, on_torn=torn_tails.append, checks_crc=checks_crc
    ):
        header = stored_batch.header
        _refuse_without_room(header, segment.log, stored_batch.position)
        if header.base_offset < max(least_offset, segment.base_offset):
            reason = (
                f"offset {header.base_offset} comes behind {max(least_offset, segment.base_offset)}"
            )
            torn_tails.append(_torn_tail(segment.log, stored_batch.position, reason))
            return
        if checks_crc and header.is_control:
            try:
                read_control_record(stored_batch.batch_bytes)
            except CorruptBatchError as error:
                torn_tails.append(_torn_tail(segment.log, stored_batch.position, str(error)))
                return
        least_offset = header.last_offset + 1
        yield stored_batch.batch_bytes, header
    if torn_tails:
        _refuse_old_format(segment.log, torn_tails[0])


def _refuse_without_room(header: BatchHeader, path: Path, position: int) -> None:
    """Refuse a batch behind which a broker could not go on: it raises these numbers, and sends
    them. The CRC covers neither base offset nor leader epoch.
    """
    if header.last_offset > STORED_NUMBER_MAX:
        complaint = _without_room("a batch ends at offset", header.last_offset)
    elif header.leader_epoch > STORED_EPOCH_MAX:
        complaint = _without_room("a batch has leader epoch", header.leader_epoch)
    else:
        return
    raise ConfigError(f"{path}, byte {position}: {complaint}")


def _without_room(subject: str, number: int) -> str:
    return f"{subject} {number}, which leaves no room for the next ones"


def _torn_tail(path: Path, position: int, reason: str) -> TornTail:
    return TornTail(position=position, size_bytes=path.stat().st_size - position, reason=reason)


def _refuse_old_format(path: Path, torn_tail: TornTail) -> None:
    """Refuse whole messages of formats before v2: they are no damage."""
    with RegularFile(path).open() as file:
        file.seek(torn_tail.position)
        header_bytes = file.read(BatchHeader.MAGIC_POSITION + 1)
    if len(header_bytes) <= BatchHeader.MAGIC_POSITION:
        return
    batch_bytes = int.from_bytes(header_bytes[8 : BatchHeader.OVERHEAD], "big", signed=True)
    magic = header_bytes[BatchHeader.MAGIC_POSITION]
    if (
        magic < BatchHeader.MAGIC
        and _OLD_BATCH_MIN <= batch_bytes <= torn_tail.size_bytes - BatchHeader.OVERHEAD
    ):
        raise ConfigError(
            f"{path}, byte {torn_tail.position}: a batch of format {magic}, only "
            f"{BatchHeader.MAGIC} is loaded"
        )


def _aborted_txns(
    segment: SegmentFiles, segment_end: int | None, losses: list[DataLoss]
) -> tuple[AbortedTxn, ...] | None:
    """The aborted transactions in the segment's index; None if the index is damaged, so that the
    segment must be recovered (TransactionIndex.sanityCheck).
    """
    if segment.txn_index is None:
        return ()
    index_bytes = RegularFile(segment.txn_index).read(is_small=True)
    try:
        index_entries = tuple(txn_index.decode(index_bytes, error_prefix=str(segment.txn_index)))
    except CorruptLogRecordError as error:
        damage_reason = str(error)
    else:
        misplaced_offsets = [
            index_entry.last_offset
            for index_entry in index_entries
            if index_entry.last_offset < segment.base_offset
            or (segment_end is not None and index_entry.last_offset >= segment_end)
        ]
        if not misplaced_offsets:
            return index_entries
        damage_reason = f"a marker at {misplaced_offsets[0]}, outside of its segment"
    losses.append(
        DataLoss(
            path=str(segment.txn_index), position=0, size=len(index_bytes), reason=damage_reason
        )
    )
    return None


def _leader_epochs(folder: Path, losses: list[DataLoss]) -> tuple[tuple[int, int], ...]:
    """The leader epochs of the checkpoint; empty if it is missing or damaged: the batches replace
    it.
    """
    checkpoint_path = folder / names.FileName.LEADER_EPOCHS
    if not checkpoint_path.exists():
        return ()
    checkpoint_text = RegularFile(checkpoint_path).text()
    try:
        leader_epochs = checkpoints.decode_leader_epochs(
            checkpoint_text, error_prefix=str(checkpoint_path)
        )
        highest_epoch = max((epoch for epoch, _ in leader_epochs), default=0)
        if highest_epoch > STORED_EPOCH_MAX:
            complaint = _without_room("it has leader epoch", highest_epoch)
            raise CorruptLogRecordError(complaint)
    except CorruptLogRecordError as error:
        losses.append(
            DataLoss(
                path=str(checkpoint_path), position=0, size=len(checkpoint_text), reason=str(error)
            )
        )
        return ()
    return leader_epochs


def _producer_snapshots(
    files: ReplicaFiles, losses: list[DataLoss]
) -> list[tuple[int, tuple[SnapshotEntry, ...]]]:
    """The producer snapshots that can be read; others are dropped (CorruptSnapshotException)."""
    snapshots = []
    for offset, path in files.snapshots:
        snapshot_bytes = RegularFile(path).read(is_small=True)
        try:
            snapshots.append((offset, producer_snapshot.decode(snapshot_bytes)))
        except CorruptLogRecordError as error:
            losses.append(
                DataLoss(path=str(path), position=0, size=len(snapshot_bytes), reason=str(error))
            )
    return snapshots


def _loss_of_tail(path: Path, tail: TornTail) -> DataLoss:
    return DataLoss(
        path=str(path), position=tail.position, size=tail.size_bytes, reason=tail.reason
    )


def _loss_of_all(path: Path, torn_path: Path) -> DataLoss:
    return DataLoss(
        path=str(path),
        position=0,
        size=path.stat().st_size,
        reason=f"it lies behind the damage in {torn_path.name}",
    )
