"""The query of records: Spark's own Kafka connector, ``read_committed``; each batch is written
once.

It is exactly once for these reasons: Spark records a batch's offsets before the batch runs. Below
the last stable offset every transaction is decided, so the same offsets always give the same
records. And the sink accepts a batch once. If the checkpoint is lost, the rows in the sink still
show which offsets were reached.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from txnsim.client.admin import Admin
from txnsim.client.cluster import Cluster
from txnsim.client.errors import code_name
from txnsim.errors import BadInputError, ClientError, MissingExtraError
from txnsim_spark.streaming._checkpoint import Checkpoint, Offsets
from txnsim_spark.streaming._sink import SinkError, TableSink
from txnsim_spark.streaming.events import BatchWritten, OnEvent
from txnsim_spark.streaming.options import CLIENT_PREFIX, LagOptions, StreamOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD_COLUMNS: Final = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " timestampType int, headers array<struct<key: string, value: binary>>"
)
"""Columns that the connector gives."""
EARLIEST_OFFSET: Final = -2
"""The connector's number for the first offset of a partition."""
NO_CONNECTOR: Final = (
    "Spark's Kafka connector is not among the jars of this session: --connector-jars takes a"
    " directory of them, or org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION for Spark to fetch"
)


class RecordsQuery:
    """Reads records by the connector and writes each batch to the sink."""

    def __init__(
        self, options: StreamOptions, sink: TableSink, checkpoint: Checkpoint, on_event: OnEvent
    ) -> None:
        self._options = options
        self._sink = sink
        self._checkpoint = checkpoint
        self._on_event = on_event

    def rows(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame of records.

        Raises:
            BadInputError: Checkpoint and sink do not match, or an option is wrong.
            ClientError: The cluster did not answer.
            MissingExtraError: There is no connector.
        """
        reader = spark.readStream.format("kafka").options(**self._connector_options())
        try:
            return reader.load()
        except AnalysisException as failure:
            if "Failed to find data source" in str(failure) or "DATA_SOURCE" in str(failure):
                raise MissingExtraError(NO_CONNECTOR) from None
            raise BadInputError(str(failure)) from failure

    def process_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, unless the sink has it already."""
        query_id = self._checkpoint.query_id()
        assert query_id is not None, "Spark writes it down before the first batch"
        row_count = self._sink.write(rows, batch_id, query_id=query_id)
        if row_count is not None:
            offsets = self._checkpoint.offsets(batch_id)
            self._on_event(BatchWritten(batch_id=batch_id, row_count=row_count, offsets=offsets))

    def _connector_options(self) -> dict[str, str]:
        options = {
            **self._options.kafka_options,
            f"{CLIENT_PREFIX}isolation.level": "read_committed",
            "subscribe": ",".join(self._options.topics),
            "startingOffsets": self._starting_offsets(),
            "includeHeaders": "true",
        }
        if self._options.max_offsets is not None:
            options["maxOffsetsPerTrigger"] = str(self._options.max_offsets)
        return options

    def _starting_offsets(self) -> str:
        """Offsets at which a new checkpoint starts: after the rows that the sink already has."""
        reached_offsets = self._checkpoint.newest_offsets()
        if reached_offsets is None:
            sink_ends = _end_offsets(self._sink.rows())
            if not sink_ends:
                return self._options.starting
            partitions = asyncio.run(
                _described_partitions(LagOptions.of(self._options.lag_options))
            )
            return json.dumps(starting_offsets(sink_ends, partitions))
        query_id = self._checkpoint.query_id()
        if self._checkpoint.has_committed() and not (query_id and self._sink.knows(query_id)):
            raise SinkError(
                f"{self._sink.url}: holds nothing of this checkpoint, which has written batches;"
                " give it its sink back, or begin anew without it"
            )
        ends_of_others = _end_offsets(self._sink.rows(query_left_out=query_id))
        if offsets_ahead := sorted(partitions_ahead(ends_of_others, reached_offsets)):
            raise SinkError(
                f"{self._sink.url}: another checkpoint has gone on, at {', '.join(offsets_ahead)};"
                " remove this checkpoint to go on from there"
            )
        return self._options.starting


def _end_offsets(rows: DataFrame | None) -> Offsets:
    """The offset after the last record of each partition."""
    ends_by_topic: dict[str, dict[str, int]] = {}
    if rows is None:
        return ends_by_topic
    for last_offset_row in (
        rows.groupBy("topic", "partition").agg(F.max("offset").alias("last")).collect()
    ):
        ends_by_topic.setdefault(last_offset_row["topic"], {})[
            str(last_offset_row["partition"])
        ] = last_offset_row["last"] + 1
    return ends_by_topic


def partitions_ahead(sink_offsets: Offsets, reached_offsets: Offsets) -> Iterator[str]:
    """Partitions with records after the reached offsets."""
    for topic, partition_ends in sink_offsets.items():
        for partition, end_offset in partition_ends.items():
            if end_offset > reached_offsets.get(topic, {}).get(partition, 0):
                yield f"{topic}-{partition}"


def starting_offsets(
    sink_offsets: Offsets, partitions_by_topic: Mapping[str, tuple[int, ...]]
) -> dict[str, Any]:
    """Starting offsets in the connector's form, for every existing partition.

    Args:
        sink_offsets: The offsets at which the sink ends.
        partitions_by_topic: All existing partitions; those that the sink lacks are read from their
            start.
    """
    return {
        topic: {
            str(partition_number): sink_offsets.get(topic, {}).get(
                str(partition_number), EARLIEST_OFFSET
            )
            for partition_number in partition_numbers
        }
        for topic, partition_numbers in partitions_by_topic.items()
    }


async def _described_partitions(options: LagOptions) -> dict[str, tuple[int, ...]]:
    async with Cluster(options.bootstrap, settings=options.settings) as cluster:
        topic_descriptions = await Admin(cluster).describe_topics(options.topics)
    for topic_description in topic_descriptions:
        if topic_description.error:
            raise ClientError(
                f"topic {topic_description.name!r}: {code_name(topic_description.error)}"
            )
    return {
        topic_description.name: tuple(
            partition.partition for partition in topic_description.partitions
        )
        for topic_description in topic_descriptions
    }
