"""One pass over segments on the workers: what each producer did, where a segment makes no sense.

Rows are those of the tables ``fragments`` and ``errors``. The data source is not asked for them:
two tables would be two walks, and for each read of it Spark starts processes of Python that plan
it, which import more than a search for hanging transactions has to compute (``tasks``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from txnsim.pipeline.forensics.read_notes import Note
from txnsim.pipeline.forensics.segment_reading import walked
from txnsim.pipeline.planning import Share
from txnsim.pipeline.scan import kernel_fragments as fk
from txnsim.pipeline.scan.pieces import Ints
from txnsim.pipeline.scan.segments import SegmentFile
from txnsim.pipeline.tables import fragments
from txnsim.pipeline.tables.rows import Rows, integers, nothing, of_segment, same
from txnsim.pipeline.tasks import arrow_schema, on_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    "log_dir string, topic string, partition int, producer_id bigint, first_offset bigint,"
    " markers bigint, coordinator_epoch int, open_offset bigint, open_timestamp_ms bigint,"
    " open_last_timestamp_ms bigint, open_epoch int, note string, text string, file string,"
    " position bigint, from_offset bigint, to_offset bigint"
)
"""``markers``: how many; from ``note`` on: what came to light (``read_notes``), in a row without a
producer.
"""
NOTED: Final = ("note", "text", "file", "position", "from_offset", "to_offset")
SCHEMA: Final = arrow_schema(COLUMNS)
"""The same, as Arrow has them."""


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
    """The rows of segments, in order (``walked``)."""
    for segment, found in walked(segments):
        yield _note(segment, found) if isinstance(found, Note) else _fragments(segment, found)


def _fragments(segment: SegmentFile, table: Ints) -> Rows:
    count = len(table)
    markers = table[:, fk.COMMITS] + table[:, fk.ABORTS]
    return Rows(
        count,
        {
            **of_segment(segment, count),
            **fragments.columns_of(table),
            "markers": integers(markers),
            **{name: nothing(count) for name in NOTED},
        },
    )


def _note(segment: SegmentFile, note: Note) -> Rows:
    makers = {name: nothing(1) for name in SCHEMA.names}
    values = (
        note.kind.value,
        note.text,
        note.file,
        note.position,
        note.from_offset,
        note.to_offset,
    )
    said = {name: same(value, 1) for name, value in zip(NOTED, values, strict=True)}
    return Rows(1, {**makers, **of_segment(segment, 1), **said})
