"""DescribeConfigs v1 to v4: documentation, which there are; the transcripts have the rest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, handlers
from txnsim.errors import ErrorCode
from txnsim.metadata.configs import (
    BROKER_CONFIGS,
    INTERNAL_BROKER_CONFIGS,
)
from txnsim.metadata.group_configs import GROUP_CONFIGS, INTERNAL_GROUP_CONFIGS
from txnsim.settings import documentation

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def values(kind: int, name: str, keys: list[str] | None = None, **more: Any) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return {"resources": [resource], **more}


@pytest.mark.parametrize("version", [3, 4])
async def test_documentation_is_answered_when_asked_for(api: Api, version: int) -> None:
    names = ["transactional.id.expiration.ms", "log.flush.scheduler.interval.ms"]
    for wanted, known in ((False, None), (True, "idle transactional ids are forgotten after this")):
        resources = values(BROKER, "1", names, include_documentation=wanted)
        (result,) = (await api.ask("DescribeConfigs", version, **resources)).results
        found = {one.name: one.documentation for one in result.configs}
        assert found == {names[0]: known, names[1]: None}


async def test_a_topic_s_config_has_the_documentation_of_the_broker_s(api: Api) -> None:
    wanted = values(TOPIC, "orders", ["compression.type", "max.message.bytes"])
    answer = await api.ask("DescribeConfigs", 4, **wanted, include_documentation=True)
    found = {one.name: one.documentation for one in answer.results[0].configs}
    expected = {s.kafka: s.reason for s in documentation().values() if s.kafka is not None}
    assert found["max.message.bytes"] == expected.get("message.max.bytes")
    assert found["compression.type"] == expected.get("compression.type")


async def test_a_broker_shows_what_we_have_and_the_nameless_one_what_was_set(api: Api) -> None:
    (own,) = (await api.ask("DescribeConfigs", 4, **values(BROKER, "1"))).results
    found = {one.name: one for one in own.configs}
    assert set(found) == set(BROKER_CONFIGS) - INTERNAL_BROKER_CONFIGS
    assert found["num.partitions"].read_only
    assert not found["message.max.bytes"].read_only
    assert found["log.retention.ms"].value is None
    (defaults,) = (await api.ask("DescribeConfigs", 4, **values(BROKER, ""))).results
    assert [(one.name, one.value) for one in defaults.configs] == [("min.insync.replicas", "1")]


async def test_an_internal_config_is_shown_once_it_is_set() -> None:
    async with handlers(unstable_api_versions_enable=True) as api:
        (own,) = (await api.ask("DescribeConfigs", 4, **values(BROKER, "1"))).results
    shown = {one.name: one.value for one in own.configs if one.name in INTERNAL_BROKER_CONFIGS}
    assert shown == {"unstable.api.versions.enable": "true"}


@pytest.mark.parametrize(
    ("kind", "name", "names"),
    [
        (LOGGER, "1", []),
        (GROUP, "g", [name for name in GROUP_CONFIGS if name not in INTERNAL_GROUP_CONFIGS]),
        (METRICS, "m", ["interval.ms", "match", "metrics"]),
    ],
)
async def test_other_resources(api: Api, kind: int, name: str, names: list[str]) -> None:
    (result,) = (await api.ask("DescribeConfigs", 4, **values(kind, name))).results
    assert result.error_code is ErrorCode.none
    assert [one.name for one in result.configs] == names


async def test_refusing_names_every_resource(api: Api) -> None:
    error = ErrorCode.request_timed_out
    answer = api.refuse("DescribeConfigs", 1, error, **values(TOPIC, "orders"))
    assert [(one.resource_name, one.error_code) for one in answer.results] == [("orders", error)]


async def test_a_broker_is_described_where_it_is(api_of_three: Api) -> None:
    for broker, error in ((1, ErrorCode.invalid_request), (2, ErrorCode.none)):
        answer = await api_of_three.at(broker).ask("DescribeConfigs", 4, **values(BROKER, "2"))
        assert answer.results[0].error_code is error
