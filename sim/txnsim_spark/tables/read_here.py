"""The tables of ``kafka_log`` read without the data source: the same plan, the same walks and the
same rows, by this process or as a job of an ``engine``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import pyarrow as pa

from txnsim_spark.engine import Engine, Job, Way, cost_of
from txnsim_spark.log_query import Wanted
from txnsim_spark.options import Division, KafkaLogOptions
from txnsim_spark.planning import READS, Share, shares_of
from txnsim_spark.schemas import DECODED, TABLES
from txnsim_spark.tables.readings import rows_of
from txnsim_spark.tables.rows import Job as Made

R = TypeVar("R")

TASK_BYTES: Final = 16 << 20
"""Bytes of the segments in one task: a cut in one segment ends those behind it."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a table."""

    options: KafkaLogOptions
    columns: tuple[str, ...]
    wanted: Wanted

    @classmethod
    def of(
        cls,
        table: str,
        paths: Sequence[Path],
        *,
        columns: Sequence[str] = (),
        topics: frozenset[str] = frozenset(),
        wanted: Wanted = Wanted(),  # noqa: B008 - frozen
    ) -> Asked:
        """Empty columns or topics mean all."""
        options = KafkaLogOptions(
            paths=tuple(path.absolute() for path in paths),
            table=table,
            topics=topics,
            task_bytes=TASK_BYTES,  # by size alone, so that no segment comes in parts
        )
        return cls(options=options, columns=tuple(columns), wanted=wanted)

    def shares(self) -> list[Share]:
        """The tasks."""
        return shares_of(self.options, self.wanted, READS[self.options.table])

    def shared_out(self, engine: Engine) -> tuple[Asked, list[Share], Way]:
        """The request, its shares, and the way that an engine runs them."""
        shares = self.shares()
        sizes = (segment.size for share in shares for segment in share.segments)
        way = engine.way(cost_of(sizes, is_decoded=self.options.table in DECODED))
        if way is Way.HERE:
            return self, shares, way
        division = Division(parallelism=engine.cores(way))
        options = msgspec.structs.replace(self.options, task_bytes=None, division=division)
        asked = msgspec.structs.replace(self, options=options)
        return asked, asked.shares(), way

    def rows(self, share: Share) -> Iterator[pa.RecordBatch]:
        """Of one task, in batches of bounded size, each of one replica."""
        schema = TABLES[self.options.table].arrow(self.columns)
        job = Made(
            options=self.options,
            columns=tuple(schema.names),
            producer_ids=self.wanted.producer_ids,
            by_replica=True,
        )
        for rows in rows_of(share, job):
            yield rows.in_schema(schema)


def read_here(
    table: str,
    paths: Sequence[Path],
    *,
    columns: Sequence[str] = (),
    topics: frozenset[str] = frozenset(),
    wanted: Wanted = Wanted(),  # noqa: B008 - frozen
) -> Iterator[pa.RecordBatch]:
    """The rows of a table, read in this process, by place; arguments as of ``Asked.of``."""
    asked = Asked.of(table, paths, columns=columns, topics=topics, wanted=wanted)
    for share in asked.shares():
        yield from asked.rows(share)


def reader_of(table: str, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatchReader:
    """The rows of a table, to be read once."""
    return pa.RecordBatchReader.from_batches(TABLES[table].arrow(), iter(batches))


def read_by_replica(
    engine: Engine,
    asked: Asked,
    keep: Callable[[pa.RecordBatch], pa.RecordBatch],
    join: Callable[[str, Sequence[pa.RecordBatch]], R],
) -> dict[str, R]:
    """What becomes of the rows of each replica that matter (``keep``), wherever they are read; they
    are joined in any order. The table is one of segments, with the columns of a replica.
    """
    asked, shares, way = asked.shared_out(engine)
    return engine.done(Job(tasks=shares, read=partial(_kept, asked, keep), join=join), way)


def _kept(
    asked: Asked, keep: Callable[[pa.RecordBatch], pa.RecordBatch], share: Share
) -> Iterator[tuple[str, pa.RecordBatch]]:
    for batch in asked.rows(share):
        kept = keep(batch)
        if kept.num_rows:
            log_dir, topic, partition = (kept[name][0] for name in _REPLICA)
            yield f"{log_dir}/{topic}-{partition}", kept


_REPLICA: Final = ("log_dir", "topic", "partition")
