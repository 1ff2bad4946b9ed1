"""Records of the consumer protocol, as Kafka writes them (ConsumerGroup*.json)."""

from __future__ import annotations

import struct
import uuid

import pytest

from txnsim.group.consumer_records import (
    ClassicMetadata,
    ConsumerRecord,
    CurrentDeleted,
    CurrentStored,
    EpochDeleted,
    EpochStored,
    RegexDeleted,
    RegexStored,
    SubscriptionDeleted,
    SubscriptionStored,
    TargetDeleted,
    TargetEpochDeleted,
    TargetEpochStored,
    TargetStored,
)
from txnsim.group.log_format import decode_record, encode_record

T = uuid.UUID(int=1)
U = uuid.UUID(int=2)

RECORDS: list[ConsumerRecord] = [
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
    CurrentStored(
        group_id="g",
        member_id="m",
        member_epoch=5,
        previous_member_epoch=4,
        state=1,
        assigned=((T, 0, 3), (T, 2, 5), (U, 1, 5)),
        pending_revocation=((U, 0, 1),),
    ),
    CurrentDeleted(group_id="g", member_id="m"),
    RegexStored(group_id="g", regex="x.*", topics=("a",), version=8, timestamp_ms=9),
    RegexDeleted(group_id="g", regex="x.*"),
]


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_written_can_be_read(record: ConsumerRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_bytes_of_an_epoch() -> None:
    key, value = encode_record(RECORDS[0])
    assert key == bytes.fromhex("0003 0001 67")
    assert value == bytes.fromhex("0000 00000003 01 00 08 fffffffffffffff9")


def test_partitions_of_records_before_4_3_have_the_member_s_epoch() -> None:
    value = struct.pack("!hiib", 0, 5, 4, 0) + b"\x02" + T.bytes + b"\x02" + struct.pack("!i", 7)
    value += b"\x00" + b"\x01" + b"\x00"
    key, _ = encode_record(CurrentDeleted(group_id="g", member_id="m"))
    found = decode_record(key, value)
    assert isinstance(found, CurrentStored)
    assert found.assigned == ((T, 7, 5),)


def test_values_of_later_versions_and_topics_of_older_groups_are_skipped() -> None:
    key, _ = encode_record(EpochDeleted(group_id="g"))
    assert decode_record(key, b"\x00\x01") is None
    assert decode_record(b"\x00\x04" + key[2:], b"\x00\x00\x01\x00") is None
