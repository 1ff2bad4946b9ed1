"""``spark.read.format("kafka_log")``: Kafka's log directories as tables (Python Data Source API).

The driver plans tasks from names and sizes of files; workers read, and hand over Arrow batches of
bounded size. A query's filters by place and producer are taken here, so that nobody reads what it
does not want, and a schema of fewer columns makes only those. Options, tables and examples:
docs/kafka-log.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from txnsim.errors import BadInputError
from txnsim.pipeline.filters import Wanted, taken_over
from txnsim.pipeline.options import FORMAT, KafkaLogOptions
from txnsim.pipeline.planning import READS, Share, shares_of
from txnsim.pipeline.schemas import HEADERS, PARTITIONS, TABLES


class Task(InputPartition):
    """What one task reads, on its way to a worker."""

    def __init__(self, share: Share) -> None:
        super().__init__(msgspec.msgpack.encode(share))

    @property
    def share(self) -> Share:
        """What it reads."""
        return msgspec.msgpack.decode(self.value, type=Share)


class KafkaLogDataSource(DataSource):
    """Format ``kafka_log``."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """Of the table that was asked for."""
        return schema_of(KafkaLogOptions.of(self.options).table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads it; a schema of some of the columns makes only those."""
        options = KafkaLogOptions.of(self.options)
        return KafkaLogReader(options, to_arrow_schema(columns_of(options.table, schema)))


class KafkaLogReader(DataSourceReader):
    """Plans on the driver, reads on workers."""

    def __init__(self, options: KafkaLogOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._wanted = Wanted()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take over conditions on places and producers; Spark keeps the others."""
        self._wanted, left = taken_over(self._options.table, filters)
        return left

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        shares = shares_of(self._options, self._wanted, READS[self._options.table])
        # Spark takes no tasks for one task of which nothing is said.
        return [Task(share) for share in shares or [Share()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        # Only here: whoever plans needs neither numba nor the compiled walks.
        from txnsim.pipeline.tables.readings import rows_of
        from txnsim.pipeline.tables.rows import Job

        job = Job(
            options=self._options,
            columns=tuple(self._schema.names),
            producer_ids=self._wanted.producer_ids,
        )
        for rows in rows_of(cast("Task", partition).share, job):
            yield rows.in_schema(self._schema)


_TYPES: Final[Mapping[str, DataType]] = {
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "boolean": BooleanType(),
    "binary": BinaryType(),
    HEADERS: ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
    PARTITIONS: ArrayType(
        StructType([StructField("topic", StringType()), StructField("partition", IntegerType())])
    ),
}
"""Spark would parse them itself, but has no JVM where tasks are planned."""


def schema_of(table: str) -> StructType:
    """The columns of a table as Spark has them."""
    return StructType(
        [StructField(column.name, _TYPES[column.type]) for column in TABLES[table].columns]
    )


def columns_of(table: str, schema: StructType) -> StructType:
    """A schema that a user has given, if the table has these columns with these types.

    Raises:
        BadInputError: It has not; the message names the column.
    """
    types = {field.name: field.dataType for field in schema_of(table)}
    for field in schema:
        if field.name not in types:
            raise BadInputError(
                f"format {FORMAT}: table {table} has no column {field.name}; it has "
                f"{', '.join(types)}"
            )
        if field.dataType != types[field.name]:
            raise BadInputError(
                f"format {FORMAT}: column {field.name} of table {table} is "
                f"{types[field.name].simpleString()}, not {field.dataType.simpleString()}"
            )
    return schema
