"""Topics that may not be seen are left out of lists; a client learns no names from ids, or ids from
names.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.security import GuardedApi, acl
from txnsim.errors import ErrorCode
from txnsim.security.acls import CLUSTER_NAME, Operation, ResourceType

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
FORBIDDEN = ErrorCode.topic_authorization_failed
DESCRIBE_ORDERS = acl(TOPIC, "orders", Operation.DESCRIBE)
NO_ID = uuid.UUID(int=0)


@pytest.mark.parametrize(("version", "every"), [(0, []), (9, None)])
async def test_all_topics_are_those_that_may_be_seen(
    api: GuardedApi, version: int, every: Any
) -> None:
    assert (await api.ask("Metadata", version, topics=every)).topics == ()
    api.grant(DESCRIBE_ORDERS)
    answer = await api.ask("Metadata", version, topics=every)
    assert [topic.name for topic in answer.topics] == ["orders"]
    assert len(answer.brokers) == 1


async def test_asking_for_a_topic_without_the_right_does_not_create_it(api: GuardedApi) -> None:
    api.grant(acl(TOPIC, "*", Operation.DESCRIBE))
    wanted = [{"name": "new"}]
    answer = await api.ask("Metadata", 9, topics=wanted, allow_auto_topic_creation=True)
    assert answer.topics[0].error_code is FORBIDDEN
    answer = await api.ask("Metadata", 9, topics=wanted, allow_auto_topic_creation=False)
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    assert "new" not in api.api.broker.image.topics
    api.grant(acl(TOPIC, "new", Operation.CREATE))
    await api.ask("Metadata", 9, topics=wanted, allow_auto_topic_creation=True)
    assert "new" in api.api.broker.image.topics


async def test_the_oldest_clients_are_not_shown_everything_where_all_they_want_is_forbidden(
    api: GuardedApi,
) -> None:
    api.grant(DESCRIBE_ORDERS)
    answer = await api.ask("Metadata", 0, topics=[{"name": "hidden"}])
    assert [(one.name, one.error_code) for one in answer.topics] == [("hidden", FORBIDDEN)]
    assert len(answer.brokers) == 1


async def test_internal_topics_look_like_any_other_while_forbidden(api: GuardedApi) -> None:
    answer = await api.ask("Metadata", 9, topics=[{"name": "__consumer_offsets"}])
    assert (answer.topics[0].error_code, answer.topics[0].is_internal) == (FORBIDDEN, False)


async def test_an_id_does_not_tell_the_name(api: GuardedApi) -> None:
    hidden, unknown = api.api.topic_id("hidden"), uuid.UUID(int=9)
    wanted = [{"topic_id": one, "name": None} for one in (hidden, unknown)]
    answer = await api.ask("Metadata", 12, topics=wanted)
    found = {topic.topic_id: (topic.error_code, topic.name) for topic in answer.topics}
    assert found == {hidden: (FORBIDDEN, None), unknown: (ErrorCode.unknown_topic_id, None)}
    answer = await api.ask("Metadata", 12, topics=[{"topic_id": NO_ID, "name": None}])
    assert answer.topics[0].error_code is ErrorCode.unknown_server_error


async def test_a_client_learns_what_it_may_do(api: GuardedApi) -> None:
    api.grant(DESCRIBE_ORDERS)
    asked: dict[str, Any] = {
        "topics": [{"name": "orders"}, {"name": "hidden"}],
        "include_topic_authorized_operations": True,
        "include_cluster_authorized_operations": True,
    }
    answer = await api.ask("Metadata", 9, **asked)
    bits = {topic.name: topic.topic_authorized_operations for topic in answer.topics}
    assert bits == {"orders": 1 << Operation.DESCRIBE, "hidden": -(2**31)}
    assert answer.cluster_authorized_operations == 0
    api.grant(acl(CLUSTER, CLUSTER_NAME, Operation.ALTER))
    answer = await api.ask("Metadata", 9, **asked)
    expected = 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    assert answer.cluster_authorized_operations == expected
    answer = await api.ask("DescribeCluster", 1, include_cluster_authorized_operations=True)
    assert answer.cluster_authorized_operations == expected
    answer = await api.ask("DescribeCluster", 1, include_cluster_authorized_operations=False)
    assert answer.cluster_authorized_operations == -(2**31)


async def test_configs_of_a_new_topic_are_shown_with_the_right_to_see_them(api: GuardedApi) -> None:
    api.grant(acl(CLUSTER, CLUSTER_NAME, Operation.CREATE))
    wanted = {"name": "new", "num_partitions": 2, "replication_factor": 1}
    answer = await api.ask("CreateTopics", 7, topics=[wanted], validate_only=True)
    (topic,) = answer.topics
    assert (topic.error_code, topic.num_partitions, topic.configs) == (ErrorCode.none, -1, ())
    assert topic.topic_config_error_code == FORBIDDEN
    answer = await api.ask("CreateTopics", 4, topics=[wanted], validate_only=True)
    assert answer.topics[0].error_code is ErrorCode.none
    api.grant(acl(TOPIC, "new", Operation.DESCRIBE_CONFIGS))
    answer = await api.ask("CreateTopics", 7, topics=[wanted], validate_only=True)
    assert answer.topics[0].num_partitions == 2
    assert answer.topics[0].topic_config_error_code == ErrorCode.none


async def test_topics_are_deleted_by_name_with_the_right_to(api: GuardedApi) -> None:
    names = ["orders", "hidden", "missing"]

    async def delete() -> dict[str, ErrorCode]:
        answer = await api.ask("DeleteTopics", 5, topic_names=names)
        return {one.name: one.error_code for one in answer.responses}

    assert await delete() == dict.fromkeys(names, FORBIDDEN)
    api.grant(DESCRIBE_ORDERS, acl(TOPIC, "missing", Operation.DESCRIBE))
    assert await delete() == {
        "orders": FORBIDDEN,
        "hidden": FORBIDDEN,
        "missing": ErrorCode.unknown_topic_or_partition,
    }
    api.grant(acl(TOPIC, "orders", Operation.DELETE))
    assert (await delete())["orders"] is ErrorCode.none
    api.grant(acl(CLUSTER, CLUSTER_NAME, Operation.DELETE))
    assert (await delete())["hidden"] is ErrorCode.none
    assert api.api.broker.image.topics.keys().isdisjoint(names)


async def test_topics_are_deleted_by_id_with_the_right_to(api: GuardedApi) -> None:
    hidden, orders = api.api.topic_id("hidden"), api.api.topic_id("orders")
    api.grant(DESCRIBE_ORDERS)
    wanted = [
        {"name": None, "topic_id": hidden},
        {"name": None, "topic_id": orders},
        {"name": None, "topic_id": uuid.UUID(int=9)},
        {"name": None, "topic_id": NO_ID},
        {"name": "hidden", "topic_id": hidden},
    ]
    answer = await api.ask("DeleteTopics", 6, topics=wanted)
    found = [(one.name, one.topic_id, one.error_code) for one in answer.responses]
    assert (None, hidden, FORBIDDEN) in found
    assert ("orders", orders, FORBIDDEN) in found
    assert (None, uuid.UUID(int=9), ErrorCode.unknown_topic_id) in found
    assert [error for _, _, error in found].count(ErrorCode.invalid_request) == 2
    api.grant(acl(TOPIC, "*", Operation.DELETE))
    answer = await api.ask("DeleteTopics", 6, topics=wanted[2:3])
    assert answer.responses[0].error_code is ErrorCode.unknown_topic_id
    answer = await api.ask("DeleteTopics", 6, topics=wanted[:1])
    assert answer.responses[0].error_code is ErrorCode.none


async def test_pages_of_topics_have_those_that_may_be_seen(api: GuardedApi) -> None:
    async def page(**values: Any) -> Any:
        return await api.ask("DescribeTopicPartitions", 0, response_partition_limit=9, **values)

    assert (await page()).topics == ()
    api.grant(DESCRIBE_ORDERS)
    answer = await page()
    (topic,) = answer.topics
    assert topic.topic_authorized_operations == 1 << Operation.DESCRIBE
    answer = await page(cursor={"topic_name": "hidden", "partition_index": 0})
    assert [one.name for one in answer.topics] == ["orders"]
    answer = await page(cursor={"topic_name": "orders", "partition_index": 0})
    assert [one.name for one in answer.topics] == ["orders"]
    answer = await page(cursor={"topic_name": "zebra", "partition_index": 0})
    assert answer.topics == ()
