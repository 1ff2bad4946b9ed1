"""Records of streams groups as bytes, and what older or odd records mean."""

from __future__ import annotations

import pytest

from tests.support.streams_groups import COUNTING
from txnsim.group.log_format import decode_record, encode_record
from txnsim.group.records import GroupRecord
from txnsim.group.streams._records import (
    StreamsCurrentAssignmentDeleted,
    StreamsCurrentAssignmentStored,
    StreamsEpochDeleted,
    StreamsEpochStored,
    StreamsMemberDeleted,
    StreamsMemberStored,
    StreamsTargetDeleted,
    StreamsTargetEpochDeleted,
    StreamsTargetEpochStored,
    StreamsTargetStored,
    StreamsTopologyDeleted,
    StreamsTopologyStored,
)
from txnsim.group.streams.topology import CopartitionGroup, Subtopology, TopicInfo

CURRENT = StreamsCurrentAssignmentStored(
    group_id="g",
    member_id="m",
    member_epoch=5,
    previous_member_epoch=4,
    state=2,
    active=(("0", 0, 3), ("0", 2, 5)),
    standby=(("1", 1),),
    warmup=(("1", 2),),
    active_revoked=(("1", 0, 4),),
    standby_revoked=(("1", 3),),
    warmup_revoked=(("1", 4),),
)
RECORDS: list[GroupRecord] = [
    StreamsEpochStored(
        group_id="g",
        group_epoch=7,
        metadata_hash=-9,
        validated_topology_epoch=2,
        assignment_configs=(("num.standby.replicas", "1"),),
        stored_description_topology_epoch=3,
        failed_description_topology_epoch=4,
    ),
    StreamsEpochStored(group_id="g", group_epoch=7),
    StreamsEpochDeleted(group_id="g"),
    StreamsMemberStored(
        group_id="g",
        member_id="m",
        instance_id="i",
        rack_id="r",
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=5,
        topology_epoch=2,
        process_id="p",
        endpoint=("e", 60_000),
        client_tags=(("a", "b"),),
    ),
    StreamsMemberStored(
        group_id="g",
        member_id="m",
        client_id="c",
        client_host="/h",
        topology_epoch=0,
        process_id="p",
    ),
    StreamsMemberDeleted(group_id="g", member_id="m"),
    StreamsTargetEpochStored(group_id="g", assignment_epoch=5, timestamp_ms=6),
    StreamsTargetEpochDeleted(group_id="g"),
    StreamsTargetStored(
        group_id="g",
        member_id="m",
        active=(("0", 0), ("0", 1), ("1", 0)),
        standby=(("1", 1),),
        warmup=(("1", 2),),
    ),
    StreamsTargetDeleted(group_id="g", member_id="m"),
    CURRENT,
    StreamsCurrentAssignmentDeleted(group_id="g", member_id="m"),
    StreamsTopologyStored(
        group_id="g",
        topology_epoch=3,
        subtopologies=(
            *COUNTING,
            Subtopology(
                subtopology_id="2",
                source_topics=("a", "b"),
                source_topic_regex=("c.*",),
                repartition_source_topics=(
                    TopicInfo(name="r", partitions=3, replication_factor=2),
                ),
                copartition_groups=(
                    CopartitionGroup(
                        source_topics=(0, 1),
                        source_topic_regex=(0,),
                        repartition_source_topics=(0,),
                    ),
                ),
            ),
        ),
    ),
    StreamsTopologyDeleted(group_id="g"),
]


@pytest.mark.parametrize("record", RECORDS)
def test_what_is_written_can_be_read(record: GroupRecord) -> None:
    assert decode_record(*encode_record(record)) == record


def test_bytes_are_kafka_s() -> None:
    key, record_value = encode_record(CURRENT)
    assert key == bytes.fromhex("0016 0001 67 0001 6d")
    assert record_value == bytes.fromhex(
        "0000 00000005 00000004 02"
        " 02 02 30 03 00000000 00000002 01 00 09 03 00000003 00000005"
        " 02 02 31 02 00000001 00"
        " 02 02 31 02 00000002 00"
        " 02 02 31 02 00000000 01 00 05 02 00000004"
        " 02 02 31 02 00000003 00"
        " 02 02 31 02 00000004 00"
        " 00"
    )


@pytest.mark.parametrize("tail", ["00", "01 00 05 02 00000003"])
def test_tasks_without_epochs_count_from_the_member_s(tail: str) -> None:
    key, _ = encode_record(CURRENT)
    record_value = bytes.fromhex(
        f"0000 00000005 00000004 01 02 02 30 03 00000000 00000002 {tail} 01 01 01 01 01 00"
    )
    record = decode_record(key, record_value)
    assert isinstance(record, StreamsCurrentAssignmentStored)
    assert record.active == (("0", 0, 5), ("0", 2, 5))
