"""All groups and positions of one partition of ``__consumer_offsets``, under one leader epoch.

Like a partition of ``__transaction_state``, a shard's state follows from its log: ``apply`` is
called with every record, both in operation and when loading. Only the membership of classic groups
is not in records until it is assigned; the groups keep it in memory.

Counterpart in Kafka: GroupCoordinatorShard.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from txnsim.errors import CorruptBatchError, CorruptLogRecordError, ErrorCode, Rejection
from txnsim.group._offsets import NO_RECORD_LIMIT, GroupOffsets
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.group.consumer_records import (
    ConsumerRecord,
    ConsumerTombstone,
    EpochDeleted,
    ShareEpochDeleted,
    ShareRecord,
    ShareTombstone,
)
from txnsim.group.log_format import decode_record
from txnsim.group.records import (
    ClassicGroupDeleted,
    ClassicGroupStored,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
)
from txnsim.group.sharing.share_group import ShareGroup
from txnsim.group.state import Group
from txnsim.group.streams._records import StreamsEpochDeleted, StreamsRecord, StreamsTombstone
from txnsim.group.streams.group import StreamsGroup
from txnsim.releases.rules import LATEST_RULES as LATEST_RULES
from txnsim.releases.rules import Rules
from txnsim.types import ProducerId
from txnsim.wire.batch import iter_batches, read_control_record, read_records


class GroupShard(msgspec.Struct, kw_only=True, eq=False):
    """One partition's groups and positions."""

    partition: int
    coordinator_epoch: int
    release_rules: Rules = LATEST_RULES
    groups: dict[str, Group] = {}
    offsets: GroupOffsets = msgspec.field(default_factory=GroupOffsets)
    end_offset: int = 0
    """Offset after the last applied record."""
    load_problem: str | None = None
    """Why loading stopped before the end of the log, if it did."""

    # Lookups

    def find(self, group_id: str) -> Group | Rejection:
        """The group with that id; GROUP_ID_NOT_FOUND if there is none."""
        return self.groups.get(group_id) or Rejection(
            error=ErrorCode.group_id_not_found, reason=f"Group {group_id} not found."
        )

    def find_deletable(self, group_id: str) -> Group | Rejection:
        """The group, if it can be deleted now; else the error."""
        group = self.find(group_id)
        return group if isinstance(group, Rejection) else group.check_delete() or group

    # Replay

    def apply(
        self,
        record: GroupRecord,
        *,
        record_offset: int,
        producer_id: ProducerId | None = None,
        high_watermark: int = NO_RECORD_LIMIT,
    ) -> None:
        """Apply a record that is in the log."""
        match record:
            case OffsetCommitted():
                self.apply_commits(
                    (record,),
                    base_offset=record_offset,
                    producer_id=producer_id,
                    high_watermark=high_watermark,
                )
            case OffsetDeleted():
                self.offsets.apply_delete(
                    record, record_offset=record_offset, high_watermark=high_watermark
                )
            case ClassicGroupStored():
                self.groups[record.group_id] = ClassicGroup.from_record(record)
            case ClassicGroupDeleted():
                self.groups.pop(record.group_id, None)
            case _:
                self._apply_modern(record)
        self.end_offset = record_offset + 1

    def apply_commits(
        self,
        records: Sequence[OffsetCommitted],
        *,
        base_offset: int,
        producer_id: ProducerId | None = None,
        high_watermark: int = NO_RECORD_LIMIT,
    ) -> None:
        """Apply commits of one group that are in the log one behind the other."""
        self.classic_or_new(records[0].group_id, now_ms=records[0].commit_timestamp_ms)
        self.offsets.apply_commits(
            records,
            base_offset=base_offset,
            producer_id=producer_id,
            high_watermark=high_watermark,
        )
        self.end_offset = base_offset + len(records)

    def apply_marker(
        self,
        producer_id: ProducerId,
        *,
        is_commit: bool,
        marker_offset: int,
        high_watermark: int = NO_RECORD_LIMIT,
    ) -> None:
        """Apply the marker of a producer's transaction on this partition."""
        self.offsets.apply_marker(
            producer_id,
            is_commit=is_commit,
            marker_offset=marker_offset,
            high_watermark=high_watermark,
        )
        self.end_offset = max(self.end_offset, marker_offset + 1)  # it may come late

    def read(self, chunks: Iterable[bytes]) -> Iterator[int]:
        """Load the log, a batch at a time; each step yields how many records it has read. An
        unreadable record ends the load, as in Kafka; ``load_problem`` has the error.

        Args:
            chunks: Batches in the order of the log; a chunk may contain several.
        """
        try:
            for chunk in chunks:
                for position, header in iter_batches(chunk):
                    if header.is_control:
                        self._load_marker(chunk, position, header.producer_id, header.base_offset)
                    else:
                        producer_id = ProducerId(header.producer_id)
                        self._load_batch(
                            chunk, position, producer_id if header.is_transactional else None
                        )
                    yield header.records_count
        except (CorruptBatchError, CorruptLogRecordError) as error:
            self.load_problem = str(error)

    # Groups

    def classic_or_new(self, group_id: str, *, now_ms: int) -> Group:
        """The group, or a new one without members and protocol: a client can commit positions
        without ever joining ("simple" groups).
        """
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = ClassicGroup(group_id, now_ms=now_ms)
        return group

    def classic_groups(self) -> Iterator[ClassicGroup]:
        """The classic groups; the caller may add and remove groups meanwhile."""
        for group in tuple(self.groups.values()):
            if isinstance(group, ClassicGroup):
                yield group

    # Parts

    def _apply_modern(self, record: ConsumerRecord | ShareRecord | StreamsRecord) -> None:
        """Apply a record of the consumer protocol or of a share group: it creates its group, or
        converts an empty classic one. A tombstone of a missing group has no effect.
        """
        group = self.groups.get(record.group_id)
        if isinstance(record, EpochDeleted | ShareEpochDeleted):
            group_class = ConsumerGroup if isinstance(record, EpochDeleted) else ShareGroup
            if isinstance(group, group_class):
                del self.groups[record.group_id]
        elif isinstance(record, StreamsRecord):
            self._apply_streams(record, group)
        elif isinstance(record, ShareRecord):
            if not isinstance(group, ShareGroup):
                if isinstance(record, ShareTombstone):
                    return
                group = self.groups[record.group_id] = ShareGroup(
                    record.group_id, self.release_rules
                )
            group.apply(record)
        else:
            if not isinstance(group, ConsumerGroup):
                if isinstance(record, ConsumerTombstone):
                    return
                group = self.groups[record.group_id] = ConsumerGroup(
                    record.group_id, self.release_rules
                )
            group.apply(record)

    def _apply_streams(self, record: StreamsRecord, group: Group | None) -> None:
        if not isinstance(group, StreamsGroup):
            if isinstance(record, StreamsTombstone):
                return
            group = self.groups[record.group_id] = StreamsGroup(record.group_id)
        if isinstance(record, StreamsEpochDeleted):
            del self.groups[record.group_id]
        else:
            group.apply(record)

    def _load_marker(self, chunk: bytes, position: int, producer_id: int, base_offset: int) -> None:
        control = read_control_record(chunk, position)
        if control is not None and control.is_marker:
            self.apply_marker(
                ProducerId(producer_id), is_commit=control.type == 1, marker_offset=base_offset
            )

    def _load_batch(self, chunk: bytes, position: int, producer_id: ProducerId | None) -> None:
        for record in read_records(chunk, position):
            if record.key is None:
                raise CorruptLogRecordError(
                    f"record {record.offset} of __consumer_offsets has no key"
                )
            group_record = decode_record(record.key, record.value)
            if group_record is not None:
                self.apply(group_record, record_offset=record.offset, producer_id=producer_id)
