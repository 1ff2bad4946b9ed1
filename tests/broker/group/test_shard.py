"""A partition of ``__consumer_offsets``: what is loaded equals what lived."""

from __future__ import annotations

from txnsim.errors import ErrorCode, Rejection
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_group import ConsumerGroup
from txnsim.group.consumer_records import (
    EpochDeleted,
    EpochStored,
    SubscriptionDeleted,
    SubscriptionStored,
)
from txnsim.group.log_format import encode_batch
from txnsim.group.records import (
    ClassicGroupDeleted,
    ClassicGroupStored,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
)
from txnsim.group.shard import GroupShard
from txnsim.types import ProducerId, TopicPartition
from txnsim.wire.batch import assign, control_batch
from txnsim.wire.records import Record, build_batch

P = TopicPartition("t", 0)
PID = ProducerId(7)


def committed(offset: int, group_id: str = "g") -> OffsetCommitted:
    return OffsetCommitted(
        group_id=group_id, topic_partition=P, position=offset, commit_timestamp_ms=5
    )


class Log:
    """Bytes as a partition would hold them."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.end = 0

    def add(self, *records: GroupRecord, pid: int = -1) -> None:
        batch = encode_batch(records, now_ms=5, producer_id=pid, producer_epoch=min(pid, 0))
        self.raw(batch, len(records))

    def raw(self, batch: bytes, count: int) -> None:
        self.chunks.append(assign(batch, base_offset=self.end, leader_epoch=0))
        self.end += count

    def marker(self, *, is_commit: bool) -> None:
        batch = control_batch(
            producer_id=PID,
            producer_epoch=0,
            committed=is_commit,
            coordinator_epoch=0,
            base_offset=self.end,
            leader_epoch=0,
            timestamp_ms=5,
        )
        self.chunks.append(batch)
        self.end += 1

    def load(self) -> GroupShard:
        shard = GroupShard(partition=3, coordinator_epoch=1)
        list(shard.read(self.chunks))
        return shard


def position(shard: GroupShard) -> int | None:
    found = shard.offsets.committed("g", P)
    return None if found is None else found.position


def test_a_commit_makes_a_simple_group() -> None:
    log = Log()
    log.add(committed(5))
    shard = log.load()
    assert position(shard) == 5
    group = shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.protocol_type is None
    assert (shard.end_offset, shard.partition, shard.coordinator_epoch) == (1, 3, 1)
    assert list(shard.classic_groups()) == [group]


def test_transactions_are_replayed_with_their_markers() -> None:
    log = Log()
    log.add(committed(5), committed(6), pid=PID)
    assert position(log.load()) is None
    assert log.load().offsets.is_pending("g", P)
    log.marker(is_commit=False)
    log.add(committed(7), pid=PID)
    log.marker(is_commit=True)
    shard = log.load()
    assert position(shard) == 7
    assert shard.end_offset == 5


def test_tombstones_delete_positions_and_groups() -> None:
    log = Log()
    log.add(committed(5), ClassicGroupStored(group_id="g", generation=2))
    assert log.load().groups["g"].state_name == "Empty"
    log.add(OffsetDeleted(group_id="g", topic_partition=P), ClassicGroupDeleted(group_id="g"))
    log.add(ClassicGroupDeleted(group_id="never"))
    shard = log.load()
    assert shard.groups == {}
    assert position(shard) is None


def test_records_of_later_releases_and_other_control_records_are_skipped() -> None:
    log = Log()
    log.raw(build_batch([Record(key=b"\0\x63", value=b"")], timestamp_ms=5), 1)
    leader_change = bytearray(
        control_batch(
            producer_id=-1,
            producer_epoch=-1,
            committed=True,
            coordinator_epoch=0,
            base_offset=1,
            leader_epoch=0,
            timestamp_ms=5,
        )
    )
    log.chunks.append(
        bytes(leader_change).replace(b"\x00\x00\x00\x01\x0c", b"\x00\x00\x00\x02\x0c")
    )
    log.end += 1
    log.add(committed(5))
    shard = log.load()
    assert shard.problem is None
    assert position(shard) == 5


def test_a_record_that_can_t_be_read_ends_the_reading() -> None:
    log = Log()
    log.add(committed(5))
    log.raw(build_batch([Record(key=None, value=b"")], timestamp_ms=5), 1)
    log.add(committed(6))
    shard = log.load()
    assert shard.problem == "record 1 of __consumer_offsets has no key"
    assert position(shard) == 5


def test_a_group_that_is_there_is_not_made_anew() -> None:
    shard = GroupShard(partition=0, coordinator_epoch=0)
    group = shard.classic_or_new("g", now_ms=1)
    assert shard.classic_or_new("g", now_ms=2) is group


def test_only_an_empty_group_that_is_there_may_be_deleted() -> None:
    shard = GroupShard(partition=0, coordinator_epoch=0)
    missing = shard.deletable("g")
    assert isinstance(missing, Rejection)
    assert missing.error is ErrorCode.group_id_not_found
    group = shard.classic_or_new("g", now_ms=1)
    assert shard.deletable("g") is group


def test_groups_of_another_protocol_are_no_classic_ones() -> None:
    shard = GroupShard(partition=0, coordinator_epoch=0)
    shard.groups["other"] = object()  # type: ignore[assignment]
    assert list(shard.classic_groups()) == []


def test_records_of_the_consumer_protocol_make_its_group_and_take_it_away() -> None:
    log = Log()
    log.add(committed(5))
    log.add(
        ClassicGroupDeleted(group_id="g"),
        SubscriptionStored(group_id="g", member_id="m", client_id="c", client_host="/h"),
        EpochStored(group_id="g", group_epoch=3),
    )
    shard = log.load()
    group = shard.groups["g"]
    assert isinstance(group, ConsumerGroup)
    assert (group.epoch, list(group.members)) == (3, ["m"])
    assert position(shard) == 5
    log.add(SubscriptionDeleted(group_id="g", member_id="m"), EpochDeleted(group_id="g"))
    log.add(EpochDeleted(group_id="g"))
    assert log.load().groups == {}


def test_a_group_of_the_consumer_protocol_takes_commits() -> None:
    log = Log()
    log.add(EpochStored(group_id="g", group_epoch=3), committed(5))
    shard = log.load()
    assert isinstance(shard.groups["g"], ConsumerGroup)
    assert position(shard) == 5
