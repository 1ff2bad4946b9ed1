"""DescribeLogDirs v1 to v5: sizes of what a broker hosts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_api import Api
from txnsim.errors import ErrorCode


def size_by_partition(answer: Any) -> dict[tuple[str, int], int]:
    (directory,) = answer.results
    assert directory.error_code is ErrorCode.none
    return {
        (topic.name, partition.partition_index): partition.partition_size
        for topic in directory.topics
        for partition in topic.partitions
    }


async def test_null_asks_for_everything_and_nothing_for_nothing(api: Api) -> None:
    all_sizes = size_by_partition(await api.ask("DescribeLogDirs", 5, topics=None))
    assert {("orders", 0), ("orders", 1), ("orders", 2)} <= set(all_sizes)
    assert size_by_partition(await api.ask("DescribeLogDirs", 5, topics=[])) == {}


async def test_a_broker_tells_of_its_own_replicas(api_of_three: Api) -> None:
    for broker_id in (1, 2, 3):
        api = api_of_three.on_broker(broker_id)
        answer = await api.ask("DescribeLogDirs", 5, topics=None)
        assert answer.results[0].log_dir == f"memory/broker-{broker_id}"
        hosted = {
            (topic_partition.topic, topic_partition.partition)
            for topic_partition in api.broker.replicas.hosted
        }
        assert set(size_by_partition(answer)) == hosted


@pytest.mark.parametrize("version", [2, 3])
async def test_refuse(api: Api, version: int) -> None:
    error = ErrorCode.cluster_authorization_failed
    answer = api.refuse("DescribeLogDirs", version, error, topics=None)
    assert answer.results == ()
    if version >= 3:
        assert answer.error_code is error
