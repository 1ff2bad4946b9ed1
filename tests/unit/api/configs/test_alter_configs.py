"""AlterConfigs v0 to v2: what is not named goes back to its default; resources and refusals."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.handlers import NO_SUCH_ID, Api
from txnsim.api.request import NoResponse
from txnsim.errors import ErrorCode
from txnsim.metadata.image import PartitionImage
from txnsim.types import BrokerId, TopicPartition

TOPIC, BROKER = 2, 4


def resource(kind: int = TOPIC, name: str = "orders", **configs: str | None) -> dict[str, Any]:
    return {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": key.replace("_", "."), "value": value} for key, value in configs.items()
        ],
    }


async def alter(api: Api, *resources: dict[str, Any], version: int = 2, dry: bool = False) -> Any:
    return await api.ask("AlterConfigs", version, resources=list(resources), validate_only=dry)


def configs_of(api: Api) -> dict[str, str]:
    return dict(api.broker.image.topics["orders"].configs)


@pytest.mark.parametrize("version", range(3))
async def test_every_version_replaces_all_configs(api: Api, version: int) -> None:
    await alter(api, resource(retention_ms="1", cleanup_policy="compact"), version=version)
    answer = await alter(api, resource(segment_bytes="2000000"), version=version)
    (response,) = answer.responses
    assert (response.error_code, response.error_message) == (ErrorCode.none, None)
    assert (response.resource_type, response.resource_name) == (TOPIC, "orders")
    assert configs_of(api) == {"segment.bytes": "2000000"}


async def test_a_dry_run_changes_nothing(api: Api) -> None:
    answer = await alter(api, resource(retention_ms="1"), dry=True)
    assert answer.responses[0].error_code is ErrorCode.none
    assert configs_of(api) == {}


async def test_configs_of_a_broker_take_effect(api: Api) -> None:
    await alter(api, resource(BROKER, "1", message_max_bytes="2000"))
    assert api.broker.settings.message_max_bytes == 2000
    await alter(api, resource(BROKER, "1"))
    assert api.broker.settings.message_max_bytes != 2000


@pytest.mark.parametrize(
    ("wanted", "error"),
    [
        (resource(no_such="1"), ErrorCode.invalid_config),
        (resource(retention_ms="x"), ErrorCode.invalid_config),
        (resource(retention_ms=None), ErrorCode.invalid_request),
        (resource(name="nope"), ErrorCode.unknown_topic_or_partition),
        (resource(name="a b"), ErrorCode.invalid_topic_exception),
        (resource(name=""), ErrorCode.invalid_request),
        (resource(BROKER, "9"), ErrorCode.invalid_request),
        (resource(BROKER, "x"), ErrorCode.invalid_request),
        (resource(BROKER, "1", transaction_max_timeout_ms="7"), ErrorCode.invalid_request),
        (resource(BROKER, "1", min_insync_replicas="1"), ErrorCode.invalid_config),
        (resource(BROKER, ""), ErrorCode.invalid_config),
        (resource(8, "1"), ErrorCode.invalid_request),
        (resource(16, "x", nonsense="1"), ErrorCode.invalid_request),
        (resource(16, "", metrics="*"), ErrorCode.invalid_request),
        (resource(32, "g", nonsense="1"), ErrorCode.invalid_config),
        (resource(32, "g", consumer_session_timeout_ms=None), ErrorCode.invalid_request),
        (resource(99, "x"), ErrorCode.invalid_request),
    ],
)
async def test_refusals(api: Api, wanted: dict[str, Any], error: ErrorCode) -> None:
    before = api.broker.image
    (response,) = (await alter(api, wanted)).responses
    assert response.error_code is error
    assert response.error_message
    assert api.broker.image is before


async def test_the_clusters_minimum_stays_while_the_others_are_replaced(api: Api) -> None:
    kept = resource(BROKER, "", min_insync_replicas="1", message_max_bytes="3000")
    assert (await alter(api, kept)).responses[0].error_code is ErrorCode.none
    assert api.broker.settings.message_max_bytes == 3000


async def test_each_resource_by_itself(api: Api) -> None:
    answer = await alter(api, resource(name="nope"), resource(retention_ms="1"))
    assert [bool(one.error_code) for one in answer.responses] == [True, False]
    assert configs_of(api) == {"retention.ms": "1"}


async def test_a_resource_that_is_named_twice_is_never_answered(api: Api) -> None:
    assert await alter(api, resource(), resource()) is NoResponse.NEVER


async def test_refuse(api: Api) -> None:
    values = {"resources": [resource()], "validate_only": False}
    answer = api.refuse("AlterConfigs", 2, ErrorCode.not_controller, **values)
    assert [one.error_code for one in answer.responses] == [ErrorCode.not_controller]


@pytest.mark.parametrize(
    ("changed", "cleared"),
    [
        (resource(min_insync_replicas="1"), {"orders"}),
        (resource(retention_ms="1"), {"orders"}),
        (resource(min_insync_replicas="2", retention_ms="1"), set()),
        (resource(BROKER, "", min_insync_replicas="1"), {"orders", "other"}),
    ],
    ids=["another", "the default again", "the same", "of all brokers"],
)
async def test_a_change_of_the_minimum_makes_no_replica_eligible(
    api: Api, changed: dict[str, Any], cleared: set[str]
) -> None:
    metadata = api.broker.metadata
    metadata.publish(
        metadata.image.with_topic(
            msgspec.structs.replace(
                metadata.image.topics["orders"], name="other", topic_id=NO_SUCH_ID
            )
        )
    )
    await alter(api, resource(min_insync_replicas="2"))
    places = {TopicPartition(name, 0) for name in ("orders", "other")}

    def partition(place: TopicPartition) -> PartitionImage:
        found = metadata.image.partition(place)
        assert found is not None
        return found

    gone = {
        place: msgspec.structs.replace(partition(place), elr=(BrokerId(9),)) for place in places
    }
    metadata.publish(metadata.image.with_partitions(gone))
    (response,) = (await alter(api, changed)).responses
    assert response.error_code is ErrorCode.none
    assert {place.topic for place in places if not partition(place).elr} == cleared
