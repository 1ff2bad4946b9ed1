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

from txnsim_spark.streaming._alerts import ALERT_TABLE, Alert, AlertEvent, compare_probe
from txnsim_spark.streaming._checkpoint import Checkpoint
from txnsim_spark.streaming._lag_probe import PartitionLag
from txnsim_spark.streaming._sink import TableSink
from txnsim_spark.streaming.events import AlertChanged, NotProbed, OnEvent
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
        self._places_not_probed: frozenset[tuple[str, str]] = frozenset()
        self.standing_alerts: tuple[Alert, ...] = ()
        """Alerts that have been raised and have not ended."""

    def rows(self, spark: SparkSession) -> DataFrame:
        """The stream of probes; standing alerts are first restored from the sink."""
        stored_alerts = self._sink.rows()
        if stored_alerts is not None:
            self.standing_alerts = _standing_alerts(
                stored_alerts.where(F.col("topic").isin([*self._options.topics]))
            )
        spark.dataSource.register(LagDataSource)
        return spark.readStream.format(FORMAT).options(**self._options.lag_options).load()

    def process_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Process a probe; only rows that may cause an alert leave the workers."""
        may_alert_filter = (
            (F.size("held_by") > 0)
            | F.col("error").isNotNull()
            | F.concat_ws("-", "topic", "partition").isin(
                [f"{alert.topic}-{alert.partition}" for alert in self.standing_alerts]
            )
        )
        lag_rows = list(rows.where(may_alert_filter).toLocalIterator())
        partition_lags = [lag_of(lag_row) for lag_row in lag_rows]
        self._report_not_probed(partition_lags)
        at_ms = lag_rows[0]["probed_at_ms"] if lag_rows else 0
        alert_changes = compare_probe(
            self.standing_alerts, partition_lags, probed_at_ms=at_ms, program=self._options.program
        )
        if not alert_changes.events or self._store_changes(
            alert_changes.events, rows.sparkSession, batch_id
        ):
            self.standing_alerts = alert_changes.standing_alerts

    def _store_changes(
        self, alert_events: tuple[Alert, ...], spark: SparkSession, batch_id: int
    ) -> bool:
        """Print the changes, then write them. Return False if this batch was written before a crash
        with other changes; the next probe finds the present ones again.
        """
        connector_lag = self._connector_lag()
        for alert in alert_events:
            self._on_event(AlertChanged(alert=alert, connector_lag=connector_lag))
        if self._options.alerts_topic is not None:
            self._send_alerts(alert_events, spark, self._options.alerts_topic)
        query_id = self._checkpoint.query_id()
        assert query_id is not None, "Spark writes it down before the first batch"
        alert_rows = [tuple(msgspec.to_builtins(alert).values()) for alert in alert_events]
        rows = spark.createDataFrame(alert_rows, ALERT_TABLE.ddl).coalesce(1)
        return self._sink.write(rows, batch_id, query_id=query_id) is not None

    def _send_alerts(self, alerts: Iterable[Alert], spark: SparkSession, topic: str) -> None:
        """Write alerts to a topic, keyed by alert id: compaction keeps the state of each."""
        alert_rows = [(alert.id, msgspec.json.encode(alert).decode()) for alert in alerts]
        writer = spark.createDataFrame(alert_rows, "key string, value string").write.format("kafka")
        writer.options(**self._options.kafka_options, topic=topic).save()

    def _report_not_probed(self, partition_lags: Iterable[PartitionLag]) -> None:
        """Report each partition that can't be probed, once, until it can be probed again."""
        failing_places = frozenset(
            (_place_text(partition_lag), partition_lag.error)
            for partition_lag in partition_lags
            if partition_lag.error is not None
        )
        for place_text, error in sorted(failing_places - self._places_not_probed):
            self._on_event(NotProbed(place_text=place_text, error=error))
        self._places_not_probed = failing_places


def _standing_alerts(stored_alerts: DataFrame) -> tuple[Alert, ...]:
    """Alerts that were raised and have not ended, from the stored rows."""
    columns = [column.name for column in ALERT_TABLE.columns]
    newest_events = stored_alerts.groupBy("id").agg(
        F.max_by(F.struct(*columns), "at_ms").alias("alert")
    )
    raised_alerts = newest_events.where(F.col("alert.event") == AlertEvent.RAISED)
    raised_fields = (
        raised_row["alert"].asDict() for raised_row in raised_alerts.orderBy("id").toLocalIterator()
    )
    return tuple(msgspec.convert(alert_fields, Alert) for alert_fields in raised_fields)


def _place_text(partition_lag: PartitionLag) -> str:
    match partition_lag.topic, partition_lag.partition:
        case None, _:
            return "the cluster"
        case topic, None:
            return f"topic {topic}"
        case topic, partition:
            return f"{topic}-{partition}"
