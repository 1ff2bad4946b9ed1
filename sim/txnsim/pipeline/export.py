"""``logs export``: tables of ``kafka_log`` as Parquet, a folder per table and topic.

A table goes to a hidden folder first and gets its name when it is whole, so a folder that is there
is complete (``written_files``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.pipeline.scan.segments import replicas_in
from txnsim.pipeline.schemas import TABLES
from txnsim.pipeline.targets import written_by_spark
from txnsim.written_files import whole

if TYPE_CHECKING:
    import pyarrow as pa
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
    """Write one table of what ``check`` has passed, by a session with ``kafka_log`` registered."""
    frame = spark.read.format("kafka_log").option("path", ",".join(map(str, wanted.paths)))
    if wanted.topics:
        frame = frame.option("topics", ",".join(sorted(wanted.topics)))
    rows = frame.option("table", table).load()
    target = wanted.target / table
    with whole(target) as part, written_by_spark(str(target)):
        # A column that is a folder has no place in the files, and readers put it back.
        rows.write.partitionBy(BY).parquet(str(part))
    return _done(
        wanted, table, lambda whole: spark.read.schema(rows.schema).parquet(str(whole)).count()
    )


def export_here(wanted: Export, table: str) -> Written:
    """The same in this process, without Spark; readers find the same."""
    from txnsim.pipeline.tables.read_here import read_here

    rows = read_here(table, wanted.paths, topics=wanted.topics)
    with whole(wanted.target / table) as part:
        count = write_topics(rows, part)
    return _done(wanted, table, lambda _: count)


def _done(wanted: Export, table: str, count: Callable[[Path], int]) -> Written:
    """Count what there is."""
    folder = wanted.target / table
    files = tuple(folder.rglob("*.parquet"))
    return Written(
        table=table,
        directory=str(folder),
        rows=count(folder),
        files=len(files),
        bytes=sum(file.stat().st_size for file in files),
    )


def write_topics(batches: Iterable[pa.RecordBatch], directory: Path) -> int:
    """Write rows, topic by topic, as files of a folder, which is made; how many they are."""
    import pyarrow.parquet as pq

    directory.mkdir(parents=True)
    rows = 0
    filled = (batch for batch in batches if batch.num_rows)
    for number, (topic, several) in enumerate(groupby(filled, _topic_of)):
        folder = directory / f"{BY}={topic}"
        folder.mkdir(exist_ok=True)
        groups = _row_groups(several)
        first = next(groups)
        file = folder / f"part-{number:05}.snappy.parquet"
        with pq.ParquetWriter(file, first.schema) as writer:
            for group in chain([first], groups):
                writer.write_table(group)
                rows += group.num_rows
    return rows


def _topic_of(batch: pa.RecordBatch) -> str:
    return batch[BY][0].as_py() or NO_TOPIC


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of a topic, without its name, which is that of the folder."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch.drop_columns([BY]))
        rows += batch.num_rows
        if rows >= GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if held:
        yield pa.Table.from_batches(held)
