"""Reads the data of ``logs timeline`` with an ``engine``: the coordinators' log, and the batches of
the id's producers, divided at their markers. Only headers are read, and other producers are dropped
at once. Replicas with the same data are listed once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from txnsim.types import TRANSACTION_STATE_TOPIC, TopicPartition
from txnsim_spark.embedded import EmbeddedDatabase
from txnsim_spark.engine import Engine
from txnsim_spark.forensics.identity import identities_in
from txnsim_spark.forensics.timeline import (
    CoordinatorRecord,
    PartitionTxn,
    Timeline,
    producer_ids_of,
    timeline_of,
)
from txnsim_spark.log_query import RowScope
from txnsim_spark.scan.log_dirs import OnProblem
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables.arrays import value_array
from txnsim_spark.tables.replica_jobs import kept_rows
from txnsim_spark.views import PARTITION_TRANSACTIONS


def read_timeline(
    engine: Engine,
    paths: Sequence[Path],
    transactional_id: str,
    topics: frozenset[str] = frozenset(),
) -> Timeline:
    """The timeline of a transactional id, read from log directories: from the given topics (all if
    empty) and from the coordinators' log.
    """
    problems: dict[str, None] = {}
    topics_and_state_topic = topics | {TRANSACTION_STATE_TOPIC} if topics else topics
    # Rows name their log directories by absolute paths.
    identities = identities_in([path.absolute() for path in paths], topics_and_state_topic)
    records, record_disagreements = merged_records(
        identities.living_rows(
            _coordinator_rows(engine, paths, transactional_id, problems.setdefault)
        )
    )
    producer_ids = producer_ids_of(records)
    if not producer_ids:
        timeline = timeline_of(transactional_id, records, ())
        return msgspec.structs.replace(timeline, problems=tuple(problems))
    rows = transactions_of(engine, paths, producer_ids, topics, problems.setdefault)
    txns, stay_disagreements = merged_txns(identities.living_rows(rows))
    timeline = timeline_of(transactional_id, records, txns)
    undecided_reasons = identities.undecided_reason_by_topic.values()
    return msgspec.structs.replace(
        timeline,
        disagreements=(
            *undecided_reasons,
            *record_disagreements,
            *stay_disagreements,
            *timeline.disagreements,
        ),
        stale=identities.stale,
        problems=tuple(problems),
    )


def _coordinator_rows(
    engine: Engine, paths: Sequence[Path], transactional_id: str, on_problem: OnProblem
) -> Iterator[dict[str, Any]]:
    topics = frozenset({TRANSACTION_STATE_TOPIC})
    keep = partial(_rows_of_id, transactional_id)
    batches = kept_rows(engine, "transactions", paths, keep, topics=topics, on_problem=on_problem)
    for batch in batches:
        yield from batch.to_pylist()


def transactions_of(
    engine: Engine,
    paths: Sequence[Path],
    producer_ids: Sequence[int],
    topics: frozenset[str] = frozenset(),
    on_problem: OnProblem | None = None,
) -> list[dict[str, Any]]:
    """A row per transaction of some producers, on each replica, by the headers of batches. What
    can't be read is reported, or refused (``kept_rows``).
    """
    scope = RowScope(producer_ids=frozenset(producer_ids))
    kept_batches = kept_rows(
        engine, "batches", paths, _keep_batch, topics=topics, scope=scope, on_problem=on_problem
    )
    batches = pa.Table.from_batches(kept_batches, TABLES["batches"].arrow())
    database = EmbeddedDatabase()
    database.register("kafka_batches", batches)
    database.create("kafka_partition_transactions", PARTITION_TRANSACTIONS)
    return database.rows(_TRANSACTIONS)


_TRANSACTIONS: Final = """
SELECT * FROM kafka_partition_transactions
ORDER BY log_dir, topic, partition, producer_id, coalesce(first_offset, marker_offset)
"""


def _keep_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def _rows_of_id(transactional_id: str, batch: pa.RecordBatch) -> pa.RecordBatch:
    id_scalar = value_array([transactional_id], pa.string())[0]
    is_of_id = pc.equal(batch["transactional_id"], id_scalar)
    return batch.filter(pc.and_(is_of_id, pc.is_null(batch["problem"])))


# Replicas


def merged_records(
    rows: Iterable[dict[str, Any]],
) -> tuple[list[CoordinatorRecord], list[str]]:
    """Each record once, by offset; and where replicas differ."""
    brokers_by_record_at: defaultdict[tuple[int, int], dict[CoordinatorRecord, set[int]]] = (
        defaultdict(dict)
    )
    for row in rows:
        record = _record_of(row)
        partition_and_offset = (record.partition, record.offset)
        brokers_by_record_at[partition_and_offset].setdefault(record, set()).add(row["broker"])
    disagreements = [
        f"{TRANSACTION_STATE_TOPIC}-{partition}: replicas hold different records at offset {offset}"
        for (partition, offset), brokers_by_record in sorted(brokers_by_record_at.items())
        if len(brokers_by_record) > 1
    ]
    records_merged = [
        msgspec.structs.replace(record, brokers=tuple(sorted(brokers)))
        for _, brokers_by_record in sorted(brokers_by_record_at.items())
        for record, brokers in brokers_by_record.items()
    ]
    return records_merged, disagreements


def _record_of(row: dict[str, Any]) -> CoordinatorRecord:
    fields = {name: row[name] for name in _RECORD if row[name] is not None}
    topic_partitions = [TopicPartition(**partition) for partition in row["partitions"] or ()]
    return CoordinatorRecord(**{**fields, "brokers": (), "partitions": tuple(topic_partitions)})


_RECORD: Final = frozenset(CoordinatorRecord.__struct_fields__) - {"brokers"}


def merged_txns(rows: Iterable[dict[str, Any]]) -> tuple[list[PartitionTxn], list[str]]:
    """The transactions of each partition from the replicas with the longest logs; and the replicas
    that lag.
    """
    brokers_by_txn_at: defaultdict[tuple[Any, ...], dict[PartitionTxn, set[int]]] = defaultdict(
        dict
    )
    for row in rows:
        txn = _stay_of(row)
        stay_start = txn.marker_offset if txn.first_offset is None else txn.first_offset
        brokers_by_txn_at[txn.topic, txn.partition, stay_start, txn.producer_id].setdefault(
            txn, set()
        ).add(row["broker"])
    txns_merged: list[PartitionTxn] = []
    disagreements: list[str] = []
    for _, brokers_by_txn in sorted(brokers_by_txn_at.items()):
        ranked_txns = sorted(brokers_by_txn, key=_reached_offset, reverse=True)
        txns_merged.append(
            msgspec.structs.replace(
                ranked_txns[0], brokers=tuple(sorted(brokers_by_txn[ranked_txns[0]]))
            )
        )
        for other_txn in ranked_txns[1:]:
            broker_list = ", ".join(
                f"broker {broker}" for broker in sorted(brokers_by_txn[other_txn])
            )
            disagreements.append(
                f"{other_txn.topic_partition}: on {broker_list} the transaction from offset "
                f"{other_txn.first_offset} on {_ending_of(other_txn)};"
                f" elsewhere it {_ending_of(ranked_txns[0])}"
            )
    return txns_merged, disagreements


def _reached_offset(txn: PartitionTxn) -> tuple[int, int]:
    return (-1 if txn.marker_offset is None else txn.marker_offset, txn.last_offset or -1)


def _ending_of(txn: PartitionTxn) -> str:
    if txn.marker_offset is None:
        return f"is open (last record at {txn.last_offset})"
    return f"{'commits' if txn.committed else 'aborts'} at offset {txn.marker_offset}"


def _stay_of(row: dict[str, Any]) -> PartitionTxn:
    fields = {name: row[name] for name in PartitionTxn.__struct_fields__ if name != "brokers"}
    return PartitionTxn(brokers=(), **fields)
