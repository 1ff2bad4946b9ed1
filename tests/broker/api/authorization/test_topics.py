"""Topics that may not be seen are left out of lists; a client learns no names from ids, or ids from
names.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.security import GuardedApi, acl
from txnsim.errors import ErrorCode
from txnsim.security.acls import CLUSTER_NAME, Operation, ResourceType

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
FORBIDDEN = ErrorCode.topic_authorization_failed
DESCRIBE_ORDERS = acl(TOPIC, "orders", Operation.DESCRIBE)


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
