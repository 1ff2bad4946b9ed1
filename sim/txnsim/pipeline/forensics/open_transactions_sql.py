"""``open_transactions`` as Spark SQL: the table ``fragments`` and snapshots merged to what is open,
on the workers. One shuffle, of a row per producer and piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.pipeline.forensics.open_transactions import BEFORE_EVERYTHING, of_snapshot
from txnsim.pipeline.forensics.read_notes import Note, NoteKind
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.forensics.segment_job import COLUMNS, NOTED, pieces_of
from txnsim.pipeline.forensics.verdicts import OpenTxn
from txnsim.pipeline.planning import Share, in_tasks
from txnsim.pipeline.scan.segments import Replica, SegmentFile

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

_SEED: Final = COLUMNS.partition(", note")[0]
_NOTE: Final = ", ".join(NOTED)
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
select {_KEY}, {_NOTE},
    min_by(open_offset, first_offset) filter (where is_open) as start_offset,
    min_by(open_timestamp_ms, first_offset) filter (where is_open) as start_timestamp_ms,
    max_by(open_last_timestamp_ms, first_offset) filter (where is_open) as last_timestamp_ms,
    max_by(open_epoch, first_offset) filter (where is_open) as producer_epoch,
    max_by(coordinator_epoch, first_offset) filter (where coordinator_epoch is not null)
    as coordinator_epoch
from judged
group by {_KEY}, {_NOTE}
having bool_or(is_open) or note is not null
"""
"""What is open behind the last marker of each producer and replica (``open_transactions.merged``);
damage as it is.
"""


def open_transactions(
    spark: SparkSession, states: Sequence[ReplicaState]
) -> Iterator[tuple[Replica, OpenTxn] | Note]:
    """What replicas have open at their ends, and where their segments make no sense, row by row;
    in one job, as starting a second one costs more than what it would do. Large segments are read
    in sections; a replica that is damaged where that matters is read again as a whole.

    Args:
        spark: The session, to which ``kafka_log`` is known.
        states: Replicas with segments left to read.
    """
    again: set[str] = set()
    in_sections = _shares(spark, [one.unread for one in states], are_cut=True)
    yield from sound_rows(spark, states, in_sections, again)
    if again:
        damaged = [one for one in states if one.replica.path in again]
        whole = _shares(spark, [one.unread for one in damaged])
        yield from _rows(spark, damaged, whole)


def sound_rows(
    spark: SparkSession, states: Sequence[ReplicaState], shares: Sequence[Share], again: set[str]
) -> Iterator[tuple[Replica, OpenTxn] | Note]:
    """The rows of replicas, but for those of which a section can't be judged apart: these go to
    ``again``. What is in sections is held back until all of them are read.
    """
    cut = {
        one.replica.path for share in shares for one in share.segments if one.section is not None
    }
    held: list[tuple[Replica, OpenTxn] | Note] = []
    for row in _rows(spark, states, shares):
        if isinstance(row, Note) and row.kind is NoteKind.AGAIN:
            again.add(row.replica.path)
        elif _replica_of(row).path in cut:
            held.append(row)
        else:
            yield row
    yield from (row for row in held if _replica_of(row).path not in again)


def _replica_of(row: tuple[Replica, OpenTxn] | Note) -> Replica:
    return row.replica if isinstance(row, Note) else row[0]


def _rows(
    spark: SparkSession, states: Sequence[ReplicaState], shares: Sequence[Share]
) -> Iterator[tuple[Replica, OpenTxn] | Note]:
    pieces = pieces_of(spark, shares)
    seeds = _seeds(states)
    if seeds:
        pieces = pieces.unionByName(spark.createDataFrame(seeds, _SEED), allowMissingColumns=True)
    found = spark.sql(MERGE, pieces=pieces)
    by_place = {_place(state.replica): state for state in states}
    for row in found.toLocalIterator():
        state = by_place[row.log_dir, row.topic, row.partition]
        if row.note is not None:
            yield _note(row, state.replica)
        else:
            yield state.replica, _open_txn(row, state)


def notes_on(spark: SparkSession, states: Sequence[ReplicaState]) -> Iterator[Note]:
    """What comes to light in the segments of replicas.

    Args:
        spark: The session, to which ``kafka_log`` is known.
        states: Replicas.
    """
    replicas = {_place(state.replica): state.replica for state in states}
    pieces = pieces_of(spark, _shares(spark, [one.segments for one in states]))
    # Shuffled, though there are few: rows that are fetched as they are are read task by task.
    for row in pieces.where("note is not null").repartition(1).toLocalIterator():
        yield _note(row, replicas[row.log_dir, row.topic, row.partition])


def _note(row: Row, replica: Replica) -> Note:
    return Note(
        replica=replica,
        kind=NoteKind(row.note),
        text=row.text,
        file=row.file,
        position=row.position,
        from_offset=row.from_offset,
        to_offset=row.to_offset,
    )


def _shares(
    spark: SparkSession, replicas: Sequence[Sequence[SegmentFile]], *, are_cut: bool = False
) -> list[Share]:
    """What each task reads (``planning.in_tasks``)."""
    cores = spark.sparkContext.defaultParallelism
    return [Share(segments=task) for task in in_tasks(replicas, cores=cores, are_cut=are_cut)]


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
