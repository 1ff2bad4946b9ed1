"""DescribeTopicPartitions v0: bounds, eligible replicas; pages are in the transcripts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, handlers
from tests.support.images import B1, B2, B3
from txnsim.controller.registrations import fence_broker
from txnsim.errors import ErrorCode


@pytest.fixture
async def two(api: Api) -> Api:
    """The api with ``orders`` (three partitions) and ``sales`` (two)."""
    wanted = {"name": "sales", "num_partitions": 2, "replication_factor": 1}
    await api.ask("CreateTopics", 7, topics=[wanted])
    return api


def values(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> dict[str, Any]:
    return {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": limit,
        "cursor": None
        if cursor is None
        else {"topic_name": cursor[0], "partition_index": cursor[1]},
    }


def pages(answer: Any) -> tuple[dict[str, list[int]], tuple[str, int] | None]:
    found = {topic.name: [p.partition_index for p in topic.partitions] for topic in answer.topics}
    cursor = answer.next_cursor
    return found, None if cursor is None else (cursor.topic_name, cursor.partition_index)


async def ask(api: Api, **wanted: Any) -> Any:
    return await api.ask("DescribeTopicPartitions", 0, **wanted)


async def test_the_setting_bounds_every_page() -> None:
    async with handlers(max_request_partition_size_limit=2) as api:
        assert pages(await ask(api, **values("orders"))) == ({"orders": [0, 1]}, ("orders", 2))


async def test_refusing_names_every_topic(two: Api) -> None:
    refused = two.refuse("DescribeTopicPartitions", 0, ErrorCode.request_timed_out, **values("a"))
    assert refused.topics[0].error_code is ErrorCode.request_timed_out
    assert two.refuse("DescribeTopicPartitions", 0, ErrorCode.request_timed_out).topics == ()


async def test_eligible_replicas_and_the_last_leader_are_answered_and_no_leader_is_no_error(
    api_of_three: Api,
) -> None:
    metadata = api_of_three.cluster.metadata
    for broker in (B3, B2, B1):
        metadata.publish(fence_broker(metadata.image, broker, metadata.settings))
    answer = await ask(api_of_three, **values("orders"))
    found = answer.topics[0].partitions[0]
    assert (found.error_code, found.leader_id) == (ErrorCode.none, -1)
    assert (found.isr_nodes, found.offline_replicas) == ((), (1, 2, 3))
    assert (found.eligible_leader_replicas, found.last_known_elr) == ((1,), (1,))
