"""ListPartitionReassignments v0: what is on the move, of what was asked for."""

from __future__ import annotations

from typing import Any

import msgspec

from tests.support.broker_api import Api
from txnsim.errors import ErrorCode
from txnsim.types import BrokerId, TopicPartition


def reassignment_rows(answer: Any) -> list[tuple[Any, ...]]:
    assert answer.error_code is ErrorCode.none
    return [
        (
            topic.name,
            partition.partition_index,
            partition.replicas,
            partition.adding_replicas,
            partition.removing_replicas,
        )
        for topic in answer.topics
        for partition in topic.partitions
    ]


def begin_reassignment(api: Api, partition_index: int) -> None:
    """Begin a reassignment that never ends, because the new broker does not exist."""
    metadata = api.cluster.metadata
    topic_partition = TopicPartition("orders", partition_index)
    partition = metadata.image.partition(topic_partition)
    assert partition is not None
    metadata.publish(
        metadata.image.with_partition(
            topic_partition,
            msgspec.structs.replace(
                partition,
                partition_epoch=partition.partition_epoch + 1,
                replicas=(*partition.replicas, BrokerId(9)),
                adding=(BrokerId(9),),
            ),
        )
    )


async def test_reassignments_are_answered_in_the_order_of_the_request(api: Api) -> None:
    begin_reassignment(api, 0)
    begin_reassignment(api, 2)
    first_partition, third_partition = (("orders", index, (1, 9), (9,), ()) for index in (0, 2))
    answer = await api.ask("ListPartitionReassignments", 0, topics=None)
    assert reassignment_rows(answer) == [first_partition, third_partition]
    topics = [{"name": "orders", "partition_indexes": [2, 1, 0, 7]}, {"name": "absent"}]
    answer = await api.ask("ListPartitionReassignments", 0, topics=topics)
    assert reassignment_rows(answer) == [third_partition, first_partition]


async def test_refuse(api: Api) -> None:
    answer = api.refuse("ListPartitionReassignments", 0, ErrorCode.not_controller, topics=None)
    assert (answer.error_code, answer.topics) == (ErrorCode.not_controller, ())
    topics = [{"name": "orders", "partition_indexes": [2]}]
    answer = api.refuse("ListPartitionReassignments", 0, ErrorCode.not_controller, topics=topics)
    assert answer.topics[0].partitions[0].replicas == ()
