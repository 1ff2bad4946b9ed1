"""``coordinator_log`` as Spark SQL: the table ``transactions`` reduced on the workers to what a
search needs. To the driver come entries of producers with an open transaction, and those
that still owe markers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from txnsim.pipeline.forensics.coordinator_entries import (
    Coordinators,
    Entry,
    TxnRecord,
    coordinators_of,
)
from txnsim.pipeline.forensics.coordinator_log import (
    lost_end_of,
    newest_timestamp_of,
    sample_of,
)
from txnsim.pipeline.forensics.open_transactions_sql import notes_on
from txnsim.pipeline.forensics.read_notes import NoteKind
from txnsim.pipeline.forensics.replica_state import ReplicaState
from txnsim.pipeline.options import FORMAT
from txnsim.pipeline.scan.log_dirs import OnProblem
from txnsim.types import TopicPartition, TransactionVersion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_RECORD: Final = (
    "named_struct('offset', offset, 'state', state, 'producer_id', producer_id,"
    " 'producer_epoch', producer_epoch, 'previous_producer_id', previous_producer_id,"
    " 'next_producer_id', next_producer_id, 'timeout_ms', timeout_ms, 'partitions', partitions,"
    " 'start_timestamp_ms', start_timestamp_ms,"
    " 'last_update_timestamp_ms', last_update_timestamp_ms,"
    " 'client_transaction_version', client_transaction_version)"
)
ENTRIES: Final = f"""
with newest as (
    select partition, transactional_id,
        max_by({_RECORD}, offset) as newest,
        max_by({_RECORD}, offset) filter (where state in ('PrepareCommit', 'PrepareAbort'))
        as decision,
        sort_array(
            collect_list({_RECORD}) filter (where state in ('PrepareCommit', 'PrepareAbort'))
        ) as decisions,
        max_by(producer_id, offset) filter (where state is not null) as last_producer_id,
        max(problem) as problem
    from {{records}}
    group by partition, transactional_id
)
select * from newest
where problem is not null
    or newest.state in ('PrepareCommit', 'PrepareAbort')
    or last_producer_id in (select producer_id from {{wanted}})
    or newest.previous_producer_id in (select producer_id from {{wanted}})
    or newest.next_producer_id in (select producer_id from {{wanted}})
"""
"""The entries of some producers, and those that owe markers (``coordinator_entries``); for each
partition with records that can't be read a row that says so.
"""


def read_coordinators(
    spark: SparkSession,
    logs: Mapping[int, Sequence[ReplicaState]],
    producer_ids: Collection[int],
    on_problem: OnProblem,
) -> Coordinators:
    """Replay them, as far as some producers are concerned.

    Args:
        spark: The session, to which ``kafka_log`` is known.
        logs: Partition of ``__transaction_state`` -> replicas in the order of their word.
        producer_ids: Those with an open transaction.
        on_problem: Called with what can't be read.
    """
    records = _transactions(spark, logs)
    wanted = spark.createDataFrame([(one,) for one in producer_ids], "producer_id bigint")
    entries: list[Entry] = []
    forgotten: dict[int, str] = {}
    damaged: set[int] = set()
    decisions: dict[int, list[TxnRecord]] = {}
    for row in spark.sql(ENTRIES, records=records, wanted=wanted).toLocalIterator():
        if row.problem is not None:
            on_problem(f"__transaction_state-{row.partition}: {row.problem}")
            damaged.add(row.partition)
            continue
        for made in row.decisions:
            decisions.setdefault(made.producer_id, []).append(_record(row, made))
        if row.newest.state is None:
            forgotten[row.last_producer_id] = row.transactional_id
        else:
            decision = None if row.decision is None else _record(row, row.decision)
            entries.append(Entry(newest=_record(row, row.newest), decision=decision))
    cut_off: dict[int, str] = {}
    for note in notes_on(spark, [ranked[0] for ranked in logs.values()]):
        partition = note.replica.partition
        if note.kind is NoteKind.CUT:
            cut_off[partition] = note.place
        elif note.kind is NoteKind.DAMAGE:
            on_problem(note.place)
            damaged.add(partition)
    for partition, ranked in logs.items():
        if ranked[0].damage:  # reported where the replica was looked at
            damaged.add(partition)
        lost = lost_end_of(ranked[0])
        if lost:
            cut_off.setdefault(partition, lost)
    return coordinators_of(
        entries,
        forgotten=forgotten,
        held=logs,
        damaged=damaged,
        cut_off=cut_off,
        newest_timestamp_ms=newest_timestamp_of(logs),
        sample=sample_of(logs),
        decisions=decisions,
    )


def _transactions(spark: SparkSession, logs: Mapping[int, Sequence[ReplicaState]]) -> DataFrame:
    reader = spark.read.format(FORMAT).option("table", "transactions")
    return reader.load([replicas[0].replica.path for replicas in logs.values()])


def _record(row: Row, entry: Row) -> TxnRecord:
    return TxnRecord(
        log_partition=row.partition,
        offset=entry.offset,
        transactional_id=row.transactional_id,
        state=entry.state,
        producer_id=entry.producer_id,
        producer_epoch=entry.producer_epoch,
        previous_producer_id=_or_none(entry.previous_producer_id),
        next_producer_id=_or_none(entry.next_producer_id),
        timeout_ms=entry.timeout_ms,
        partitions=frozenset(
            TopicPartition(one.topic, one.partition) for one in entry.partitions or ()
        ),
        start_timestamp_ms=_or_none(entry.start_timestamp_ms),
        last_update_timestamp_ms=entry.last_update_timestamp_ms,
        is_v2=entry.client_transaction_version >= TransactionVersion.TV_2,
    )


def _or_none(value: int | None) -> int:
    return -1 if value is None else value
