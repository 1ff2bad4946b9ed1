"""ListConfigResources v0 and v1: the kinds; the transcripts have the rest."""

from __future__ import annotations

import pytest

from tests.support.broker_api import Api, handlers
from txnsim.errors import ErrorCode

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32


@pytest.mark.parametrize(
    ("kinds", "expected"),
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
    api_of_three: Api, kinds: list[int], expected: set[tuple[int, str]]
) -> None:
    answer = await api_of_three.ask("ListConfigResources", 1, resource_types=kinds)
    resources = [
        (config_resource.resource_type, config_resource.resource_name)
        for config_resource in answer.config_resources
    ]
    resources = [resource for resource in resources if not resource[1].startswith("__")]
    assert (answer.error_code, len(resources), set(resources)) == (
        ErrorCode.none,
        len(expected),
        expected,
    )


@pytest.mark.parametrize(
    ("rules", "expected"), [({}, []), ({"groups_without_configs_go": False}, ["g"])]
)
async def test_a_group_whose_configs_are_taken_away(
    rules: dict[str, bool], expected: list[str]
) -> None:
    change = {"name": "consumer.session.timeout.ms", "value": "50000"}
    async with handlers(rules=rules) as api:
        for group, operation in (("g", 0), ("g", 1), ("other", 1)):
            configs = [{**change, "config_operation": operation}]
            group_configs = {"resource_type": GROUP, "resource_name": group, "configs": configs}
            alter_answer = await api.ask("IncrementalAlterConfigs", 1, resources=[group_configs])
            assert alter_answer.responses[0].error_code is ErrorCode.none
        answer = await api.ask("ListConfigResources", 1, resource_types=[GROUP])
    assert [
        config_resource.resource_name for config_resource in answer.config_resources
    ] == expected
