"""What replicas say to each other goes to Kafka's bytes and back; names of topics do not travel."""

from __future__ import annotations

import uuid
from typing import Any

import msgspec
import pytest

from tests.support.images import B1, B2, TOPIC_ID
from tests.support.logs import batch
from tests.support.peer_codec.codec import KafkaPeerCodec
from txnsim.errors import ErrorCode
from txnsim.interbroker.replication import (
    AlteredPartition,
    AlterPartitionCommand,
    AlterPartitionReply,
    IsrChange,
    ReplicaFetchCommand,
    ReplicaFetchedPartition,
    ReplicaFetchPartition,
    ReplicaFetchReply,
    ReplicaOffsetCommand,
    ReplicaOffsetReply,
)
from txnsim.log._replicated import described
from txnsim.node.peers import (
    ALTER_PARTITION,
    FETCH,
    LIST_OFFSETS,
)
from txnsim.releases import REFERENCE
from txnsim.releases.exchanges import FOLLOWER_FETCH, FOLLOWER_LIST_OFFSETS
from txnsim.types import BrokerId, LeaderEpoch, TopicPartition
from txnsim.wire.batch import assign

CODEC = KafkaPeerCodec()
FETCH_VERSION = FOLLOWER_FETCH.levels[-1][1]
LIST_OFFSETS_VERSION = FOLLOWER_LIST_OFFSETS.levels[-1][1]
ALTER_PARTITION_VERSION = REFERENCE.highest(ALTER_PARTITION)
OTHER_ID = uuid.UUID(int=0x99)
NAMED = TopicPartition("orders", 1)


def unnamed(index: int) -> TopicPartition:
    return TopicPartition("", index)


def position(index: int, **changes: Any) -> ReplicaFetchPartition:
    values: dict[str, Any] = {
        "topic_id": TOPIC_ID,
        "topic_partition": unnamed(index),
        "current_leader_epoch": 4,
        "fetch_offset": 12,
        "last_fetched_epoch": 3,
        "log_start_offset": 2,
        "high_watermark": 11,
        **changes,
    }
    return ReplicaFetchPartition(**values)


FETCH_COMMAND = ReplicaFetchCommand(
    replica_id=B2,
    replica_epoch=7,
    max_wait_ms=500,
    min_bytes=1,
    max_bytes=1_000,
    session_id=5,
    session_epoch=2,
    partitions=(position(0), position(1, max_bytes=7), position(0, topic_id=OTHER_ID)),
    forgotten=((TOPIC_ID, unnamed(3)),),
)
FETCH_REPLY = ReplicaFetchReply(
    session_id=5,
    partitions=(
        ReplicaFetchedPartition(
            topic_id=TOPIC_ID,
            topic_partition=unnamed(0),
            high_watermark=12,
            log_start_offset=1,
            batches=tuple(
                described(
                    assign(batch(index, transactional=True), base_offset=index, leader_epoch=3)
                )
                for index in range(3)
            ),
        ),
        ReplicaFetchedPartition(
            topic_id=TOPIC_ID, topic_partition=unnamed(1), high_watermark=1, diverging=(3, 9)
        ),
        ReplicaFetchedPartition(
            topic_id=OTHER_ID,
            topic_partition=unnamed(0),
            error=ErrorCode.not_leader_or_follower,
            current_leader=(2, 8),
        ),
    ),
)
OFFSET_COMMAND = ReplicaOffsetCommand(
    replica_id=B2, topic_partition=NAMED, current_leader_epoch=4, timestamp_ms=-2
)
ALTER_COMMAND = AlterPartitionCommand(
    broker_id=B1,
    broker_epoch=6,
    partitions=(
        IsrChange(
            topic_id=TOPIC_ID,
            topic_partition=unnamed(2),
            leader_epoch=LeaderEpoch(4),
            new_isr=((B1, -1), (B2, 7)),
            partition_epoch=9,
        ),
    ),
)
ALTER_REPLY = AlterPartitionReply(
    partitions=(
        AlteredPartition(
            topic_id=TOPIC_ID,
            topic_partition=unnamed(2),
            leader=B1,
            leader_epoch=LeaderEpoch(4),
            isr=(B1, BrokerId(3)),
            partition_epoch=10,
        ),
        AlteredPartition(
            topic_id=TOPIC_ID, topic_partition=unnamed(3), error=ErrorCode.ineligible_replica
        ),
    ),
)


@pytest.mark.parametrize(
    ("key", "version", "command"),
    [
        (FETCH, FETCH_VERSION, FETCH_COMMAND),
        (FETCH, FETCH_VERSION, msgspec.structs.replace(FETCH_COMMAND, partitions=())),
        (LIST_OFFSETS, LIST_OFFSETS_VERSION, OFFSET_COMMAND),
        (ALTER_PARTITION, ALTER_PARTITION_VERSION, ALTER_COMMAND),
    ],
)
def test_commands_come_back_as_they_were(key: int, version: int, command: Any) -> None:
    body = CODEC.encode_request(key, version, command)
    assert CODEC.decode_request(key, version, body) == command


@pytest.mark.parametrize(
    ("key", "version", "reply"),
    [
        (FETCH, FETCH_VERSION, FETCH_REPLY),
        (
            FETCH,
            FETCH_VERSION,
            ReplicaFetchReply(error=ErrorCode.fetch_session_id_not_found),
        ),
        (LIST_OFFSETS, LIST_OFFSETS_VERSION, ReplicaOffsetReply(topic_partition=NAMED, offset=8)),
        (
            LIST_OFFSETS,
            LIST_OFFSETS_VERSION,
            ReplicaOffsetReply(topic_partition=NAMED, error=ErrorCode.fenced_leader_epoch),
        ),
        (ALTER_PARTITION, ALTER_PARTITION_VERSION, ALTER_REPLY),
        (
            ALTER_PARTITION,
            ALTER_PARTITION_VERSION,
            AlterPartitionReply(error=ErrorCode.stale_broker_epoch),
        ),
    ],
)
def test_replies_come_back_as_they_were(key: int, version: int, reply: Any) -> None:
    body = CODEC.encode_response(key, version, reply)
    assert CODEC.decode_response(key, version, body) == reply
