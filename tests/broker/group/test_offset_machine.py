"""Decisions about positions, as OffsetMetadataManager makes them."""

from __future__ import annotations

import uuid

import pytest

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
from txnsim.group.offset_commands import (
    CommitOffsets,
    DeleteOffsets,
    FetchedPosition,
    FetchOffsets,
    NewPosition,
)
from txnsim.group.offset_machine import (
    check_commit,
    decide_commit,
    decide_delete_offsets,
    delete_all_offsets,
    delete_topic_offsets,
    expire_offsets,
    fetch_offsets,
)
from txnsim.group.records import (
    ClassicGroupDeleted,
    ClassicGroupStored,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
    StoredMember,
)
from txnsim.group.shard import GroupShard
from txnsim.group.state import ClassicGroupState
from txnsim.releases import LATEST_RULES, Rules
from txnsim.types import ProducerId, TopicPartition
from txnsim.wire.batch import assign, control_batch
from txnsim.wire.records import Record, build_batch

E = ErrorCode
P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
TOPIC_ID = uuid.UUID(int=1)
NOW = 100_000
SUBSCRIBED = bytes.fromhex("0000 00000001 0001 74")


def shard_with(*records: object, pending_offsets: tuple[OffsetCommitted, ...] = ()) -> GroupShard:
    shard = GroupShard(partition=0, coordinator_epoch=0)
    for record_index, record in enumerate(records):
        shard.apply(record, record_offset=record_index)  # type: ignore[arg-type]
    for record_index, record in enumerate(pending_offsets):
        shard.apply(record, record_offset=100 + record_index, producer_id=ProducerId(7))
    return shard


def offset_record(topic_partition: TopicPartition = P0, **record_fields: object) -> OffsetCommitted:
    values = {"position": 5, "commit_timestamp_ms": 1_000, **record_fields}
    return OffsetCommitted(group_id="g", topic_partition=topic_partition, **values)  # type: ignore[arg-type]


def live(protocol_type: str = "consumer") -> ClassicGroupStored:
    member = StoredMember(
        member_id="m",
        client_id="c",
        client_host="/h",
        session_timeout_ms=1,
        subscription=SUBSCRIBED,
    )
    return ClassicGroupStored(
        group_id="g",
        protocol_type=protocol_type,
        generation=2,
        protocol="range",
        leader="m",
        members=(member,),
    )


def commit(*positions: NewPosition, **request_fields: object) -> CommitOffsets:
    return CommitOffsets(group_id="g", positions=positions, **request_fields)  # type: ignore[arg-type]


def commit_error(shard: GroupShard, command: CommitOffsets) -> ErrorCode | None:
    outcome = decide_commit(shard, command, metadata_bytes_max=4, now_ms=NOW)
    return outcome.error if isinstance(outcome, Rejection) else None


# Commit


def test_positions_are_written_but_for_those_with_too_much_metadata() -> None:
    command = commit(
        NewPosition(topic_partition=P0, offset=5, leader_epoch=-7, metadata=None),
        NewPosition(topic_partition=P1, offset=6, metadata="12345"),
        retention_ms=10,
    )
    decision = decide_commit(shard_with(), command, metadata_bytes_max=4, now_ms=NOW)
    assert not isinstance(decision, Rejection)
    (record,) = decision.records
    assert (record.metadata, record.leader_epoch) == ("", -7)
    assert (record.commit_timestamp_ms, record.expire_timestamp_ms) == (NOW, NOW + 10)
    assert decision.reply == ((P0, E.none), (P1, E.offset_metadata_too_large))


@pytest.mark.parametrize(
    ("generation", "is_named", "error"),
    [
        (-1, True, None),
        (3, True, E.group_id_not_found),
        (3, False, E.illegal_generation),
    ],
)
def test_a_missing_group_is_made_for_who_is_no_member(
    generation: int, is_named: bool, error: ErrorCode | None
) -> None:
    command = commit(generation=generation, names_missing_group=is_named)
    assert commit_error(shard_with(), command) is error
    older_shard = shard_with()
    older_shard.release_rules = Rules(missing_groups_are_named=False)
    rejection = check_commit(older_shard, command)
    assert (rejection and rejection.error) is (error and E.illegal_generation)


def test_a_group_with_members_asks_who_commits() -> None:
    shard = shard_with(live())
    assert commit_error(shard, commit()) is E.unknown_member_id
    assert commit_error(shard, commit(member_id="m", generation=2)) is None
    assert commit_error(shard, commit(is_transactional=True)) is None


class _StaleGroup(ClassicGroup):
    """A group that refuses every commit with a stale epoch, as a consumer group may."""

    def check_offset_commit(self, *_: object) -> Rejection:
        return Rejection(error=E.stale_member_epoch, reason="stale")


def test_a_stale_epoch_is_an_illegal_generation_before_kip_1319() -> None:
    shard = shard_with()
    shard.groups["g"] = _StaleGroup("g", now_ms=1)
    assert commit_error(shard, commit()) is E.stale_member_epoch
    assert commit_error(shard, commit(is_transactional=True)) is E.stale_member_epoch
    assert commit_error(shard, commit(names_stale_epoch=False)) is E.illegal_generation


class _OwningGroup(ClassicGroup):
    """A group that knows which positions a member may commit."""

    def check_position(self, *_: object) -> Rejection:
        return Rejection(error=E.stale_member_epoch, reason="not yours")


@pytest.mark.parametrize(
    ("is_named", "error"), [(True, E.stale_member_epoch), (False, E.illegal_generation)]
)
def test_all_positions_fall_with_one_that_is_not_the_member_s(
    is_named: bool, error: ErrorCode
) -> None:
    shard = shard_with()
    shard.groups["g"] = _OwningGroup("g", now_ms=1)
    own_position = NewPosition(topic_partition=P0, offset=1)
    other_position = NewPosition(topic_partition=P1, offset=1, topic_id=TOPIC_ID)
    assert commit_error(shard, commit(own_position, names_stale_epoch=is_named)) is None
    assert (
        commit_error(shard, commit(own_position, other_position, names_stale_epoch=is_named))
        is error
    )


# Fetch


def fetch(
    shard: GroupShard, *partitions: TopicPartition, **request_fields: object
) -> list[FetchedPosition]:
    command = FetchOffsets(
        group_id="g",
        partitions=partitions or None,
        **request_fields,  # type: ignore[arg-type]
    )
    positions = fetch_offsets(shard, command, high_watermark=1_000)
    assert not isinstance(positions, Rejection)
    return list(positions)


def test_what_was_never_committed_is_minus_one() -> None:
    shard = shard_with(offset_record(leader_epoch=2, metadata="x"))
    committed_position = FetchedPosition(topic_partition=P0, offset=5, leader_epoch=2, metadata="x")
    assert fetch(shard, P0, P1) == [committed_position, FetchedPosition(topic_partition=P1)]
    assert fetch(shard) == [committed_position]


def test_a_missing_or_dead_group_has_no_positions() -> None:
    assert fetch(shard_with(), P0) == [FetchedPosition(topic_partition=P0)]
    assert fetch(shard_with()) == []
    shard = shard_with(offset_record())
    group = shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    group.state = ClassicGroupState.DEAD
    assert fetch(shard, P0) == [FetchedPosition(topic_partition=P0)]


def test_who_requires_stable_positions_waits_for_transactions() -> None:
    shard = shard_with(offset_record(), pending_offsets=(offset_record(position=9),))
    assert fetch(shard, P0)[0].offset == 5
    (unstable_position,) = fetch(shard, P0, require_stable=True)
    assert (unstable_position.offset, unstable_position.error) == (-1, E.unstable_offset_commit)
    assert fetch(shard, require_stable=True) == [unstable_position]


def test_positions_above_the_high_watermark_are_for_those_who_require_stable_ones() -> None:
    shard = GroupShard(partition=0, coordinator_epoch=0)
    shard.apply(offset_record(), record_offset=7, high_watermark=7)
    command = FetchOffsets(group_id="g", partitions=(P0,))
    unstable_fetch = FetchOffsets(group_id="g", partitions=(P0,), require_stable=True)
    assert fetch_offsets(shard, command, high_watermark=7) == (FetchedPosition(topic_partition=P0),)
    assert fetch_offsets(shard, unstable_fetch, high_watermark=7) == (
        FetchedPosition(topic_partition=P0, offset=5),
    )


def test_a_position_of_an_older_topic_of_that_name_is_none() -> None:
    shard = shard_with(offset_record(topic_id=uuid.UUID(int=2)))
    assert fetch(shard, P0, topic_ids={"t": TOPIC_ID})[0].offset == -1
    assert fetch(shard, P0, topic_ids={"t": uuid.UUID(int=2)})[0].offset == 5
    assert fetch(shard_with(offset_record()), P0, topic_ids={"t": TOPIC_ID})[0].offset == 5


class _RefusingGroup(ClassicGroup):
    """A group that refuses every read of positions with STALE_MEMBER_EPOCH."""

    def check_offset_fetch(self, _: object) -> Rejection:
        return Rejection(error=E.stale_member_epoch, reason="stale")


def test_a_member_with_a_stale_epoch_gets_an_error() -> None:
    shard = shard_with()
    shard.groups["g"] = _RefusingGroup("g", now_ms=1)
    rejection = fetch_offsets(shard, FetchOffsets(group_id="g", partitions=()), high_watermark=0)
    assert isinstance(rejection, Rejection)
    assert rejection.error is E.stale_member_epoch


# Delete


def test_positions_of_consumed_topics_stay() -> None:
    shard = shard_with(live(), offset_record(), offset_record(TopicPartition("u", 0)))
    other_partition = TopicPartition("u", 0)
    unset_partition = TopicPartition("u", 1)
    decision = decide_delete_offsets(
        shard, DeleteOffsets(group_id="g", partitions=(P0, other_partition, unset_partition))
    )
    assert not isinstance(decision, Rejection)
    assert decision.records == (OffsetDeleted(group_id="g", topic_partition=other_partition),)
    assert decision.reply == (
        (P0, E.group_subscribed_to_topic),
        (other_partition, E.none),
        (unset_partition, E.none),
    )


@pytest.mark.parametrize(
    ("shard", "error"),
    [(shard_with(), E.group_id_not_found), (shard_with(live("connect")), E.non_empty_group)],
)
def test_positions_can_t_be_deleted(shard: GroupShard, error: ErrorCode) -> None:
    outcome = decide_delete_offsets(shard, DeleteOffsets(group_id="g", partitions=()))
    assert isinstance(outcome, Rejection)
    assert outcome.error is error


@pytest.mark.parametrize("rules", [LATEST_RULES, Rules(groups_outlive_positions=False)])
@pytest.mark.parametrize(
    ("shard", "can_go"),
    [
        (shard_with(offset_record()), True),
        (shard_with(offset_record(), offset_record(P1)), False),
        (shard_with(offset_record(), pending_offsets=(offset_record(P1),)), False),
        (shard_with(live("consumer"), offset_record(TopicPartition("u", 0))), False),
    ],
)
def test_a_group_that_loses_a_position_is_gone_with_the_last_one_before_4_0(
    shard: GroupShard, can_go: bool, rules: Rules
) -> None:
    shard.release_rules = rules
    partitions = (P0, TopicPartition("u", 0))
    decision = decide_delete_offsets(shard, DeleteOffsets(group_id="g", partitions=partitions))
    assert not isinstance(decision, Rejection)
    is_last = can_go and not rules.groups_outlive_positions
    tombstones = shard.groups["g"].tombstones()
    assert (decision.records[1:] == tombstones) is is_last
    assert len(decision.records) == 1 + is_last


def test_pending_positions_are_deleted_too_and_none_twice() -> None:
    shard = shard_with(offset_record(), pending_offsets=(offset_record(), offset_record(P1)))
    tombstones = (
        OffsetDeleted(group_id="g", topic_partition=P0),
        OffsetDeleted(group_id="g", topic_partition=P1),
    )
    assert delete_all_offsets(shard, "g") == tombstones
    assert delete_topic_offsets(shard, frozenset({"t"})) == tombstones
    assert delete_topic_offsets(shard, frozenset({"u"})) == ()
    decision = decide_delete_offsets(shard, DeleteOffsets(group_id="g", partitions=(P1,)))
    assert not isinstance(decision, Rejection)
    assert decision.records == tombstones[1:]


# Expiry


def expire_records(shard: GroupShard, now_ms: int) -> tuple[object, ...]:
    return expire_offsets(shard, shard.groups["g"], retention_ms=50, now_ms=now_ms)


def test_positions_expire_and_the_group_with_the_last_one() -> None:
    shard = shard_with(offset_record(), offset_record(P1, commit_timestamp_ms=1_010))
    assert expire_records(shard, 1_049) == ()
    assert expire_records(shard, 1_050) == (OffsetDeleted(group_id="g", topic_partition=P0),)
    assert expire_records(shard, 1_060)[-1] == ClassicGroupDeleted(group_id="g")


def test_a_position_s_own_time_counts_before_the_group_s() -> None:
    shard = shard_with(offset_record(expire_timestamp_ms=2_000))
    assert expire_records(shard, 1_999) == ()
    assert len(expire_records(shard, 2_000)) == 2


def test_what_a_transaction_may_change_and_what_is_consumed_stays() -> None:
    shard = shard_with(offset_record(), pending_offsets=(offset_record(),))
    assert expire_records(shard, 10**9) == ()
    assert expire_records(shard_with(live(), offset_record()), 10**9) == ()
    assert expire_records(shard_with(live("connect"), offset_record()), 10**9) == ()


def test_a_group_with_something_pending_only_stays() -> None:
    assert expire_records(shard_with(pending_offsets=(offset_record(),)), 10**9) == ()


@pytest.mark.parametrize("is_kept", [True, False])
def test_ids_of_topics_are_written_where_the_request_has_them(is_kept: bool) -> None:
    position = NewPosition(topic_partition=P0, offset=1, topic_id=TOPIC_ID)
    command = commit(position, keeps_topic_ids=is_kept)
    decision = decide_commit(shard_with(), command, metadata_bytes_max=4, now_ms=NOW)
    assert not isinstance(decision, Rejection)
    assert decision.records[0].topic_id == (TOPIC_ID if is_kept else None)


def test_a_classic_group_does_not_look_at_single_positions() -> None:
    position = NewPosition(topic_partition=P0, offset=1, topic_id=TOPIC_ID)
    decision = decide_commit(
        shard_with(offset_record()),
        CommitOffsets(group_id="g", positions=(position,)),
        metadata_bytes_max=10,
        now_ms=NOW,
    )
    assert not isinstance(decision, Rejection)
    assert decision.reply == ((P0, E.none),)
    assert decision.records[0].topic_id == TOPIC_ID


# A partition of ``__consumer_offsets``: what is loaded equals what lived.


P = TopicPartition("t", 0)
PID = ProducerId(7)


def committed_of_shard(offset: int, group_id: str = "g") -> OffsetCommitted:
    return OffsetCommitted(
        group_id=group_id, topic_partition=P, position=offset, commit_timestamp_ms=5
    )


class Log:
    """The encoded batches of a partition of ``__consumer_offsets``."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.end = 0

    def add(self, *records: GroupRecord, producer_id: int = -1) -> None:
        batch = encode_batch(
            records, now_ms=5, producer_id=producer_id, producer_epoch=min(producer_id, 0)
        )
        self.raw(batch, len(records))

    def raw(self, batch: bytes, count: int) -> None:
        self.chunks.append(assign(batch, base_offset=self.end, leader_epoch=0))
        self.end += count

    def marker(self, *, is_commit: bool) -> None:
        batch = control_batch(
            producer_id=PID,
            producer_epoch=0,
            is_commit=is_commit,
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
    committed = shard.offsets.committed_offset("g", P)
    return None if committed is None else committed.position


def test_a_commit_makes_a_simple_group() -> None:
    log = Log()
    log.add(committed_of_shard(5))
    shard = log.load()
    assert position(shard) == 5
    group = shard.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.protocol_type is None
    assert (shard.end_offset, shard.partition, shard.coordinator_epoch) == (1, 3, 1)
    assert list(shard.classic_groups()) == [group]


def test_transactions_are_replayed_with_their_markers() -> None:
    log = Log()
    log.add(committed_of_shard(5), committed_of_shard(6), producer_id=PID)
    assert position(log.load()) is None
    assert log.load().offsets.is_pending("g", P)
    log.marker(is_commit=False)
    log.add(committed_of_shard(7), producer_id=PID)
    log.marker(is_commit=True)
    shard = log.load()
    assert position(shard) == 7
    assert shard.end_offset == 5


def test_tombstones_delete_positions_and_groups() -> None:
    log = Log()
    log.add(committed_of_shard(5), ClassicGroupStored(group_id="g", generation=2))
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
            is_commit=True,
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
    log.add(committed_of_shard(5))
    shard = log.load()
    assert shard.load_problem is None
    assert position(shard) == 5


def test_a_record_that_can_t_be_read_ends_the_reading() -> None:
    log = Log()
    log.add(committed_of_shard(5))
    log.raw(build_batch([Record(key=None, value=b"")], timestamp_ms=5), 1)
    log.add(committed_of_shard(6))
    shard = log.load()
    assert shard.load_problem == "record 1 of __consumer_offsets has no key"
    assert position(shard) == 5


def test_a_group_that_is_there_is_not_made_anew() -> None:
    shard = GroupShard(partition=0, coordinator_epoch=0)
    group = shard.classic_or_new("g", now_ms=1)
    assert shard.classic_or_new("g", now_ms=2) is group


def test_only_an_empty_group_that_is_there_may_be_deleted() -> None:
    shard = GroupShard(partition=0, coordinator_epoch=0)
    missing = shard.find_deletable("g")
    assert isinstance(missing, Rejection)
    assert missing.error is ErrorCode.group_id_not_found
    group = shard.classic_or_new("g", now_ms=1)
    assert shard.find_deletable("g") is group


def test_groups_of_another_protocol_are_no_classic_ones() -> None:
    shard = GroupShard(partition=0, coordinator_epoch=0)
    shard.groups["other"] = object()  # type: ignore[assignment]
    assert list(shard.classic_groups()) == []


def test_records_of_the_consumer_protocol_make_its_group_and_take_it_away() -> None:
    log = Log()
    log.add(committed_of_shard(5))
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
    log.add(SubscriptionDeleted(group_id="g", member_id="m"), EpochDeleted(group_id="g"))
    assert log.load().groups == {}, "the second tombstone finds nothing to remove"


def test_a_group_of_the_consumer_protocol_takes_commits() -> None:
    log = Log()
    log.add(EpochStored(group_id="g", group_epoch=3), committed_of_shard(5))
    shard = log.load()
    assert isinstance(shard.groups["g"], ConsumerGroup)
    assert position(shard) == 5
