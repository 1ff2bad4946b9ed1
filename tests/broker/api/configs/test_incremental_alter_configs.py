"""IncrementalAlterConfigs v0 and v1: what takes effect where; the transcripts have the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.broker_api import Api
from txnsim.errors import ErrorCode

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def resource(
    *changes: tuple[str, int, str | None], resource_type: int = TOPIC, resource_name: str = "orders"
) -> dict[str, Any]:
    return {
        "resource_type": resource_type,
        "resource_name": resource_name,
        "configs": [
            {"name": key, "config_operation": operation, "value": config_value}
            for key, operation, config_value in changes
        ],
    }


async def alter(
    api: Api, *resources: dict[str, Any], version: int = 1, **request_fields: Any
) -> Any:
    answer = await api.ask(
        "IncrementalAlterConfigs", version, resources=resources, **request_fields
    )
    return answer.responses


@pytest.mark.parametrize("name", ["1", ""])
async def test_dynamic_configs_of_brokers(api: Api, name: str) -> None:
    change = resource(("message.max.bytes", SET, "77"), resource_type=BROKER, resource_name=name)
    (result,) = await alter(api, change)
    assert result.error_code is ErrorCode.none
    assert api.broker.settings.message_max_bytes == 77
    await alter(
        api, resource(("message.max.bytes", DELETE, None), resource_type=BROKER, resource_name=name)
    )
    assert api.broker.settings.message_max_bytes == 1_048_588


@pytest.mark.parametrize("config_value", ["NaN", "Infinity", "1e308"])
async def test_a_number_that_only_java_casts_harms_no_other_change(
    api: Api, config_value: str
) -> None:
    name = "log.cleaner.io.buffer.load.factor"
    change = resource((name, SET, config_value), resource_type=BROKER, resource_name="")
    (result,) = await alter(api, change)
    assert result.error_code is ErrorCode.none
    (result,) = await alter(api, resource(("retention.ms", SET, "5")))
    assert result.error_code is ErrorCode.none
    topic = {"name": "new", "num_partitions": 1, "replication_factor": 1}
    answer = await api.ask("CreateTopics", 7, topics=[topic], validate_only=False)
    assert answer.topics[0].error_code is ErrorCode.none


async def test_a_broker_is_altered_where_it_is(api_of_three: Api) -> None:
    change = resource(("message.max.bytes", SET, "77"), resource_type=BROKER, resource_name="2")
    (refused_result,) = await alter(api_of_three, change)
    assert refused_result.error_code is ErrorCode.invalid_request
    assert refused_result.error_message == "Unexpected broker id, expected 1, but received 2"
    (result,) = await alter(api_of_three.on_broker(2), change)
    assert result.error_code is ErrorCode.none
