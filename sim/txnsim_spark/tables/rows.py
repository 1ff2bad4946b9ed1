"""Rows of a table, with columns that are made only if the query needs them. A table yields
``Rows``: their number, and for each column a function that makes it. So unneeded columns cost
nothing. Columns that identify the file (directory, topic, segment) are the same in all rows and are
made here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segments import Replica, SegmentFile
from txnsim_spark.schemas import milliseconds_of
from txnsim_spark.tables.arrays import (
    boolean_array,
    number_array,
    repeat_value,
    time_array,
    value_array,
)

ArrayMaker = Callable[[pa.DataType], Any]
"""Function that makes an Arrow array of the type that the schema asks for."""

SegmentTables = Sequence[tuple[SegmentFile, Ints]]
"""Tables of integers (one column per row of the table), and the segments that they are of."""

ROWS_MAX: Final = 1 << 13
"""Limit of the rows of a decoded table that are made at once."""
JOINED_BYTES_MAX: Final = 4 << 20
"""Limit of the bytes up to which batches are joined."""


class TableJob(msgspec.Struct, frozen=True, kw_only=True):
    """The options and columns of a table; all of its tasks have the same."""

    options: KafkaLogOptions
    columns: tuple[str, ...]
    producer_ids: frozenset[int] | None = None
    separates_replicas: bool = False
    """Whether a batch of rows may only have rows of one replica."""
    refuses_loss: bool = False
    """Whether damage that cuts off rows fails the task (``failOnDataLoss`` of a stream)."""


class Rows:
    """Some rows of a table."""

    __slots__ = ("count", "makers")

    def __init__(self, count: int, maker_by_column: Mapping[str, ArrayMaker]) -> None:
        self.count = count
        self.makers = maker_by_column

    def in_schema(self, schema: pa.Schema) -> pa.RecordBatch:
        """An Arrow batch with the columns of a schema; times are computed from milliseconds."""
        array_by_column: dict[str, Any] = {}
        for field in schema:
            if field.name in self.makers:
                array_by_column[field.name] = self.makers[field.name](field.type)
                continue
            milliseconds_column = milliseconds_of(field.name)
            milliseconds_array = (
                array_by_column[milliseconds_column]
                if milliseconds_column in array_by_column
                else self.makers[milliseconds_column](pa.int64())
            )
            array_by_column[field.name] = time_array(milliseconds_array, field.type)
        return pa.RecordBatch.from_arrays([*array_by_column.values()], schema=schema)


def join_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches: handing a batch to the JVM costs as much as thousands of
    rows.
    """
    small_batches: list[pa.RecordBatch] = []
    row_count = byte_count = 0
    for batch in batches:
        batch_bytes = batch.get_total_buffer_size()
        if small_batches and (
            row_count + batch.num_rows > ROWS_MAX or byte_count + batch_bytes > JOINED_BYTES_MAX
        ):
            yield from _combine_batches(small_batches)
            small_batches, row_count, byte_count = [], 0, 0
        small_batches.append(batch)
        row_count += batch.num_rows
        byte_count += batch_bytes
    if small_batches:
        yield from _combine_batches(small_batches)


def _combine_batches(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return (
        batches
        if len(batches) == 1
        else pa.Table.from_batches(batches).combine_chunks().to_batches()
    )


# Places


def replica_columns(replica: Replica, count: int) -> dict[str, ArrayMaker]:
    return {
        "log_dir": constant_column(replica.log_dir, count),
        "broker": constant_column(replica.broker, count),
        "topic": constant_column(replica.topic, count),
        "partition": constant_column(replica.partition, count),
    }


def file_columns(replica: Replica, base_offset: int | None, count: int) -> dict[str, ArrayMaker]:
    """Columns that identify a segment's file; base offset None for a file of all segments."""
    return {
        **replica_columns(replica, count),
        "segment_base_offset": constant_column(base_offset, count),
    }


def segment_columns(segment: SegmentFile, count: int) -> dict[str, ArrayMaker]:
    return file_columns(segment.replica, segment.base_offset, count)


def columns_of_segments(
    segments: Sequence[SegmentFile], row_counts: Sequence[int]
) -> dict[str, ArrayMaker]:
    """Columns that identify segments; ``row_counts`` holds the rows of each."""
    if len(segments) == 1:
        return segment_columns(segments[0], row_counts[0])
    segment_numbers = np.repeat(np.arange(len(segments)), row_counts)

    def by_segment(value_of: Callable[[SegmentFile], Any]) -> ArrayMaker:
        def make(arrow_type: pa.DataType) -> Any:
            return value_array(list(map(value_of, segments)), arrow_type).take(
                number_array(segment_numbers, pa.int32())
            )

        return make

    return {
        **{
            name: by_segment(attrgetter(f"replica.{name}"))
            for name in ("log_dir", "broker", "topic", "partition")
        },
        "segment_base_offset": by_segment(attrgetter("base_offset")),
    }


def rows_of_tables(
    segment_tables: Iterable[tuple[SegmentFile, Ints]],
    columns: Callable[[Ints, SegmentTables], Mapping[str, ArrayMaker]],
    *,
    separates_replicas: bool,
) -> Iterator[Rows]:
    """Rows of segments; those of small segments are made together, since making a column costs as
    much as a hundred rows of it.

    Args:
        segment_tables: Tables of segments, in order.
        columns: Makes the columns from a table of rows of these segments.
        separates_replicas: Whether each batch of rows is of one replica.
    """
    segments_and_tables: list[tuple[SegmentFile, Ints]] = []
    row_count = 0
    for segment, table in segment_tables:
        is_other_replica = (
            separates_replicas
            and segments_and_tables
            and segments_and_tables[0][0].replica != segment.replica
        )
        if is_other_replica or (segments_and_tables and row_count + len(table) > ROWS_MAX):
            yield _rows_of_segments(segments_and_tables, columns)
            segments_and_tables, row_count = [], 0
        if len(table):
            # A small one may be a view of a table with room for many rows.
            segments_and_tables.append(
                (segment, table if len(table) >= ROWS_MAX else table.copy(order="K"))
            )
            row_count += len(table)
    if segments_and_tables:
        yield _rows_of_segments(segments_and_tables, columns)


def _rows_of_segments(
    segment_tables: SegmentTables,
    columns: Callable[[Ints, SegmentTables], Mapping[str, ArrayMaker]],
) -> Rows:
    tables = [table for _, table in segment_tables]
    table = np.concatenate(tables) if len(tables) > 1 else tables[0]
    row_counts = [len(rows) for rows in tables]
    return Rows(
        len(table),
        {
            **columns_of_segments([segment for segment, _ in segment_tables], row_counts),
            **columns(table, segment_tables),
        },
    )


def rows_in_span(offsets: Ints, segment: SegmentFile) -> Any:
    """Which rows belong to the task, by the base offsets of their batches."""
    if segment.offset_span is None:
        return np.ones(len(offsets), dtype=np.bool_)
    first_offset, end_offset = segment.offset_span
    return (offsets >= first_offset) & (offsets < end_offset)


# Columns


def constant_column(value: Hashable, count: int) -> ArrayMaker:
    """A column with one value in all rows."""
    return lambda arrow_type: repeat_value(value, count, arrow_type)


def null_column(count: int) -> ArrayMaker:
    return lambda arrow_type: pa.nulls(count, arrow_type)


def integer_column(values: Ints, *, absent_value: Any = None) -> ArrayMaker:
    """A column of numbers; null where ``absent_value`` is true."""
    return lambda arrow_type: number_array(values, arrow_type, absent_value=absent_value)


def nonnegative_column(values: Ints) -> ArrayMaker:
    """A column of numbers; negative ones of the kernel become null."""
    return integer_column(values, absent_value=values < 0)


def boolean_column(values: Any, *, absent_value: Any = None) -> ArrayMaker:
    """A column of booleans; null where ``absent_value`` is true."""
    return lambda arrow_type: boolean_array(values, arrow_type, absent_value=absent_value)


def word_column(word_indexes: Any, word_choice: Sequence[str]) -> ArrayMaker:
    """A column of words by index; null for an index without a word."""

    def make(arrow_type: pa.DataType) -> Any:
        lowest_index = int(word_indexes.min(initial=len(word_choice)))
        if lowest_index == int(word_indexes.max(initial=-1)):  # as in most tables
            word = word_choice[lowest_index] if 0 <= lowest_index < len(word_choice) else None
            return repeat_value(word, len(word_indexes), arrow_type)
        has_no_word = (word_indexes < 0) | (word_indexes >= len(word_choice))
        valid_indexes = np.where(has_no_word, 0, word_indexes)
        return pa.DictionaryArray.from_arrays(
            number_array(valid_indexes, pa.int8(), absent_value=has_no_word),
            value_array(word_choice, pa.string()),
        ).cast(arrow_type)

    return make


def value_column(values_of_rows: Callable[[], list[Any]]) -> ArrayMaker:
    """A column of Python values."""
    return lambda arrow_type: value_array(values_of_rows(), arrow_type)


# Decoded tables


def none_if_negative(number: int) -> int | None:
    """A number from Kafka; None if it is negative."""
    return None if number < 0 else number


def rows_of_structs(
    structs: Iterator[msgspec.Struct], place_columns: Callable[[int], dict[str, ArrayMaker]]
) -> Iterator[Rows]:
    """Rows from structs whose fields have the names of the columns, plus columns that are the same
    in all of these rows.
    """
    while chunk := list(islice(structs, ROWS_MAX)):
        yield Rows(
            len(chunk),
            {
                **place_columns(len(chunk)),
                **{name: _field_column(chunk, name) for name in chunk[0].__struct_fields__},
            },
        )


def _field_column(chunk: list[msgspec.Struct], name: str) -> ArrayMaker:
    return value_column(lambda: [getattr(struct, name) for struct in chunk])
