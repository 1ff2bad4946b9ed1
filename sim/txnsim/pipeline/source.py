"""``spark.read.format("kafka_log")``, and ``readStream``: Kafka's log directories as tables (Python
Data Source API).

The driver plans tasks from names and sizes of files; workers read, and hand over Arrow batches of
bounded size. A query's filters by place and producer are taken here, so that a job reads only what
it wants, and a schema of fewer columns makes only those. Options, tables and examples:
docs/kafka-log.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn, cast

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from txnsim.errors import BadInputError
from txnsim.pipeline.filters import taken_over
from txnsim.pipeline.following import (
    LOGS,
    StreamOffset,
    bounded,
    later,
    latest,
    shares_between,
)
from txnsim.pipeline.hadoop.reading import Stores, stores_of
from txnsim.pipeline.hadoop.settings import HadoopSettings
from txnsim.pipeline.log_query import Wanted
from txnsim.pipeline.options import FORMAT, Division, KafkaLogOptions
from txnsim.pipeline.planning import READS, Share, shares_of
from txnsim.pipeline.schemas import TABLES


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

    hadoop: HadoopSettings | None = None
    division: Division = Division()
    """Both of the session that it is registered with (``of_session``)."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` takes."""
        return FORMAT

    def schema(self) -> StructType:
        """Of the table that was asked for."""
        return schema_of(KafkaLogOptions.of(self.options).table)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads it; a schema of some of the columns makes only those."""
        return KafkaLogReader(*self.asked(schema), stores=stores_of(self.hadoop, self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Reads it as it grows; the same columns. One that refuses where it can't."""
        options, columns = self.asked(schema)
        if options.uris:
            return RefusingReader(
                f"format {FORMAT}: readStream follows directories of this machine only, not"
                f" {options.uris[0]}"
            )
        is_bounded = options.max_bytes_per_trigger or options.max_files_per_trigger
        if is_bounded and options.table not in LOGS:
            return RefusingReader(
                f"format {FORMAT}: table {options.table} comes whole whenever it changes, without"
                f" a bound per trigger; {', '.join(sorted(LOGS))} can have one"
            )
        return KafkaLogStreamReader(options, columns)

    def asked(self, schema: StructType) -> tuple[KafkaLogOptions, pa.Schema]:
        """What to read, and the columns as Arrow has them."""
        options = KafkaLogOptions.of(self.options)
        options = msgspec.structs.replace(options, division=self.division)
        return options, to_arrow_schema(columns_of(options.table, schema), timezone="UTC")


def of_session(hadoop: HadoopSettings | None, division: Division) -> type[KafkaLogDataSource]:
    """The format, for a session that has these settings: where Spark plans and reads no session is
    at hand, so the class takes them there.
    """

    class Registered(KafkaLogDataSource):
        pass

    Registered.hadoop, Registered.division = hadoop, division
    return Registered


class UnfilteredReader(DataSourceReader):
    """Plans on the driver, reads on workers. All filters stay with Spark."""

    def __init__(
        self, options: KafkaLogOptions, schema: pa.Schema, *, stores: Stores | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._stores = stores
        self._wanted = Wanted()

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks."""
        options, wanted = self._options, self._wanted
        if self._stores is not None:
            options, wanted = self._stores.located(options), self._stores.mirrored(wanted)
        shares = shares_of(options, wanted, READS[options.table])
        # Spark takes no tasks for one task of which nothing is said.
        return [Task(share) for share in shares or [Share()]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        options, stores = self._options, self._stores
        if stores is None:
            yield from _rows_of(partition, options, self._schema, self._wanted)
            return
        stores.fill(cast("Task", partition).share)
        if READS[options.table].is_whole:
            options = stores.located(options)
        for batch in _rows_of(partition, options, self._schema, self._wanted):
            yield stores.shown(batch)


class KafkaLogReader(UnfilteredReader):
    """The same, and takes over filters; Spark refuses it unless its session allows that
    (``session.register``).
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Take over conditions on places and producers; Spark keeps the others."""
        self._wanted, left = taken_over(self._options.table, filters)
        return left


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows directories that grow. What a stream offset says: ``following``."""

    def __init__(self, options: KafkaLogOptions, schema: pa.Schema) -> None:
        self._options = options
        self._schema = schema
        self._target: StreamOffset | None = None
        """Of a query that takes what is there and ends."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Before anything was read."""
        return _as_dict(StreamOffset())

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """What is there now, and no more."""
        self._target = latest(self._options, StreamOffset())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How much one batch of rows reads."""
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.max_files_per_trigger is not None:
            return ReadMaxFiles(self._options.max_files_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """How far one batch of rows goes."""
        begun = _of_dict(start)
        end = latest(self._options, begun) if self._target is None else later(begun, self._target)
        match limit:
            case ReadMaxBytes(max_bytes=most):
                end = bounded(self._options, begun, end, bytes_max=most)
            case ReadMaxFiles(max_files=most):
                end = bounded(self._options, begun, end, files_max=most)
            case _:
                pass  # all that is there
        return _as_dict(end)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of what is between two offsets."""
        shares = shares_between(self._options, _of_dict(start), _of_dict(end))
        return [Task(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return _rows_of(partition, self._options, self._schema, Wanted())


class RefusingReader(DataSourceStreamReader):
    """Of what can't be followed. PySpark 4.2 asks the reader itself to stop where none could be
    made, so that its UnboundLocalError hides the reason; what a reader says is shown.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Refuses.

        Raises:
            BadInputError: Always.
        """
        raise BadInputError(self._reason)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> NoReturn:  # noqa: ARG002, N802 - Spark's
        """Refuses: a query that goes on from its checkpoint asks this first.

        Raises:
            BadInputError: Always.
        """
        raise BadInputError(self._reason)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> NoReturn:  # noqa: ARG002 - Spark's
        """Refuses: so begins one whose last batch was not written.

        Raises:
            BadInputError: Always.
        """
        raise BadInputError(self._reason)

    def read(self, partition: InputPartition) -> NoReturn:  # noqa: ARG002 - Spark's
        """Refuses.

        Raises:
            BadInputError: Always.
        """
        raise BadInputError(self._reason)


def _rows_of(
    task: InputPartition, options: KafkaLogOptions, schema: pa.Schema, wanted: Wanted
) -> Iterator[pa.RecordBatch]:
    # Imported here: planning needs neither numba nor the compiled walks.
    from txnsim.pipeline.tables.readings import rows_of
    from txnsim.pipeline.tables.rows import Job

    job = Job(options=options, columns=tuple(schema.names), producer_ids=wanted.producer_ids)
    for rows in rows_of(cast("Task", task).share, job):
        yield rows.in_schema(schema)


def _as_dict(offset: StreamOffset) -> dict[str, Any]:
    return {"ends": offset.ends, "state": offset.state}


def _of_dict(offset: dict[str, Any]) -> StreamOffset:
    return msgspec.convert(offset, StreamOffset)


def schema_of(table: str) -> StructType:
    """The columns of a table as Spark has them."""
    # Spark would parse the types itself, but has no JVM where tasks are planned.
    return from_arrow_schema(TABLES[table].arrow(), prefer_timestamp_ntz=False)


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
