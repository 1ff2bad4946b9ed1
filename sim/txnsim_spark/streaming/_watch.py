"""The query of alerts: compares each probe with the present alerts, prints changes, and stores
them. An alert is printed before it is written. So after a crash it may be printed twice, but it is
never lost. The table of alerts has each event once; from it a starting stream learns the present
alerts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from txnsim_spark.streaming._alerts import ALERT_TABLE, Alert, AlertEvent, step
from txnsim_spark.streaming._checkpoint import Checkpoint
from txnsim_spark.streaming._lag_probe import PartitionLag
from txnsim_spark.streaming._sink import TableSink
from txnsim_spark.streaming.events import AlertChanged, NotAsked, OnEvent
from txnsim_spark.streaming.lag_source import LagDataSource, lag_of
from txnsim_spark.streaming.options import FORMAT, StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class AlertsQuery:
    """Reads probes and handles each of them."""

    def __init__(
        self,
        options: StreamOptions,
        sink: TableSink,
        checkpoint: Checkpoint,
        on_event: OnEvent,
        *,
        connector_lag: Callable[[], int | None],
    ) -> None:
        self._options = options
        self._sink = sink
        self._checkpoint = checkpoint
        self._on_event = on_event
        self._connector_lag = connector_lag
        self._not_asked: frozenset[tuple[str, str]] = frozenset()
        self.standing: tuple[Alert, ...] = ()
        """Alerts that have been raised and have not ended."""

    def rows(self, spark: SparkSession) -> DataFrame:
        """The stream of probes; standing alerts are first restored from the sink."""
        stored_alerts = self._sink.rows()
        if stored_alerts is not None:
            self.standing = _standing(
                stored_alerts.where(F.col("topic").isin([*self._options.topics]))
            )
        spark.dataSource.register(LagDataSource)
        return spark.readStream.format(FORMAT).options(**self._options.lag_options).load()

    def take(self, rows: DataFrame, batch: int) -> None:
        """Process a probe; only rows that may cause an alert leave the workers."""
        may_alert = (
            (F.size("held_by") > 0)
            | F.col("error").isNotNull()
            | F.concat_ws("-", "topic", "partition").isin(
                [f"{alert.topic}-{alert.partition}" for alert in self.standing]
            )
        )
        lag_rows = list(rows.where(may_alert).toLocalIterator())
        lags = [lag_of(row) for row in lag_rows]
        self._tell_not_asked(lags)
        at_ms = lag_rows[0]["probed_at_ms"] if lag_rows else 0
        alert_step = step(self.standing, lags, at_ms=at_ms, program=self._options.program)
        if not alert_step.events or self._keep(alert_step.events, rows.sparkSession, batch):
            self.standing = alert_step.standing

    def _keep(self, events: tuple[Alert, ...], spark: SparkSession, batch: int) -> bool:
        """Print the changes, then write them. Return False if this batch was written before a crash
        with other changes; the next probe finds the present ones again.
        """
        connector_lag = self._connector_lag()
        for alert in events:
            self._on_event(AlertChanged(alert=alert, connector_lag=connector_lag))
        if self._options.alerts_topic is not None:
            self._send(events, spark, self._options.alerts_topic)
        query_id = self._checkpoint.query_id()
        assert query_id is not None, "Spark writes it down before the first batch"
        alert_rows = [tuple(msgspec.to_builtins(alert).values()) for alert in events]
        rows = spark.createDataFrame(alert_rows, ALERT_TABLE.ddl).coalesce(1)
        return self._sink.write(rows, batch, query_id=query_id) is not None

    def _send(self, alerts: Iterable[Alert], spark: SparkSession, topic: str) -> None:
        """Write alerts to a topic, keyed by alert id: compaction keeps the state of each."""
        rows = [(alert.id, msgspec.json.encode(alert).decode()) for alert in alerts]
        writer = spark.createDataFrame(rows, "key string, value string").write.format("kafka")
        writer.options(**self._options.kafka_options, topic=topic).save()

    def _tell_not_asked(self, lags: Iterable[PartitionLag]) -> None:
        """Report each partition that can't be probed, once, until it can be probed again."""
        failing = frozenset((_place_text(lag), lag.error) for lag in lags if lag.error is not None)
        for where, error in sorted(failing - self._not_asked):
            self._on_event(NotAsked(where=where, error=error))
        self._not_asked = failing


def _standing(rows: DataFrame) -> tuple[Alert, ...]:
    """Alerts that were raised and have not ended, from the stored rows."""
    columns = [column.name for column in ALERT_TABLE.columns]
    newest = rows.groupBy("id").agg(F.max_by(F.struct(*columns), "at_ms").alias("alert"))
    raised = newest.where(F.col("alert.event") == AlertEvent.RAISED)
    alerts = (row["alert"].asDict() for row in raised.orderBy("id").toLocalIterator())
    return tuple(msgspec.convert(alert, Alert) for alert in alerts)


def _place_text(row: PartitionLag) -> str:
    match row.topic, row.partition:
        case None, _:
            return "the cluster"
        case topic, None:
            return f"topic {topic}"
        case topic, partition:
            return f"{topic}-{partition}"
