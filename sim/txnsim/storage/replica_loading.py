"""A replica's log, made from its folder as a starting broker makes it.

After a stop in order every file is believed. After a kill the segments from the recovery point on
are gone through batch by batch: what follows the last sound one is cut off, and so are all segments
behind it; indexes and snapshots of that part are made anew. Whatever is thrown away is told, with
its place and its bytes. Nothing is written. Kafka's counterparts: LogLoader, LogSegment.recover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import ConfigError, CorruptLogRecordError
from txnsim.log.config import LogConfig
from txnsim.log.partition_log import PartitionLog
from txnsim.log.producer_state import SnapshotEntry
from txnsim.log.txn_index import AbortedTxn
from txnsim.storage import checkpoints, names, producer_snapshot, txn_index
from txnsim.storage.log_file import TornTail, read_log_file
from txnsim.storage.replica_files import ReplicaFiles, SegmentFiles, replica_files
from txnsim.wire.batch import BatchHeader
from txnsim.wire.batch_header import LOG_OVERHEAD, MAGIC, MAGIC_POSITION

DEVIATIONS: Final = (
    "`serve --load`: a batch that can't be told from its neighbours, or whose offsets go back, ends"
    " the log also where the broker had stopped in order. Apache Kafka does not look there, and"
    " fails to read what lies behind.",
    "`serve --load`: a leader-epoch-checkpoint that is missing or damaged is made anew from the"
    " batches; Apache Kafka goes on without, or takes the log directory offline.",
    "`serve --load`: segments that span more than 2³¹ offsets are not split.",
)

_OLD_BATCH_MIN: Final = 14
"""Least size of a message of format 0, behind offset and size."""
_MILLION: Final = 1_000_000


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What the checkpoints of a log directory say of one replica."""

    recovery_point: int = 0
    log_start_offset: int = 0
    cleaned_until: int | None = None


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a starting broker throws away."""

    path: str
    position: int
    """Of its first byte in the file."""
    size: int
    """How many bytes."""
    reason: str

    def __str__(self) -> str:
        where = f"{self.path}, byte {self.position}"
        return f"{where}: {self.reason}; {self.size} bytes are thrown away"


class LoadedReplica(msgspec.Struct, frozen=True, kw_only=True):
    """A replica and what it has lost."""

    log: PartitionLog
    losses: tuple[Loss, ...]


def load_replica(
    replica: names.PartitionDirectory,
    *,
    config: LogConfig,
    noted: Noted,
    was_clean: bool,
    now_ms: int,
) -> LoadedReplica:
    """The log that a broker would go on with.

    Args:
        replica: Its folder.
        config: Of its topic.
        noted: What the checkpoints say.
        was_clean: The broker had stopped in order.
        now_ms: The cluster's time: producers may have expired.

    Raises:
        ConfigError: It holds batches of an old format; the message names the file.
        OSError: A file can't be read.
    """
    files = replica_files(replica.path)
    first = files.segments[0].base_offset if files.segments else noted.log_start_offset
    log = PartitionLog(
        topic_partition=replica.topic_partition, config=config, leader_epoch=-1, start_offset=first
    )
    losses: list[Loss] = []
    log.begin_loading(
        log_start_offset=noted.log_start_offset,
        epochs=_epochs(replica.path, losses),
        snapshots=_snapshots(files, losses),
    )
    _load_segments(
        log,
        files.segments,
        losses,
        # The segment that holds the recovery point is not wholly on disk, either.
        recovers_from=None if was_clean else noted.recovery_point,
        now_ms=now_ms,
    )
    behind = log.log_end_offset
    is_kept = log.finish_loading(
        recovery_point=noted.recovery_point,
        cleaned_until=noted.cleaned_until,
        was_clean=was_clean,
        now_ms=now_ms,
    )
    if not is_kept:
        losses.append(
            Loss(
                path=str(replica.path),
                position=0,
                size=sum(one.log.stat().st_size for one in files.segments),
                reason=f"the log ends at {behind}, below its start {noted.log_start_offset}",
            )
        )
    return LoadedReplica(log=log, losses=tuple(losses))


def _load_segments(
    log: PartitionLog,
    segments: Sequence[SegmentFiles],
    losses: list[Loss],
    *,
    recovers_from: int | None,
    now_ms: int,
) -> None:
    for number, segment in enumerate(segments):
        end = segments[number + 1].base_offset if number + 1 < len(segments) else None
        is_unflushed = recovers_from is not None and (end is None or end > recovers_from)
        aborted = _aborted(segment, end, losses) if segment.has_index and not is_unflushed else None
        modified_ms = segment.log.stat().st_mtime_ns // _MILLION
        torn: list[TornTail] = []
        batches = _batches(
            segment, torn, least=log.log_end_offset if number else 0, check_crc=aborted is None
        )
        if aborted is None:
            log.recover_segment(
                segment.base_offset, batches, modified_ms=modified_ms, now_ms=now_ms
            )
        else:
            log.load_segment(segment.base_offset, batches, aborted=aborted, modified_ms=modified_ms)
        losses += [_loss_of_tail(segment.log, tail) for tail in torn]
        if torn and (is_unflushed or aborted is not None):
            losses += [_loss_of_all(one.log, segment.log) for one in segments[number + 1 :]]
            return


def _batches(
    segment: SegmentFiles, torn: list[TornTail], *, least: int, check_crc: bool
) -> Iterator[tuple[bytes, BatchHeader]]:
    """The batches of a segment, up to where it stops making sense."""
    size = 0
    for stored in read_log_file(segment.log, on_torn=torn.append, check_crc=check_crc):
        header = stored.header
        if header.base_offset < max(least, segment.base_offset):
            size = segment.log.stat().st_size
            reason = f"offset {header.base_offset} comes behind {max(least, segment.base_offset)}"
            torn.append(
                TornTail(position=stored.position, size=size - stored.position, reason=reason)
            )
            return
        least = header.last_offset + 1
        yield stored.data, header
    if torn:
        _refuse_old_format(segment.log, torn[0])


def _refuse_old_format(path: Path, tail: TornTail) -> None:
    """Whole messages of before format v2 are no damage."""
    with path.open("rb") as file:
        file.seek(tail.position)
        front = file.read(MAGIC_POSITION + 1)
    if len(front) <= MAGIC_POSITION:
        return
    size = int.from_bytes(front[8:LOG_OVERHEAD], "big", signed=True)
    magic = front[MAGIC_POSITION]
    if magic < MAGIC and _OLD_BATCH_MIN <= size <= tail.size - LOG_OVERHEAD:
        raise ConfigError(
            f"{path}, byte {tail.position}: a batch of format {magic}, only {MAGIC} is loaded"
        )


def _aborted(
    segment: SegmentFiles, end: int | None, losses: list[Loss]
) -> tuple[AbortedTxn, ...] | None:
    """The aborted transactions that the segment's index names; None where it is damaged, so that
    the segment has to be recovered (TransactionIndex.sanityCheck).
    """
    if segment.txn_index is None:
        return ()
    data = segment.txn_index.read_bytes()
    try:
        entries = txn_index.decode(data, place=str(segment.txn_index))
    except CorruptLogRecordError as error:
        problem = str(error)
    else:
        strange = [
            one.last_offset
            for one in entries
            if one.last_offset < segment.base_offset or (end is not None and one.last_offset >= end)
        ]
        if not strange:
            return entries
        problem = f"a marker at {strange[0]}, outside of its segment"
    losses.append(Loss(path=str(segment.txn_index), position=0, size=len(data), reason=problem))
    return None


def _epochs(folder: Path, losses: list[Loss]) -> tuple[tuple[int, int], ...]:
    """What the checkpoint says; the batches have to say it where it is missing or damaged."""
    path = folder / names.LEADER_EPOCHS_NAME
    if not path.exists():
        return ()
    text = path.read_text(errors="replace")
    try:
        return checkpoints.decode_leader_epochs(text, place=str(path))
    except CorruptLogRecordError as error:
        losses.append(Loss(path=str(path), position=0, size=len(text), reason=str(error)))
        return ()


def _snapshots(
    files: ReplicaFiles, losses: list[Loss]
) -> list[tuple[int, tuple[SnapshotEntry, ...]]]:
    """Those that can be read; one that can't is thrown away (CorruptSnapshotException)."""
    found = []
    for offset, path in files.snapshots:
        data = path.read_bytes()
        try:
            found.append((offset, producer_snapshot.decode(data)))
        except CorruptLogRecordError as error:
            losses.append(Loss(path=str(path), position=0, size=len(data), reason=str(error)))
    return found


def _loss_of_tail(path: Path, tail: TornTail) -> Loss:
    return Loss(path=str(path), position=tail.position, size=tail.size, reason=tail.reason)


def _loss_of_all(path: Path, torn: Path) -> Loss:
    return Loss(
        path=str(path),
        position=0,
        size=path.stat().st_size,
        reason=f"it lies behind the damage in {torn.name}",
    )
