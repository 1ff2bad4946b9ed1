"""DescribeConfigs v1 to v4: topics, brokers and what else has configs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.handlers import Api, handlers
from txnsim.api.request import INVALID_REQUEST_TEXT
from txnsim.errors import ErrorCode
from txnsim.metadata.configs import (
    BROKER_CONFIGS,
    INTERNAL_BROKER_CONFIGS,
    TOPIC_CONFIGS,
)
from txnsim.metadata.group_configs import GROUP_CONFIGS
from txnsim.settings import documentation

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def values(kind: int, name: str, keys: list[str] | None = None, **more: Any) -> dict[str, Any]:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    return {"resources": [resource], **more}


@pytest.mark.parametrize("version", range(1, 5))
async def test_every_version_tells_each_config_of_a_topic_and_its_source(
    api: Api, version: int
) -> None:
    answer = await api.ask("DescribeConfigs", version, **values(TOPIC, "orders"))
    (result,) = answer.results
    assert (result.error_code, result.error_message) == (ErrorCode.none, "")
    found = {one.name: one for one in result.configs}
    assert set(found) == set(TOPIC_CONFIGS)
    policy = found["cleanup.policy"]
    assert (policy.value, policy.config_source, policy.read_only) == ("delete", 5, False)
    assert (policy.is_sensitive, policy.synonyms) == (False, ())
    if version >= 3:
        assert (policy.config_type, found["retention.ms"].config_type) == (7, 5)


async def test_synonyms_are_answered_when_asked_for_nearest_first(api: Api) -> None:
    await api.ask(
        "CreateTopics",
        7,
        topics=[
            {
                "name": "own",
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": [{"name": "max.message.bytes", "value": "7"}],
            }
        ],
    )
    wanted = values(TOPIC, "own", ["max.message.bytes"], include_synonyms=True)
    (result,) = (await api.ask("DescribeConfigs", 4, **wanted)).results
    assert [(one.name, one.value, one.source) for one in result.configs[0].synonyms] == [
        ("max.message.bytes", "7", 1),
        ("message.max.bytes", "1048588", 5),
    ]


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


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (["retention.ms", "nonsense"], {"retention.ms"}),
        ([], set(TOPIC_CONFIGS)),
        (None, set(TOPIC_CONFIGS)),
    ],
)
async def test_keys_choose_and_no_keys_choose_all(
    api: Api, keys: list[str] | None, names: set[str]
) -> None:
    (result,) = (await api.ask("DescribeConfigs", 4, **values(TOPIC, "orders", keys))).results
    assert {one.name for one in result.configs} == names


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


async def test_an_unknown_config_is_shown_without_its_value(api: Api) -> None:
    change = {"name": "secret", "config_operation": 0, "value": "x"}
    resource = {"resource_type": BROKER, "resource_name": "1", "configs": [change]}
    await api.ask("IncrementalAlterConfigs", 1, resources=[resource])
    (own,) = (await api.ask("DescribeConfigs", 4, **values(BROKER, "1", ["secret"]))).results
    (secret,) = own.configs
    assert (secret.value, secret.is_sensitive, secret.config_type) == (None, True, 0)


@pytest.mark.parametrize(
    ("kind", "name", "error", "words"),
    [
        (TOPIC, "missing", ErrorCode.unknown_topic_or_partition, ""),
        (TOPIC, "a b", ErrorCode.invalid_topic_exception, "Topic name is invalid: 'a b' contains"),
        (TOPIC, "", ErrorCode.invalid_topic_exception, "the empty string is not allowed"),
        (BROKER, "9", ErrorCode.invalid_request, "expected 1 or empty string, but received 9"),
        (BROKER, "-1", ErrorCode.invalid_request, "expected 1 or empty string, but received -1"),
        (BROKER, "x", ErrorCode.invalid_request, "Broker id must be an integer, but it is: x"),
        (LOGGER, "", ErrorCode.invalid_request, "Broker id must not be empty"),
        (LOGGER, "9", ErrorCode.invalid_request, "expected 1 but received 9"),
        (LOGGER, "x", ErrorCode.invalid_request, "Broker id must be an integer, but it is: x"),
        (METRICS, "", ErrorCode.invalid_request, "Client metrics subscription name must not be"),
        (GROUP, "", ErrorCode.invalid_request, "Group name must not be empty"),
        (0, "x", ErrorCode.invalid_request, INVALID_REQUEST_TEXT),
        (99, "x", ErrorCode.invalid_request, INVALID_REQUEST_TEXT),
    ],
)
async def test_refusals(api: Api, kind: int, name: str, error: ErrorCode, words: str) -> None:
    (result,) = (await api.ask("DescribeConfigs", 4, **values(kind, name))).results
    assert (result.error_code, result.configs) == (error, ())
    assert words in result.error_message
    assert bool(words) == bool(result.error_message)


@pytest.mark.parametrize(
    ("kind", "name", "names"),
    [
        (LOGGER, "1", []),
        (GROUP, "g", list(GROUP_CONFIGS)),
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
