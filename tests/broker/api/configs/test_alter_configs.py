"""AlterConfigs v0 to v2: what takes effect; the transcripts have what is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.handlers import NO_SUCH_ID, Api
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


async def test_configs_of_a_broker_take_effect(api: Api) -> None:
    await alter(api, resource(BROKER, "1", message_max_bytes="2000"))
    assert api.broker.settings.message_max_bytes == 2000
    await alter(api, resource(BROKER, "1"))
    assert api.broker.settings.message_max_bytes != 2000


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
