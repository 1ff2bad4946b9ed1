"""Why does ``__transaction_state`` grow? How much of it each transactional id takes, how much of
that is dead, and how far the cleaner has come.

The newest record of a key is live. All others are dead, and they stay until the log cleaner removes
them. The cleaner never cleans the newest segment. Two keys count as the same key if a hash of 64
bits is the same. Kafka's counterparts: LogCleaner, TransactionLog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from txnsim.errors import CorruptLogRecordError
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.questions.positions import leading_states
from txnsim.pipeline.scan import kernel
from txnsim.pipeline.scan import kernel_keys as kk
from txnsim.pipeline.scan.crcs import runs_of
from txnsim.pipeline.scan.log_dirs import OnProblem, read_small
from txnsim.pipeline.scan.pieces import Ints, pieces_of
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.pipeline.scan.walk import Damage, batch_rows
from txnsim.releases.rules import LATEST
from txnsim.storage import checkpoints, names
from txnsim.storage.regular_file import open_regular
from txnsim.txn.log_format import decode_record
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim.wire.batch_header import COMPRESSION_MASK, CONTROL_FLAG

MERGE_ROWS: Final = 1 << 20
"""Records that are kept before they are added up: 64 MB."""
KEY_BYTES_MAX: Final = 1 << 15
RECORD_BYTES_MIN: Final = 7
"""Of a record without key and value."""


class IdSize(msgspec.Struct, frozen=True, kw_only=True):
    """What one transactional id takes."""

    transactional_id: str
    partition: int
    """Of ``__transaction_state``."""
    records: int
    bytes: int
    live_bytes: int
    """Of its newest record; 0 where that is a tombstone."""
    tombstones: int
    is_forgotten: bool
    """Its newest record is a tombstone."""


class PartitionSize(msgspec.Struct, frozen=True, kw_only=True):
    """What one partition of ``__transaction_state`` takes."""

    partition: int
    broker: int
    segments: int
    bytes: int
    records: int
    ids: int
    live_bytes: int
    tombstones: int
    log_start_offset: int
    end_offset: int
    cleaned_to: int | None
    """The cleaner's position; None: the broker has noted none."""
    dirty_bytes: int
    """Behind the cleaner's position, in segments that it may clean."""
    active_bytes: int
    """Of the newest segment, which no cleaner touches."""
    unread_bytes: int
    """Of batches that are compressed or make no sense: counted, and not looked into."""

    @property
    def dead_share(self) -> float:
        """Of its bytes."""
        return 1 - self.live_bytes / self.bytes if self.bytes else 0.0


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """Why it grows."""

    bytes: int
    live_bytes: int
    dead_share: float
    """From 0 to 1."""
    records: int
    ids: int
    tombstones: int
    reasons: tuple[str, ...]
    """Sentences without their full stops."""
    partitions: tuple[PartitionSize, ...]
    largest: tuple[IdSize, ...]
    """The ids that take most, largest first."""
    problems: tuple[str, ...]


def growth(paths: Iterable[Path], *, top: int, on_progress: OnProblem) -> Growth:
    """Look at the coordinators' logs; of each partition at the replica whose word counts.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        top: How many ids are listed.
        on_progress: Called with the partition that is read.
    """
    problems: dict[str, None] = {}
    sizes: list[PartitionSize] = []
    largest: list[IdSize] = []
    for state in leading_states(paths, TRANSACTION_STATE_TOPIC, problems.setdefault):
        on_progress(f"reading {state.replica.path}")
        size, ids = _partition(state, top, problems.setdefault)
        sizes.append(size)
        largest += ids
    total = sum(one.bytes for one in sizes)
    live = sum(one.live_bytes for one in sizes)
    return Growth(
        bytes=total,
        live_bytes=live,
        dead_share=1 - live / total if total else 0.0,
        records=sum(one.records for one in sizes),
        ids=sum(one.ids for one in sizes),
        tombstones=sum(one.tombstones for one in sizes),
        reasons=tuple(reasons_of(sizes)),
        partitions=tuple(sizes),
        largest=tuple(sorted(largest, key=lambda one: -one.bytes)[:top]),
        problems=tuple(sorted(problems)),
    )


def reasons_of(sizes: Sequence[PartitionSize]) -> Iterator[str]:
    """What the numbers mean, in words.

    Args:
        sizes: Of all partitions.
    """
    total = sum(one.bytes for one in sizes)
    if not total:
        yield "nothing is in it"
        return
    dirty = sum(one.dirty_bytes for one in sizes)
    active = sum(one.active_bytes for one in sizes)
    live = sum(one.live_bytes for one in sizes)
    never = [one.partition for one in sizes if one.cleaned_to is None and one.dirty_bytes]
    if never:
        yield (
            f"the cleaner has noted no position for partition {_listed(never)}: look whether it"
            " runs (log.cleaner.enable, 'uncleanable-partitions-count')"
        )
    if dirty * 2 > total:
        yield f"{_share(dirty, total)} waits for the cleaner"
    if active * 2 > total:
        yield (
            f"{_share(active, total)} is in newest segments, which no cleaner touches"
            " (transaction.state.log.segment.bytes)"
        )
    if live * 2 > total:
        ids = sum(one.ids for one in sizes)
        yield (
            f"{_share(live, total)} is alive: {ids} transactional ids, kept for"
            " transactional.id.expiration.ms after their last transaction"
        )


def _share(part: int, total: int) -> str:
    return f"{round(100 * part / total)} % of {total} bytes"


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_LISTED_MAX]))
    return (
        shown if len(numbers) <= _LISTED_MAX else f"{shown} and {len(numbers) - _LISTED_MAX} more"
    )


_LISTED_MAX: Final = 10


def _partition(
    state: ReplicaState, top: int, on_problem: OnProblem
) -> tuple[PartitionSize, list[IdSize]]:
    replica = state.replica
    whose = TopicPartition(replica.topic, replica.partition)
    cleaned = read_small(
        Path(replica.log_dir) / names.CLEANER_OFFSETS_NAME, checkpoints.decode_offsets, on_problem
    )
    cleaned_to = (cleaned or {}).get(whose)
    counts = _Counts()
    dirty = active = total = unread = 0
    for number, segment in enumerate(state.segments):
        is_active = number == len(state.segments) - 1
        for rows, seen, unseen in _records_of(segment, on_problem):
            counts.take(rows, number)
            total += seen + unseen
            unread += unseen
            if is_active:
                active += seen + unseen
            else:
                behind = rows[kk.OFFSET] >= (0 if cleaned_to is None else cleaned_to)
                dirty += int(rows[kk.BYTES][behind].sum()) + unseen
    table = counts.merged()
    return (
        PartitionSize(
            partition=replica.partition,
            broker=replica.broker,
            segments=len(state.segments),
            bytes=total,
            records=int(table[_RECORDS].sum()),
            ids=table.shape[1],
            live_bytes=int(table[_LIVE].sum()),
            tombstones=int(table[_TOMBSTONES].sum()),
            log_start_offset=state.ends.log_start_offset,
            end_offset=state.ends.end_offset,
            cleaned_to=cleaned_to,
            dirty_bytes=dirty,
            active_bytes=active,
            unread_bytes=unread,
        ),
        list(_largest(state, table, top, on_problem)),
    )


def _records_of(segment: SegmentFile, on_problem: OnProblem) -> Iterator[tuple[Ints, int, int]]:
    """(rows of ``kernel_keys``, bytes of their batches, bytes of batches that are not looked into)
    of each run of batches.
    """

    def tell(damage: Damage) -> None:
        on_problem(f"{segment.path}, byte {damage.position}: {damage.reason}")

    path = Path(segment.path)
    try:
        with pieces_of(path, until=segment.size) as file:
            for table in batch_rows(path, on_damage=tell, until=segment.size):
                for first, last in runs_of(table):
                    run = table[:, first:last]
                    start = int(run[kernel.POSITION, 0])
                    whole = int(run[kernel.POSITION, -1] + run[kernel.SIZE, -1]) - start
                    data = np.frombuffer(file.read_whole(start, whole), dtype=np.uint8)
                    yield _of_run(data, run, start)
    except OSError as error:
        on_problem(f"{segment.path}: {error.strerror or error}; passed by")


def _of_run(data: Any, run: Ints, start: int) -> tuple[Ints, int, int]:
    mask = COMPRESSION_MASK | CONTROL_FLAG
    is_plain = run[kernel.ATTRIBUTES] & mask == 0
    plain = run[:, is_plain]
    seen = int(plain[kernel.SIZE].sum())
    # No more records than fit in, whatever the headers claim.
    room = min(int(plain[kernel.RECORDS].clip(0).sum()), seen // RECORD_BYTES_MIN + 1)
    rows = np.empty((kk.RECORD_COLUMNS, room), dtype=np.int64)
    starts, sizes, offsets = (
        plain[one].copy() for one in (kernel.POSITION, kernel.SIZE, kernel.BASE_OFFSET)
    )
    count, _ = kk.key_rows(data, start, starts, sizes, offsets, rows)
    rows = rows[:, :count]
    counted = int(rows[kk.BYTES].sum())
    return rows, counted, int(run[kernel.SIZE].sum()) - counted


# Columns of what is added up by key.
_HASH: Final = 0
_RECORDS: Final = 1
_BYTES: Final = 2
_TOMBSTONES: Final = 3
_LAST: Final = 4
_LIVE: Final = 5
_SEGMENT: Final = 6
_AT: Final = 7
_SIZE: Final = 8
_COLUMNS: Final = 9


class _Counts:
    """Records added up by key; memory grows with the keys."""

    def __init__(self) -> None:
        self._held: list[Ints] = []
        self._rows = 0

    def take(self, rows: Ints, segment: int) -> None:
        """More records, behind those before."""
        added = np.empty((_COLUMNS, rows.shape[1]), dtype=np.int64)
        is_tombstone = rows[kk.VALUE_SIZE] < 0
        added[_HASH] = rows[kk.KEY_HASH]
        added[_RECORDS] = 1
        added[_BYTES] = rows[kk.BYTES]
        added[_TOMBSTONES] = is_tombstone
        added[_LAST] = rows[kk.OFFSET]
        added[_LIVE] = np.where(is_tombstone, 0, rows[kk.BYTES])
        added[_SEGMENT] = segment
        added[_AT] = rows[kk.KEY_AT]
        added[_SIZE] = rows[kk.KEY_SIZE]
        self._held.append(added)
        self._rows += added.shape[1]
        if self._rows > MERGE_ROWS:
            self._held = [self.merged()]
            self._rows = 0

    def merged(self) -> Ints:
        """A column for each key."""
        table = np.concatenate([np.empty((_COLUMNS, 0), dtype=np.int64), *self._held], axis=1)
        order = np.argsort(table[_HASH], kind="stable")  # stable: the last one is the newest
        table = table[:, order]
        if not table.shape[1]:
            return table
        starts = np.flatnonzero(np.r_[True, table[_HASH, 1:] != table[_HASH, :-1]])
        ends = np.r_[starts[1:], table.shape[1]] - 1
        made = table[:, ends]
        for column in (_RECORDS, _BYTES, _TOMBSTONES):
            made[column] = np.add.reduceat(table[column], starts)
        return made


def _largest(state: ReplicaState, table: Ints, top: int, on_problem: OnProblem) -> Iterator[IdSize]:
    for at in np.argsort(-table[_BYTES], kind="stable")[:top]:
        row = table[:, at].tolist()
        yield IdSize(
            transactional_id=_name_at(
                state.segments[row[_SEGMENT]], row[_AT], row[_SIZE], on_problem
            ),
            partition=state.replica.partition,
            records=row[_RECORDS],
            bytes=row[_BYTES],
            live_bytes=row[_LIVE],
            tombstones=row[_TOMBSTONES],
            is_forgotten=row[_LIVE] == 0,
        )


def _name_at(segment: SegmentFile, at: int, size: int, on_problem: OnProblem) -> str:
    """The transactional id of a key; what the key is where it has none."""
    if not 0 <= size <= KEY_BYTES_MAX:
        return f"(a key of {size} bytes)"
    try:
        with open_regular(Path(segment.path)) as file:
            file.seek(at)
            key = file.read(size)
        found = decode_record(key, None, rules=LATEST)
    except (OSError, CorruptLogRecordError) as error:
        on_problem(f"{segment.path}, byte {at}: {error}")
        found = None
    return f"(an unknown key of {size} bytes)" if found is None else str(found.transactional_id)
