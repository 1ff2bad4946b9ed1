"""``open_transactions`` as Spark SQL: the table ``fragments`` and snapshots merged to what is open,
on the workers. One shuffle, of a row per producer and piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.pipeline.filters import Wanted
from txnsim.pipeline.forensics.open_transactions import BEFORE_EVERYTHING, of_snapshot
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.forensics.segment_job import COLUMNS, pieces_of
from txnsim.pipeline.forensics.verdicts import OpenTxn
from txnsim.pipeline.options import TASK_BYTES_DEFAULT, KafkaLogOptions
from txnsim.pipeline.planning import Reads, Share, shares_of
from txnsim.pipeline.scan.segments import Replica

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_TASKS_PER_CORE: Final = 3
_TASK_BYTES_MIN: Final = 16 << 20
"""A task costs as long as reading this."""
_SEED: Final = COLUMNS.partition(", told")[0]
_KEY: Final = "log_dir, topic, partition, producer_id"
MERGE: Final = f"""
with placed as (
    select *, max(if(markers > 0, first_offset, null)) over (partition by {_KEY}) as last_marked
    from {{pieces}}
),
judged as (
    select *,
        open_offset is not null and first_offset >= coalesce(last_marked, {BEFORE_EVERYTHING})
        as is_open
    from placed
)
select {_KEY}, told, is_cut,
    min_by(open_offset, first_offset) filter (where is_open) as start_offset,
    min_by(open_timestamp_ms, first_offset) filter (where is_open) as start_timestamp_ms,
    max_by(open_last_timestamp_ms, first_offset) filter (where is_open) as last_timestamp_ms,
    max_by(open_epoch, first_offset) filter (where is_open) as producer_epoch,
    max_by(coordinator_epoch, first_offset) filter (where coordinator_epoch is not null)
    as coordinator_epoch
from judged
group by {_KEY}, told, is_cut
having bool_or(is_open) or told is not null
"""
"""What is open behind the last marker of each producer and replica (``open_transactions.merged``);
damage as it is.
"""


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """Where a segment stops making sense."""

    replica: Replica
    is_cut: bool
    """A starting broker cuts off what lies behind, as of a kill."""
    told: str


def open_transactions(
    spark: SparkSession, states: Sequence[ReplicaState]
) -> Iterator[tuple[Replica, OpenTxn] | Damage]:
    """What replicas have open at their ends, and where their segments make no sense, row by row;
    in one job, as starting a second one costs more than what it would do.

    Args:
        spark: The session, to which ``kafka_log`` is known.
        states: Replicas with segments left to read.
    """
    pieces = pieces_of(spark, shares_to_read(spark, states))
    seeds = _seeds(states)
    if seeds:
        pieces = pieces.unionByName(spark.createDataFrame(seeds, _SEED), allowMissingColumns=True)
    found = spark.sql(MERGE, pieces=pieces)
    by_place = {_place(state.replica): state for state in states}
    for row in found.toLocalIterator():
        state = by_place[row.log_dir, row.topic, row.partition]
        if row.told is not None:
            yield _damage(row, state.replica)
        elif row.start_offset < state.ends.end_offset:  # not in a tail that would be cut off
            yield state.replica, _open_txn(row, state)


def damages(spark: SparkSession, states: Sequence[ReplicaState]) -> Iterator[Damage]:
    """The places where segments of replicas stop making sense.

    Args:
        spark: The session, to which ``kafka_log`` is known.
        states: Replicas.
    """
    replicas = {_place(state.replica): state.replica for state in states}
    pieces = pieces_of(spark, shares_to_read(spark, states))
    # Shuffled, though there are few: rows that are fetched as they are are read task by task.
    for row in pieces.where("told is not null").repartition(1).toLocalIterator():
        yield _damage(row, replicas[row.log_dir, row.topic, row.partition])


def _damage(row: Row, replica: Replica) -> Damage:
    return Damage(replica=replica, is_cut=row.is_cut, told=row.told)


def shares_to_read(spark: SparkSession, states: Sequence[ReplicaState]) -> list[Share]:
    """What is left to read, in tasks such that no core waits for long at the end.

    Args:
        spark: The session.
        states: Replicas with segments left to read.
    """
    total = sum(state.unread_bytes for state in states)
    task = total // (_TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    options = KafkaLogOptions(
        paths=tuple(Path(state.replica.path) for state in states),
        start_offsets={
            state.replica.path: state.unread[0].base_offset for state in states if state.unread
        },
        task_bytes=min(max(task, _TASK_BYTES_MIN), TASK_BYTES_DEFAULT),
    )
    return shares_of(options, Wanted(), Reads(segments=True))


def _seeds(states: Sequence[ReplicaState]) -> list[tuple[str | int | None, ...]]:
    """The transactions that snapshots have open, as fragments in front of all others."""
    return [
        (*_place(state.replica), *msgspec.structs.astuple(of_snapshot(entry)))
        for state in states
        for entry in state.seeds.values()
        if entry.txn_first_offset >= 0
    ]


def _open_txn(row: Row, state: ReplicaState) -> OpenTxn:
    epoch = row.coordinator_epoch
    if epoch is None and row.producer_id in state.seeds:
        epoch = of_snapshot(state.seeds[row.producer_id]).coordinator_epoch
    return OpenTxn(
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        start_offset=row.start_offset,
        start_timestamp_ms=row.start_timestamp_ms,
        last_timestamp_ms=row.last_timestamp_ms,
        coordinator_epoch=epoch,
    )


def _place(replica: Replica) -> tuple[str, str, int]:
    return replica.log_dir, replica.topic, replica.partition
