"""Positions of transactions in the trace."""

from __future__ import annotations

from txnsim.coordinators._ownership import Ownership
from txnsim.coordinators.group._tracing import OffsetTrace, PositionNow
from txnsim.errors import ErrorCode
from txnsim.group._offsets import LATEST
from txnsim.group.offset_commands import CommitOffsets, CommittingProducer, NewPosition
from txnsim.group.records import OffsetCommitted
from txnsim.group.shard import GroupShard
from txnsim.interbroker.transactions import TxnMarker
from txnsim.runtime.trace import TraceLevel, Tracer
from txnsim.types import (
    CONSUMER_OFFSETS_TOPIC,
    BrokerId,
    CoordinatorEpoch,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
    TransactionalId,
)

PLACES = (TopicPartition("t", 0), TopicPartition("t", 1))
PID = ProducerId(7)


def owner() -> Ownership[GroupShard]:
    return Ownership(
        topic=CONSUMER_OFFSETS_TOPIC,
        kind="group",
        broker_id=BrokerId(2),
        partitions=9,
    )


def test_a_snapshot_has_positions_and_what_waits() -> None:
    shard = GroupShard(partition=5, coordinator_epoch=0)
    owned = owner()
    owned.owned[5] = shard
    trace = OffsetTrace(Tracer(lambda: 0), owned)
    for place, offset, pid in ((PLACES[0], 3, None), (PLACES[1], 4, PID)):
        shard.offsets.apply_commit(
            OffsetCommitted(
                group_id="g", topic_partition=place, position=offset, commit_timestamp_ms=0
            ),
            record_offset=offset,
            producer_id=pid,
            replicated=LATEST,
        )
    node = "broker/2/group/5"
    assert list(trace.positions()) == [
        PositionNow(node=node, group="g", tp="t-0", offset=3),
        PositionNow(node=node, group="g", tp="t-1", offset=4, pid=PID),
    ]


def test_positions_wait_for_the_marker_that_decides_them() -> None:
    tracer = Tracer(lambda: 0, level=TraceLevel.FULL, strict=True)
    trace, shard = OffsetTrace(tracer, owner()), GroupShard(partition=5, coordinator_epoch=0)
    trace.pending(
        shard,
        CommitOffsets(
            group_id="g",
            positions=tuple(NewPosition(topic_partition=place, offset=3) for place in PLACES),
        ),
        CommittingProducer(
            transactional_id=TransactionalId("app"),
            producer_id=PID,
            producer_epoch=ProducerEpoch(1),
        ),
        ((PLACES[0], ErrorCode.none), (PLACES[1], ErrorCode.offset_metadata_too_large)),
    )
    shard.offsets.apply_commit(
        OffsetCommitted(group_id="g", topic_partition=PLACES[0], position=3, commit_timestamp_ms=0),
        record_offset=0,
        producer_id=PID,
        replicated=LATEST,
    )
    for committed in (True, False):
        marker = TxnMarker(
            producer_id=PID,
            producer_epoch=ProducerEpoch(1),
            committed=committed,
            coordinator_epoch=CoordinatorEpoch(0),
            transaction_version=2,
            partitions=(),
        )
        trace.decided(shard, marker)
    told = {"group": "g", "tp": "t-0", "offset": 3, "pid": 7}
    events = list(tracer.events())
    assert [(event.k, event.tx, event.d) for event in events] == [
        ("group.offset_pending", "app/7:1", told),
        ("group.offset_commit", "", told),
        ("group.offset_abort", "", told),
    ]
    assert tracer.nodes == ("broker/2/group/5",)
