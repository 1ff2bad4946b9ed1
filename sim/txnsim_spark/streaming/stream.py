"""A stream from Kafka to a table that also raises alerts on hanging transactions, which block it.
It has two queries of Structured Streaming. One reads with Spark's own Kafka connector and
``read_committed`` and writes each batch once (``_records``, ``_sink``). The connector can't see a
hanging transaction: it finds no new records after one, and a lag of 0. So the other query probes
the cluster at regular times (``lag_source``), whether records flow or not, and raises an alert that
names the producer (``_watch``). Each query has its own checkpoint and sink, so a failure of one
repeats nothing in the other.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from txnsim.errors import BadInputError
from txnsim_spark.streaming._alerts import ALERT_TABLE, Alert
from txnsim_spark.streaming._checkpoint import Checkpoint, Folder
from txnsim_spark.streaming._records import RECORD_COLUMNS, RecordsQuery
from txnsim_spark.streaming._sink import SinkFormat, TableSink
from txnsim_spark.streaming._watch import AlertsQuery
from txnsim_spark.streaming.events import OnEvent
from txnsim_spark.streaming.options import LagOptions, StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

RECORDS_NAME: Final = "records"
ALERTS_NAME: Final = "alerts"
"""Name of folders in the sink and in the checkpoint."""
POLL_S: Final = 0.2
STOP_POLLS_MAX: Final = 150
"""Number of polls of a running batch before it is given up: half a minute."""
STARTS_MAX: Final = 3
TOO_SLOW_MESSAGE: Final = "Python worker failed to connect back"
"""Part of Spark's message if a query ends before its first batch: the Python process that plans the
query has 10 s to connect, a fixed time (``PythonWorkerFactory.createSimpleWorker``). A busy machine
may need longer, so such a query is started again, ``STARTS_MAX`` times in all.
"""


class StreamError(BadInputError):
    """A query has failed; the message is Spark's."""


class Stream:
    """The two queries of a stream: records and alerts."""

    def __init__(
        self,
        spark: SparkSession,
        options: StreamOptions,
        on_event: OnEvent,
        *,
        records_sink: TableSink | None = None,
    ) -> None:
        """Start nothing yet.

        Args:
            spark: A session with the connector's jars.
            options: The options.
            on_event: Called with each event, from threads of Spark.
            records_sink: The sink of records; unless given, that of the options.

        Raises:
            BadInputError: An option is wrong.
        """
        LagOptions.of(options.lag_options)  # what is wrong is refused now, not by a task
        self._spark = spark
        self._options = options
        self._sinks = {
            RECORDS_NAME: records_sink or sink_at(spark, options, RECORDS_NAME, RECORD_COLUMNS),
            ALERTS_NAME: sink_at(spark, options, ALERTS_NAME, ALERT_TABLE.ddl),
        }
        self._checkpoints = {
            query_name: Checkpoint(Folder(f"{options.checkpoint}/{query_name}", spark))
            for query_name in self._sinks
        }
        records_query = RecordsQuery(
            options, self._sinks[RECORDS_NAME], self._checkpoints[RECORDS_NAME], on_event
        )
        self._alerts = AlertsQuery(
            options,
            self._sinks[ALERTS_NAME],
            self._checkpoints[ALERTS_NAME],
            on_event,
            connector_lag=lambda: self.connector_lag,
        )
        self._queries: dict[str, tuple[RecordsQuery | AlertsQuery, int]] = {
            RECORDS_NAME: (records_query, options.interval_ms),
            ALERTS_NAME: (self._alerts, options.probe_interval_ms),
        }
        self._query_by_name: dict[str, StreamingQuery] = {}
        self._starts = dict.fromkeys(self._sinks, 0)

    # Life

    def start(self) -> None:
        """Start both queries. Each goes on where its checkpoint ends, or else where its sink ends.

        Raises:
            BadInputError: Checkpoint and sink do not match, or an option is wrong.
            ClientError: The cluster did not answer.
            MissingExtraError: There is no connector.
        """
        for sink in self._sinks.values():
            sink.sweep()
        for checkpoint in self._checkpoints.values():
            checkpoint.sweep()
        for query_name in self._queries:
            self._start_query(query_name)

    def wait(self, stop_event: threading.Event) -> None:
        """Wait until the stream is stopped, a query fails, or both have read all available data.

        Raises:
            StreamError: A query has failed, and the other one is stopped; or Spark is gone.
        """
        try:
            while not stop_event.is_set() and self._is_running():
                stop_event.wait(POLL_S)
            self.stop()
            for query_name, failure in self._failures():
                raise _query_failure(query_name, failure)
        except (Py4JError, OSError) as failure:
            # A signal to the process group also ends the JVM: then everything is stopped, and the
            # running batch is repeated next time.
            if not stop_event.is_set():
                raise StreamError(f"Spark's JVM is gone: {failure}") from failure
        except StreamError:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop both queries between two batches; a batch that takes too long is given up, and
        repeated next time.
        """
        for query in self._query_by_name.values():
            _wait_for_batch_end(query)
            query.stop()

    def _start_query(self, query_name: str) -> None:
        table_query, interval_ms = self._queries[query_name]
        self._starts[query_name] += 1
        writer = (
            table_query.rows(self._spark)
            .writeStream.queryName(f"txnsim {query_name}")
            .foreachBatch(table_query.process_batch)
            .option("checkpointLocation", f"{self._options.checkpoint}/{query_name}")
        )
        if self._options.once:
            writer = writer.trigger(availableNow=True)
        else:
            writer = writer.trigger(processingTime=f"{interval_ms} milliseconds")
        self._query_by_name[query_name] = writer.start()

    def _is_running(self) -> bool:
        """Whether a query still runs. Restart a query whose planning process was too slow."""
        is_any_running = any(query.isActive for query in self._query_by_name.values())
        for query_name, failure in self._failures():
            if TOO_SLOW_MESSAGE not in failure or self._starts[query_name] == STARTS_MAX:
                raise _query_failure(query_name, failure)
            self._start_query(query_name)
            is_any_running = True
        return is_any_running

    def _failures(self) -> list[tuple[str, str]]:
        """Messages of the queries that have failed."""
        exceptions = [
            (query_name, query.exception()) for query_name, query in self._query_by_name.items()
        ]
        return [
            (query_name, str(failure)) for query_name, failure in exceptions if failure is not None
        ]

    # Queries

    @property
    def standing_alerts(self) -> tuple[Alert, ...]:
        """Alerts that have been raised and have not ended."""
        return self._alerts.standing_alerts

    @property
    def connector_lag(self) -> int | None:
        """Lag behind the latest offset, as the connector reports it; None before its first
        report.
        """
        records_query = self._query_by_name.get(RECORDS_NAME)
        last_progress = None if records_query is None else records_query.lastProgress
        if last_progress is None:
            return None
        offsets_behind = last_progress["sources"][0]["metrics"].get("maxOffsetsBehindLatest")
        return None if offsets_behind is None else int(float(offsets_behind))


def sink_at(
    spark: SparkSession, options: StreamOptions, table_name: str, columns: str
) -> TableSink:
    """One of the tables that a stream writes."""
    url, sink_format = f"{options.sink}/{table_name}", SinkFormat(options.sink_format)
    return TableSink(spark, url, columns=columns, format=sink_format)


def end_session(spark: SparkSession) -> None:
    """Stop the session, unless a signal has ended its JVM already."""
    with contextlib.suppress(Py4JError, OSError):
        spark.stop()


def _query_failure(query_name: str, failure: str) -> StreamError:
    return StreamError(f"the query of {query_name} has failed: {failure}")


def _wait_for_batch_end(query: StreamingQuery) -> None:
    """Wait for a limited time until no batch runs."""
    never_set_event = threading.Event()  # it is never set
    for _ in range(STOP_POLLS_MAX):
        if not query.isActive or not query.status["isTriggerActive"]:
            return
        never_set_event.wait(POLL_S)
