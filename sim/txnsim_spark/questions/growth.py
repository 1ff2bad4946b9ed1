"""Why does ``__transaction_state`` grow? How much of it each transactional id takes, how much of
that is dead, and how far the cleaner has come.

The newest record of a key is live. All others are dead, and they stay until the log cleaner removes
them. The cleaner never cleans the newest segment. Kafka's counterparts: LogCleaner, TransactionLog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import CorruptLogRecordError
from txnsim.releases.rules import LATEST
from txnsim.storage import checkpoints, names
from txnsim.txn.log_format import decode_record
from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim_spark.embedded import Embedded
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.questions._positions import leading_states
from txnsim_spark.scan.log_dirs import OnProblem, read_small
from txnsim_spark.tables.read_here import read_here, reader_of


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


_SIZES: Final = """
-- Of a record: what varints and lengths take, its key, its value; the first one of a batch has the
-- header of 61 bytes.
WITH measured AS (
  SELECT
    key, `offset`, value IS NULL AS is_tombstone,
    CASE WHEN `offset` = batch_base_offset THEN 61 ELSE 0 END AS header,
    coalesce(octet_length(key), 0) AS key_bytes, coalesce(octet_length(value), 0) AS value_bytes
  FROM kafka_records
  WHERE NOT is_control
), lengths AS (
  SELECT
    *, 4 + key_bytes + CASE WHEN key_bytes < 64 THEN 1 WHEN key_bytes < 8192 THEN 2 ELSE 3 END
    + value_bytes + CASE WHEN value_bytes < 64 THEN 1 WHEN value_bytes < 8192 THEN 2 ELSE 3 END
    AS body
  FROM measured
), sized AS (
  SELECT
    *, header + body + CASE WHEN body < 64 THEN 1 WHEN body < 8192 THEN 2 ELSE 3 END AS bytes
  FROM lengths
)
SELECT
  key, count(*) AS records, cast(sum(bytes) AS bigint) AS bytes,
  count(*) FILTER (WHERE is_tombstone) AS tombstones,
  cast(max_by(CASE WHEN is_tombstone THEN 0 ELSE bytes END, `offset`) AS bigint) AS live_bytes
FROM sized
GROUP BY key
ORDER BY bytes DESC, key
"""
_BATCHES: Final = """
SELECT
  coalesce(sum(size_bytes), 0) AS bytes,
  coalesce(sum(size_bytes) FILTER (WHERE segment_base_offset = :active), 0) AS active,
  coalesce(sum(size_bytes) FILTER (
    WHERE segment_base_offset < :active AND base_offset >= :cleaned), 0) AS dirty
FROM kafka_batches
"""


def _partition(
    state: ReplicaState, top: int, on_problem: OnProblem
) -> tuple[PartitionSize, list[IdSize]]:
    replica, folder = state.replica, [Path(state.replica.path)]
    cleaned = read_small(
        Path(replica.log_dir) / names.FileName.CLEANER_OFFSETS,
        checkpoints.decode_offsets,
        on_problem,
    )
    cleaned_to = (cleaned or {}).get(TopicPartition(replica.topic, replica.partition))
    for batch in read_here("errors", folder):
        for row in batch.to_pylist():
            if row["file"].endswith(names.Suffix.LOG):
                on_problem(f"{row['file']}, byte {row['position']}: {row['reason']}")
    database = Embedded()
    for table in ("batches", "records"):
        database.register(f"kafka_{table}", reader_of(table, read_here(table, folder)))
    active = state.segments[-1].base_offset if state.segments else 0
    (total,) = database.rows(_BATCHES, active=active, cleaned=cleaned_to or 0)
    rows = database.rows(_SIZES)
    return (
        PartitionSize(
            partition=replica.partition,
            broker=replica.broker,
            segments=len(state.segments),
            bytes=int(total["bytes"]),
            records=sum(row["records"] for row in rows),
            ids=len(rows),
            live_bytes=sum(row["live_bytes"] for row in rows),
            tombstones=sum(row["tombstones"] for row in rows),
            log_start_offset=state.ends.log_start_offset,
            end_offset=state.ends.end_offset,
            cleaned_to=cleaned_to,
            dirty_bytes=int(total["dirty"]),
            active_bytes=int(total["active"]),
            unread_bytes=max(0, int(total["bytes"]) - sum(row["bytes"] for row in rows)),
        ),
        [
            IdSize(
                transactional_id=_name_of(row.pop("key"), replica.path, on_problem),
                partition=replica.partition,
                is_forgotten=not row["live_bytes"],
                **row,
            )
            for row in rows[:top]
        ],
    )


def _name_of(key: bytes | None, place: str, on_problem: OnProblem) -> str:
    """The transactional id of a key, or a description of another key."""
    if key is None:
        return "(no key)"
    try:
        found = decode_record(key, None, rules=LATEST)
    except CorruptLogRecordError as error:
        on_problem(f"{place}: {error}")
        found = None
    return f"(an unknown key of {len(key)} bytes)" if found is None else str(found.transactional_id)
