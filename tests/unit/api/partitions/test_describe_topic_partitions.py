"""DescribeTopicPartitions v0: pages of partitions, cursors that go on."""

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


async def test_a_topic_with_all_that_is_known(two: Api) -> None:
    (topic,) = (await ask(two, **values("sales"))).topics
    assert (topic.error_code, topic.topic_id) == (ErrorCode.none, two.topic_id("sales"))
    assert topic.topic_authorized_operations == 3576
    partition = topic.partitions[0]
    assert (partition.leader_id, partition.leader_epoch) == (1, 0)
    assert (partition.replica_nodes, partition.isr_nodes) == ((1,), (1,))
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((), ())


@pytest.mark.parametrize(
    ("wanted", "found", "cursor"),
    [
        (values("sales", "orders"), {"orders": [0, 1, 2], "sales": [0, 1]}, None),
        (values(), {"orders": [0, 1, 2], "sales": [0, 1]}, None),
        (values("sales", "sales"), {"sales": [0, 1]}, None),
        (values("orders", "sales", limit=2), {"orders": [0, 1]}, ("orders", 2)),
        (values("orders", "sales", limit=3), {"orders": [0, 1, 2]}, ("sales", 0)),
        (values("orders", "sales", limit=4), {"orders": [0, 1, 2], "sales": [0]}, ("sales", 1)),
        (values("orders", "sales", limit=5), {"orders": [0, 1, 2], "sales": [0, 1]}, None),
        (values("orders", limit=0), {"orders": [0]}, ("orders", 1)),
        (values("orders", limit=-1), {"orders": [0]}, ("orders", 1)),
        (values("orders", "sales", cursor=("orders", 2)), {"orders": [2], "sales": [0, 1]}, None),
        (values("orders", "sales", cursor=("sales", 1)), {"sales": [1]}, None),
        (values(cursor=("p", 1)), {"sales": [0, 1]}, None),
        (values(cursor=("z", 0)), {}, None),
        (values(cursor=("a", -1)), {}, None),
    ],
)
async def test_pages(
    two: Api, wanted: dict[str, Any], found: dict[str, list[int]], cursor: tuple[str, int] | None
) -> None:
    assert pages(await ask(two, **wanted)) == (found, cursor)


async def test_the_setting_bounds_every_page() -> None:
    async with handlers(max_request_partition_size_limit=2) as api:
        assert pages(await ask(api, **values("orders"))) == ({"orders": [0, 1]}, ("orders", 2))


async def test_missing_topics_are_answered_among_the_others(two: Api) -> None:
    answer = await ask(two, **values("sales", "missing", "a b"))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a b", ErrorCode.invalid_topic_exception),
        ("missing", ErrorCode.unknown_topic_or_partition),
        ("sales", ErrorCode.none),
    ]


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (values("orders", "sales", cursor=("orders", -1)), ErrorCode.invalid_request),
        (values("orders", "sales", cursor=("p", 0)), ErrorCode.invalid_request),
        (values("orders", ""), ErrorCode.unknown_server_error),
    ],
)
async def test_what_fails_as_a_whole(two: Api, wanted: dict[str, Any], error: ErrorCode) -> None:
    answer = await ask(two, **wanted)
    assert [topic.error_code for topic in answer.topics] == [error, error]
    assert {topic.topic_authorized_operations for topic in answer.topics} == {-(2**31)}
    assert answer.next_cursor is None


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
