"""Divides the files of a job into tasks, on the driver, from names and sizes only.

The unit is a segment. Small segments share a task, in order, as Spark's own sources divide files:
each costs its bytes and the opening of a file, and a task costs at most what the session allows, or
less if cores would be idle. A large segment whose records are decoded is read by several tasks,
each for some of its offsets. The segments of one replica that a starting broker would check stay
together, because a cut in one ends the later ones, unless they are divided into sections
(``scan.sections``). If they are large, the cut is searched for before the tasks are made. A
replica's small files are cheap, so many replicas share a task.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec

from txnsim.errors import BadInputError
from txnsim.storage.regular_file import MOUNTS
from txnsim.types import CONSUMER_OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from txnsim_spark import tasks
from txnsim_spark.empty_reads import refuse_unknown_names, refuse_unreadable
from txnsim_spark.file_faults import refuse_problem
from txnsim_spark.log_query import RowScope
from txnsim_spark.options import BYTE_COSTS, HEADERS_BYTE_COST, OPEN_COST, CrcCheck, KafkaLogOptions
from txnsim_spark.scan.log_dirs import LogDirectory, OnProblem, ignore_problem
from txnsim_spark.scan.log_seek import greatest_timestamp_of, position_before
from txnsim_spark.scan.sections import cut_after, cuts_of, in_sections
from txnsim_spark.scan.segments import Replica, SegmentFile, log_dirs_in, replicas_in, segments_of
from txnsim_spark.schemas import DECODED_TABLES
from txnsim_spark.stores.mirror import overlapping_map

_TASKS_PER_CORE: Final = 3
_TASK_BYTES_MIN: Final = 16 << 20
"""Starting a task of Spark takes as long as reading this number of bytes."""
_TASK_BYTES_MAX: Final = 512 << 20
_OPEN_BYTES: Final = 256 << 10
"""Opening a file takes as long as reading this number of bytes."""
_DECODED_COST: Final = 2.0
"""From this cost per byte on, several tasks share a large segment."""
_SHARERS_MAX: Final = 8
"""Limit of the tasks that share a segment: each of them walks over all of its headers."""
_UNDIVIDED_BYTES_MAX: Final = 512 << 20
"""Limit of the bytes that one task reads of a replica in which a cut in one segment ends the later
ones.
"""
_LISTING_THREADS: Final = 16
"""Number of folders of replicas that are listed at the same time."""
REPLICAS_PER_TASK: Final = 64
"""Number of replicas per task: a folder's small files are read in a millisecond, a task costs
twenty.
"""


_TABLES_OF_BATCHES: Final = frozenset({"batches", *DECODED_TABLES})
"""Tables in which each row is made from one batch."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The files that one task reads."""

    segments: tuple[SegmentFile, ...] = ()
    replicas: tuple[Replica, ...] = ()
    log_dirs: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    """For the table ``errors``: sentences on why folders can't be listed, which begin with their
    paths.
    """

    @property
    def all_log_dirs(self) -> frozenset[str]:
        """The log directories that the share's files are in."""
        segment_dirs = (segment.replica.log_dir for segment in self.segments)
        return frozenset(
            (*self.log_dirs, *(replica.log_dir for replica in self.replicas), *segment_dirs)
        )


class NeededFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a table is read from: kinds of files, a topic, and whether one task reads everything."""

    reads_segments: bool = False
    reads_replicas: bool = False
    reads_log_dirs: bool = False
    topic: str | None = None
    is_whole: bool = False
    """Whether one task has to read everything."""


_SEGMENTS_ONLY: Final = NeededFiles(reads_segments=True)
_REPLICAS_ONLY: Final = NeededFiles(reads_replicas=True)
FILES_OF_TABLE: Final[Mapping[str, NeededFiles]] = {
    "batches": _SEGMENTS_ONLY,
    "fragments": _SEGMENTS_ONLY,
    "endings": _SEGMENTS_ONLY,
    "records": _SEGMENTS_ONLY,
    "segments": _SEGMENTS_ONLY,
    "transactions": NeededFiles(reads_segments=True, topic=TRANSACTION_STATE_TOPIC),
    "offsets": NeededFiles(reads_segments=True, topic=CONSUMER_OFFSETS_TOPIC),
    "share_states": NeededFiles(reads_segments=True, topic=SHARE_STATE_TOPIC),
    "producer_state": _REPLICAS_ONLY,
    "aborted": _REPLICAS_ONLY,
    "leader_epochs": _REPLICAS_ONLY,
    "replicas": _REPLICAS_ONLY,
    "errors": NeededFiles(reads_segments=True, reads_replicas=True, reads_log_dirs=True),
    "findings": NeededFiles(is_whole=True),
}
"""Table -> the kinds of files from which it is made. Only ``tables`` makes rows: Spark plans each
read in a process of its own, which then need not import numba.
"""


def shares_of(
    options: KafkaLogOptions,
    scope: RowScope,
    needed_files: NeededFiles,
    *,
    is_user_read: bool = False,
    on_problem: OnProblem | None = None,
) -> list[Share]:
    """The tasks of a job.

    Args:
        options: The options of the read.
        scope: Its conditions.
        needed_files: The kinds of files that the table needs.
        is_user_read: Whether a user asked for the read, and so gets an error if it could only be
            empty.
        on_problem: Called with each replica's folder that can't be listed; None raises an error
            instead.

    Raises:
        BadInputError: A path is no log directory; or the read could only be empty
            (``empty_reads``).
        CorruptLogFileError: A replica's folder can't be listed, and the options don't ignore that.
    """
    if options.uris:  # nobody has placed them (``stores.reading``)
        raise BadInputError(f"{options.uris[0]} is not read here")
    if needed_files.is_whole:
        if is_user_read and options.topics:
            refuse_unknown_names(options, replicas_of(options, RowScope(), needed_files))
        return [Share(log_dirs=tuple(map(str, log_dirs_in(options.paths))))]
    problems: list[str] = []
    named_replicas = replicas_of(options, RowScope(), needed_files, problems.append)
    replicas = [replica for replica in named_replicas if scope.has_replica(replica)]
    segments_by_replica = (
        dict(_list_by_replica(replicas, problems.append)) if needed_files.reads_segments else {}
    )
    if is_user_read:
        refuse_unknown_names(options, named_replicas)
        all_segments = (
            segment
            for segments_of_replica in segments_by_replica.values()
            for segment in segments_of_replica
        )
        refuse_unreadable(options.table, replicas, all_segments, problems)
    shares: list[Share] = []
    if problems and options.table == "errors":
        shares.append(Share(unreadable=tuple(problems)))
    elif on_problem is not None:
        for problem in problems:
            on_problem(problem)
    elif problems:
        refuse_problem(problems[0], options)
    if needed_files.reads_segments:
        segments = [
            segment
            for segments_of_replica in segments_by_replica.values()
            for segment in _segments_in_scope(segments_of_replica, options, scope)
        ]
        shares += [
            Share(segments=task_segments) for task_segments in divide_in_tasks(segments, options)
        ]
    if needed_files.reads_replicas:
        shares += [
            Share(replicas=tuple(replicas[first_replica : first_replica + REPLICAS_PER_TASK]))
            for first_replica in range(0, len(replicas), REPLICAS_PER_TASK)
        ]
    if needed_files.reads_log_dirs and scope.partitions is None and not options.topics:
        shares += [Share(log_dirs=(str(path),)) for path in log_dirs_in(options.paths)]
    return shares


def _segments_in_scope(
    segments: Sequence[SegmentFile], options: KafkaLogOptions, scope: RowScope
) -> Iterator[SegmentFile]:
    segments_in_time = _segments_in_time(segments, scope, options.late_by_max_ms)
    clipped_segments = [
        _clip_to_scope(segment, scope, options.table)
        for segment in segments_in_time
        if scope.has_segment(segment)
    ]
    return filter(scope.has_segment, _cut_recovered(clipped_segments, options))


def start_at_offset(segment: SegmentFile, offset: int, table: str) -> SegmentFile:
    """The segment, read from near an offset on, by its index; from its beginning for tables whose
    rows need earlier batches.
    """
    if table not in _TABLES_OF_BATCHES or offset <= segment.base_offset:
        return segment
    return msgspec.structs.replace(segment, start=position_near(segment, offset))


def position_near(segment: SegmentFile, offset: int) -> int:
    """Position of a batch at or before an offset."""
    try:
        return position_before(segment, offset)
    except OSError:
        return 0  # gone: nothing of it is read


def _clip_to_scope(segment: SegmentFile, scope: RowScope, table: str) -> SegmentFile:
    """The part of a segment that may have wanted offsets."""
    lowest_offset, highest_offset = scope.offsets_of(segment.replica)
    if lowest_offset is not None:
        segment = start_at_offset(segment, lowest_offset, table)
    if highest_offset is None or table not in _TABLES_OF_BATCHES:
        return segment
    section_cut = cut_after(segment, highest_offset)
    return (
        segment
        if section_cut is None
        else msgspec.structs.replace(segment, size=section_cut.position)
    )


def segments_in(
    options: KafkaLogOptions, needed_files: NeededFiles
) -> dict[str, tuple[SegmentFile, ...]]:
    """Folder of each replica that can be read -> its segments, in order."""
    return dict(_list_by_replica(replicas_of(options, RowScope.of(options), needed_files)))


def replicas_of(
    options: KafkaLogOptions,
    scope: RowScope,
    needed_files: NeededFiles,
    on_problem: OnProblem = ignore_problem,
) -> list[Replica]:
    """The replicas that a job reads; folders that can't be listed are reported."""
    return [
        replica
        for replica in replicas_in(options.paths, options.topics, on_problem)
        if scope.has_replica(replica) and needed_files.topic in (None, replica.topic)
    ]


def divide_in_tasks(
    segments: Sequence[SegmentFile], options: KafkaLogOptions
) -> list[tuple[SegmentFile, ...]]:
    """Divide segments into tasks by the size that the options name, or as the session divides
    files.
    """
    if options.task_bytes is not None:
        return group_segments(segments, options.task_bytes)
    division, cost_per_byte = options.division, BYTE_COSTS.get(options.table, HEADERS_BYTE_COST)
    open_cost = division.open_cost_bytes * OPEN_COST

    def cost_of(segment: SegmentFile) -> float:
        return segment.unread_bytes * cost_per_byte + open_cost

    core_count = division.parallelism or os.cpu_count() or 1
    cost_per_core = max(sum(map(cost_of, segments)) / core_count, open_cost)
    task_cost = min(cost_per_core, division.max_partition_bytes)
    if cost_per_byte < _DECODED_COST:
        return tasks.group_in_tasks(
            segments, task_cost, size_of=cost_of, stay_together=_stay_together
        )
    costed_parts = [
        (segment_part, cost_of(segment) / len(segment_parts))
        for segment in segments
        for segment_parts in [_divide_by_offsets(segment, int(task_cost / cost_per_byte))]
        for segment_part in segment_parts
    ]
    return [
        tuple(segment_part for segment_part, _ in task)
        for task in tasks.group_in_tasks(
            costed_parts,
            task_cost,
            size_of=lambda segment_part: segment_part[1],
            stay_together=lambda segment_part, next_part: _stay_together(
                segment_part[0], next_part[0]
            ),
        )
    ]


def group_segments(
    segments: Iterable[SegmentFile], task_bytes: int
) -> list[tuple[SegmentFile, ...]]:
    """Divide segments into tasks of about ``task_bytes``; neighbours stay together."""
    return tasks.group_in_tasks(
        segments,
        task_bytes,
        size_of=lambda segment: segment.unread_bytes,
        stay_together=_stay_together,
    )


def _divide_by_offsets(segment: SegmentFile, part_bytes: int) -> list[SegmentFile]:
    """Divide a large segment: each task decodes the batches of a range of offsets. If the index is
    wrong, the parts differ in size, but each batch is still in exactly one of them.
    """
    if segment.may_be_cut or MOUNTS.store_of(Path(segment.path)):  # each part reads all headers
        return [segment]
    first_offset, end_offset = segment.offset_span or (0, sys.maxsize)
    section_cuts = cuts_of(segment, max(part_bytes, segment.size // _SHARERS_MAX))
    cut_offsets = [
        section_cut.offset
        for section_cut in section_cuts
        if first_offset < section_cut.offset < end_offset and section_cut.position > segment.start
    ]
    return [
        msgspec.structs.replace(segment, offset_span=offset_span)
        for offset_span in pairwise([first_offset, *cut_offsets, end_offset])
    ]


def divide_evenly(
    replicas: Sequence[Sequence[SegmentFile]], *, core_count: int, may_divide: bool = False
) -> list[tuple[SegmentFile, ...]]:
    """Divide the segments of replicas, in order, into tasks of even cost, so that no core waits
    long at the end; divide large segments into sections if they may be cut. The segments were
    readable before, so the folders are not listed again.
    """
    total_bytes = sum(
        segment.size + _OPEN_BYTES
        for segments_of_replica in replicas
        for segment in segments_of_replica
    )
    task_bytes = min(
        max(total_bytes // (_TASKS_PER_CORE * core_count), _TASK_BYTES_MIN), _TASK_BYTES_MAX
    )
    segments = [
        segment
        for segments_of_replica in replicas
        for segment in (
            in_sections(segments_of_replica, task_bytes) if may_divide else segments_of_replica
        )
    ]
    return tasks.group_in_tasks(
        segments,
        task_bytes,
        size_of=lambda segment: segment.unread_bytes + _OPEN_BYTES,
        stay_together=_stay_together,
    )


def _cut_recovered(
    segments: Sequence[SegmentFile], options: KafkaLogOptions
) -> Sequence[SegmentFile]:
    """A replica's segments. If a starting broker would check many bytes, the cut is searched for
    here first.
    """
    is_large = (
        sum(segment.size for segment in segments if segment.is_recovered) > _UNDIVIDED_BYTES_MAX
    )
    if not is_large or options.check_crc is CrcCheck.NONE:
        return segments
    from txnsim_spark.scan.segment_examination import (
        examine_recovered,  # planning does without numba
    )

    return examine_recovered(segments)


def _list_by_replica(
    replicas: Iterable[Replica], on_problem: OnProblem = ignore_problem
) -> Iterator[tuple[str, tuple[SegmentFile, ...]]]:
    log_directory_at = cache(LogDirectory.read)

    def list_segments(replica: Replica) -> tuple[SegmentFile, ...] | None:
        try:
            return tuple(segments_of(replica, log_directory_at(Path(replica.log_dir))))
        except OSError as error:
            on_problem(f"{replica.path}: {error.strerror or error}; passed by")
            return None

    replica_list = list(replicas)
    # A disk of another machine takes its time for each answer, and several at a time.
    with ThreadPoolExecutor(_LISTING_THREADS) as pool:
        map_replicas = pool.map if len(replica_list) > _LISTING_THREADS else map
        for replica, segments in zip(
            replica_list, map_replicas(list_segments, replica_list), strict=True
        ):
            if segments is not None:
                yield replica.path, segments


def _segments_in_time(
    segments: Sequence[SegmentFile], scope: RowScope, late_by_max_ms: int | None
) -> Iterator[SegmentFile]:
    """The segments of a replica that may have rows between two times, by the time indexes. A
    segment that a starting broker would check is always read: a cut in it ends later ones.

    Args:
        segments: The segments, in order.
        scope: The times.
        late_by_max_ms: Limit by which a record may be older than the newest one before it; None for
            no limit, so that any later segment may have early records.
    """
    time_min_ms = scope.time_min_ms
    time_max_ms = None if late_by_max_ms is None else scope.time_max_ms
    if time_min_ms is None and time_max_ms is None:
        yield from segments
        return
    with overlapping_map([segment.path for segment in segments[:1]]) as map_segments:
        greatest_times = list(map_segments(_greatest_timestamp_or_none, segments))
    newest_ms = -1
    for segment, greatest_ms in zip(segments, greatest_times, strict=True):
        is_older = time_min_ms is not None and greatest_ms is not None and greatest_ms < time_min_ms
        is_later = time_max_ms is not None and newest_ms - (late_by_max_ms or 0) > time_max_ms
        if segment.is_recovered or not (is_older or is_later):
            yield segment
        newest_ms = max(newest_ms, -1 if greatest_ms is None else greatest_ms)


def _greatest_timestamp_or_none(segment: SegmentFile) -> int | None:
    is_closed = not segment.is_last and not segment.is_recovered
    return greatest_timestamp_of(segment) if is_closed else None


def _stay_together(segment_before: SegmentFile, segment: SegmentFile) -> bool:
    return (
        segment_before.may_be_cut
        and segment.may_be_cut
        and segment_before.replica == segment.replica
        and segment.section is None
    )
