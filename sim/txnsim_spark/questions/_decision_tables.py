"""The tables that ``logs decisions`` asks, in DuckDB or in Spark. Only the replica of each
partition whose word counts is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from txnsim.types import TRANSACTION_STATE_TOPIC
from txnsim_spark.embedded import EmbeddedDatabase
from txnsim_spark.engine import Engine, EngineKind, cost_of
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.questions import _decision_queries as queries
from txnsim_spark.scan.log_dirs import OnProblem
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables.replica_jobs import kept_rows
from txnsim_spark.views import DECISIONS, register_log_views

if TYPE_CHECKING:
    import pyarrow as pa

    from txnsim_spark.session import SparkSession

Rows = Iterator[dict[str, Any]]
LOGS_SCHEMA: Final = "topic string, partition int, complete_from bigint"
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
        """Give a small table its rows, in place of those it had."""

    def keep_events(self, query: str) -> None:
        """Keep the rows of a query as ``audited_events``."""

    def rows(self, query: str) -> Rows:
        """The rows of a query, in order."""


def decision_tables(
    engine: Engine, leaders: Sequence[ReplicaState], on_problem: OnProblem
) -> DecisionTables:
    """Open the tables over the leading replicas: in this process, or in Spark where there is much
    to read.
    """
    state_logs = [state for state in leaders if state.replica.topic == TRANSACTION_STATE_TOPIC]
    cost = cost_of(segment.size for state in leaders for segment in state.segments) + cost_of(
        (segment.size for state in state_logs for segment in state.segments), is_decoded=True
    )
    if engine.kind_for(cost) is EngineKind.SPARK:
        return SparkTables(engine.spark(), leaders)
    return EmbeddedTables(engine, leaders, on_problem)


class EmbeddedTables:
    """The tables in DuckDB."""

    def __init__(
        self, engine: Engine, leaders: Sequence[ReplicaState], on_problem: OnProblem
    ) -> None:
        self._database = EmbeddedDatabase()
        for table in ("transactions", "endings", "fragments"):
            paths = [
                Path(state.replica.path)
                for state in leaders
                if (state.replica.topic == TRANSACTION_STATE_TOPIC) == (table == "transactions")
            ]
            batches = (
                kept_rows(engine, table, paths, _keep_all, on_problem=on_problem) if paths else ()
            )
            self._database.keep(f"kafka_{table}", TABLES[table].arrow(), batches)
        self._database.create("kafka_leaders", _LEADERS)
        self._database.create("kafka_decisions", DECISIONS)

    def set_rows(self, table: str, schema: str, rows: Sequence[tuple[object, ...]]) -> None:
        connection = self._database.connection
        columns = schema.replace("string", "VARCHAR")
        connection.execute(f"CREATE OR REPLACE TABLE {table} ({columns})")
        if rows:
            marks = ", ".join("?" for _ in rows[0])
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", [*map(list, rows)])

    def keep_events(self, query: str) -> None:
        self._database.create(_EVENTS, query, is_kept=True)

    def rows(self, query: str) -> Rows:
        return iter(self._database.rows(query))


class SparkTables:
    """The tables in Spark. Rows come to the driver partition by partition, never all at once."""

    def __init__(self, spark: SparkSession, leaders: Sequence[ReplicaState]) -> None:
        self._spark = spark
        register_log_views(spark, *(state.replica.path for state in leaders))
        spark.sql(_LEADERS).createOrReplaceTempView("kafka_leaders")
        # The view goes by the leaders of its time, so it is made anew.
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
