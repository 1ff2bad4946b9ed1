"""A table to which Spark's own writers write each micro-batch once.

Parquet::

    SINK/query=ID/batch=N/part-….parquet     a folder for each batch
                          _SUCCESS           Spark's committer leaves it when all of it is there

Spark repeats a batch if the stream died before Spark had recorded its end. If ``_SUCCESS`` exists,
nothing is written again; else the folder is overwritten with the same rows.

Delta Lake: a batch is one transaction of the table, under the query's id and the batch's number.
Delta itself skips a number that the table's log already has. A **query** is everything that one
checkpoint has written. If a checkpoint is lost, the next query begins after the existing rows.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from txnsim.errors import BadInputError
from txnsim_spark.streaming._checkpoint import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DONE_NAME: Final = "_SUCCESS"
_DELTA_LOG: Final = "_delta_log"
_MARK_OPTION: Final = "mapreduce.fileoutputcommitter.marksuccessfuljobs"


class SinkFormat(StrEnum):
    """File formats of a sink."""

    PARQUET = "parquet"
    DELTA = "delta"


class SinkError(BadInputError):
    """The sink does not match the checkpoint; nothing was written."""


class TableSink:
    """A sink: a folder of Parquet files, or a table of Delta Lake.

    Args:
        spark: The session.
        url: URL of the folder.
        columns: The columns that are read again, in Spark's DDL.
        format: The file format.
        folder: Lists the folder; by Hadoop unless given.
    """

    def __init__(
        self,
        spark: SparkSession,
        url: str,
        *,
        columns: str,
        format: SinkFormat = SinkFormat.PARQUET,
        folder: Folder | None = None,
    ) -> None:
        self.url = url
        self._spark = spark
        self._columns = columns
        self._format = format
        self._folder = folder or Folder(url, spark)

    # Queries

    def rows(self, *, query_left_out: str | None = None) -> DataFrame | None:
        """All rows with ``query`` and ``batch``, without those of one query; None for an empty
        sink.
        """
        folder_names = self._folder.names("")
        if self._format is SinkFormat.DELTA:
            if _DELTA_LOG not in folder_names:
                return None
            rows = self._spark.read.format("delta").load(self.url)
        else:
            if not any(
                folder_name.startswith("query=") and folder_name != f"query={query_left_out}"
                for folder_name in folder_names
            ):
                return None
            columns = f"{self._columns}, query string, batch bigint"
            rows = self._spark.read.schema(columns).parquet(self.url)
        return rows if query_left_out is None else rows.where(F.col("query") != query_left_out)

    def knows(self, query_id: str) -> bool:
        """Whether a batch of a query was written."""
        entry_name = _DELTA_LOG if self._format is SinkFormat.DELTA else f"query={query_id}"
        return entry_name in self._folder.names("")

    # Commands

    def sweep(self) -> None:
        """Remove what a writer that died has left. No writer may run meanwhile."""
        for query_folder in self._folder.names(""):
            if query_folder.startswith("query="):
                batch_numbers = [
                    folder_name.partition("=")[2]
                    for folder_name in self._folder.names(query_folder)
                ]
                last_batch_number = max(
                    (batch_number for batch_number in batch_numbers if batch_number.isdigit()),
                    key=int,
                    default=None,
                )
                if last_batch_number is not None and not self._is_done(
                    unfinished_batch := f"{query_folder}/batch={last_batch_number}"
                ):
                    self._folder.remove(unfinished_batch)

    def write(self, rows: DataFrame, batch_id: int, *, query_id: str) -> int | None:
        """Write a batch, unless it was written before.

        Args:
            rows: The rows, which are the same if the batch is repeated.
            batch_id: Its id, as Spark counts them.
            query_id: Query id of the checkpoint.

        Returns:
            Number of rows; None if the batch was written before.
        """
        if self._format is SinkFormat.DELTA:
            return self._append(rows, batch_id, query_id)
        batch_folder = f"query={query_id}/batch={batch_id}"
        if self._is_done(batch_folder):
            return None
        batch_url = f"{self.url}/{batch_folder}"
        rows.write.mode("overwrite").option(_MARK_OPTION, "true").parquet(batch_url)
        return self._spark.read.schema(self._columns).parquet(batch_url).count()

    def _append(self, rows: DataFrame, batch_id: int, query_id: str) -> int | None:
        if self._count_rows(batch_id, query_id):
            return None
        rows_with_ids = rows.withColumns(
            {"query": F.lit(query_id), "batch": F.lit(batch_id).cast("bigint")}
        )
        writer = rows_with_ids.write.format("delta").mode("append")
        writer.options(txnAppId=query_id, txnVersion=batch_id).save(self.url)
        return self._count_rows(batch_id, query_id)

    def _count_rows(self, batch_id: int, query_id: str) -> int:
        rows = self.rows()
        if rows is None:
            return 0
        return rows.where((F.col("query") == query_id) & (F.col("batch") == batch_id)).count()

    def _is_done(self, batch_folder: str) -> bool:
        return DONE_NAME in self._folder.names(batch_folder)
