"""``spark.read.format("kafka_log")``: Kafka's log directories as tables (Python Data Source API).

The driver plans tasks from names and sizes of files; workers read, and hand over Arrow batches of
bounded size. A query's filters by place and producer are taken here, so that nobody reads what it
does not want, and a schema of fewer columns makes only those. Options, tables and examples:
docs/kafka-log.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from sim.pipeline.options import FORMAT, KafkaLogOptions
from sim.pipeline.schemas import TABLES
from sim.pipeline.segments import SegmentFile, replicas_in, segments_of, shared_out
from sim.pipeline.tables import batches, endings, errors, fragments
from sim.pipeline.tables.rows import Job, Rows

READ: Final[Mapping[str, Callable[[SegmentFile, Job], Iterator[Rows]]]] = {
    "batches": batches.read,
    "fragments": fragments.read,
    "endings": endings.read,
    "errors": errors.read,
}


class Share(InputPartition):
    """What one task reads."""

    def __init__(self, segments: tuple[SegmentFile, ...]) -> None:
        super().__init__(msgspec.msgpack.encode(segments))

    @property
    def segments(self) -> tuple[SegmentFile, ...]:
        """In order."""
        return msgspec.msgpack.decode(self.value, type=tuple[SegmentFile, ...])


class KafkaLogDataSource(DataSource):
    """Format ``kafka_log``."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return FORMAT

    def schema(self) -> str:
        """Of the table that was asked for."""
        return TABLES[KafkaLogOptions.of(self.options).table].ddl

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads it."""
        return KafkaLogReader(KafkaLogOptions.of(self.options), to_arrow_schema(schema))


class KafkaLogReader(DataSourceReader):
    """Plans on the driver, reads on workers."""

    def __init__(self, options: KafkaLogOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        segments = (
            segment
            for replica in replicas_in(self._options.paths, self._options.topics)
            for segment in segments_of(replica)
        )
        return [Share(task) for task in shared_out(segments, self._options.task_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        assert isinstance(partition, Share)
        job = Job(options=self._options, columns=tuple(self._schema.names))
        for segment in partition.segments:
            for rows in READ[self._options.table](segment, job):
                yield rows.in_schema(self._schema)
