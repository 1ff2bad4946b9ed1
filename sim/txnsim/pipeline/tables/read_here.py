"""The tables of ``kafka_log`` read in this process, without Spark: the same plan, the same walks
and the same rows as on its workers, one task after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from txnsim.pipeline.log_query import Wanted
from txnsim.pipeline.options import KafkaLogOptions
from txnsim.pipeline.planning import READS, shares_of
from txnsim.pipeline.schemas import TABLES
from txnsim.pipeline.tables.readings import rows_of
from txnsim.pipeline.tables.rows import Job

HERE_BYTES_MAX: Final = 256 << 20
"""So much is read in this process: Spark takes longer to start than that."""
HERE_DECODED_BYTES_MAX: Final = 32 << 20
"""So much of tables whose records are decoded one by one."""
DECODED: Final = frozenset({"records", "transactions", "offsets"})
TASK_BYTES: Final = 16 << 20
"""Segments that are read as one task: what is cut off in one ends those behind it."""


def read_here(
    table: str,
    paths: Sequence[Path],
    *,
    columns: Sequence[str] = (),
    topics: frozenset[str] = frozenset(),
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
) -> Iterator[pa.RecordBatch]:
    """The rows of a table, in batches of bounded size, by place.

    Args:
        table: Its name.
        paths: Log directories, folders of them, or replicas' folders.
        columns: Only these; all where empty.
        topics: Only these; all where empty.
        wanted: What is asked for besides.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    schema = TABLES[table].arrow(columns)
    options = KafkaLogOptions(
        paths=tuple(path.absolute() for path in paths),
        table=table,
        topics=topics,
        task_bytes=TASK_BYTES,
    )
    job = Job(options=options, columns=tuple(schema.names), producer_ids=wanted.producer_ids)
    for share in shares_of(options, wanted, READS[table]):
        for rows in rows_of(share, job):
            yield rows.in_schema(schema)


def is_little(tables: Sequence[str], paths: Sequence[Path], topics: frozenset[str]) -> bool:
    """Whether tables are read sooner here than Spark starts.

    Args:
        tables: Their names.
        paths: Log directories, folders of them, or replicas' folders.
        topics: Only these; all where empty.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    return all(
        bytes_in(table, paths, topics)
        <= (HERE_DECODED_BYTES_MAX if table in DECODED else HERE_BYTES_MAX)
        for table in tables
    )


def bytes_in(table: str, paths: Sequence[Path], topics: frozenset[str] = frozenset()) -> int:
    """How many bytes of segments are read for a table.

    Raises:
        BadInputError: A path is no directory, or there is nothing of Kafka's in it.
    """
    options = KafkaLogOptions(
        paths=tuple(path.absolute() for path in paths),
        table=table,
        topics=topics,
        task_bytes=TASK_BYTES,  # by size alone, so that no segment comes in parts
    )
    shares = shares_of(options, Wanted(), READS[table])
    return sum(segment.size for share in shares for segment in share.segments)
