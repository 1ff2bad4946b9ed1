"""AlterReplicaLogDirs: to the one directory there is, and to any other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, handlers
from txnsim.api._partitions.describe_log_dirs import directory_of
from txnsim.errors import ErrorCode
from txnsim.types import TopicPartition

E = ErrorCode


def move(path: str, name: str, *partitions: int) -> dict[str, Any]:
    return {"path": path, "topics": [{"name": name, "partitions": list(partitions)}]}


def errors(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in answer.results
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_a_replica_is_where_it_is_or_nowhere(api: Api, version: int) -> None:
    own = directory_of(api.broker)
    answer = await api.ask(
        "AlterReplicaLogDirs",
        version,
        dirs=[move(own, "orders", 0, 99), move("/other", "orders", 1), move(own, "absent", 0)],
    )
    assert errors(answer) == {
        ("orders", 0): E.none,
        ("orders", 99): E.unknown_topic_or_partition,
        ("orders", 1): E.log_dir_not_found,
        ("absent", 0): E.unknown_topic_or_partition,
    }


async def test_the_last_directory_of_a_partition_holds(api: Api) -> None:
    own = directory_of(api.broker)
    dirs = [move(own, "orders", 0), move("/other", "orders", 0)]
    request = {"dirs": dirs}
    assert errors(await api.ask("AlterReplicaLogDirs", 2, **request)) == {
        ("orders", 0): E.log_dir_not_found
    }
    assert api.subject("AlterReplicaLogDirs", 2, **request).partitions == (
        TopicPartition("orders", 0),
    )
    refused = api.refuse("AlterReplicaLogDirs", 2, E.cluster_authorization_failed, **request)
    assert errors(refused) == {("orders", 0): E.cluster_authorization_failed}


async def test_a_broker_without_a_replica_says_so() -> None:
    async with handlers(brokers=4) as api:
        replicas = api.broker.image.topics["orders"].partitions[0].replicas
        other = api.at(next(broker for broker in range(1, 5) if broker not in replicas))
        dirs = [move(directory_of(other.broker), "orders", 0)]
        answer = await other.ask("AlterReplicaLogDirs", 2, dirs=dirs)
        assert errors(answer) == {("orders", 0): E.not_leader_or_follower}
