"""Changes to topics, features and configuration, against a scripted broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.broker.client.fake_broker import CLOSE, FakeBroker, ReceivedRequest, in_turn
from txnsim.client.admin import ALL_BROKERS, BROKER_RESOURCE, TOPIC_RESOURCE, Admin, CreatedTopic
from txnsim.client.cluster import Cluster
from txnsim.client.connection import ClientSettings
from txnsim.client.errors import ClientError, ConnectionLostError, RetriableError
from txnsim.client.requests import ConfigChange, NewTopic
from txnsim.client.versions import ClientApi
from txnsim.errors import ErrorCode

SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=1_000)


def creation_answer(error: int = 0, message: str | None = None) -> Any:
    return lambda request: request.answer(
        topics=[
            {
                "name": topic.name,
                "error_code": error,
                "error_message": message,
                "num_partitions": 2,
                "replication_factor": 1,
            }
            for topic in request.message.topics
        ]
    )


def deletion_answer(error: int = 0) -> Any:
    def handle(request: ReceivedRequest) -> Any:
        names = [t.name for t in request.message.topics] if request.version >= 6 else []
        names = names or list(request.message.topic_names)
        return request.answer(responses=[{"name": name, "error_code": error} for name in names])

    return handle


def alteration_answer(error: int = 0) -> Any:
    return lambda request: request.answer(
        responses=[
            {
                "error_code": error,
                "resource_type": row.resource_type,
                "resource_name": row.resource_name,
            }
            for row in request.message.resources
        ]
    )


def update_answer(error: int = 0, message: str | None = None) -> Any:
    return lambda request: request.answer(error_code=error, error_message=message, results=())


@pytest.fixture
async def broker() -> AsyncIterator[FakeBroker]:
    handler_by_api = {
        ClientApi.CREATE_TOPICS: creation_answer(),
        ClientApi.DELETE_TOPICS: deletion_answer(),
        ClientApi.INCREMENTAL_ALTER_CONFIGS: alteration_answer(),
        ClientApi.UPDATE_FEATURES: update_answer(),
    }
    async with FakeBroker(handler_by_api) as fake_broker:
        yield fake_broker


@pytest.fixture
async def admin(broker: FakeBroker) -> AsyncIterator[Admin]:
    async with Cluster(broker.address, settings=SETTINGS) as cluster:
        yield Admin(cluster)


async def test_a_created_topic_is_waited_for(broker: FakeBroker, admin: Admin) -> None:
    def without_leader(request: ReceivedRequest) -> Any:
        return broker.metadata(request, leader_id=-1)

    broker.handlers[ClientApi.METADATA] = in_turn(without_leader, broker.metadata)
    assert (await admin.create_topic("t", partitions=2)).is_led
    outcomes = await admin.create_topics((NewTopic(name="t"),))
    assert outcomes["t"] == CreatedTopic(name="t", partitions=2, replication_factor=1)


async def test_a_topic_without_leaders_is_not_waited_for_forever(
    broker: FakeBroker, admin: Admin
) -> None:
    with pytest.raises(RetriableError, match="'nope' has no leaders in time"):
        await admin.wait_for_topic("nope", timeout_ms=20)


async def test_a_deletion_is_waited_for_until_no_broker_names_the_topic(
    broker: FakeBroker, admin: Admin
) -> None:
    lookups_left = 2

    def metadata_until_deleted(request: ReceivedRequest) -> Any:
        nonlocal lookups_left
        lookups_left -= 1
        return broker.metadata(request, error=3 if lookups_left < 0 else 0)

    broker.handlers[ClientApi.METADATA] = metadata_until_deleted
    await admin.wait_without_topics([], timeout_ms=1_000)
    assert lookups_left == 2
    await admin.wait_without_topics(["t"], timeout_ms=1_000)
    assert lookups_left == -1
    broker.handlers[ClientApi.METADATA] = broker.metadata
    await admin.wait_without_topics(["t"], timeout_ms=20)  # it hears of nothing: no failure


async def test_a_refusal_has_the_brokers_words(broker: FakeBroker, admin: Admin) -> None:
    broker.handlers[ClientApi.CREATE_TOPICS] = creation_answer(36, "it exists")
    with pytest.raises(ClientError, match=r"TOPIC_ALREADY_EXISTS \(it exists\)") as error_info:
        await admin.create_topic("t")
    assert error_info.value.error == ErrorCode.topic_already_exists


async def test_no_controller_is_waited_for(broker: FakeBroker, admin: Admin) -> None:
    broker.handlers[ClientApi.CREATE_TOPICS] = in_turn(creation_answer(41), creation_answer())
    assert isinstance((await admin.create_topics((NewTopic(name="t"),)))["t"], CreatedTopic)
    assert len(broker.of(ClientApi.CREATE_TOPICS)) == 2


async def test_a_change_whose_answer_is_lost_is_not_repeated(
    broker: FakeBroker, admin: Admin
) -> None:
    broker.handlers[ClientApi.CREATE_TOPICS] = lambda _: CLOSE
    with pytest.raises(ConnectionLostError):
        await admin.create_topics((NewTopic(name="t"),))
    assert len(broker.of(ClientApi.CREATE_TOPICS)) == 1


@pytest.mark.parametrize("version", [1, 5, 6])
async def test_topics_are_deleted_by_name(version: int) -> None:
    async with (
        FakeBroker(
            {ClientApi.DELETE_TOPICS: deletion_answer()}, ranges={20: (1, version)}
        ) as broker,
        Cluster(broker.address, settings=SETTINGS) as cluster,
    ):
        admin = Admin(cluster)
        assert await admin.delete_topics(("t",)) == {"t": None}
        broker.handlers[ClientApi.DELETE_TOPICS] = deletion_answer(3)
        outcome_error = (await admin.delete_topics(("t",)))["t"]
        assert outcome_error is not None
        assert outcome_error.error == ErrorCode.unknown_topic_or_partition


async def test_features_are_changed_all_or_none(broker: FakeBroker, admin: Admin) -> None:
    await admin.update_features({"transaction.version": 1}, upgrade_type=2)
    (request,) = broker.of(ClientApi.UPDATE_FEATURES)
    (row,) = request.message.feature_updates
    assert (row.feature, row.max_version_level, row.upgrade_type) == ("transaction.version", 1, 2)
    broker.handlers[ClientApi.UPDATE_FEATURES] = update_answer(95, "too high")
    with pytest.raises(ClientError, match=r"INVALID_UPDATE_VERSION \(too high\)"):
        await admin.update_features({"transaction.version": 9})


async def test_a_brokers_own_configuration_goes_to_that_broker(
    broker: FakeBroker, admin: Admin
) -> None:
    changes = (
        ConfigChange(resource_type=BROKER_RESOURCE, resource_name="1", name="a", value="1"),
        ConfigChange(resource_type=BROKER_RESOURCE, resource_name=ALL_BROKERS, name="a", value="2"),
        ConfigChange(resource_type=TOPIC_RESOURCE, resource_name="t", name="b", value=None),
    )
    outcomes = await admin.incremental_alter_configs(changes)
    assert outcomes == {(4, "1"): None, (4, ""): None, (2, "t"): None}
    asked_resources = [
        [row.resource_name for row in request.message.resources]
        for request in broker.of(ClientApi.INCREMENTAL_ALTER_CONFIGS)
    ]
    assert asked_resources == [["1"], ["", "t"]]


async def test_a_refused_default_is_raised(broker: FakeBroker, admin: Admin) -> None:
    await admin.set_broker_default("a", "1")
    broker.handlers[ClientApi.INCREMENTAL_ALTER_CONFIGS] = alteration_answer(40)
    with pytest.raises(ClientError, match="INVALID_CONFIG"):
        await admin.set_broker_default("a", "x")


async def test_an_older_broker_describes_the_cluster_by_metadata(broker: FakeBroker) -> None:
    del broker.ranges[ClientApi.DESCRIBE_CLUSTER]
    async with Cluster(broker.address) as cluster:
        description = await Admin(cluster).describe_cluster()
    assert [broker.broker_id for broker in description.brokers] == [1]
    assert (description.cluster_id, description.controller_id) == ("fake", 1)
    assert broker.of(ClientApi.DESCRIBE_CLUSTER) == []
