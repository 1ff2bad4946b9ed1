"""``spark.readStream.format("kafka_lso_lag")``: the transactions that block ``read_committed``
readers, one row per partition and probe. An offset of this stream is the time at which a probe was
due, in milliseconds since 1970. A batch asks the cluster once, in its task, even if several probes
were due since the last one: a cluster answers only for the present. So a batch that is repeated
after a crash asks again, and its rows have the new time: they may have transactions that began
after the batch was first planned. It uses the Python Data Source API; ``_lag_probe`` makes the
probe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.errors import ClientError
from txnsim.runtime.wall_clock import wall_ms
from txnsim_spark.schemas import Column, Table, columns_of
from txnsim_spark.streaming._lag_probe import OldestOpenTxn, PartitionLag, probe_partitions
from txnsim_spark.streaming.options import FORMAT, LagOptions

HELD_BY_COLUMNS: Final = columns_of(OldestOpenTxn)
_HELD_BY_FIELDS: Final = ", ".join(f"{column.name}: {column.type}" for column in HELD_BY_COLUMNS)
LAG_TABLE: Final = Table.of(
    "A row per partition and probe.",
    """
    probed_at_ms bigint Wall clock of the prober, as it had its answers.
    topic string Null where not even the topics could be asked for.
    partition int Null where the topic's partitions could not.
    last_stable_offset bigint Where `read_committed` readers stop.
    high_watermark bigint Where all other readers stop.
    lag bigint The second less the first: offsets withheld.
    """,
    (
        Column(
            "held_by",
            f"array<struct<{_HELD_BY_FIELDS}>>",
            "Open transactions without a write for longer than `olderThanMs`, oldest start first.",
        ),
    ),
    "error string Why something could not be asked; null if all was.",
)
_PROBED_AT: Final = "probed_at_ms"


class LagDataSource(DataSource):
    """The data source ``kafka_lso_lag``; options and columns: docs/streaming.md."""

    @classmethod
    def name(cls) -> str:
        """The name that ``format`` takes."""
        return FORMAT

    def schema(self) -> str:
        """The columns of a row."""
        return LAG_TABLE.ddl

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        """A stream of probes."""
        return LagReader(LagOptions.of(self.options))


class LagReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides on the driver when a probe is due; asks on a worker."""

    def __init__(self, options: LagOptions) -> None:
        self._options = options
        self._last_ms: int | None = None
        """Time of the only probe, for a query that stops (Trigger.AvailableNow)."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """The offset before any probe."""
        return {_PROBED_AT: 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Set the time of the only probe to now."""
        self._last_ms = wall_ms()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's
        """The present time if a probe is due, else the time of the last probe."""
        if self._last_ms is not None:
            return {_PROBED_AT: max(start[_PROBED_AT], self._last_ms)}
        now_ms = wall_ms()
        return (
            {_PROBED_AT: now_ms}
            if now_ms - start[_PROBED_AT] >= self._options.interval_ms
            else start
        )

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One task, unless no probe is due."""
        return [InputPartition(end[_PROBED_AT])] if end[_PROBED_AT] > start[_PROBED_AT] else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Make a probe now."""
        del partition  # when it was due
        partition_lags = asyncio.run(_probe(self._options))
        probed_at_ms = wall_ms()  # behind the last answer: what they tell had begun by then
        for partition_lag in partition_lags:
            yield _as_tuple(probed_at_ms, partition_lag)


async def _probe(options: LagOptions) -> tuple[PartitionLag, ...]:
    try:
        async with Cluster(options.bootstrap, settings=options.settings) as cluster:
            return await probe_partitions(
                Admin(cluster),
                options.topics,
                now_ms=cluster.clock.now_ms(),
                older_than_ms=options.older_than_ms,
            )
    except ClientError as failure:  # no answer: the next probe may get one
        return (PartitionLag(error=str(failure)),)


def _as_tuple(probed_at_ms: int, partition_lag: PartitionLag) -> tuple[Any, ...]:
    value_by_column = {
        **msgspec.to_builtins(partition_lag),
        _PROBED_AT: probed_at_ms,
        "lag": partition_lag.lag,
    }
    value_by_column["held_by"] = [
        tuple(holding_producer.values()) for holding_producer in value_by_column["held_by"]
    ]
    return tuple(value_by_column[column_name] for column_name in LAG_TABLE.names)


def lag_of(lag_row: Any) -> PartitionLag:
    return msgspec.convert(lag_row.asDict(recursive=True), PartitionLag)
