"""Which application was it? For a producer id: the transactional id, what happened to it, where it
wrote, and which ids got their producer ids at about the same time.

Logs hold no client id and no host. If no coordinator's log names the transactional id, the answer
says that it is unknown. The neighbours are a hint then, because each broker gives out producer ids
in ascending order from blocks of a thousand. Kafka's counterparts: ProducerIdsBlock,
RPCProducerIdManager.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.types import TRANSACTION_STATE_TOPIC
from txnsim_spark import written as producers
from txnsim_spark.engine import alone
from txnsim_spark.forensics.timeline import Event
from txnsim_spark.forensics.timeline_reading import read_timeline
from txnsim_spark.tables.read_here import read_here

BLOCK: Final = 1_000
"""Producer ids that a broker gets at once (ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE)."""
NEIGHBOURS: Final = 2
"""That are listed on each side."""


_WRITTEN: Final = """
SELECT
  txn.topic, txn.partition,
  min(first_offset) AS first_offset, max(last_offset) AS last_offset,
  min_by(first_timestamp_ms, first_offset) AS first_timestamp_ms,
  max_by(last_timestamp_ms, first_offset) AS last_timestamp_ms,
  count(*) AS transactions, cast(sum(records) AS bigint) AS records,
  max_by(marker_offset IS NULL, first_offset) AS is_open
FROM kafka_partition_transactions AS txn
JOIN kafka_leaders AS leader
  ON leader.log_dir = txn.log_dir AND leader.topic = txn.topic AND leader.partition = txn.partition
WHERE first_offset IS NOT NULL
GROUP BY txn.topic, txn.partition
ORDER BY txn.topic, txn.partition
"""


class Bump(msgspec.Struct, frozen=True, kw_only=True):
    """When a transactional id last got another producer epoch, or another producer id."""

    at_ms: int
    from_producer_id: int
    from_epoch: int
    to_producer_id: int
    to_epoch: int


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A producer's data in a partition, from the replica with most of it."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    first_timestamp_ms: int
    last_timestamp_ms: int
    transactions: int
    records: int
    is_open: bool


class Neighbour(msgspec.Struct, frozen=True, kw_only=True):
    """An id whose producer id lies nearby."""

    transactional_id: str
    producer_id: int
    last_update_ms: int
    partitions: tuple[str, ...]
    """That are named by its coordinator's log."""


class Application(msgspec.Struct, frozen=True, kw_only=True):
    """The identity and the writes of a producer."""

    producer_id: int
    transactional_id: str | None
    """Null: unknown."""
    why_unknown: str
    state: str | None
    """Of its coordinator's newest record; null for a tombstone, and where the id is unknown."""
    producer_ids: tuple[int, ...]
    """Of the transactional id, over time."""
    last_bump: Bump | None
    """Null: the log tells of none."""
    written: tuple[Written, ...]
    neighbours: tuple[Neighbour, ...]
    """Nearest below and above, in the same block of producer ids."""
    events: tuple[Event, ...]
    """The timeline of the transactional id."""


def application_of(
    paths: Sequence[Path], producer_id: int, topics: frozenset[str] = frozenset()
) -> Application:
    """Who a producer was.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        producer_id: Whose.
        topics: Only these, beside the coordinators' log; all where empty.

    Raises:
        BadInputError: A path is no directory, there is nothing of Kafka's in it, or it has no
            trace of the producer.
    """
    moves, held = moves_in(paths)
    name = _name_of(moves, producer_id)
    found = producers.Written(paths, [producer_id], topics).rows(_WRITTEN)
    written = tuple(Written(**row) for row in found)
    if name is None and not written:
        raise BadInputError(
            f"producer {producer_id}: nothing in these directories is of it; name the directories"
            " of all brokers"
        )
    timeline = None if name is None else read_timeline(alone(), paths, name, topics)
    mine = [] if name is None else moves[name]
    return Application(
        producer_id=producer_id,
        transactional_id=name,
        why_unknown="" if name is not None else _why_unknown(held),
        state=mine[-1]["state"] if mine else None,
        producer_ids=() if timeline is None else timeline.producer_ids,
        last_bump=_last_bump(mine),
        written=written,
        neighbours=_neighbours(moves, producer_id, name),
        events=() if timeline is None else timeline.events,
    )


def _why_unknown(held: int) -> str:
    if not held:
        return "no partition of __transaction_state is among the directories"
    return (
        f"none of the {held} partitions of __transaction_state that are there names it: its id has"
        " expired or was compacted away, another partition has it, or it has none (idempotence"
        " only)"
    )


Moves = Mapping[str, Sequence[Mapping[str, Any]]]
"""Transactional id -> its coordinator's records, in order."""


def moves_in(paths: Sequence[Path]) -> tuple[Moves, int]:
    """Records of all coordinators without duplicates; and the number of partitions found."""
    columns = (
        *("partition", "offset", "timestamp_ms", "transactional_id", "state", "producer_id"),
        *("producer_epoch", "previous_producer_id", "next_producer_id", "partitions", "problem"),
    )
    found: dict[tuple[int, int], dict[str, Any]] = {}
    held: set[int] = set()
    topics = frozenset({TRANSACTION_STATE_TOPIC})
    for batch in read_here("transactions", paths, columns=columns, topics=topics):
        for row in batch.to_pylist():
            held.add(row["partition"])
            if row["problem"] is None and row["transactional_id"] is not None:
                found[row["partition"], row["offset"]] = row
    moves: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for _, row in sorted(found.items()):
        moves[row["transactional_id"]].append(row)
    return moves, len(held)


ROLES: Final = ("producer_id", "previous_producer_id", "next_producer_id")
"""Columns in which an id has its producer ids."""


def _name_of(moves: Moves, producer_id: int) -> str | None:
    for name, rows in moves.items():
        if any(row[role] == producer_id for row in rows for role in ROLES):
            return name
    return None


def _last_bump(rows: Sequence[Mapping[str, Any]]) -> Bump | None:
    entries = [row for row in rows if row["producer_id"] is not None]
    for number in range(len(entries) - 1, 0, -1):
        before, after = entries[number - 1], entries[number]
        was, now = ((one["producer_id"], one["producer_epoch"]) for one in (before, after))
        if was != now:
            return Bump(
                at_ms=after["timestamp_ms"],
                from_producer_id=was[0],
                from_epoch=was[1],
                to_producer_id=now[0],
                to_epoch=now[1],
            )
    return None


def _neighbours(moves: Moves, producer_id: int, name: str | None) -> tuple[Neighbour, ...]:
    """The nearest ids on both sides, in the same block."""
    by_producer = {
        row["producer_id"]: one
        for one, rows in moves.items()
        for row in rows
        if one != name and row["producer_id"] is not None
    }
    near = [one for one in sorted(by_producer) if one // BLOCK == producer_id // BLOCK]
    below = [one for one in near if one < producer_id][-NEIGHBOURS:]
    above = [one for one in near if one > producer_id][:NEIGHBOURS]
    return tuple(
        Neighbour(
            transactional_id=by_producer[one],
            producer_id=one,
            last_update_ms=moves[by_producer[one]][-1]["timestamp_ms"],
            partitions=tuple(
                sorted(
                    {
                        f"{place['topic']}-{place['partition']}"
                        for row in moves[by_producer[one]]
                        for place in row["partitions"] or ()
                    }
                )
            ),
        )
        for one in (*below, *above)
    )
