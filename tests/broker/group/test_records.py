"""Records of ``__consumer_offsets``: bytes, kinds, states, hashes of topics."""

from __future__ import annotations

import struct
import uuid
from typing import Final

import pytest

from tests.support.consumer_groups import image
from txnsim.errors import CorruptLogRecordError, InvariantViolation
from txnsim.group._topics_hash import topics_hash
from txnsim.group.classic_group import ClassicGroup
from txnsim.group.consumer_records import (
    ClassicMetadata,
    ConsumerRecord,
    CurrentAssignmentDeleted,
    CurrentAssignmentStored,
    DeletingTopic,
    EpochDeleted,
    EpochStored,
    RegexDeleted,
    RegexStored,
    ShareCurrentAssignmentDeleted,
    ShareCurrentAssignmentStored,
    ShareEpochDeleted,
    ShareEpochStored,
    ShareMemberDeleted,
    ShareMemberStored,
    ShareRecord,
    ShareTargetDeleted,
    ShareTargetEpochDeleted,
    ShareTargetEpochStored,
    ShareTargetStored,
    ShareTopic,
    ShareTopicsDeleted,
    ShareTopicsStored,
    SubscriptionDeleted,
    SubscriptionStored,
    TargetDeleted,
    TargetEpochDeleted,
    TargetEpochStored,
    TargetStored,
)
from txnsim.group.log_format import (
    decode_record,
    encode_batch,
    encode_in_batch,
    encode_in_slices,
    encode_record,
    split_in_batches,
)
from txnsim.group.records import (
    ClassicGroupDeleted,
    ClassicGroupStored,
    GroupRecord,
    OffsetCommitted,
    OffsetDeleted,
    StoredMember,
)
from txnsim.group.state import VALID_PREVIOUS_STATES, ClassicGroupState
from txnsim.types import TopicPartition
from txnsim.wire.batch import read_batch_header, read_records
from txnsim.wire.codec import run_to_end

# Records of ``__consumer_offsets``, every version that was ever written.


P = TopicPartition("topic", 3)
TOPIC_ID = uuid.UUID(int=1)
MEMBER = StoredMember(
    member_id="m",
    group_instance_id="i",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=5,
    session_timeout_ms=6,
    subscription=b"s",
    assignment=b"a",
)
RECORDS: list[GroupRecord] = [
    OffsetCommitted(
        group_id="g",
        topic_partition=P,
        position=5,
        leader_epoch=2,
        metadata="note",
        commit_timestamp_ms=7,
        topic_id=TOPIC_ID,
    ),
    OffsetCommitted(group_id="g", topic_partition=P, position=5, commit_timestamp_ms=7),
    OffsetCommitted(
        group_id="g",
        topic_partition=P,
        position=5,
        commit_timestamp_ms=7,
        expire_timestamp_ms=9,
    ),
    OffsetDeleted(group_id="g", topic_partition=P),
    ClassicGroupStored(
        group_id="g",
        protocol_type="consumer",
        generation=4,
        protocol="range",
        leader="m",
        state_timestamp_ms=8,
        members=(MEMBER,),
    ),
    ClassicGroupStored(group_id="g"),
    ClassicGroupDeleted(group_id="g"),
]


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_written_can_be_read(record: GroupRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_a_position_is_written_with_its_topic_s_id() -> None:
    key, record_value = encode_record(RECORDS[0])
    assert key == bytes.fromhex("0001 0001 67 0005 746f706963 00000003")
    assert record_value == bytes.fromhex(
        "0004 0000000000000005 00000002 05 6e6f7465 0000000000000007 01 00 10"
    ) + (TOPIC_ID.bytes)


@pytest.mark.parametrize("record", RECORDS)
def test_with_breaks_a_record_is_written_as_without(record: GroupRecord) -> None:
    assert run_to_end(encode_in_slices(record, 3)) == encode_in_batch(record, 3)


def test_a_record_with_many_names_is_written_with_breaks() -> None:
    record = SubscriptionStored(
        group_id="g",
        member_id="m",
        client_id="c",
        client_host="/h",
        topic_names=tuple(f"topic-{topic_number}" for topic_number in range(1_000)),
    )
    assert len([*encode_in_slices(record, 0)]) > 1
    assert run_to_end(encode_in_slices(record, 0)) == encode_in_batch(record, 0)
    deletion = SubscriptionDeleted(group_id="g", member_id="m")
    assert run_to_end(encode_in_slices(deletion, 1)) == encode_in_batch(deletion, 1)


def test_a_batch_on_behalf_of_a_producer_is_transactional() -> None:
    batch = encode_batch(RECORDS[:2], now_ms=9, producer_id=7, producer_epoch=3)
    header = read_batch_header(batch)
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
    assert [record.timestamp_ms for record in read_records(batch)] == [9, 9]
    assert not read_batch_header(encode_batch(RECORDS[:1], now_ms=9)).is_transactional


@pytest.mark.parametrize(("limit", "batch_count"), [(1_000_000, 1), (200, 3), (1, len(RECORDS))])
def test_records_that_need_not_go_together_are_shared_out(limit: int, batch_count: int) -> None:
    shares = list(split_in_batches(RECORDS, batch_bytes_max=limit))
    assert [record for share_records in shares for record in share_records] == RECORDS
    assert len(shares) == batch_count
    for share_records in shares:
        batch = encode_batch(share_records, now_ms=9)
        assert batch == encode_batch(tuple(share_records), now_ms=9), (
            "encoded once, as it would be anew"
        )
        assert len(batch) <= limit or len(share_records) == 1


def text(value: str) -> bytes:
    return struct.pack("!h", len(value)) + value.encode()


OFFSET_KEY = text("g") + text("topic") + struct.pack("!i", 3)


@pytest.mark.parametrize(
    ("kind", "record_value", "leader_epoch", "expires"),
    [
        (0, struct.pack("!hq", 0, 5) + text("x") + struct.pack("!q", 7), -1, -1),
        (1, struct.pack("!hq", 0, 5) + text("x") + struct.pack("!q", 7), -1, -1),
        (1, struct.pack("!hq", 1, 5) + text("x") + struct.pack("!qq", 7, 9), -1, 9),
        (1, struct.pack("!hq", 2, 5) + text("x") + struct.pack("!q", 7), -1, -1),
        (1, struct.pack("!hqi", 3, 5, 2) + text("x") + struct.pack("!q", 7), 2, -1),
    ],
)
def test_older_positions_can_be_read(
    kind: int, record_value: bytes, leader_epoch: int, expires: int
) -> None:
    assert decode_record(struct.pack("!h", kind) + OFFSET_KEY, record_value) == OffsetCommitted(
        group_id="g",
        topic_partition=P,
        position=5,
        metadata="x",
        leader_epoch=leader_epoch,
        commit_timestamp_ms=7,
        expire_timestamp_ms=expires,
    )


def member_bytes(version: int) -> bytes:
    parts = [text("m")]
    if version >= 3:
        parts.append(text("i"))
    parts += [text("c"), text("/h")]
    if version >= 1:
        parts.append(struct.pack("!i", 5))
    parts += [struct.pack("!i", 6), struct.pack("!i", 1), b"s", struct.pack("!i", 1), b"a"]
    return b"".join(parts)


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_older_groups_can_be_read(version: int) -> None:
    record_value = struct.pack("!h", version) + text("consumer") + struct.pack("!i", 4)
    record_value += text("range") + text("m")
    if version >= 2:
        record_value += struct.pack("!q", 8)
    record_value += struct.pack("!i", 1) + member_bytes(version)
    record = decode_record(struct.pack("!h", 2) + text("g"), record_value)
    assert isinstance(record, ClassicGroupStored)
    assert record.state_timestamp_ms == (8 if version >= 2 else -1)
    (member,) = record.members
    assert member.group_instance_id == ("i" if version >= 3 else None)
    assert member.rebalance_timeout_ms == (5 if version >= 1 else -1)
    assert (member.subscription, member.assignment) == (b"s", b"a")


@pytest.mark.parametrize(
    ("key", "record_value"),
    [
        (struct.pack("!h", 99), b"\0\0"),
        (struct.pack("!h", 1) + OFFSET_KEY, struct.pack("!h", 99)),
        (struct.pack("!h", 2) + text("g"), struct.pack("!h", 99)),
    ],
)
def test_kinds_and_versions_of_later_releases_are_skipped(key: bytes, record_value: bytes) -> None:
    assert decode_record(key, record_value) is None


@pytest.mark.parametrize(
    ("key", "record_value"),
    [
        (b"\0", b""),
        (struct.pack("!h", 1) + OFFSET_KEY[:4], None),
        (struct.pack("!h", 1) + OFFSET_KEY, b"\0\3\0"),
        (struct.pack("!h", 2) + text("g"), b""),
    ],
)
def test_damage_names_the_record(key: bytes, record_value: bytes | None) -> None:
    with pytest.raises(CorruptLogRecordError, match=key.hex()):
        decode_record(key, record_value)


NO_ROOM: Final = struct.pack("!i", 2**31 - 1)


@pytest.mark.parametrize(
    ("kind", "record_value"),
    [
        (2, b"\0\0" + text("consumer") + NO_ROOM + 4 * b"\xff" + bytes(4)),
        (3, b"\0\0" + NO_ROOM + b"\0"),
    ],
)
def test_a_number_that_the_coordinator_could_not_raise_is_named(
    kind: int, record_value: bytes
) -> None:
    key = struct.pack("!h", kind) + text("g")
    with pytest.raises(CorruptLogRecordError, match="2147483647, which leaves no room"):
        decode_record(key, record_value)


# ``record_kinds``: Records of the consumer protocol, as Kafka writes them (ConsumerGroup*.json).


T = uuid.UUID(int=1)
U = uuid.UUID(int=2)

RECORD_KINDS_RECORDS: list[ConsumerRecord] = [
    EpochStored(group_id="g", group_epoch=3, metadata_hash=-7),
    EpochStored(group_id="g", group_epoch=3),
    EpochDeleted(group_id="g"),
    SubscriptionStored(
        group_id="g",
        member_id="m",
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/h",
        topic_names=("a", "b"),
        topic_regex="x.*",
        rebalance_timeout_ms=5,
        server_assignor="range",
        classic=ClassicMetadata(session_timeout_ms=6, protocols=(("p", b"m"),)),
    ),
    SubscriptionStored(group_id="g", member_id="m", client_id="c", client_host="/h"),
    SubscriptionDeleted(group_id="g", member_id="m"),
    TargetEpochStored(group_id="g", assignment_epoch=4, timestamp_ms=9),
    TargetEpochDeleted(group_id="g"),
    TargetStored(group_id="g", member_id="m", partitions=((T, 0), (T, 2), (U, 1))),
    TargetDeleted(group_id="g", member_id="m"),
    CurrentAssignmentStored(
        group_id="g",
        member_id="m",
        member_epoch=5,
        previous_member_epoch=4,
        state=1,
        assigned=((T, 0, 3), (T, 2, 5), (U, 1, 5)),
        pending_revocation=((U, 0, 1),),
    ),
    CurrentAssignmentDeleted(group_id="g", member_id="m"),
    RegexStored(group_id="g", regex="x.*", topics=("a",), version=8, timestamp_ms=9),
    RegexDeleted(group_id="g", regex="x.*"),
]


@pytest.mark.parametrize("record", RECORD_KINDS_RECORDS)
def test_record_kinds_what_is_written_can_be_read(record: ConsumerRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_bytes_of_an_epoch() -> None:
    key, record_value = encode_record(RECORD_KINDS_RECORDS[0])
    assert key == bytes.fromhex("0003 0001 67")
    assert record_value == bytes.fromhex("0000 00000003 01 00 08 fffffffffffffff9")


def test_partitions_of_records_before_4_3_have_the_member_s_epoch() -> None:
    record_value = (
        struct.pack("!hiib", 0, 5, 4, 0) + b"\x02" + T.bytes + b"\x02" + struct.pack("!i", 7)
    )
    record_value += b"\x00" + b"\x01" + b"\x00"
    key, _ = encode_record(CurrentAssignmentDeleted(group_id="g", member_id="m"))
    record = decode_record(key, record_value)
    assert isinstance(record, CurrentAssignmentStored)
    assert record.assigned == ((T, 7, 5),)


def test_values_of_later_versions_and_topics_of_older_groups_are_skipped() -> None:
    key, _ = encode_record(EpochDeleted(group_id="g"))
    assert decode_record(key, b"\x00\x01") is None
    assert decode_record(b"\x00\x04" + key[2:], b"\x00\x00\x01\x00") is None


# The table of a classic group's moves (ClassicGroupState.validPreviousStates).


ALLOWED = """
                     Empty  PreparingRebalance  CompletingRebalance  Stable  Dead
Empty                -      x                   -                    -       x
PreparingRebalance   x      -                   x                    -       x
CompletingRebalance  -      x                   -                    x       x
Stable               -      x                   -                    -       x
Dead                 -      -                   -                    -       x
"""
"""Row: from; column: to."""

ROWS = [line.split() for line in ALLOWED.strip().splitlines()]
CELLS = [
    (row[0], ROWS[0][column], cell == "x")
    for row in ROWS[1:]
    for column, cell in enumerate(row[1:])
]


@pytest.mark.parametrize(("state_before", "state_after", "is_allowed"), CELLS)
def test_every_move_is_allowed_or_refused(
    state_before: str, state_after: str, is_allowed: bool
) -> None:
    group = ClassicGroup("g", state=ClassicGroupState(state_before), now_ms=1)
    if is_allowed:
        group.move_to(ClassicGroupState(state_after), now_ms=2)
        assert (group.state.value, group.previous_state.value) == (state_after, state_before)
        assert group.state_timestamp_ms == 2
    else:
        with pytest.raises(InvariantViolation):
            group.move_to(ClassicGroupState(state_after), now_ms=2)
        assert (group.state.value, group.state_timestamp_ms) == (state_before, 1)


def test_the_table_has_every_state() -> None:
    assert set(VALID_PREVIOUS_STATES) == set(ClassicGroupState)


# The number of a group's topics.


def test_it_changes_with_topics_and_their_partitions_only() -> None:
    hash_of_both = topics_hash({"t", "u"}, image(t=1, u=2))
    assert hash_of_both == topics_hash(["u", "t", "gone"], image(offset=9, t=1, u=2, other=1))
    assert hash_of_both != topics_hash({"t", "u"}, image(t=2, u=2))
    assert hash_of_both != topics_hash({"t"}, image(t=1, u=2))
    assert -(2**63) <= hash_of_both < 2**63


def test_no_topics_are_0() -> None:
    assert topics_hash({"gone"}, image(t=1)) == 0


# Records of share groups, with the bytes that GroupCoordinatorRecordSerde of Kafka 4.4.0 gave.


SHARE_RECORDS: list[tuple[ShareRecord, str, str | None]] = [
    (
        ShareMemberStored(
            group_id="g",
            member_id="m",
            rack_id="r",
            client_id="c",
            client_host="/h",
            topic_names=("a", "b"),
        ),
        "000a 0001 67 0001 6d",
        "0000 02 72 02 63 03 2f68 03 02 61 02 62 00",
    ),
    (
        ShareMemberStored(group_id="g", member_id="m", client_id="", client_host=""),
        "000a 0001 67 0001 6d",
        "0000 00 01 01 01 00",
    ),
    (ShareMemberDeleted(group_id="g", member_id="m"), "000a 0001 67 0001 6d", None),
    (
        ShareEpochStored(group_id="g", group_epoch=3, metadata_hash=-7),
        "000b 0001 67",
        "0000 00000003 fffffffffffffff9 00",
    ),
    (ShareEpochDeleted(group_id="g"), "000b 0001 67", None),
    (
        ShareTargetEpochStored(group_id="g", assignment_epoch=4, timestamp_ms=9),
        "000c 0001 67",
        "0000 00000004 01 00 08 0000000000000009",
    ),
    (
        ShareTargetEpochStored(group_id="g", assignment_epoch=4),
        "000c 0001 67",
        "0000 00000004 00",
    ),
    (ShareTargetEpochDeleted(group_id="g"), "000c 0001 67", None),
    (
        ShareTargetStored(group_id="g", member_id="m", partitions=((T, 0), (T, 2))),
        "000d 0001 67 0001 6d",
        f"0000 02 {T.hex} 03 00000000 00000002 00 00",
    ),
    (ShareTargetDeleted(group_id="g", member_id="m"), "000d 0001 67 0001 6d", None),
    (
        ShareCurrentAssignmentStored(
            group_id="g",
            member_id="m",
            member_epoch=5,
            previous_member_epoch=4,
            partitions=((T, 0), (T, 2)),
        ),
        "000e 0001 67 0001 6d",
        f"0000 00000005 00000004 00 02 {T.hex} 03 00000000 00000002 00 00",
    ),
    (ShareCurrentAssignmentDeleted(group_id="g", member_id="m"), "000e 0001 67 0001 6d", None),
    (
        ShareTopicsStored(
            group_id="g",
            initializing=(ShareTopic(topic_id=T, topic_name="t", partitions=(1,)),),
            initialized=(ShareTopic(topic_id=T, topic_name="t", partitions=(0, 2)),),
            deleting=(DeletingTopic(topic_id=U, topic_name="u"),),
        ),
        "000f 0001 67",
        f"0000 02 {T.hex} 02 74 02 00000001 00 02 {T.hex} 02 74 03 00000000 00000002 00"
        f" 02 {U.hex} 02 75 00 00",
    ),
    (ShareTopicsDeleted(group_id="g"), "000f 0001 67", None),
]


@pytest.mark.parametrize(("record", "key", "value"), SHARE_RECORDS)
def test_bytes_of_share_groups(record: ShareRecord, key: str, value: str | None) -> None:
    record_bytes = bytes.fromhex(key), None if value is None else bytes.fromhex(value)
    assert encode_record(record) == record_bytes
    assert decode_record(*record_bytes) == record
