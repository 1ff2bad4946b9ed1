"""ListConfigResources v0 and v1: kinds, names, unknown kinds."""

from __future__ import annotations

import pytest

from tests.support.handlers import Api
from txnsim.controller.registrations import fence_broker
from txnsim.errors import ErrorCode
from txnsim.types import BrokerId

TOPIC, BROKER, LOGGER = 2, 4, 8


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([TOPIC], {(TOPIC, "orders")}),
        ([BROKER, BROKER], {(BROKER, "1"), (BROKER, "2"), (BROKER, "3")}),
        ([16, 32], set()),
        (
            [],
            {(TOPIC, "orders")} | {(kind, f"{n}") for kind in (BROKER, LOGGER) for n in (1, 2, 3)},
        ),
    ],
)
async def test_resources_of_each_kind(
    api_of_three: Api, kinds: list[int], found: set[tuple[int, str]]
) -> None:
    answer = await api_of_three.ask("ListConfigResources", 1, resource_types=kinds)
    told = [(one.resource_type, one.resource_name) for one in answer.config_resources]
    told = [one for one in told if not one[1].startswith("__")]
    assert (answer.error_code, len(told), set(told)) == (ErrorCode.none, len(found), found)


async def test_a_broker_that_is_fenced_has_configs(api_of_three: Api) -> None:
    metadata = api_of_three.cluster.metadata
    metadata.publish(fence_broker(metadata.image, BrokerId(2), metadata.settings))
    answer = await api_of_three.ask("ListConfigResources", 1, resource_types=[BROKER])
    assert [one.resource_name for one in answer.config_resources] == ["1", "2", "3"]


@pytest.mark.parametrize("kinds", [[0], [99], [TOPIC, 1]])
async def test_an_unknown_kind_is_refused(api: Api, kinds: list[int]) -> None:
    answer = await api.ask("ListConfigResources", 1, resource_types=kinds)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.unsupported_version, ())


async def test_groups_and_subscriptions_are_listed_once_they_are_configured(api: Api) -> None:
    metadata = api.cluster.metadata
    metadata.publish(metadata.image.with_group_configs("g", {"share.session.timeout.ms": "50000"}))
    metadata.publish(metadata.image.with_client_metrics("m", {"metrics": "*"}))
    answer = await api.ask("ListConfigResources", 1, resource_types=[16, 32])
    told = [(one.resource_type, one.resource_name) for one in answer.config_resources]
    assert told == [(32, "g"), (16, "m")]


async def test_v0_knows_client_metrics_only(api: Api) -> None:
    answer = await api.ask("ListConfigResources", 0)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.none, ())
    metadata = api.cluster.metadata
    metadata.publish(metadata.image.with_client_metrics("m", {"metrics": "*"}))
    answer = await api.ask("ListConfigResources", 0)
    assert [one.resource_name for one in answer.config_resources] == ["m"]
