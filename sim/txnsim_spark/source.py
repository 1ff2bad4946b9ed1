"""``spark.read.format("kafka_log")``, and ``readStream``: Kafka's log directories as tables (Python
Data Source API).

The driver plans tasks from names and sizes of files; workers read, and pass Arrow batches of
bounded size to Spark. Options restrict what is read of the directories, and a schema with fewer
columns makes only those. Filters stay with Spark, since up to 4.3 it would apply filters that a
source accepts to the next query, too. Options, tables and examples: docs/kafka-log.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, NoReturn, cast

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
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

from txnsim.errors import BadInputError, MissingExtraError
from txnsim_spark.empty_reads import lost_rows_error, refuse_missing_directories
from txnsim_spark.log_growth import (
    RECORD_TABLES,
    LogEnds,
    LogListing,
    StreamOffset,
    end_within_limits,
    latest_offset,
    list_logs,
    lost_unread_rows,
    offsets_behind,
    refuse_empty_stream,
    refuse_other_stream,
    shares_between,
    updated_offset,
)
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import (
    END_TIMESTAMP,
    ENDING_OFFSETS,
    FORMAT,
    Division,
    FileTolerance,
    KafkaLogError,
    KafkaLogOptions,
    options_kept_by_catalog,
)
from txnsim_spark.planning import FILES_OF_TABLE, Share, shares_of
from txnsim_spark.schemas import TABLES
from txnsim_spark.stores.reading import Stores, stores_of
from txnsim_spark.stores.settings import StoreSettings

LOSSES_SHOWN_MAX: Final = 5
"""Limit of the logs with lost data that an error names."""
CATALOG_METADATA_KEY: Final = "kafka_log"
"""Key in the metadata of a table's first column, under which the options of its ``CREATE TABLE``
are kept. Spark 4.2 and 4.3 keep the options, but hand a source in Python nothing except the
columns.
"""


@contextmanager
def as_spark_error() -> Iterator[None]:
    """Turn a refusal into the form that Spark shows: with its condition and SQL state, without the
    frames that led to it.
    """
    try:
        yield
    except KafkaLogError as error:
        raise error.shown_by_spark() from None
    except (BadInputError, MissingExtraError, OSError) as error:
        refusal = KafkaLogError(str(error))
        if isinstance(error, MissingExtraError):
            refusal.condition, refusal.sql_state = "KAFKA_LOG_MISSING_LIBRARY", "38000"
        elif isinstance(error, OSError):
            refusal.condition, refusal.sql_state = "KAFKA_LOG_UNREADABLE_FILE", "KD001"
        raise refusal.shown_by_spark() from None


class Task(InputPartition):
    """The share of one task, packed for a worker."""

    def __init__(self, share: Share, listed_ms: int = 0) -> None:
        # Paths of a share are much alike: of half a million segments all tasks are a few megabytes.
        super().__init__(zlib.compress(msgspec.msgpack.encode((share, listed_ms)), level=1))

    @property
    def share_and_listed_ms(self) -> tuple[Share, int]:
        """The share to read, and the time of the store's listing."""
        return msgspec.msgpack.decode(zlib.decompress(self.value), type=tuple[Share, int])


def tasks_of(shares: Iterable[Share], stores: Stores | None) -> list[InputPartition]:
    """One input partition of Spark for each share, with the time of the store's listing."""
    return [Task(share, 0 if stores is None else stores.listed_ms) for share in shares]


class KafkaLogDataSource(DataSource):
    """Format ``kafka_log``."""

    hadoop: StoreSettings | None = None
    division: Division = Division()
    tolerance: FileTolerance = FileTolerance()
    is_registered = False
    """Whether ``data_source_class`` made the class, so that all of the session's settings are
    known.
    """

    @classmethod
    def name(cls) -> str:
        """The name that ``format`` takes."""
        return FORMAT

    def schema(self) -> StructType:
        with as_spark_error():
            schema = schema_of(KafkaLogOptions.of(self.options).table)
            table_options = options_kept_by_catalog(self.options)
        if table_options is not None:
            schema.fields[0].metadata[CATALOG_METADATA_KEY] = msgspec.json.encode(
                table_options
            ).decode()
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader; a schema with some of the columns reads only these."""
        with as_spark_error():
            return KafkaLogReader(*self.options_and_schema(schema), stores=self._stores(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """A reader for a growing directory, with the same columns; a reader that raises an error if
        the table can't be followed.
        """
        try:
            options, columns = self.options_and_schema(schema)
            _refuse_stream_bounds(options)
            options = msgspec.structs.replace(options, follows=True)
            return KafkaLogStreamReader(options, columns, self._stores(schema))
        except (BadInputError, MissingExtraError) as error:
            return RefusingReader(str(error))

    def _stores(self, schema: StructType) -> Stores | None:
        return stores_of(self.hadoop, self._own_options(schema), is_registered=self.is_registered)

    def options_and_schema(self, schema: StructType) -> tuple[KafkaLogOptions, pa.Schema]:
        """The options, and the columns as an Arrow schema."""
        options = KafkaLogOptions.of(self._own_options(schema))
        options = msgspec.structs.replace(
            options,
            division=self.division,
            ignore_missing_files=_option_or_setting(
                options.ignore_missing_files, self.tolerance.ignore_missing_files
            ),
            ignore_corrupt_files=_option_or_setting(
                options.ignore_corrupt_files, self.tolerance.ignore_corrupt_files
            ),
        )
        return options, to_arrow_schema(columns_of(options.table, schema), timezone="UTC")

    def _own_options(self, schema: StructType) -> Mapping[str, str]:
        """The options of the read; if it names no path, those of the table's ``CREATE TABLE``."""
        table_options = [
            field.metadata[CATALOG_METADATA_KEY]
            for field in schema
            if CATALOG_METADATA_KEY in field.metadata
        ]
        if not table_options or "path" in self.options or "paths" in self.options:
            return self.options
        return {**msgspec.json.decode(table_options[0], type=dict[str, str]), **self.options}


def _option_or_setting(option: bool | None, setting: bool) -> bool:  # noqa: FBT001 - both are truths
    """An option of the read, else the session's setting."""
    return setting if option is None else option


def _refuse_stream_bounds(options: KafkaLogOptions) -> None:
    """Refuse options that a stream can't have.

    Raises:
        BadInputError: The options have an end, or a bound for a table that is always read as a
            whole.
    """
    if options.ending_offsets or options.end_ms is not None:
        raise BadInputError(
            f"format {FORMAT}: a stream has no end, so no {ENDING_OFFSETS}, {END_TIMESTAMP}"
        )
    is_bounded = options.max_bytes_per_trigger or options.max_files_per_trigger
    if is_bounded and options.table not in RECORD_TABLES:
        raise BadInputError(
            f"format {FORMAT}: table {options.table} comes whole whenever it changes, without"
            f" a bound per trigger; {', '.join(sorted(RECORD_TABLES))} can have one"
        )


def data_source_class(
    hadoop: StoreSettings | None, division: Division, tolerance: FileTolerance
) -> type[KafkaLogDataSource]:
    """The data source's class for a session with these settings. When Spark plans and reads, it
    gives the source no session, so the class holds the settings.
    """

    class Registered(KafkaLogDataSource):
        is_registered = True

    Registered.hadoop, Registered.division, Registered.tolerance = hadoop, division, tolerance
    return Registered


class KafkaLogReader(DataSourceReader):
    """Plans tasks on the driver, reads them on workers."""

    def __init__(
        self, options: KafkaLogOptions, schema: pa.Schema, *, stores: Stores | None = None
    ) -> None:
        if options.starts_latest:
            raise BadInputError(f"format {FORMAT}: only a stream begins at the latest offsets")
        self._options = options
        self._schema = schema
        self._stores = stores
        self._scope = RowScope.of(options)

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks of the read."""
        options, scope = self._options, self._scope
        with as_spark_error():
            if self._stores is not None:
                options = self._stores.with_local_paths(options)
            shares = shares_of(options, scope, FILES_OF_TABLE[options.table], is_user_read=True)
        # Spark takes no tasks for one task of which nothing is said.
        return tasks_of(shares or [Share()], self._stores)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return _read_task(partition, self._options, self._schema, self._scope, self._stores)


class KafkaLogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows directories that grow. A batch of rows uses one look at the directories
    (``log_growth``).
    """

    def __init__(self, options: KafkaLogOptions, schema: pa.Schema, stores: Stores | None) -> None:
        self._options = options
        self._schema = schema
        self._stores = stores
        self._log_ends = LogEnds()
        self._listing: LogListing | None = None
        self._reached_offset = StreamOffset()
        """End of the batch that was planned last."""
        self._target_offset: StreamOffset | None = None
        """The end of a query that processes the available data and stops (Trigger.AvailableNow)."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The stream offset before all rows, or after all present ones, as the options say.

        Raises:
            BadInputError: The read could only be empty (``empty_reads``).
        """
        listing = self._list_again()
        with as_spark_error():
            refuse_empty_stream(listing)
        if not self._options.starts_latest:
            return _encode_offset(StreamOffset())
        return _encode_offset(latest_offset(listing, StreamOffset(), self._log_ends))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Set the end of the query to the data that is available now."""
        self._target_offset = latest_offset(self._list_again(), StreamOffset(), self._log_ends)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """How much one batch of rows reads."""
        if self._options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(self._options.max_bytes_per_trigger)
        if self._options.max_files_per_trigger is not None:
            return ReadMaxFiles(self._options.max_files_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """The stream offset after the next batch of rows."""
        start_offset = _decode_offset(start)
        listing = self._listing if self._target_offset is not None else None
        if listing is not None and self._target_offset is not None:
            refuse_other_stream(listing, start_offset)
            end_offset = updated_offset(start_offset, self._target_offset)
        else:
            listing = self._list_again()
            refuse_other_stream(listing, start_offset)
            end_offset = latest_offset(listing, start_offset, self._log_ends)
        self._refuse_loss(listing, start_offset, end_offset)
        match limit:
            case ReadMaxBytes(max_bytes=bytes_max):
                end_offset = end_within_limits(
                    listing, start_offset, end_offset, bytes_max=bytes_max
                )
            case ReadMaxFiles(max_files=files_max):
                end_offset = end_within_limits(
                    listing, start_offset, end_offset, files_max=files_max
                )
            case _:
                pass  # all that is there
        self._reached_offset = end_offset
        return _encode_offset(end_offset)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
        """The ends of the logs, and how many offsets the query is behind: for its progress."""
        if self._listing is None or self._options.table not in RECORD_TABLES:
            return None
        end_offset = StreamOffset(ends=self._log_ends.end_offsets(self._listing.segments))
        return {
            **_encode_offset(end_offset),
            "behind": offsets_behind(self._listing, self._reached_offset, end_offset),
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks for the rows between two stream offsets."""
        start_offset, end_offset = _decode_offset(start), _decode_offset(end)
        # A query that goes on from its checkpoint has not looked yet.
        listing = self._listing or self._list_again()
        refuse_other_stream(listing, start_offset)
        refuse_other_stream(listing, end_offset)
        self._refuse_loss(listing, start_offset, end_offset)
        return tasks_of(shares_between(listing, start_offset, end_offset), self._stores)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        options = self._options
        return _read_task(
            partition,
            options,
            self._schema,
            RowScope.of(options),
            self._stores,
            refuses_loss=options.fails_on_data_loss,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what only planning needs: a worker reads what its task names."""
        return {**self.__dict__, "_listing": None, "_target_offset": None, "_log_ends": None}

    def _list_again(self) -> LogListing:
        with as_spark_error():
            options = (
                self._options
                if self._stores is None
                else self._stores.with_local_paths(self._options)
            )
            self._listing = list_logs(options)
        return self._listing

    def _refuse_loss(
        self, listing: LogListing, stream_start: StreamOffset, stream_end: StreamOffset
    ) -> None:
        if self._options.fails_on_data_loss:
            losses = [
                *islice(lost_unread_rows(listing, stream_start, stream_end), LOSSES_SHOWN_MAX)
            ]
            if losses:
                with as_spark_error():
                    raise lost_rows_error("; ".join(losses))


def _encode_offset(offset: StreamOffset) -> dict[str, Any]:
    offset_fields: dict[str, Any] = {"ends": offset.ends, "state": offset.state}
    if offset.scope is not None:
        offset_fields["scope"] = msgspec.json.decode(
            msgspec.json.encode(offset.scope)
        )  # Spark compares
    return offset_fields


def _decode_offset(offset_fields: dict[str, Any]) -> StreamOffset:
    return msgspec.convert(offset_fields, StreamOffset)


class RefusingReader(DataSourceStreamReader):
    """Refuses a table that can't be followed. If no reader can be made, PySpark 4.2 asks the
    missing reader to stop, and its UnboundLocalError hides the reason; an error of the reader
    itself is shown.
    """

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def _raise_reason(self, *_: Any, **__: Any) -> NoReturn:
        raise KafkaLogError(self._reason).shown_by_spark()

    # A new query asks the first; one that goes on from its checkpoint the second, or the third
    # where its last batch was not written.
    initialOffset = latestOffset = partitions = read = _raise_reason  # noqa: N815 - Spark's names


def _read_task(
    task: InputPartition,
    options: KafkaLogOptions,
    schema: pa.Schema,
    scope: RowScope,
    stores: Stores | None,
    *,
    refuses_loss: bool = False,
) -> Iterator[pa.RecordBatch]:
    share, listed_ms = cast("Task", task).share_and_listed_ms
    # Imported here: planning needs neither numba nor the compiled walks.
    from txnsim_spark.tables.row_sources import batches_of
    from txnsim_spark.tables.rows import TableJob

    job = TableJob(
        options=options,
        columns=tuple(schema.names),
        producer_ids=scope.producer_ids,
        refuses_loss=refuses_loss,
    )
    with as_spark_error():
        if stores is None:
            refuse_missing_directories(share.all_log_dirs)
            yield from batches_of(share, job, schema)
            return
        stores.fill(share, listed_ms)
        if FILES_OF_TABLE[options.table].is_whole:
            job = msgspec.structs.replace(job, options=stores.with_local_paths(options))
        for batch in batches_of(share, job, schema):
            yield stores.with_store_names(batch)


def schema_of(table: str) -> StructType:
    """The columns of a table in Spark's schema, with their meanings as comments."""
    # Spark would parse the types itself, but has no JVM where tasks are planned.
    schema = from_arrow_schema(TABLES[table].arrow(), prefer_timestamp_ntz=False)
    for field, column in zip(schema.fields, TABLES[table].columns, strict=True):
        field.metadata = {"comment": column.meaning}
    return schema


def columns_of(table: str, schema: StructType) -> StructType:
    """A user's schema, checked against the columns and types of the table.

    Raises:
        BadInputError: A column or type does not match; the message names the column.
    """
    type_by_column = {field.name: field.dataType for field in schema_of(table)}
    for field in schema:
        if field.name not in type_by_column:
            raise BadInputError(
                f"format {FORMAT}: table {table} has no column {field.name}; it has "
                f"{', '.join(type_by_column)}"
            )
        if field.dataType != type_by_column[field.name]:
            raise BadInputError(
                f"format {FORMAT}: column {field.name} of table {table} is "
                f"{type_by_column[field.name].simpleString()}, not {field.dataType.simpleString()}"
            )
    return schema
