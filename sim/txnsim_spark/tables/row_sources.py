"""Table -> the function that makes its rows for one task, without Spark."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import pyarrow as pa

from txnsim.storage.regular_file import MOUNTS
from txnsim_spark.empty_reads import lost_rows_error
from txnsim_spark.file_faults import refuse_damage, refuse_unreadable
from txnsim_spark.options import CrcCheck
from txnsim_spark.planning import Share
from txnsim_spark.scan.pieces import Ints
from txnsim_spark.scan.segment_examination import cut_short
from txnsim_spark.scan.segments import Replica, SegmentFile
from txnsim_spark.tables import _batches as batches
from txnsim_spark.tables import _errors as errors
from txnsim_spark.tables import _fragments as fragments
from txnsim_spark.tables import _offsets as offsets
from txnsim_spark.tables import _records as records
from txnsim_spark.tables import _segments as segments
from txnsim_spark.tables import _share_states as share_states
from txnsim_spark.tables import _small_files as small_files
from txnsim_spark.tables import _transactions as transactions
from txnsim_spark.tables._bounds import ReadBounds
from txnsim_spark.tables._untouched_segments import segments_with_batches
from txnsim_spark.tables.rows import (
    ArrayMaker,
    Rows,
    SegmentTables,
    TableJob,
    join_batches,
    rows_of_tables,
)

T = TypeVar("T")

READER_OF_SEGMENT: Final[Mapping[str, Callable[[SegmentFile, TableJob], Iterator[Rows]]]] = {
    "records": records.read,
    "transactions": transactions.read,
    "offsets": offsets.read,
    "share_states": share_states.read,
    "segments": segments.read,
}
READER_OF_SEGMENTS: Final[Mapping[str, Callable[[SegmentFile, TableJob], Iterator[Ints]]]] = {
    "batches": batches.read,
    "fragments": fragments.fragments,
    "endings": fragments.endings,
}
"""Tables whose rows come from several segments -> the function that reads one segment."""
BY_PRODUCER: Final = frozenset({"batches", "endings", "fragments", "records"})
"""Tables of segments in which each row is of one producer."""
READER_OF_REPLICA: Final[Mapping[str, Callable[[Replica, TableJob], Iterator[Rows]]]] = {
    "producer_state": small_files.producer_state,
    "aborted": small_files.aborted_transactions,
    "leader_epochs": small_files.leader_epochs,
}
"""Tables whose rows come from one replica's files; ``replicas``, ``errors`` and ``findings`` need
more.
"""


def rows_of(share: Share, job: TableJob) -> Iterator[Rows]:
    """The rows of one task."""
    match job.options.table:
        case "errors":
            return _error_rows(share, job)
        case "findings":
            # Only here: it knows coordinators, which other tables need not load.
            from txnsim_spark.tables import findings

            return findings.read(job)
        case "replicas":
            return _replica_rows(share, job)
        case name if name in READER_OF_SEGMENT or name in READER_OF_SEGMENTS:
            return _segment_rows(name, share, job)
        case name:
            return _replica_file_rows(name, share, job)


def batches_of(share: Share, job: TableJob, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of one task within the options' bounds; small batches are joined."""
    if not ReadBounds.are_given_in(job.options):
        return join_batches(rows.in_schema(schema) for rows in rows_of(share, job))
    bounds = ReadBounds(job.options)
    schema_with_bounds = bounds.schema(schema)
    job = msgspec.structs.replace(
        job, columns=tuple(schema_with_bounds.names), separates_replicas=bounds.are_by_partition
    )
    return join_batches(
        bounds.rows_within(rows.in_schema(schema_with_bounds), schema)
        for rows in rows_of(share, job)
    )


def _segment_rows(table_name: str, share: Share, job: TableJob) -> Iterator[Rows]:
    segments = share.segments
    if table_name in BY_PRODUCER:
        segments = tuple(segments_with_batches(segments, job.producer_ids))
    MOUNTS.expect([segment.path for segment in segments])
    sound_segments = _cut_segments(segments, job)
    if table_name in READER_OF_SEGMENTS:
        read_segment = READER_OF_SEGMENTS[table_name]
        tables = (
            (segment, table)
            for segment in sound_segments
            for table in _rows_or_refusal(segment.path, job, partial(read_segment, segment, job))
        )
        yield from rows_of_tables(
            tables, _columns_of(table_name, job), separates_replicas=job.separates_replicas
        )
        return
    for segment in sound_segments:
        yield from _rows_or_refusal(
            segment.path, job, partial(READER_OF_SEGMENT[table_name], segment, job)
        )


def _cut_segments(segments: Sequence[SegmentFile], job: TableJob) -> Iterator[SegmentFile]:
    """The segments as a starting broker would leave them.

    Raises:
        BadInputError: It would cut off more than an unfinished end, and the options don't ignore
            that; for a stream, records that the stream has to read.
    """
    for whole_segment, (segment, damage) in zip(
        segments, cut_short(segments, applies_cuts=_applies_cuts(job)), strict=True
    ):
        if job.refuses_loss and damage is not None and damage.offset is not None:
            end_offset = sys.maxsize if segment.offset_span is None else segment.offset_span[1]
            if damage.offset < end_offset:
                raise lost_rows_error(
                    f"{segment.path}, byte {damage.position}: {damage.reason}; a starting broker"
                    " cuts the log off there"
                )
        elif damage is not None and not job.options.follows:
            with _refusing_damage(whole_segment.path, job):
                refuse_damage(whole_segment, damage, job.options)
        yield segment


def _columns_of(
    table_name: str, job: TableJob
) -> Callable[[Ints, SegmentTables], Mapping[str, ArrayMaker]]:
    match table_name:
        case "batches":
            return partial(batches.columns_of, crc_check=job.options.check_crc)
        case "fragments":
            return fragments.columns_of
    return fragments.columns_of_endings


def _replica_file_rows(table_name: str, share: Share, job: TableJob) -> Iterator[Rows]:
    for replica in share.replicas:
        yield from _rows_or_refusal(
            replica.path, job, partial(READER_OF_REPLICA[table_name], replica, job)
        )


def _replica_rows(share: Share, job: TableJob) -> Iterator[Rows]:
    log_directory_at = cache(partial(small_files.log_directory_of, options=job.options))
    for replica in share.replicas:
        log_directory = log_directory_at(Path(replica.log_dir))
        read_replica = partial(small_files.replica_rows, replica, job, log_directory)
        yield from _rows_or_refusal(replica.path, job, read_replica)


def _error_rows(share: Share, job: TableJob) -> Iterator[Rows]:
    MOUNTS.expect([segment.path for segment in share.segments])
    for segment, cut_damage in cut_short(share.segments, applies_cuts=_applies_cuts(job)):
        yield from errors.read(segment, job, cut_damage)
    for replica in share.replicas:
        yield from errors.read_replica(replica, job)
    for log_dir in share.log_dirs:
        yield from errors.read_log_dir(Path(log_dir), job)
    for problem in share.unreadable:
        yield from errors.read_problem(problem)


def _applies_cuts(job: TableJob) -> bool:
    return job.options.check_crc is not CrcCheck.NONE


def _rows_or_refusal(path: str, job: TableJob, read_rows: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Yield the results of reading a file or folder.

    Raises:
        LogFileError: It can't be read, and the options don't ignore that.
    """
    with _refusing_damage(path, job):
        yield from read_rows()


@contextmanager
def _refusing_damage(path: str, job: TableJob) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        refuse_unreadable(error, path, job.options)
