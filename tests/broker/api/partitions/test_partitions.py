"""Handlers of topics, partitions and replicas."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.broker_api import Api, batch, fetch, handlers, produce
from tests.support.images import B1, B2, B3
from txnsim.api._partitions.describe_log_dirs import directory_of
from txnsim.controller.registrations import fence_broker
from txnsim.errors import ErrorCode
from txnsim.faults.subjects import Subject
from txnsim.types import BrokerId, TopicPartition

# ``alter_partition_reassignments``: AlterPartitionReassignments v0 and v1: replicas move, and with
# them what they hold.


P0 = TopicPartition("orders", 0)
"""Led by the first of three brokers, which all have it."""


def reassignment_fields(
    replicas: list[int] | None, *, topic: str = "orders", partition: int = 0
) -> dict[str, Any]:
    partitions = [{"partition_index": partition, "replicas": replicas}]
    return {"topics": [{"name": topic, "partitions": partitions}]}


def error_and_partitions(answer: Any) -> tuple[ErrorCode, list[tuple[int, ErrorCode, str | None]]]:
    return answer.error_code, [
        (partition.partition_index, partition.error_code, partition.error_message)
        for topic in answer.responses
        for partition in topic.partitions
    ]


DONE = (ErrorCode.none, [(0, ErrorCode.none, None)])


async def until_replicas(api: Api, *replicas: int) -> None:
    for _ in range(2_000):
        partition = api.broker.image.partition(P0)
        assert partition is not None
        if partition.replicas == replicas and not partition.is_reassigning:
            return
        await asyncio.sleep(0.001)
    raise AssertionError(f"{P0} stays {partition}")


async def alone(api: Api) -> None:
    await api.ask("AlterPartitionReassignments", 1, **reassignment_fields([1]))
    await until_replicas(api, 1)


@pytest.mark.parametrize("version", [0, 1])
async def test_a_partition_moves_with_its_records(api_of_three: Api, version: int) -> None:
    api = api_of_three
    await alone(api)
    assert P0 not in api.on_broker(3).broker.replicas.hosted
    await api.ask("Produce", 9, **produce("orders", batch()))
    assert (
        error_and_partitions(
            await api.ask("AlterPartitionReassignments", version, **reassignment_fields([3, 2]))
        )
        == DONE
    )
    await until_replicas(api, 3, 2)
    assert P0 not in api.broker.replicas.hosted
    moved_partition = api.on_broker(3).broker.replicas.leader_log(P0)
    assert moved_partition is api.cluster.brokers[BrokerId(3)].replicas.hosted[P0]
    assert moved_partition.high_watermark == 1


async def test_a_reassignment_that_waits_can_be_cancelled(api_of_three: Api) -> None:
    api = api_of_three
    empty_answer = await api.ask("AlterPartitionReassignments", 1, **reassignment_fields(None))
    assert error_and_partitions(empty_answer)[1] == [
        (0, ErrorCode.no_reassignment_in_progress, None)
    ]
    await alone(api)
    await api.cluster.members[BrokerId(3)].kill(lose_unflushed=False)
    assert (
        error_and_partitions(
            await api.ask("AlterPartitionReassignments", 1, **reassignment_fields([3]))
        )
        == DONE
    )
    partition = api.broker.image.partition(P0)
    assert partition is not None
    assert (partition.replicas, partition.adding, partition.removing) == ((3, 1), (3,), (1,))
    assert (
        error_and_partitions(
            await api.ask("AlterPartitionReassignments", 1, **reassignment_fields(None))
        )
        == DONE
    )
    await until_replicas(api, 1)


async def test_refuse_and_subject(api: Api) -> None:
    error = ErrorCode.not_controller
    answer = api.refuse("AlterPartitionReassignments", 0, error, **reassignment_fields([1]))
    assert error_and_partitions(answer) == (error, [(0, error, None)])
    subject = api.subject("AlterPartitionReassignments", 0, **reassignment_fields([1]))
    assert subject == Subject(partitions=(P0,))


# ``elect_leaders``: ElectLeaders v0 to v2: the preferred leader comes back; who is told of what.


P1 = TopicPartition("orders", 1)
"""Led by broker 2 of three, which is its preferred replica."""


def elect(*partitions: int, election_type: int = 0, topic: str = "orders") -> dict[str, Any]:
    topic_partitions = [{"topic": topic, "partitions": list(partitions)}]
    return {"election_type": election_type, "topic_partitions": topic_partitions, "timeout": 1_000}


def errors(answer: Any) -> list[tuple[str, int, ErrorCode]]:
    return [
        (result.topic, partition_result.partition_id, partition_result.error_code)
        for result in answer.replica_election_results
        for partition_result in result.partition_result
    ]


def leader(api: Api) -> tuple[int, int]:
    partition = api.broker.image.partition(P1)
    assert partition is not None
    return partition.leader, partition.leader_epoch


@pytest.mark.parametrize("version", range(3))
async def test_the_preferred_leader_comes_back(api_of_three: Api, version: int) -> None:
    api = api_of_three
    api.cluster.move_leader(P1, BrokerId(3))
    answer = await api.ask("ElectLeaders", version, **elect(1))
    assert errors(answer) == [("orders", 1, ErrorCode.none)]
    assert leader(api) == (2, 2)
    assert P1 in api.on_broker(2).broker.replicas.led
    second_answer = await api.ask("ElectLeaders", version, **elect(1))
    assert errors(second_answer) == [("orders", 1, ErrorCode.election_not_needed)]
    assert leader(api) == (2, 2)


async def test_all_partitions_that_needed_an_election_are_answered(api_of_three: Api) -> None:
    api_of_three.cluster.move_leader(P1, BrokerId(3))
    values = {**elect(), "topic_partitions": None}
    answer = await api_of_three.ask("ElectLeaders", 2, **values)
    assert errors(answer) == [("orders", 1, ErrorCode.none)]
    assert leader(api_of_three)[0] == 2


@pytest.mark.parametrize("version", range(3))
async def test_refuse(api: Api, version: int) -> None:
    answer = api.refuse("ElectLeaders", version, ErrorCode.not_controller, **elect(0))
    assert errors(answer) == [("orders", 0, ErrorCode.not_controller)]
    values = {**elect(), "topic_partitions": None}
    assert errors(api.refuse("ElectLeaders", version, ErrorCode.not_controller, **values)) == []


async def test_subject(api: Api) -> None:
    assert [
        str(partition) for partition in api.subject("ElectLeaders", 2, **elect(0, 2)).partitions
    ] == [
        "orders-0",
        "orders-2",
    ]


# ``alter_replica_log_dirs``: AlterReplicaLogDirs: to the one directory there is, and to any other.


E = ErrorCode


def move_of_alter_replica_log_dirs(path: str, name: str, *partitions: int) -> dict[str, Any]:
    return {"path": path, "topics": [{"name": name, "partitions": list(partitions)}]}


def errors_of_alter_replica_log_dirs(answer: Any) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.topic_name, partition.partition_index): partition.error_code
        for topic in answer.results
        for partition in topic.partitions
    }


@pytest.mark.parametrize("version", [1, 2])
async def test_a_replica_is_where_it_is_or_nowhere(api: Api, version: int) -> None:
    own_directory = directory_of(api.broker)
    answer = await api.ask(
        "AlterReplicaLogDirs",
        version,
        dirs=[
            move_of_alter_replica_log_dirs(own_directory, "orders", 0, 99),
            move_of_alter_replica_log_dirs("/other", "orders", 1),
            move_of_alter_replica_log_dirs(own_directory, "absent", 0),
        ],
    )
    assert errors_of_alter_replica_log_dirs(answer) == {
        ("orders", 0): E.none,
        ("orders", 99): E.unknown_topic_or_partition,
        ("orders", 1): E.log_dir_not_found,
        ("absent", 0): E.unknown_topic_or_partition,
    }


async def test_the_last_directory_of_a_partition_holds(api: Api) -> None:
    own_directory = directory_of(api.broker)
    dirs = [
        move_of_alter_replica_log_dirs(own_directory, "orders", 0),
        move_of_alter_replica_log_dirs("/other", "orders", 0),
    ]
    request = {"dirs": dirs}
    assert errors_of_alter_replica_log_dirs(await api.ask("AlterReplicaLogDirs", 2, **request)) == {
        ("orders", 0): E.log_dir_not_found
    }
    assert api.subject("AlterReplicaLogDirs", 2, **request).partitions == (
        TopicPartition("orders", 0),
    )
    refusal_answer = api.refuse("AlterReplicaLogDirs", 2, E.cluster_authorization_failed, **request)
    assert errors_of_alter_replica_log_dirs(refusal_answer) == {
        ("orders", 0): E.cluster_authorization_failed
    }


async def test_a_broker_without_a_replica_says_so() -> None:
    async with handlers(brokers=4) as api:
        replicas = api.broker.image.topics["orders"].partitions[0].replicas
        other_api = api.on_broker(next(broker for broker in range(1, 5) if broker not in replicas))
        dirs = [move_of_alter_replica_log_dirs(directory_of(other_api.broker), "orders", 0)]
        answer = await other_api.ask("AlterReplicaLogDirs", 2, dirs=dirs)
        assert errors_of_alter_replica_log_dirs(answer) == {("orders", 0): E.not_leader_or_follower}


# ``describe_topic_partitions``: DescribeTopicPartitions v0: bounds, eligible replicas; pages are in
# the transcripts.


@pytest.fixture
async def two(api: Api) -> Api:
    """The api of a cluster with the topics ``orders`` (three partitions) and ``sales`` (two)."""
    new_topic = {"name": "sales", "num_partitions": 2, "replication_factor": 1}
    await api.ask("CreateTopics", 7, topics=[new_topic])
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
    partitions_by_topic = {
        topic.name: [p.partition_index for p in topic.partitions] for topic in answer.topics
    }
    cursor = answer.next_cursor
    return partitions_by_topic, None if cursor is None else (
        cursor.topic_name,
        cursor.partition_index,
    )


async def ask(api: Api, **request_fields: Any) -> Any:
    return await api.ask("DescribeTopicPartitions", 0, **request_fields)


async def test_the_setting_bounds_every_page() -> None:
    async with handlers(max_request_partition_size_limit=2) as api:
        assert pages(await ask(api, **values("orders"))) == ({"orders": [0, 1]}, ("orders", 2))


async def test_refusing_names_every_topic(two: Api) -> None:
    refusal_answer = two.refuse(
        "DescribeTopicPartitions", 0, ErrorCode.request_timed_out, **values("a")
    )
    assert refusal_answer.topics[0].error_code is ErrorCode.request_timed_out
    assert two.refuse("DescribeTopicPartitions", 0, ErrorCode.request_timed_out).topics == ()


async def test_eligible_replicas_and_the_last_leader_are_answered_and_no_leader_is_no_error(
    api_of_three: Api,
) -> None:
    metadata = api_of_three.cluster.metadata
    for broker in (B3, B2, B1):
        metadata.publish(fence_broker(metadata.image, broker, metadata.settings))
    answer = await ask(api_of_three, **values("orders"))
    partition = answer.topics[0].partitions[0]
    assert (partition.error_code, partition.leader_id) == (ErrorCode.none, -1)
    assert (partition.isr_nodes, partition.offline_replicas) == ((), (1, 2, 3))
    assert (partition.eligible_leader_replicas, partition.last_known_elr) == ((1,), (1,))


# ``metadata``: Metadata v0 to v13: what is created on the way, refusals; the casebook has the rest.


async def test_names_that_look_internal_are_created_as_any_other(api: Api) -> None:
    await api.ask("Metadata", 9, topics=[{"name": "__mine"}], allow_auto_topic_creation=True)
    assert not api.broker.image.topics["__mine"].is_internal


@pytest.mark.parametrize("topic_name", ["__transaction_state", "__consumer_offsets"])
async def test_logs_of_coordinators_are_created_with_their_own_settings(
    api: Api, topic_name: str
) -> None:
    await api.ask("Metadata", 9, topics=[{"name": topic_name}], allow_auto_topic_creation=True)
    assert api.broker.image.topics[topic_name].is_internal
    assert api.broker.image.topics[topic_name].configs["cleanup.policy"] == "compact"


async def test_nothing_is_created_where_the_setting_or_the_name_forbids_it(api: Api) -> None:
    async with handlers(auto_create_topics_enable=False) as api_without_creation:
        await api_without_creation.ask(
            "Metadata", 9, topics=[{"name": "new"}], allow_auto_topic_creation=True
        )
        assert "new" not in api_without_creation.broker.image.topics


async def test_a_topic_that_is_named_twice_is_answered_once(api: Api) -> None:
    assert len((await api.ask("Metadata", 5, topics=[{"name": "orders"}] * 2)).topics) == 1
    repeated_topic = [{"name": None, "topic_id": api.topic_id("orders")}] * 2
    assert len((await api.ask("Metadata", 12, topics=repeated_topic)).topics) == 1


async def test_internal_topics_are_marked(api: Api) -> None:
    await api.producer("id")
    answer = await api.ask("Metadata", 9, topics=[{"name": "__transaction_state"}])
    assert answer.topics[0].is_internal


@pytest.mark.parametrize("version", [1, 12, 13])
async def test_refusing_names_every_topic_and_nothing_of_the_cluster(
    api: Api, version: int
) -> None:
    error = ErrorCode.kafka_storage_error
    answer = api.refuse("Metadata", version, error, topics=[{"name": "orders"}, {"name": "b"}])
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("orders", error),
        ("b", error),
    ]
    assert answer.brokers == ()


# ``create_partitions``: CreatePartitions v0 to v3: what is new works; refusals are in the
# transcripts.


def grow(count: int, name: str = "orders", **request_fields: Any) -> dict[str, Any]:
    topic = {"name": name, "count": count, "assignments": None, **request_fields}
    return {"topics": [topic], "timeout": 1_000, "validate_only": False}


@pytest.mark.parametrize("version", range(4))
async def test_every_version_grows_a_topic_that_can_be_used_at_once(api: Api, version: int) -> None:
    answer = await api.ask("CreatePartitions", version, **grow(4))
    (result,) = answer.results
    assert (result.name, result.error_code, result.error_message) == (
        "orders",
        ErrorCode.none,
        None,
    )
    produce_answer = await api.ask("Produce", 8, **produce("orders", batch(), partition=3))
    assert produce_answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    read = await api.ask("Fetch", 12, **fetch("orders", partition=3))
    assert read.responses[0].partitions[0].records


# ``create_topics``: CreateTopics v2 to v7: defaults of the settings, a refusal; the casebook has
# the rest.


def topic(name: str = "new", **changes: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": 2, "replication_factor": 1, **changes}


async def test_defaults_come_from_the_settings() -> None:
    async with handlers(brokers=3, num_partitions=4, default_replication_factor=2) as api:
        new_topic = topic(num_partitions=-1, replication_factor=-1)
        (created_topic,) = (await api.ask("CreateTopics", 7, topics=[new_topic])).topics
        assert (created_topic.num_partitions, created_topic.replication_factor) == (4, 2)


async def test_create_topics_refusing_names_every_topic(api: Api) -> None:
    error = ErrorCode.request_timed_out
    answer = api.refuse("CreateTopics", 7, error, topics=[topic("a"), topic("b")])
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [
        ("a", error),
        ("b", error),
    ]
