"""Metadata v0 to v13: who is asked for, who is told, what is created on the way."""

from __future__ import annotations

import pytest

from tests.support.handlers import NO_SUCH_ID, Api, handlers
from tests.support.images import B1, B2, B3
from txnsim.controller.registrations import fence_broker
from txnsim.errors import ErrorCode
from txnsim.types import BrokerId


@pytest.mark.parametrize("version", range(14))
async def test_every_version_shows_brokers_topics_and_leaders(
    api_of_three: Api, version: int
) -> None:
    answer = await api_of_three.ask("Metadata", version, topics=[{"name": "orders"}])
    assert [broker.node_id for broker in answer.brokers] == [1, 2, 3]
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (ErrorCode.none, "orders")
    assert [one.leader_id for one in topic.partitions] == [1, 2, 3]
    assert set(topic.partitions[0].isr_nodes) == {1, 2, 3}
    if version >= 10:
        assert topic.topic_id == api_of_three.topic_id("orders")
    if version >= 7:
        assert topic.partitions[0].leader_epoch == 0


@pytest.mark.parametrize(
    ("version", "topics", "seen"),
    [(0, [], 1), (1, [], 0), (1, None, 1), (13, [], 0), (13, None, 1)],
)
async def test_all_is_null_and_before_v1_an_empty_list(
    api: Api, version: int, topics: list[object] | None, seen: int
) -> None:
    assert len((await api.ask("Metadata", version, topics=topics)).topics) == seen


@pytest.mark.parametrize("version", [4, 9, 13])
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("missing", ErrorCode.unknown_topic_or_partition),
        ("a b", ErrorCode.invalid_topic_exception),
        ("", ErrorCode.invalid_topic_exception),
    ],
)
async def test_unknown_names_have_their_error(
    api: Api, version: int, name: str, error: ErrorCode
) -> None:
    answer = await api.ask(
        "Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=False
    )
    assert (answer.topics[0].error_code, answer.topics[0].name) == (error, name)
    assert name not in api.broker.image.topics


async def test_an_unknown_topic_is_created_and_the_next_answer_has_it(api: Api) -> None:
    wanted = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}
    first = await api.ask("Metadata", 13, **wanted)
    assert first.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    second = await api.ask("Metadata", 13, **wanted)
    assert second.topics[0].error_code is ErrorCode.none
    assert len(second.topics[0].partitions) == 1


async def test_before_v4_a_client_could_not_forbid_creation(api: Api) -> None:
    await api.ask("Metadata", 3, topics=[{"name": "new"}])
    assert "new" in api.broker.image.topics


async def test_names_that_look_internal_are_created_as_any_other(api: Api) -> None:
    await api.ask("Metadata", 9, topics=[{"name": "__mine"}], allow_auto_topic_creation=True)
    assert not api.broker.image.topics["__mine"].is_internal


async def test_an_internal_topic_is_called_internal_before_it_exists(api: Api) -> None:
    answer = await api.ask(
        "Metadata", 9, topics=[{"name": "__consumer_offsets"}], allow_auto_topic_creation=False
    )
    assert answer.topics[0].error_code is ErrorCode.unknown_topic_or_partition
    assert answer.topics[0].is_internal


@pytest.mark.parametrize("name", ["__transaction_state", "__consumer_offsets"])
async def test_logs_of_coordinators_are_created_with_their_own_settings(
    api: Api, name: str
) -> None:
    await api.ask("Metadata", 9, topics=[{"name": name}], allow_auto_topic_creation=True)
    assert api.broker.image.topics[name].is_internal
    assert api.broker.image.topics[name].configs["cleanup.policy"] == "compact"


async def test_nothing_is_created_where_the_setting_or_the_name_forbids_it(api: Api) -> None:
    async with handlers(auto_create_topics_enable=False) as other:
        await other.ask("Metadata", 9, topics=[{"name": "new"}], allow_auto_topic_creation=True)
        assert "new" not in other.broker.image.topics


@pytest.mark.parametrize("version", [12, 13])
async def test_by_id_and_then_names_are_ignored(api: Api, version: int) -> None:
    known = api.topic_id("orders")
    answer = await api.ask(
        "Metadata",
        version,
        topics=[
            {"name": None, "topic_id": known},
            {"name": None, "topic_id": NO_SUCH_ID},
            {"name": "orders"},
        ],
    )
    assert [topic.error_code for topic in answer.topics] == [
        ErrorCode.none,
        ErrorCode.unknown_topic_id,
    ]
    assert answer.topics[1].name is None
    assert answer.topics[1].topic_id == NO_SUCH_ID


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("wanted", [{"name": None}, {"name": "orders", "topic_id": NO_SUCH_ID}])
async def test_ids_before_v12_refuse_the_whole_request(
    api: Api, version: int, wanted: dict[str, object]
) -> None:
    answer = await api.ask("Metadata", version, topics=[wanted, {"name": "orders"}])
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.invalid_request}
    assert (answer.brokers, answer.cluster_id, answer.controller_id) == ((), None, -1)


@pytest.mark.parametrize("version", [12, 13])
async def test_neither_name_nor_id_trips_the_broker(api: Api, version: int) -> None:
    answer = await api.ask("Metadata", version, topics=[{"name": None}])
    assert answer.topics[0].error_code is ErrorCode.unknown_server_error
    if version == 13:
        assert answer.error_code is ErrorCode.unknown_server_error


async def test_a_topic_that_is_named_twice_is_answered_once(api: Api) -> None:
    assert len((await api.ask("Metadata", 5, topics=[{"name": "orders"}] * 2)).topics) == 1
    twice = [{"name": None, "topic_id": api.topic_id("orders")}] * 2
    assert len((await api.ask("Metadata", 12, topics=twice)).topics) == 1


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_authorized_operations_are_answered_when_asked_for(api: Api, version: int) -> None:
    asked = await api.ask(
        "Metadata",
        version,
        topics=[{"name": "orders"}],
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    assert asked.cluster_authorized_operations == 8096
    assert asked.topics[0].topic_authorized_operations == 3576
    plain = await api.ask("Metadata", version, topics=[{"name": "orders"}])
    assert plain.cluster_authorized_operations == -(2**31)
    assert plain.topics[0].topic_authorized_operations == -(2**31)


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


def fence(api: Api, *brokers: BrokerId) -> None:
    metadata = api.cluster.metadata
    for broker in brokers:
        metadata.publish(fence_broker(metadata.image, broker, metadata.settings))


@pytest.mark.parametrize("version", [0, 5, 12])
async def test_replicas_that_are_away_are_offline_and_v0_leaves_them_out(
    api_of_three: Api, version: int
) -> None:
    fence(api_of_three, B1)
    answer = await api_of_three.at(2).ask("Metadata", version, topics=[{"name": "orders"}])
    assert [one.node_id for one in answer.brokers] == [2, 3]
    found = next(one for one in answer.topics[0].partitions if one.partition_index == 0)
    assert (found.leader_id, found.isr_nodes) == (2, (2, 3))
    if version == 0:
        assert (found.error_code, found.replica_nodes) == (
            ErrorCode.replica_not_available,
            (2, 3),
        )
    else:
        assert (found.error_code, found.replica_nodes) == (ErrorCode.none, (1, 2, 3))
        assert found.offline_replicas == (1,)


@pytest.mark.parametrize("version", [0, 5, 12])
async def test_a_partition_without_a_leader_says_so(api_of_three: Api, version: int) -> None:
    fence(api_of_three, B3, B2, B1)
    answer = await api_of_three.ask("Metadata", version, topics=[{"name": "orders"}])
    assert answer.brokers == ()
    assert answer.topics[0].error_code is ErrorCode.none
    found = next(one for one in answer.topics[0].partitions if one.partition_index == 0)
    assert (found.error_code, found.leader_id) == (ErrorCode.leader_not_available, -1)
    assert found.isr_nodes == ()
    if version == 12:
        assert (found.leader_epoch, found.offline_replicas) == (1, (1, 2, 3))
