"""The tables that ``logs decisions`` asks, in DuckDB or in Spark. Only the replica of each
partition whose word counts is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from txnsim.types import TRANSACTION_STATE_TOPIC
from txnsim_spark.embedded import EmbeddedDatabase
from txnsim_spark.engine import Engine, EngineKind, cost_of
from txnsim_spark.questions import _decision_queries as queries
from txnsim_spark.questions._log_reach import AuditedLogs
from txnsim_spark.scan.log_dirs import OnProblem
from txnsim_spark.schemas import TABLES, arrow_types
from txnsim_spark.tables.replica_jobs import kept_rows
from txnsim_spark.views import DECISIONS

if TYPE_CHECKING:
    from txnsim_spark.session import SparkSession

Rows = Iterator[dict[str, Any]]
LOGS_SCHEMA: Final = "topic string, partition int, complete_from bigint"
COMPARED_SCHEMA: Final = "topic string, partition int, replicas int"
REACH_SCHEMA: Final = "coordinator int, since_ms bigint"
_EVENTS: Final = "audited_events"
NEIGHBOURS: Final = 100
"""How many windows on either side of a doubtful one are judged with it."""
_LEADERS: Final = """
-- Only leading replicas are read.
SELECT DISTINCT topic, partition, log_dir, broker FROM kafka_transactions
"""


class DecisionTables(Protocol):
    """Runs the queries of ``_decision_queries``."""

    def set_rows(self, table: str, schema: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Give a small table new rows in place of its old rows."""

    def keep_events(self, query: str) -> None:
        """Keep the rows of a query as ``audited_events``."""

    def rows(self, query: str) -> Rows:
        """The rows of a query, in order."""


def decision_tables(engine: Engine, logs: AuditedLogs, on_problem: OnProblem) -> DecisionTables:
    """Open the tables over the leading replicas: in this process, or in Spark where there is much
    to read. What producers did is read on the other replicas, too.
    """
    leaders = logs.leaders
    state_logs = [state for state in leaders if state.replica.topic == TRANSACTION_STATE_TOPIC]
    cost = cost_of(segment.size for state in leaders for segment in state.segments) + cost_of(
        (segment.size for state in state_logs for segment in state.segments), is_decoded=True
    )
    tables: DecisionTables
    if engine.kind_for(cost) is EngineKind.SPARK:
        tables = SparkTables(engine.spark(), logs)
    else:
        tables = EmbeddedTables(engine, logs, on_problem)
    tables.set_rows(
        "compared_logs",
        COMPARED_SCHEMA,
        [
            (topic_partition.topic, topic_partition.partition, len(log.other_replicas) + 1)
            for topic_partition, log in sorted(logs.log_by_partition.items(), key=itemgetter(0))
            if log.other_replicas
        ],
    )
    return tables


def _paths_of(logs: AuditedLogs, table: str) -> list[Path]:
    """Folders of the replicas that a table is read from."""
    is_of_coordinators = table == "transactions"
    replicas = [
        state
        for topic_partition, log in logs.log_by_partition.items()
        if (topic_partition.topic == TRANSACTION_STATE_TOPIC) is is_of_coordinators
        for state in (log.state, *(log.other_replicas if table == "fragments" else ()))
    ]
    return [Path(state.replica.path) for state in replicas]


_TABLES: Final = ("transactions", "endings", "fragments")


class EmbeddedTables:
    """The tables in DuckDB."""

    def __init__(self, engine: Engine, logs: AuditedLogs, on_problem: OnProblem) -> None:
        self._database = EmbeddedDatabase()
        for table in _TABLES:
            paths = _paths_of(logs, table)
            batches = (
                kept_rows(engine, table, paths, _keep_all, on_problem=on_problem) if paths else ()
            )
            self._database.keep(f"kafka_{table}", TABLES[table].arrow(), batches)
        self._database.create("kafka_leaders", _LEADERS)
        self._database.create("kafka_decisions", DECISIONS)

    def set_rows(self, table: str, schema: str, rows: Sequence[tuple[object, ...]]) -> None:
        names_and_types = [column.split() for column in schema.split(", ")]
        arrow_type_by_name = arrow_types()
        arrow_schema = pa.schema(
            [(name, arrow_type_by_name[spark_type]) for name, spark_type in names_and_types]
        )
        columns = [*zip(*rows, strict=True)] or [()] * len(names_and_types)
        arrow_table = pa.table(
            [
                pa.array(column, arrow_type_by_name[spark_type])
                for column, (_, spark_type) in zip(columns, names_and_types, strict=True)
            ],
            schema=arrow_schema,
        )
        self._database.connection.execute(f"DROP TABLE IF EXISTS {table}")
        self._database.keep(table, arrow_schema, arrow_table.to_batches())

    def keep_events(self, query: str) -> None:
        self._database.create(_EVENTS, query, is_kept=True)

    def rows(self, query: str) -> Rows:
        return iter(self._database.rows(query))


class SparkTables:
    """The tables in Spark. Rows come to the driver partition by partition, never all at once."""

    def __init__(self, spark: SparkSession, logs: AuditedLogs) -> None:
        self._spark = spark
        for table in _TABLES:
            paths = [str(path) for path in _paths_of(logs, table)]
            rows = (
                spark.read.format("kafka_log").options(table=table).load(paths)
                if paths
                else spark.createDataFrame([], TABLES[table].ddl)
            )
            rows.createOrReplaceTempView(f"kafka_{table}")
        spark.sql(_LEADERS).createOrReplaceTempView("kafka_leaders")
        spark.sql(DECISIONS).createOrReplaceTempView("kafka_decisions")

    def set_rows(self, table: str, schema: str, rows: Sequence[tuple[object, ...]]) -> None:
        self._spark.createDataFrame([*rows], schema).createOrReplaceTempView(table)

    def keep_events(self, query: str) -> None:
        from pyspark import StorageLevel

        events = self._spark.sql(query).persist(StorageLevel.DISK_ONLY)
        events.createOrReplaceTempView(_EVENTS)

    def rows(self, query: str) -> Rows:
        for row in self._spark.sql(query).toLocalIterator():
            yield row.asDict(recursive=True)


def _keep_all(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


def events_query(reach_of_unknown_ids_ms: int, skew_ms: int) -> str:
    """The query of all decisions and markers, sorted out.

    Args:
        reach_of_unknown_ids_ms: Time since which the log of a producer id without an entry would be
            complete.
        skew_ms: Assumed limit for the difference of two brokers' clocks.
    """
    values: Mapping[str, int] = {
        "unknown_since_ms": reach_of_unknown_ids_ms,
        "skew_ms": skew_ms,
        "neighbours": NEIGHBOURS,
    }
    query = queries.AUDIT
    for name, value in values.items():
        query = query.replace(f":{name}", str(value))
    return query
