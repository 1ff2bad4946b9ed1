"""One pass over segments on the workers: what each producer did, where a segment makes no sense.

Rows are those of the tables ``fragments`` and ``errors``. The data source is not asked for them:
two tables would be two walks, and for each read of it Spark starts processes of Python that plan
it, which import more than a search for hanging transactions has to compute. So tasks are shared out
here, and each worker is handed the number of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from sim.pipeline.planning import Share
from sim.pipeline.scan import kernel_fragments as fk
from sim.pipeline.scan.pieces import Ints
from sim.pipeline.scan.recovery import cut_short
from sim.pipeline.scan.segments import SegmentFile
from sim.pipeline.scan.walk import fragment_rows
from sim.pipeline.tables import fragments
from sim.pipeline.tables.rows import Rows, integers, nothing, of_segment, same

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = (
    "log_dir string, topic string, partition int, producer_id bigint, first_offset bigint,"
    " markers bigint, coordinator_epoch int, open_offset bigint, open_timestamp_ms bigint,"
    " open_last_timestamp_ms bigint, open_epoch int, told string, is_cut boolean"
)
"""``markers``: how many; ``told``: damage in words, in a row that has no producer."""
_TYPES: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
}
SCHEMA: Final = pa.schema(
    [(name, _TYPES[kind]) for name, kind in (column.split() for column in COLUMNS.split(", "))]
)
"""The same, as Arrow has them."""
TOLD_KINDS: Final = frozenset({"torn", "format", "length", "crc"})
"""Of damage; what lies behind a segment that is cut is damaged by that alone."""


def pieces_of(spark: SparkSession, shares: Sequence[Share]) -> DataFrame:
    """The rows of segments (``COLUMNS``), a task for each share.

    Args:
        spark: The session.
        shares: What each task reads.
    """
    numbers = spark.range(0, len(shares), 1, max(len(shares), 1))
    return numbers.mapInArrow(_reader(shares), COLUMNS)


def _reader(
    shares: Sequence[Share],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Goes to the workers as it is, with all shares: they are names and sizes."""
    packed = [msgspec.msgpack.encode(share) for share in shares]

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                share = msgspec.msgpack.decode(packed[number], type=Share)
                for rows in rows_of(share.segments):
                    yield rows.in_schema(SCHEMA)

    return read


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
