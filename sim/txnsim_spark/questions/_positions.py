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
from txnsim_spark.forensics.find_hanging import DirectoryReader, Search
from txnsim_spark.forensics.replica_state import ReplicaState
from txnsim_spark.forensics.verdicts import elected_replica
from txnsim_spark.scan.log_dirs import OnProblem, ignore_problem

GroupPartition = tuple[str, TopicPartition]
"""Group and partition."""


class StoredPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A group's position on a partition."""

    offset: int
    committed_at_ms: int
    record_offset: int
    """Offset of the record in ``__consumer_offsets`` that stored the position."""


class Positions(msgspec.Struct, frozen=True, kw_only=True):
    """The positions of all groups, and the partitions from which they were read."""

    position_by_group_partition: Mapping[GroupPartition, StoredPosition]
    partitions: tuple[int, ...]
    """Partitions of ``__consumer_offsets`` that are among the directories."""


class PositionReplay:
    """Replays the batches of one partition of ``__consumer_offsets``, in order, to learn the
    groups' positions.
    """

    def __init__(self) -> None:
        self.positions: dict[GroupPartition, StoredPosition] = {}
        self._pending_by_producer: dict[int, dict[GroupPartition, StoredPosition]] = {}

    def apply_batch(self, stored_batch: StoredBatch) -> None:
        """Apply the next batch.

        Raises:
            CorruptBatchError: Its records can't be read.
            CorruptLogRecordError: A record is malformed.
        """
        header = stored_batch.header
        if header.is_control:
            control_record = read_control_record(stored_batch.batch_bytes)
            if control_record is not None and control_record.is_marker:
                self._end_txn(header.producer_id, is_commit=control_record.type == COMMIT)
            return
        position_by_group_partition = self.positions
        if header.is_transactional:
            position_by_group_partition = self._pending_by_producer.setdefault(
                header.producer_id, {}
            )
        for record in iter_records(stored_batch.batch_bytes):
            group_record = None if record.key is None else decode_record(record.key, record.value)
            match group_record:
                case OffsetCommitted():
                    position_by_group_partition[
                        group_record.group_id, group_record.topic_partition
                    ] = StoredPosition(
                        offset=group_record.position,
                        committed_at_ms=group_record.commit_timestamp_ms,
                        record_offset=record.offset,
                    )
                case OffsetDeleted():
                    group_and_partition = group_record.group_id, group_record.topic_partition
                    for positions in (self.positions, *self._pending_by_producer.values()):
                        positions.pop(group_and_partition, None)

    def _end_txn(self, producer_id: int, *, is_commit: bool) -> None:
        sent_positions = self._pending_by_producer.pop(producer_id, {})
        for group_and_partition, position in sent_positions.items() if is_commit else ():
            newest_position = self.positions.get(group_and_partition)
            if newest_position is None or newest_position.record_offset < position.record_offset:
                self.positions[group_and_partition] = position


def group_positions(paths: Iterable[Path], on_problem: OnProblem) -> Positions:
    """The positions of all groups in log directories.

    Args:
        paths: Log directories, folders of them, or replicas' folders.
        on_problem: Called with what can't be read.
    """
    position_by_group_partition: dict[GroupPartition, StoredPosition] = {}
    offsets_partitions = []
    for replica_state in leading_states(paths, CONSUMER_OFFSETS_TOPIC, on_problem):
        replay = PositionReplay()
        for stored_batch in _stored_batches(replica_state, on_problem):
            try:
                replay.apply_batch(stored_batch)
            except (CorruptBatchError, CorruptLogRecordError, MissingExtraError) as error:
                on_problem(
                    f"{replica_state.replica.path}, offset"
                    f" {stored_batch.header.base_offset}: {error}"
                )
        position_by_group_partition.update(replay.positions)
        offsets_partitions.append(replica_state.replica.partition)
    return Positions(
        position_by_group_partition=position_by_group_partition,
        partitions=tuple(offsets_partitions),
    )


def _stored_batches(replica_state: ReplicaState, on_problem: OnProblem) -> Iterator[StoredBatch]:
    for segment in replica_state.segments:
        torn_tails: list[TornTail] = []
        try:
            yield from read_log_file(
                Path(segment.path), on_torn=torn_tails.append, note_old_message=ignore_problem
            )
        except OSError as error:
            on_problem(f"{segment.path}: {error.strerror or error}; passed by")
        for torn_tail in torn_tails:
            on_problem(f"{segment.path}, byte {torn_tail.position}: {torn_tail.reason}")
        if torn_tails and segment.is_recovered:
            return


def leading_states(
    paths: Iterable[Path], topic: str, on_problem: OnProblem
) -> Iterator[ReplicaState]:
    """The state of each partition's leading replica, by partition."""
    directory_reader = DirectoryReader(Search(paths=tuple(paths), topics=frozenset({topic})))
    states_by_partition: dict[int, list[ReplicaState]] = {}
    for replica_state in directory_reader.living_states():
        if replica_state.replica.topic == topic:
            states_by_partition.setdefault(replica_state.replica.partition, []).append(
                replica_state
            )
    for problem in (*directory_reader.problems, *directory_reader.undecided_reasons(topic)):
        on_problem(problem)
    for _, replica_states in sorted(states_by_partition.items()):
        leader_ends = elected_replica([replica_state.ends for replica_state in replica_states])
        yield next(
            replica_state for replica_state in replica_states if replica_state.ends is leader_ends
        )
