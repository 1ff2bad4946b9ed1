"""How structs stand on the wire, as data."""

from __future__ import annotations

from typing import Any

import msgspec

from txnsim.api.peers.shapes import ByTopic, Each, Index, Maybe, Plain, Shape, error
from txnsim.errors import ErrorCode
from txnsim.interbroker.transactions import TxnMarker
from txnsim.node.peers import FETCH, WRITE_TXN_MARKERS
from txnsim.types import CoordinatorEpoch, ProducerEpoch, ProducerId, TopicPartition
from txnsim.wire import codec

A_0, A_1, B_0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
MARKER = Shape(
    TxnMarker,
    "WritableTxnMarker",
    *("producer_id", "producer_epoch", "coordinator_epoch"),
    committed="transaction_result",
    transaction_version=Plain("transaction_version", default=0),
    partitions=ByTopic("topics", "WritableTxnMarkerTopic", partitions="partition_indexes"),
)
TOLD = TxnMarker(
    producer_id=ProducerId(7),
    producer_epoch=ProducerEpoch(2),
    committed=True,
    coordinator_epoch=CoordinatorEpoch(5),
    transaction_version=2,
    partitions=(A_0, B_0, A_1),
)


def test_fields_go_by_both_names_and_partitions_by_topic() -> None:
    message = MARKER.to_message(codec.request_schema(WRITE_TXN_MARKERS, 2), TOLD)
    assert message.transaction_result
    assert [(each.name, each.partition_indexes) for each in message.topics] == [
        ("a", (0, 1)),
        ("b", (0,)),
    ]
    back = msgspec.structs.replace(TOLD, partitions=(A_0, A_1, B_0))
    assert MARKER.from_message(message) == back


def test_what_a_version_has_not_is_left_out_and_read_as_its_default() -> None:
    message = MARKER.to_message(codec.request_schema(WRITE_TXN_MARKERS, 1), TOLD)
    assert MARKER.from_message(message).transaction_version == 0


def test_a_tuple_has_its_fields_in_order() -> None:
    shape = Shape(None, "WritableTxnMarkerPartitionResult", partition=Index(), error=error())
    schema = codec.response_schema(WRITE_TXN_MARKERS, 2)
    topics = ByTopic("topics", "WritableTxnMarkerTopicResult", shape)
    result = Shape(None, "WritableTxnMarkerResult", "producer_id", results=topics)
    each = Each("markers", result)
    values = ((7, ((A_0, 0), (B_0, 6))),)
    message: dict[str, Any] = {}
    each.write(schema, values, message)
    told: Any = message["markers"][0]
    assert told.topics[1].partitions[0].error_code is ErrorCode.not_leader_or_follower
    assert result.from_message(told) == values[0]


def test_a_pair_may_be_missing() -> None:
    schema = codec.response_schema(FETCH, 18)
    maybe = Maybe("diverging_epoch", Shape(None, "EpochEndOffset", "epoch", "end_offset"))
    message: dict[str, object] = {}
    maybe.write(schema, None, message)
    assert not message
    for value in ((3, 9), None):
        found: dict[str, object] = {}
        maybe.write(schema, value, found)
        data = codec.build(
            schema.PartitionData,
            partition_index=0,
            error_code=ErrorCode.none,
            high_watermark=0,
            aborted_transactions=None,
            records=None,
            **found,
        )
        assert maybe.read(data, None) == value
