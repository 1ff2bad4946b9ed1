"""Keeps the rows between the offsets and times in a read's options. Planning leaves out segments;
this module leaves out rows of segments that are read.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa

from txnsim_spark.options import KafkaLogOptions
from txnsim_spark.schemas import OFFSET_COLUMNS, TABLES, TIME_COLUMNS


class ReadBounds:
    """Removes the rows outside of the bounds in a read's options.

    Args:
        options: Options with bounds (``are_in``).
    """

    def __init__(self, options: KafkaLogOptions) -> None:
        self._options = options
        self.are_by_partition = bool(options.starting_offsets or options.ending_offsets)
        """Whether the bounds are per partition, so that a batch of rows has to be of
        one replica.
        """

    @staticmethod
    def are_given_in(options: KafkaLogOptions) -> bool:
        """Whether options have bounds on offsets or times."""
        time_bounds = (options.start_ms, options.end_ms)
        return bool(options.starting_offsets or options.ending_offsets) or time_bounds != (
            None,
            None,
        )

    def schema(self, requested_schema: pa.Schema) -> pa.Schema:
        """The wanted columns, and those of offset and time that the bounds need."""
        table, column_names = self._options.table, [*requested_schema.names]
        if self.are_by_partition:
            column_names += ["topic", "partition", *OFFSET_COLUMNS[table]]
        if self._time_bounds != (None, None):
            column_names.append(TIME_COLUMNS[table])
        table_schema = TABLES[table].arrow()
        bound_columns = [
            table_schema.field(name)
            for name in dict.fromkeys(column_names)
            if name not in requested_schema.names
        ]
        return pa.schema([*requested_schema, *bound_columns])

    def rows_within(self, batch: pa.RecordBatch, requested_schema: pa.Schema) -> pa.RecordBatch:
        """Rows within offsets and times, without the columns added for that."""
        import pyarrow.compute as pc  # takes longer to load than most tasks take

        conditions = [*self._offset_condition(batch, pc), *self._time_condition(batch, pc)]
        if conditions and batch.num_rows:
            batch = batch.filter(reduce(pc.and_, conditions))
        return batch.select(requested_schema.names)

    @property
    def _time_bounds(self) -> tuple[int | None, int | None]:
        return self._options.start_ms, self._options.end_ms

    def _offset_condition(self, batch: pa.RecordBatch, pc: Any) -> list[Any]:
        if not self.are_by_partition or not batch.num_rows:
            return []
        topic, partition = batch["topic"][0].as_py(), batch["partition"][0].as_py()
        first_offsets, last_offsets = (batch[name] for name in OFFSET_COLUMNS[self._options.table])
        lowest_offset = self._options.starting_offsets.get(topic, {}).get(partition)
        end_offset = self._options.ending_offsets.get(topic, {}).get(partition)
        return [
            *([] if lowest_offset is None else [pc.greater_equal(last_offsets, lowest_offset)]),
            *([] if end_offset is None else [pc.less(first_offsets, end_offset)]),
        ]

    def _time_condition(self, batch: pa.RecordBatch, pc: Any) -> list[Any]:
        lowest_time, end_time = self._time_bounds
        if lowest_time is None and end_time is None:
            return []
        times = batch[TIME_COLUMNS[self._options.table]]
        return [
            *([] if lowest_time is None else [pc.greater_equal(times, lowest_time)]),
            *([] if end_time is None else [pc.less(times, end_time)]),
        ]
