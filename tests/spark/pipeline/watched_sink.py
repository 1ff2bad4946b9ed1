"""A sink that reports each written batch, so that a test can end the writer there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from txnsim_spark.streaming._records import RECORD_COLUMNS
from txnsim_spark.streaming._sink import TableSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class WatchedSink(TableSink):
    """Calls a function when a batch is written, before Spark knows of it.

    Args:
        spark: The session.
        place: Folder of the sink.
        written: Called with the folder of the batch.
    """

    def __init__(
        self, spark: SparkSession, path: Path, *, note_written: Callable[[Path], object]
    ) -> None:
        super().__init__(spark, f"file://{path}", columns=RECORD_COLUMNS)
        self._place = path
        self._written = note_written

    def write(self, rows: DataFrame, batch: int, *, query_id: str) -> int | None:
        """Write a batch, then call ``written`` with its folder."""
        count = super().write(rows, batch, query_id=query_id)
        if count is not None:
            self._written(self._place / f"query={query_id}" / f"batch={batch}")
        return count
