"""The positions of consumer groups, by ``__consumer_offsets`` in log directories.

For each partition its leading replica is read. Positions that were sent in a transaction count from
its COMMIT marker on. Kafka's counterpart: OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from txnsim.errors import CorruptBatchError, CorruptLogRecordError, MissingExtraError
from txnsim.group.log_format import decode_record
from txnsim.group.records import OffsetCommitted, OffsetDeleted
from txnsim.storage.log_file import StoredBatch, TornTail, read_log_file
from txnsim.types import CONSUMER_OFFSETS_TOPIC, TopicPartition
from txnsim.wire.batch import COMMIT, read_control_record
from txnsim.wire.records import iter_records
from txnsim_spark.forensics.find_hanging import Reading, Search
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import elected_replica
from txnsim_spark.scan.log_dirs import OnProblem, ignore_problem

Place = tuple[str, TopicPartition]
"""Group and partition."""


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A group's position on a partition."""

    offset: int
    committed_at_ms: int
    record_offset: int
    """Offset of the record in ``__consumer_offsets`` that stored the position."""


class Positions(msgspec.Struct, frozen=True, kw_only=True):
    """The positions of all groups."""

    by_place: Mapping[Place, Position]
    partitions: tuple[int, ...]
    """Partitions of ``__consumer_offsets`` that are among the directories."""


class PositionFolder:
    """Folds the batches of one partition, in order, into positions."""

    def __init__(self) -> None:
        self.positions: dict[Place, Position] = {}
        self._pending: dict[int, dict[Place, Position]] = {}

    def take(self, stored: StoredBatch) -> None:
        """Apply the next batch.

        Raises:
            CorruptBatchError: Its records can't be read.
            CorruptLogRecordError: A record is malformed.
        """
        header = stored.header
        if header.is_control:
            control = read_control_record(stored.batch_bytes)
            if control is not None and control.is_marker:
                self._end(header.producer_id, committed=control.type == COMMIT)
            return
        target = self.positions
        if header.is_transactional:
            target = self._pending.setdefault(header.producer_id, {})
        for record in iter_records(stored.batch_bytes):
            group_record = None if record.key is None else decode_record(record.key, record.value)
            match group_record:
                case OffsetCommitted():
                    target[group_record.group_id, group_record.topic_partition] = Position(
                        offset=group_record.position,
                        committed_at_ms=group_record.commit_timestamp_ms,
                        record_offset=record.offset,
                    )
                case OffsetDeleted():
                    group_and_partition = group_record.group_id, group_record.topic_partition
                    for positions in (self.positions, *self._pending.values()):
                        positions.pop(group_and_partition, None)

    def _end(self, producer_id: int, *, committed: bool) -> None:
        sent = self._pending.pop(producer_id, {})
        for group_and_partition, position in sent.items() if committed else ():
            newest = self.positions.get(group_and_partition)
            if newest is None or newest.record_offset < position.record_offset:
                self.positions[group_and_partition] = position


def positions_in(paths: Iterable[Path], on_problem: OnProblem) -> Positions:
    """The positions of all groups in log directories.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        on_problem: Called with what can't be read.
    """
    by_place: dict[Place, Position] = {}
    partitions = []
    for state in leading_states(paths, CONSUMER_OFFSETS_TOPIC, on_problem):
        folder = PositionFolder()
        for stored in _batches(state, on_problem):
            try:
                folder.take(stored)
            except (CorruptBatchError, CorruptLogRecordError, MissingExtraError) as error:
                on_problem(f"{state.replica.path}, offset {stored.header.base_offset}: {error}")
        by_place.update(folder.positions)
        partitions.append(state.replica.partition)
    return Positions(by_place=by_place, partitions=tuple(partitions))


def _batches(state: ReplicaState, on_problem: OnProblem) -> Iterator[StoredBatch]:
    for segment in state.segments:
        torn: list[TornTail] = []
        try:
            yield from read_log_file(Path(segment.path), on_torn=torn.append, on_old=ignore_problem)
        except OSError as error:
            on_problem(f"{segment.path}: {error.strerror or error}; passed by")
        for tear in torn:
            on_problem(f"{segment.path}, byte {tear.position}: {tear.reason}")
        if torn and segment.is_recovered:
            return


def leading_states(
    paths: Iterable[Path], topic: str, on_problem: OnProblem
) -> Iterator[ReplicaState]:
    """The state of each partition's leading replica, by partition."""
    reading = Reading(Search(paths=tuple(paths), topics=frozenset({topic})))
    by_partition: dict[int, list[ReplicaState]] = {}
    for state in reading.living_states():
        if state.replica.topic == topic:
            by_partition.setdefault(state.replica.partition, []).append(state)
    for problem in (*reading.problems, *reading.undecided_reasons(topic)):
        on_problem(problem)
    for _, states in sorted(by_partition.items()):
        leader_ends = elected_replica([state.ends for state in states])
        yield next(state for state in states if state.ends is leader_ends)
