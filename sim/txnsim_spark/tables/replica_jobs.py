"""Reads rows of tables of segments as a job of an ``engine`` instead of through Spark's data
source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa

from txnsim_spark.engine import Engine, EngineKind, cost_of
from txnsim_spark.engine import EngineJob as Reading
from txnsim_spark.file_faults import LogFileError
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import Division, KafkaLogOptions
from txnsim_spark.planning import FILES_OF_TABLE, Share, shares_of
from txnsim_spark.scan.log_dirs import OnProblem, ignore_problem
from txnsim_spark.schemas import TABLES
from txnsim_spark.tables.row_sources import rows_of
from txnsim_spark.tables.rows import TableJob

KeepRows = Callable[[pa.RecordBatch], pa.RecordBatch]
"""Function that chooses rows, called where they are read."""

DECODED: Final = frozenset({"records", "transactions", "offsets"})
TASK_BYTES: Final = 16 << 20
"""Size of a task, so large that no segment is divided."""


def kept_rows(
    engine: Engine,
    table: str,
    paths: Sequence[Path],
    keep_rows: KeepRows,
    *,
    topics: frozenset[str] = frozenset(),
    scope: RowScope = RowScope(),  # noqa: B008 - frozen
    on_problem: OnProblem | None = None,
) -> Iterator[pa.RecordBatch]:
    """The chosen rows, those of a replica together, in any order.

    Args:
        engine: Reads the rows.
        table: Name of the table, whose rows must come from segments.
        paths: Log directories, folders of them, or replicas' folders.
        keep_rows: Chooses rows of a batch, without changing the columns.
        topics: Topics to read; empty for all.
        scope: Further conditions.
        on_problem: Called with what is missing or damaged, and the rest is read; None raises an
            error instead.

    Raises:
        LogFileError: A file is missing or damaged, and ``on_problem`` is None.
    """
    options = KafkaLogOptions(
        paths=tuple(path.absolute() for path in paths),
        table=table,
        topics=topics,
        task_bytes=TASK_BYTES,
    )
    shares = shares_of(options, scope, FILES_OF_TABLE[table], on_problem=on_problem)
    sizes = (segment.size for share in shares for segment in share.segments)
    engine_kind = engine.kind_for(cost_of(sizes, is_decoded=table in DECODED))
    if engine_kind is not EngineKind.HERE:
        division = Division(parallelism=engine.core_count(engine_kind))
        options = msgspec.structs.replace(options, task_bytes=None, division=division)
        shares = shares_of(
            options,
            scope,
            FILES_OF_TABLE[table],
            on_problem=None if on_problem is None else ignore_problem,
        )
    job = TableJob(
        options=options,
        columns=TABLES[table].names,
        producer_ids=scope.producer_ids,
        separates_replicas=True,
    )
    read_share = _kept_by_replica if on_problem is None else _kept_or_problem
    batches_by_replica = engine.results_of(
        Reading(
            tasks=shares, read_task=partial(read_share, job, keep_rows), join_pieces=_join_batches
        ),
        engine_kind,
    )
    for problem in batches_by_replica.pop(_PROBLEMS_KEY, ()):
        assert on_problem is not None, "only then a task hands problems over"
        on_problem(problem)
    return chain.from_iterable(batches_by_replica.values())


_PROBLEMS_KEY: Final = ""
"""Key of problems; all other keys are replicas' folders."""


def _kept_or_problem(job: TableJob, keep_rows: KeepRows, share: Share) -> Iterator[tuple[str, Any]]:
    """Rows by replica; if a file can't be read, the first problem, too, and the rows of the other
    files.
    """
    try:
        yield from list(_kept_by_replica(job, keep_rows, share))
    except LogFileError as error:
        yield _PROBLEMS_KEY, error.problem
        tolerant_options = msgspec.structs.replace(
            job.options, ignore_missing_files=True, ignore_corrupt_files=True
        )
        yield from _kept_by_replica(
            msgspec.structs.replace(job, options=tolerant_options), keep_rows, share
        )


def _kept_by_replica(
    job: TableJob, keep_rows: KeepRows, share: Share
) -> Iterator[tuple[str, pa.RecordBatch]]:
    schema = TABLES[job.options.table].arrow()
    for rows in rows_of(share, job):
        kept_rows_of_batch = keep_rows(rows.in_schema(schema))
        if kept_rows_of_batch.num_rows:
            log_dir, topic, partition = (
                kept_rows_of_batch[column_name][0] for column_name in _REPLICA_COLUMNS
            )
            yield f"{log_dir}/{topic}-{partition}", kept_rows_of_batch


def _join_batches(_key: str, batches: Sequence[Any]) -> Sequence[Any]:
    return batches


_REPLICA_COLUMNS: Final = ("log_dir", "topic", "partition")
