"""``logs export``: tables of ``kafka_log`` as Parquet, a folder per table and topic.

A table goes to a hidden folder first and gets its name when it is whole, so a folder that is there
is complete (``txnsim.files``).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.files import whole
from txnsim_spark.engine import Engine, Way
from txnsim_spark.scan.segments import replicas_in
from txnsim_spark.schemas import TABLES
from txnsim_spark.targets import written_by_spark

if TYPE_CHECKING:
    import pyarrow as pa

ALL: Final = "all"
BY: Final = "topic"
NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without one, such as checkpoints that can't be read; as Spark calls it."""


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What to export, and where."""

    paths: tuple[Path, ...]
    target: Path
    tables: tuple[str, ...]
    topics: frozenset[str] = frozenset()
    """The exported topics; empty for all."""
    overwrite: bool = False


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """An exported table."""

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


def export(engine: Engine, wanted: Export, table: str) -> Written:
    """Write one table of what ``check`` has passed: by DuckDB, or by Spark where there is much.

    Raises:
        ConfigError: The folder can't be written.
    """
    import pyarrow.parquet as pq

    from txnsim_spark.embedded import Embedded
    from txnsim_spark.tables.read_here import Asked

    asked, shares, way = Asked.of(table, wanted.paths, topics=wanted.topics).shared_out(engine)
    folder = wanted.target / table
    with whole(folder) as part, written_by_spark(str(folder)):
        part.mkdir(parents=True)
        if way is Way.SPARK:
            options = {
                "table": table,
                **({"topics": ",".join(wanted.topics)} if wanted.topics else {}),
            }
            rows = engine.spark().read.format("kafka_log").options(**options)
            frame = rows.load([str(path.absolute()) for path in wanted.paths])
            frame.write.mode("overwrite").partitionBy(BY).parquet(part.absolute().as_uri())
        else:
            batches = (_shown(batch) for share in shares for batch in asked.rows(share))
            database = Embedded()
            database.register("asked", reader_of(table, batches))
            database.copy("SELECT * FROM asked", part, by=BY)
    files = tuple(folder.rglob("*.parquet"))
    return Written(
        table=table,
        directory=str(folder),
        rows=sum(pq.read_metadata(file).num_rows for file in files),
        files=len(files),
        bytes=sum(file.stat().st_size for file in files),
    )


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With the names of stores."""
    from txnsim_spark.stores.mirror import carried
    from txnsim_spark.stores.reading import Stores

    for settings in carried():
        batch = Stores(settings).shown(batch)
    return batch


def reader_of(table: str, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """The rows of a table, to be read once."""
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(TABLES[table].arrow(), iter(batches))
