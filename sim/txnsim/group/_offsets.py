"""Committed positions of groups, and positions that are pending in a transaction.

A transactional commit is *pending*, by producer id, until the marker of its producer reaches this
partition of ``__consumer_offsets``: a commit makes it the group's position, an abort drops it
(KIP-98). As in Kafka, pending positions have only the producer's id, not its epoch.

A position that is in the log but not yet replicated may still be lost. A reader that must not see
it asks for the positions below the high watermark; the previous position is kept until then.

Counterpart in Kafka: OffsetMetadataManager.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from txnsim.group.records import OffsetCommitted, OffsetDeleted
from txnsim.types import ProducerId, TopicPartition

NO_RECORD_LIMIT: Final = 2**63 - 1
"""Above every offset: for readers that also see unreplicated positions."""


class _Position(msgspec.Struct, eq=False):
    """A group's position on a partition, or its absence, since ``visible_from``."""

    record: OffsetCommitted | None
    record_offset: int
    """Offset of the commit record: of two commits the later one counts."""
    visible_from: int
    """Offset of the record that made it the position: the commit itself, or the marker."""
    previous: _Position | None

    def record_below(self, record_offset: int) -> OffsetCommitted | None:
        """The position as of the records below ``record_offset``; None if there is none."""
        position: _Position | None = self
        while position is not None and position.visible_from >= record_offset:
            position = position.previous
        return None if position is None else position.record


def _position_after_commit(
    position: _Position | None,
    record: OffsetCommitted,
    record_offset: int,
    visible_from: int,
    high_watermark: int,
) -> _Position:
    """The position after a commit; the previous one is kept for readers below the high
    watermark.
    """
    if position is not None and position.visible_from < high_watermark:
        position.previous = None
    if visible_from < high_watermark:
        position = None
    return _Position(record, record_offset, visible_from, position)


_PositionsByPartition = dict[TopicPartition, _Position]
_PendingCommits = dict[str, dict[TopicPartition, tuple[OffsetCommitted, int]]]


class GroupOffsets(msgspec.Struct, eq=False):
    """The positions of all groups of one partition of ``__consumer_offsets``."""

    _committed: dict[str, _PositionsByPartition] = {}
    _pending: dict[ProducerId, _PendingCommits] = {}
    _open_producers: dict[str, dict[TopicPartition, set[ProducerId]]] = {}
    """Producers with pending positions, by group and partition: the inverse of ``_pending``."""
    _positions_by_topic: dict[str, dict[tuple[str, TopicPartition], None]] = {}
    """Topic -> (group, partition) pairs with a position, committed or pending."""
    _tombstones: dict[tuple[str, TopicPartition], None] = {}
    """Deleted positions that readers below an older high watermark still see."""
    pending_counts: defaultdict[ProducerId, int] = msgspec.field(
        default_factory=lambda: defaultdict(int)
    )
    """Producer -> number of positions that its next marker decides."""
    _end_offset_by_deleted_topic: dict[str, int] = {}
    """Topic -> offset below which its positions belonged to a deleted topic of the same name."""

    # Replay: living and loading alike

    def apply_commits(
        self,
        records: Sequence[OffsetCommitted],
        *,
        base_offset: int,
        producer_id: ProducerId | None,
        high_watermark: int,
    ) -> None:
        """Apply the commits of one group that a batch has. They take effect in one step, and may be
        10,000.

        Args:
            records: At least one, in the order of the log.
            base_offset: Offset of the first record.
            producer_id: The producer of their transaction; None outside of one.
            high_watermark: High watermark; an older position below it need not be kept.
        """
        group_id, commits_by_topic = records[0].group_id, self._positions_by_topic
        for record in records:
            topic_partition = record.topic_partition
            topic_positions = commits_by_topic.get(topic_partition.topic)
            if topic_positions is None:
                topic_positions = commits_by_topic[topic_partition.topic] = {}
            topic_positions[group_id, topic_partition] = None
        if producer_id is None:
            positions = self._committed.setdefault(group_id, {})
            for record_offset, record in enumerate(records, base_offset):
                topic_partition = record.topic_partition
                position = positions.get(topic_partition)
                positions[topic_partition] = (
                    _Position(record, record_offset, record_offset, None)
                    if position is None
                    else _position_after_commit(
                        position, record, record_offset, record_offset, high_watermark
                    )
                )
            return
        pending_offsets = self._pending.setdefault(producer_id, {}).setdefault(group_id, {})
        open_partitions = self._open_producers.setdefault(group_id, {})
        pending_count = len(pending_offsets)
        for record_offset, record in enumerate(records, base_offset):
            pending_offsets[record.topic_partition] = (record, record_offset)
            open_producers = open_partitions.get(record.topic_partition)
            if open_producers is None:
                open_partitions[record.topic_partition] = {producer_id}
            else:
                open_producers.add(producer_id)
        self.pending_counts[producer_id] += len(pending_offsets) - pending_count

    def apply_delete(
        self, record: OffsetDeleted, *, record_offset: int, high_watermark: int
    ) -> None:
        """Apply a tombstone: remove the position and the pending ones for it."""
        group_id, topic_partition = record.group_id, record.topic_partition
        positions = self._committed.get(group_id)
        position = None if positions is None else positions.get(topic_partition)
        if positions is not None and position is not None:
            if record_offset < high_watermark or position.record_below(high_watermark) is None:
                self._drop_position(group_id, topic_partition)
            else:
                self._tombstones[group_id, topic_partition] = None
                positions[topic_partition] = _Position(
                    None, record_offset=record_offset, visible_from=record_offset, previous=position
                )
        for producer_id in (
            self._open_producers.get(group_id, {}).get(topic_partition, set()).copy()
        ):
            self._remove_open_producer(group_id, topic_partition, producer_id)
            pending_by_group = self._pending[producer_id]
            del pending_by_group[group_id][topic_partition]
            self.pending_counts[producer_id] -= 1
            if not pending_by_group[group_id]:
                del pending_by_group[group_id]

    def apply_marker(
        self, producer_id: ProducerId, *, is_commit: bool, marker_offset: int, high_watermark: int
    ) -> None:
        """Apply a transaction marker; it changes nothing if nothing is pending.

        A plain commit that was written after the pending one remains the position.
        """
        self.pending_counts.pop(producer_id, None)
        for group_id, pending_offsets in self._pending.pop(producer_id, {}).items():
            if not is_commit:
                for topic_partition in pending_offsets:
                    self._remove_open_producer(group_id, topic_partition, producer_id)
                continue
            # Partitions stay in the index: a transaction may have 50,000 positions.
            open_partitions = self._open_producers[group_id]
            positions = self._committed.setdefault(group_id, {})
            for topic_partition, (record, record_offset) in pending_offsets.items():
                open_producers = open_partitions[topic_partition]
                open_producers.discard(producer_id)
                if not open_producers:
                    del open_partitions[topic_partition]
                position = positions.get(topic_partition)
                if (
                    position is None
                    or position.record is None
                    or record_offset > position.record_offset
                ):
                    positions[topic_partition] = _position_after_commit(
                        position, record, record_offset, marker_offset, high_watermark
                    )
            if not open_partitions:
                del self._open_producers[group_id]

    def pending_positions_of(
        self, producer_id: ProducerId
    ) -> tuple[tuple[str, TopicPartition, int], ...]:
        """(group, partition, offset) of each position that the producer's next marker decides."""
        return tuple(
            (group_id, topic_partition, record.position)
            for group_id, pending_offsets in self._pending.get(producer_id, {}).items()
            for topic_partition, (record, _) in pending_offsets.items()
        )

    def prune(self, *, high_watermark: int) -> None:
        """Drop positions that were kept for readers of an older high watermark."""
        for group_id, topic_partition in tuple(self._tombstones):
            position = self._committed.get(group_id, {}).get(topic_partition)
            if position is None or position.record is not None:
                del self._tombstones[group_id, topic_partition]
            elif position.visible_from < high_watermark:
                del self._tombstones[group_id, topic_partition]
                self._drop_position(group_id, topic_partition)

    # Queries

    def committed_offset(
        self, group_id: str, topic_partition: TopicPartition, *, record_limit: int = NO_RECORD_LIMIT
    ) -> OffsetCommitted | None:
        """The group's position, as of the records below an offset."""
        position = self._committed.get(group_id, {}).get(topic_partition)
        if position is None or (
            self._end_offset_by_deleted_topic and self._is_of_deleted_topic(position)
        ):
            return None
        return position.record_below(record_limit)

    def group_ids(self) -> tuple[str, ...]:
        """Groups with a position."""
        return tuple(self._committed)

    def committed_offsets(
        self, group_id: str, *, record_limit: int = NO_RECORD_LIMIT
    ) -> Iterator[OffsetCommitted]:
        """The group's positions, in the order of their first commit."""
        for position in self._committed.get(group_id, {}).values():
            record = position.record_below(record_limit)
            if record is not None and not (
                self._end_offset_by_deleted_topic and self._is_of_deleted_topic(position)
            ):
                yield record

    def partitions_of_group(self, group_id: str) -> tuple[TopicPartition, ...]:
        """Partitions with a committed position of a group, in the order of their first commit."""
        return tuple(self._committed.get(group_id, ()))

    def count_of_group(self, group_id: str) -> int:
        """Number of a group's committed positions."""
        return len(self._committed.get(group_id, ()))

    def count_on_topic(self, topic: str) -> int:
        """Number of (group, partition) pairs with a position on the topic."""
        return len(self._positions_by_topic.get(topic, ()))

    def positions_on_topic(self, topic: str) -> tuple[tuple[str, TopicPartition], ...]:
        """(group, partition) of each position on a topic, committed or pending."""
        return tuple(self._positions_by_topic.get(topic, ()))

    # Deleted topics whose tombstones are still being written

    def hide_topic(self, topic: str, *, end_offset: int) -> None:
        """Hide the positions of a deleted topic: a topic of the same name may be created before all
        tombstones are in the log.
        """
        self._end_offset_by_deleted_topic[topic] = end_offset

    def is_of_deleted_topic(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether the position, and every pending one, belongs to a deleted topic."""
        end_offset = self._end_offset_by_deleted_topic.get(topic_partition.topic, -1)
        position = self._committed.get(group_id, {}).get(topic_partition)
        if position is not None and position.record_offset >= end_offset:
            return False
        return all(
            self._pending[producer_id][group_id][topic_partition][1] < end_offset
            for producer_id in self._open_producers.get(group_id, {}).get(topic_partition, ())
        )

    def _is_of_deleted_topic(self, position: _Position) -> bool:
        if not self._end_offset_by_deleted_topic or position.record is None:
            return False
        end_offset = self._end_offset_by_deleted_topic.get(
            position.record.topic_partition.topic, -1
        )
        return position.record_offset < end_offset

    def is_pending(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether a transaction has a pending position of the group on the partition."""
        return topic_partition in self._open_producers.get(group_id, {})

    def pending_partitions(self, group_id: str) -> tuple[TopicPartition, ...]:
        return tuple(self._open_producers.get(group_id, {}))

    def pending_producers(self) -> tuple[ProducerId, ...]:
        return tuple(self._pending)

    # Parts

    def _drop_position(self, group_id: str, topic_partition: TopicPartition) -> None:
        positions = self._committed[group_id]
        del positions[topic_partition]
        if not positions:
            del self._committed[group_id]
        self._unindex_position(group_id, topic_partition)

    def _unindex_position(self, group_id: str, topic_partition: TopicPartition) -> None:
        """Remove a partition from the index unless it still has a position."""
        if topic_partition in self._committed.get(
            group_id, ()
        ) or topic_partition in self._open_producers.get(group_id, ()):
            return
        topic_positions = self._positions_by_topic.get(topic_partition.topic, {})
        topic_positions.pop((group_id, topic_partition), None)
        if not topic_positions:
            self._positions_by_topic.pop(topic_partition.topic, None)

    def _remove_open_producer(
        self, group_id: str, topic_partition: TopicPartition, producer_id: ProducerId
    ) -> None:
        open_partitions = self._open_producers[group_id]
        open_producers = open_partitions[topic_partition]
        open_producers.discard(producer_id)
        if not open_producers:
            del open_partitions[topic_partition]
            if not open_partitions:
                del self._open_producers[group_id]
            self._unindex_position(group_id, topic_partition)
