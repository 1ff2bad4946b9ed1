"""``logs export``: tables of ``kafka_log`` as Parquet, a folder per table and topic.

A table goes to a hidden folder first and gets its name when it is whole, so a folder that is there
is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.pipeline.scan.segments import replicas_in
from txnsim.pipeline.schemas import TABLES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

ALL: Final = "all"
BY: Final = "topic"
NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without one, such as checkpoints that can't be read; as Spark calls it."""
GROUP_ROWS: Final = 1 << 17
"""Of a row group."""


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What to write, and where."""

    paths: tuple[Path, ...]
    target: Path
    tables: tuple[str, ...]
    topics: frozenset[str] = frozenset()
    """Only these; all where empty."""
    overwrite: bool = False


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A table that is there."""

    table: str
    directory: str
    rows: int
    files: int
    bytes: int


def tables_of(wanted: Export) -> tuple[str, ...]:
    """Names of the tables that are meant."""
    return tuple(TABLES) if wanted.tables == (ALL,) else wanted.tables


def check(wanted: Export) -> None:
    """See that it can be done, before anything is.

    Raises:
        BadInputError: No such table, nothing to read, or a table is there already.
    """
    unknown = [name for name in tables_of(wanted) if name not in TABLES]
    if unknown or not wanted.tables:
        raise BadInputError(
            f"there is no table {unknown[0] if unknown else ''!r}, expected some of "
            f"{', '.join(TABLES)}, or {ALL}"
        )
    replicas_in(wanted.paths)
    if wanted.target.exists() and not wanted.target.is_dir():
        raise BadInputError(f"{wanted.target} is no directory")
    for name in tables_of(wanted):
        if (wanted.target / name).exists() and not wanted.overwrite:
            raise BadInputError(
                f"{wanted.target / name} is there already; name another folder, or --overwrite"
            )


def export(spark: SparkSession, wanted: Export, table: str) -> Written:
    """Write one table.

    Args:
        spark: With ``kafka_log`` registered.
        wanted: What ``check`` has passed.
        table: One of its tables.

    Raises:
        OSError: The folder can't be written.
    """
    frame = spark.read.format("kafka_log").option("path", ",".join(map(str, wanted.paths)))
    if wanted.topics:
        frame = frame.option("topics", ",".join(sorted(wanted.topics)))
    rows = frame.option("table", table).load()
    # A column that is a folder has no place in the files, and readers put it back.
    rows.write.partitionBy(BY).mode("overwrite").parquet(str(_part(wanted, table)))
    return _done(
        wanted, table, lambda whole: spark.read.schema(rows.schema).parquet(str(whole)).count()
    )


def export_here(wanted: Export, table: str) -> Written:
    """Write one table in this process, without Spark; readers find the same.

    Args:
        wanted: What ``check`` has passed.
        table: One of its tables.

    Raises:
        OSError: The folder can't be written.
    """
    from txnsim.pipeline.tables.read_here import read_here

    rows = read_here(table, wanted.paths, topics=wanted.topics)
    count = write_topics(rows, _part(wanted, table))
    return _done(wanted, table, lambda _: count)


def _part(wanted: Export, table: str) -> Path:
    """Where a table is written, until it is whole."""
    return wanted.target / f".{table}.part"


def _done(wanted: Export, table: str, count: Callable[[Path], int]) -> Written:
    """Put a table that is whole in its place, and count what there is."""
    whole = wanted.target / table
    if whole.exists():
        shutil.rmtree(whole)
    _part(wanted, table).rename(whole)
    files = tuple(whole.rglob("*.parquet"))
    return Written(
        table=table,
        directory=str(whole),
        rows=count(whole),
        files=len(files),
        bytes=sum(file.stat().st_size for file in files),
    )


def write_topics(batches: Iterable[pa.RecordBatch], directory: Path) -> int:
    """Write rows as files by topic; what the folder holds goes.

    Args:
        batches: Rows of one topic each, topic by topic.
        directory: The folder.

    Returns:
        How many rows.

    Raises:
        OSError: It can't be written.
    """
    if directory.exists():
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    files = _TopicFiles(directory)
    for batch in batches:
        files.take(batch)
    files.close()
    return files.rows


class _TopicFiles:
    """Files by topic, one open at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._topic: str | None = None
        self._held: list[pa.RecordBatch] = []
        self._held_rows = 0
        self._writer: pq.ParquetWriter | None = None
        self._files = 0
        self.rows = 0

    def take(self, batch: pa.RecordBatch) -> None:
        """Rows of one topic."""
        if not batch.num_rows:
            return
        topic = batch[BY][0].as_py() or NO_TOPIC
        if topic != self._topic:
            self.close()
            self._topic = topic
        self._held.append(batch.drop_columns([BY]))
        self._held_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._held_rows >= GROUP_ROWS:
            self._write()

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.Table.from_batches(self._held)
        self._held, self._held_rows = [], 0
        if self._writer is None:
            folder = self._directory / f"{BY}={self._topic}"
            folder.mkdir(exist_ok=True)
            self._writer = pq.ParquetWriter(
                folder / f"part-{self._files:05}.snappy.parquet", table.schema
            )
            self._files += 1
        self._writer.write_table(table)

    def close(self) -> None:
        """No more rows of this topic."""
        if self._held:
            self._write()
        if self._writer is not None:
            self._writer.close()
            self._writer = None
