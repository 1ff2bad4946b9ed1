"""``logs export``: tables of ``kafka_log`` as Parquet, a folder per table and topic.

A table goes to a hidden folder first and gets its name when it is whole, so a folder that is there
is complete (``txnsim.files``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.files import whole
from txnsim_spark.engine import Engine, Job, Way
from txnsim_spark.scan.segments import replicas_in
from txnsim_spark.schemas import TABLES
from txnsim_spark.targets import written_by_spark

if TYPE_CHECKING:
    import pyarrow as pa

    from txnsim_spark.planning import Share
    from txnsim_spark.tables.read_here import Asked

ALL: Final = "all"
BY: Final = "topic"
NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of rows without one, such as checkpoints that can't be read; as Spark calls it."""
GROUP_ROWS: Final = 1 << 17
"""Of a row group."""


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
    """Write one table of what ``check`` has passed; each task writes files of its own.

    Raises:
        ConfigError: The folder can't be written.
    """
    from txnsim_spark.tables.read_here import Asked

    asked, shares, way = Asked.of(table, wanted.paths, topics=wanted.topics).shared_out(engine)
    tasks = [shares] if way is Way.HERE else [[share] for share in shares]
    folder = wanted.target / table
    with whole(folder) as part, written_by_spark(str(folder)):
        part.mkdir(parents=True)
        job = Job(
            tasks=list(enumerate(tasks)), read=partial(_files_of, asked, part), join=_added_up
        )
        found = engine.done(job, way)
    files = tuple(folder.rglob("*.parquet"))
    return Written(
        table=table,
        directory=str(folder),
        rows=found.get(table, 0),
        files=len(files),
        bytes=sum(file.stat().st_size for file in files),
    )


def _files_of(
    asked: Asked, folder: Path, task: tuple[int, Sequence[Share]]
) -> Iterator[tuple[str, int]]:
    number, shares = task
    rows = (batch for share in shares for batch in asked.rows(share))
    yield asked.options.table, write_topics(map(_shown, rows), folder, task=number)


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With the names of stores."""
    from txnsim_spark.stores.mirror import carried
    from txnsim_spark.stores.reading import Stores

    for settings in carried():
        batch = Stores(settings).shown(batch)
    return batch


def _added_up(_table: str, counts: Sequence[int]) -> int:
    return sum(counts)


def write_topics(batches: Iterable[pa.RecordBatch], folder: Path, *, task: int = 0) -> int:
    """Write rows, topic by topic, as files in a folder; how many they are.

    Args:
        batches: Each of one topic.
        folder: Where to.
        task: Files of several do not meet.
    """
    import pyarrow.parquet as pq

    rows = 0
    filled = (batch for batch in batches if batch.num_rows)
    for number, (topic, several) in enumerate(groupby(filled, _topic_of)):
        groups = _row_groups(several)
        first = next(groups)
        name = f"part-{number:05}" if not task else f"part-{number:05}-{task:05}"
        file = folder / f"{BY}={topic}" / f"{name}.snappy.parquet"
        file.parent.mkdir(exist_ok=True)
        with pq.ParquetWriter(file, first.schema) as writer:
            for group in chain([first], groups):
                writer.write_table(group)
                rows += group.num_rows
    return rows


def _topic_of(batch: pa.RecordBatch) -> str:
    return batch[BY][0].as_py() or NO_TOPIC


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Row groups of a topic, without the topic's name, which the folder carries."""
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
