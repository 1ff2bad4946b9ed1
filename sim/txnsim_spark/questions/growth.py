"""Why does ``__transaction_state`` grow? How much of it each transactional id takes, how much of
that is dead, and how far the cleaner has come.

The newest record of a key is live. All others are dead, and they stay until the log cleaner removes
them. The cleaner never cleans the newest segment. Kafka's counterparts: LogCleaner, TransactionLog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from txnsim.errors import CorruptLogRecordError
from txnsim.releases.rules import LATEST
from txnsim.storage import checkpoints, names
from txnsim.txn.log_format import decode_record
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim.wire.batch import BatchHeader
from txnsim.wire.records import RECORD_MIN
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.questions._positions import leading_states
from txnsim_spark.scan import kernel
from txnsim_spark.scan import kernel_records as kr
from txnsim_spark.scan.crcs import runs_of
from txnsim_spark.scan.log_dirs import OnProblem, read_small
from txnsim_spark.scan.pieces import Bytes, Ints, pieces_of
from txnsim_spark.scan.segments import Damage, SegmentFile
from txnsim_spark.scan.walk import batch_rows
from txnsim_spark.tables.arrays import of_numbers, of_pieces, of_values

MERGE_ROWS: Final = 1 << 20
"""Records that are kept before they are added up: 64 MB."""
KEY_BYTES_MAX: Final = 1 << 15
"""Of a longer key, which is no transactional id's, only the beginning is compared."""


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
    """The largest ids in descending order."""
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
        Path(replica.log_dir) / names.FileName.CLEANER_OFFSETS,
        checkpoints.decode_offsets,
        on_problem,
    )
    cleaned_to = (cleaned or {}).get(whose)
    counts = _Counts()
    dirty = active = total = unread = 0
    for number, segment in enumerate(state.segments):
        is_active = number == len(state.segments) - 1
        for found in _records_of(segment, on_problem):
            counts.take(found.records)
            total += found.bytes
            unread += found.bytes - int(found.sizes.sum())
            if is_active:
                active += found.bytes
            else:
                clean = found.sizes[found.offsets < (cleaned_to or 0)]
                dirty += found.bytes - int(clean.sum())
    table = counts.merged()
    return (
        PartitionSize(
            partition=replica.partition,
            broker=replica.broker,
            segments=len(state.segments),
            bytes=total,
            records=sum(table["records"].to_pylist()),
            ids=table.num_rows,
            live_bytes=sum(table["live_bytes"].to_pylist()),
            tombstones=sum(table["tombstones"].to_pylist()),
            log_start_offset=state.ends.log_start_offset,
            end_offset=state.ends.end_offset,
            cleaned_to=cleaned_to,
            dirty_bytes=dirty,
            active_bytes=active,
            unread_bytes=unread,
        ),
        [
            IdSize(
                transactional_id=_name_of(row.pop("key"), replica.path, on_problem),
                partition=replica.partition,
                is_forgotten=not row["live_bytes"],
                **row,
            )
            for row in table.sort_by([("bytes", "descending")])[:top].to_pylist()
        ],
    )


class _Found(NamedTuple):
    """What a run of batches has."""

    records: pa.Table
    offsets: Ints
    sizes: Ints
    """Of the first record in a batch with the batch's header."""
    bytes: int
    """Size of all batches, including those not decoded."""


def _records_of(segment: SegmentFile, on_problem: OnProblem) -> Iterator[_Found]:
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


def _of_run(data: Bytes, run: Ints, start: int) -> _Found:
    plain = run[:, run[kernel.ATTRIBUTES] & (BatchHeader.COMPRESSION | BatchHeader.CONTROL) == 0]
    ends = plain[kernel.POSITION] - start + plain[kernel.SIZE]
    starts = ends - plain[kernel.SIZE] + BatchHeader.SIZE
    # No more records than fit in, whatever the headers claim.
    room = min(int(plain[kernel.RECORDS].clip(0).sum()), len(data) // RECORD_MIN + 1)
    rows = kr.room_for(room)
    place = np.zeros(3, dtype=np.int64)
    count = kr.record_rows(data, starts, ends, plain[kernel.RECORDS], place, rows, len(data))
    rows = rows[:count]
    of_batch = rows[:, kr.BATCH]
    is_first = rows[:, kr.AT] == starts[of_batch]
    sizes = rows[:, kr.SIZE] + np.where(is_first, BatchHeader.SIZE, 0)
    is_tombstone = rows[:, kr.VALUE_SIZE] < 0
    keys = rows[:, kr.KEY_SIZE].clip(max=KEY_BYTES_MAX + 1)
    live = np.where(is_tombstone, 0, sizes)
    return _Found(
        records=_table(
            of_pieces(data, rows[:, kr.KEY_AT], keys, pa.binary()),
            *(np.ones(count), sizes, is_tombstone, live),
        ),
        offsets=plain[kernel.BASE_OFFSET][of_batch] + rows[:, kr.OFFSET_DELTA],
        sizes=sizes,
        bytes=int(run[kernel.SIZE].sum()),
    )


_COLUMNS: Final = ("key", "records", "bytes", "tombstones", "live_bytes")
"""Columns summed up by key."""


def _table(keys: pa.Array, *numbers: Any) -> pa.Table:
    columns = [keys, *(of_numbers(one, pa.int64()) for one in numbers)]
    return pa.Table.from_arrays(columns, names=_COLUMNS)


class _Counts:
    """Records added up by key; memory grows with the keys."""

    def __init__(self) -> None:
        self._held: list[pa.Table] = []
        self._rows = 0

    def take(self, records: pa.Table) -> None:
        self._held.append(records)
        self._rows += records.num_rows
        if self._rows > MERGE_ROWS:
            self._held = [self.merged()]
            self._rows = 0

    def merged(self) -> pa.Table:
        """A row for each key."""
        nothing = _table(of_values([], pa.binary()), *[np.empty(0)] * 4)
        table = pa.concat_tables([nothing, *self._held])
        added = [(name, "sum") for name in _COLUMNS[1:4]]
        # In order: the last one is the newest.
        by_key = table.group_by("key", use_threads=False)
        return by_key.aggregate([*added, ("live_bytes", "last")]).rename_columns(_COLUMNS)


def _name_of(key: bytes | None, place: str, on_problem: OnProblem) -> str:
    """The transactional id of a key, or a description of another key."""
    if key is None or len(key) > KEY_BYTES_MAX:
        return "(no key)" if key is None else f"(a key of more than {KEY_BYTES_MAX} bytes)"
    try:
        found = decode_record(key, None, rules=LATEST)
    except CorruptLogRecordError as error:
        on_problem(f"{place}: {error}")
        found = None
    return f"(an unknown key of {len(key)} bytes)" if found is None else str(found.transactional_id)
