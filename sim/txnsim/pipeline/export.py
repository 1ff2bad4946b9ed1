"""``logs export``: tables of ``kafka_log`` as Parquet, a folder per table and topic.

A table goes to a hidden folder first and gets its name when it is whole, so a folder that is there
is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.pipeline.scan.segments import replicas_in
from txnsim.pipeline.schemas import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL: Final = "all"
BY: Final = "topic"


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
    whole, part = wanted.target / table, wanted.target / f".{table}.part"
    rows = frame.option("table", table).load()
    # A column that is a folder has no place in the files, and readers put it back.
    rows.write.partitionBy(BY).mode("overwrite").parquet(str(part))
    if whole.exists():
        shutil.rmtree(whole)
    part.rename(whole)
    files = tuple(_files(whole))
    return Written(
        table=table,
        directory=str(whole),
        rows=spark.read.schema(rows.schema).parquet(str(whole)).count(),
        files=len(files),
        bytes=sum(file.stat().st_size for file in files),
    )


def _files(directory: Path) -> Iterator[Path]:
    return directory.rglob("*.parquet")
