"""One pass over segments on the workers: what each producer did, where a segment makes no sense.

Rows are those of the tables ``fragments`` and ``errors``. The data source is not asked for them:
two tables would be two walks, and for each read of it Spark starts processes of Python that plan
it, which import more than a search for hanging transactions has to compute (``tasks``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from txnsim.pipeline.planning import Share
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.pieces import Ints
from txnsim.pipeline.scan.recovery import cut_short
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.pipeline.scan.walk import fragment_rows
from txnsim.pipeline.tables import fragments
from txnsim.pipeline.tables.rows import Rows, integers, nothing, of_segment, same
from txnsim.pipeline.tasks import arrow_schema, on_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    "log_dir string, topic string, partition int, producer_id bigint, first_offset bigint,"
    " markers bigint, coordinator_epoch int, open_offset bigint, open_timestamp_ms bigint,"
    " open_last_timestamp_ms bigint, open_epoch int, told string, is_cut boolean"
)
"""``markers``: how many; ``told``: damage in words, in a row that has no producer."""
SCHEMA: Final = arrow_schema(COLUMNS)
"""The same, as Arrow has them."""
TOLD_KINDS: Final = frozenset({"torn", "format", "length", "crc"})
"""Of damage; what lies behind a segment that is cut is damaged by that alone."""


def pieces_of(spark: SparkSession, shares: Sequence[Share]) -> DataFrame:
    """The rows of segments (``COLUMNS``), a task for each share.

    Args:
        spark: The session.
        shares: What each task reads.
    """
    return on_workers(spark, shares, Share, _read, COLUMNS)


def _read(share: Share) -> Iterator[pa.RecordBatch]:
    return (rows.in_schema(SCHEMA) for rows in rows_of(share.segments))


def rows_of(segments: Iterable[SegmentFile]) -> Iterator[Rows]:
    """The rows of segments, in order.

    Args:
        segments: Those of a replica that recovery goes through are all there.
    """
    for segment, cut in cut_short(segments):
        found = [] if cut is None else [cut]
        try:
            tables = fragment_rows(Path(segment.path), on_damage=found.append, until=segment.size)
            for table in tables:
                yield _fragments(segment, table)
        except OSError as error:
            yield _told(segment, f"byte 0: {error.strerror or error}", is_cut=False)
        for damage in found[:1]:
            if damage.kind in TOLD_KINDS:
                where = f"byte {damage.position}: {damage.reason}"
                yield _told(segment, where, is_cut=cut is not None)


def _fragments(segment: SegmentFile, table: Ints) -> Rows:
    count = len(table)
    markers = table[:, fk.COMMITS] + table[:, fk.ABORTS]
    return Rows(
        count,
        {
            **of_segment(segment, count),
            **fragments.columns_of(table),
            "markers": integers(markers),
            "told": nothing(count),
            "is_cut": nothing(count),
        },
    )


def _told(segment: SegmentFile, where: str, *, is_cut: bool) -> Rows:
    makers = {name: nothing(1) for name in SCHEMA.names}
    told = {"told": same(f"{segment.path}, {where}", 1), "is_cut": same(is_cut, 1)}
    return Rows(1, {**makers, **of_segment(segment, 1), **told})
