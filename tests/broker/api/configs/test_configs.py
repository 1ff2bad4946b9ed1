"""Handlers of configs and quotas; the transcripts have the rest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.broker_api import NO_SUCH_ID, Api, handlers
from txnsim.api._configs.config_resources import (
    ConfigResourceKind,
    broker_id_of,
    resource_kind_of,
    topic_refusal,
)
from txnsim.api.request import invalid
from txnsim.errors import ErrorCode
from txnsim.metadata.config_keys import ConfigSource, ConfigType
from txnsim.metadata.configs import broker_configs, documentation_of
from txnsim.metadata.group_configs import GROUP_CONFIGS
from txnsim.metadata.image import PartitionImage
from txnsim.metadata.settings_table import SCOPES, Scope, setting_rows
from txnsim.releases import LATEST_RULES
from txnsim.settings import documentation
from txnsim.types import BrokerId, TopicPartition

# ``describe_configs``: DescribeConfigs v1 to v4: documentation, which there are; the transcripts
# have the rest.


BROKER_CONFIGS = broker_configs(LATEST_RULES)
TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32


def values(
    resource_type: int, resource_name: str, keys: list[str] | None = None, **request_fields: Any
) -> dict[str, Any]:
    resource = {
        "resource_type": resource_type,
        "resource_name": resource_name,
        "configuration_keys": keys,
    }
    return {"resources": [resource], **request_fields}


@pytest.mark.parametrize("version", [3, 4])
async def test_documentation_is_answered_when_asked_for(api: Api, version: int) -> None:
    names = ["transactional.id.expiration.ms", "log.flush.scheduler.interval.ms"]
    for with_documentation, expected in (
        (False, None),
        (True, "idle transactional ids are forgotten after this"),
    ):
        resources = values(BROKER, "1", names, include_documentation=with_documentation)
        (result,) = (await api.ask("DescribeConfigs", version, **resources)).results
        documentation_by_name = {config.name: config.documentation for config in result.configs}
        assert documentation_by_name[names[0]] == expected
        is_told = documentation_by_name[names[1]] is not None
        assert is_told is with_documentation, "also of what has no effect here"


async def test_a_topic_s_config_has_the_documentation_of_the_broker_s(api: Api) -> None:
    fields = values(TOPIC, "orders", ["compression.type", "max.message.bytes"])
    answer = await api.ask("DescribeConfigs", 4, **fields, include_documentation=True)
    documentation_by_name = {
        config.name: config.documentation for config in answer.results[0].configs
    }
    expected = {s.kafka: s.reason for s in documentation().values() if s.kafka is not None}
    assert documentation_by_name["max.message.bytes"] == expected["message.max.bytes"]
    assert documentation_by_name["compression.type"] == expected["compression.type"]


@pytest.mark.parametrize("scope", SCOPES)
def test_every_config_has_documentation(scope: Scope) -> None:
    undocumented = [name for name in setting_rows(scope) if not documentation_of(name)]
    assert undocumented == []


async def test_a_broker_shows_what_we_have_and_the_nameless_one_what_was_set(api: Api) -> None:
    (own_result,) = (await api.ask("DescribeConfigs", 4, **values(BROKER, "1"))).results
    config_by_name = {config.name: config for config in own_result.configs}
    assert len(config_by_name) == 350, "as many as a real 4.4.0 tells"
    assert set(config_by_name) == {
        name for name, key in BROKER_CONFIGS.items() if not key.is_internal
    }
    assert config_by_name["num.partitions"].read_only
    assert not config_by_name["message.max.bytes"].read_only
    assert config_by_name["log.retention.ms"].value is None
    (defaults,) = (await api.ask("DescribeConfigs", 4, **values(BROKER, ""))).results
    assert [(config.name, config.value) for config in defaults.configs] == [
        ("min.insync.replicas", "1")
    ]


async def test_a_broker_tells_where_clients_reach_it(api: Api) -> None:
    """As in kafka-python's test_describe_configs_broker_resource_returns_configs."""
    (own_result,) = (await api.ask("DescribeConfigs", 4, **values(BROKER, "1"))).results
    broker_image = api.broker.image.brokers[BrokerId(1)]
    config_by_name = {config.name: config for config in own_result.configs}
    listeners = config_by_name["advertised.listeners"]
    assert listeners.value == f"PLAINTEXT://{broker_image.host}:{broker_image.port}"
    assert listeners.config_source == ConfigSource.STATIC_BROKER
    assert listeners.config_type == ConfigType.LIST
    assert listeners.read_only
    assert not listeners.is_sensitive
    assert not listeners.synonyms
    assert config_by_name["node.id"].value == "1"


async def test_an_internal_config_is_shown_once_it_is_set() -> None:
    async with handlers(unstable_api_versions_enable=True) as api:
        (own_result,) = (await api.ask("DescribeConfigs", 4, **values(BROKER, "1"))).results
    value_by_name = {
        config.name: config.value
        for config in own_result.configs
        if BROKER_CONFIGS[config.name].is_internal
    }
    assert value_by_name == {"unstable.api.versions.enable": "true"}


@pytest.mark.parametrize(
    ("resource_type", "name", "names"),
    [
        (LOGGER, "1", []),
        (GROUP, "g", sorted(name for name, key in GROUP_CONFIGS.items() if not key.is_internal)),
        (METRICS, "m", ["interval.ms", "match", "metrics"]),
    ],
)
async def test_other_resources(api: Api, resource_type: int, name: str, names: list[str]) -> None:
    (result,) = (await api.ask("DescribeConfigs", 4, **values(resource_type, name))).results
    assert result.error_code is ErrorCode.none
    assert [config.name for config in result.configs] == names


async def test_refusing_names_every_resource(api: Api) -> None:
    error = ErrorCode.request_timed_out
    answer = api.refuse("DescribeConfigs", 1, error, **values(TOPIC, "orders"))
    assert [(result.resource_name, result.error_code) for result in answer.results] == [
        ("orders", error)
    ]


async def test_a_broker_is_described_where_it_is(api_of_three: Api) -> None:
    for broker, error in ((1, ErrorCode.invalid_request), (2, ErrorCode.none)):
        answer = await api_of_three.on_broker(broker).ask(
            "DescribeConfigs", 4, **values(BROKER, "2")
        )
        assert answer.results[0].error_code is error


# ``alter_configs``: AlterConfigs v0 to v2: what takes effect; the transcripts have what is refused.


ALTER_CONFIGS_TOPIC, ALTER_CONFIGS_BROKER = 2, 4


def resource(
    resource_type: int = ALTER_CONFIGS_TOPIC, resource_name: str = "orders", **configs: str | None
) -> dict[str, Any]:
    return {
        "resource_type": resource_type,
        "resource_name": resource_name,
        "configs": [
            {"name": config_name.replace("_", "."), "value": config_value}
            for config_name, config_value in configs.items()
        ],
    }


async def alter(api: Api, *resources: dict[str, Any], version: int = 2) -> Any:
    return await api.ask("AlterConfigs", version, resources=list(resources), validate_only=False)


async def test_configs_of_a_broker_take_effect(api: Api) -> None:
    await alter(api, resource(ALTER_CONFIGS_BROKER, "1", message_max_bytes="2000"))
    assert api.broker.settings.message_max_bytes == 2000
    await alter(api, resource(ALTER_CONFIGS_BROKER, "1"))
    assert api.broker.settings.message_max_bytes != 2000


@pytest.mark.parametrize(
    ("altered_resource", "cleared"),
    [
        (resource(min_insync_replicas="1"), {"orders"}),
        (resource(retention_ms="1"), {"orders"}),
        (resource(min_insync_replicas="2", retention_ms="1"), set()),
        (resource(ALTER_CONFIGS_BROKER, "", min_insync_replicas="1"), {"orders", "other"}),
    ],
    ids=["another", "the default again", "the same", "of all brokers"],
)
async def test_a_change_of_the_minimum_makes_no_replica_eligible(
    api: Api, altered_resource: dict[str, Any], cleared: set[str]
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
    topic_partitions = {TopicPartition(topic, 0) for topic in ("orders", "other")}

    def partition(topic_partition: TopicPartition) -> PartitionImage:
        partition = metadata.image.partition(topic_partition)
        assert partition is not None
        return partition

    cleared_partition_by_partition = {
        topic_partition: msgspec.structs.replace(partition(topic_partition), elr=(BrokerId(9),))
        for topic_partition in topic_partitions
    }
    metadata.publish(metadata.image.with_partitions(cleared_partition_by_partition))
    (response,) = (await alter(api, altered_resource)).responses
    assert response.error_code is ErrorCode.none
    assert {
        topic_partition.topic
        for topic_partition in topic_partitions
        if not partition(topic_partition).elr
    } == cleared


# Resources that carry configs: kinds, topics, ids of brokers.


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (0, "UNKNOWN"),
        (1, "UNKNOWN"),
        (2, "TOPIC"),
        (4, "BROKER"),
        (8, "BROKER_LOGGER"),
        (16, "CLIENT_METRICS"),
        (32, "GROUP"),
        (-1, "UNKNOWN"),
        (99, "UNKNOWN"),
    ],
)
def test_kinds_are_numbered_as_kafka_does(number: int, kind: str) -> None:
    assert resource_kind_of(number) is ConfigResourceKind[kind]


@pytest.mark.parametrize(
    ("name", "node_id"), [("1", 1), ("-1", -1), ("+7", 7), ("", None), ("x", None), ("1.5", None)]
)
def test_a_brokers_name_is_its_id(name: str, node_id: int | None) -> None:
    assert broker_id_of(name) == node_id


async def test_a_topic_must_be_named_well_and_exist(api: Api) -> None:
    request = api.request("DescribeConfigs", 4)
    assert topic_refusal(request, "orders") is None
    rejection = topic_refusal(request, "a b")
    assert rejection is not None
    assert rejection.error is ErrorCode.invalid_topic_exception
    missing_rejection = topic_refusal(request, "missing")
    assert missing_rejection is not None
    assert missing_rejection.error is ErrorCode.unknown_topic_or_partition
    assert missing_rejection.reason == "The topic 'missing' does not exist."


def test_an_invalid_request_has_its_words() -> None:
    assert invalid("why").error is ErrorCode.invalid_request
    assert invalid("why").reason == "why"


# ``alter_client_quotas``: AlterClientQuotas: set, tried, removed, and what is told of entities that
# are named twice.


E = ErrorCode
RATE = "producer_byte_rate"


def entry(*ops: tuple[str, float | None], user_name: str | None = "u") -> dict[str, Any]:
    return {
        "entity": [{"entity_type": "user", "entity_name": user_name}],
        "ops": [{"key": k, "value": v or 0.0, "remove": v is None} for k, v in ops],
    }


async def alter_of_alter_client_quotas(
    api: Api, *entries: dict[str, Any], version: int = 1, only_try: bool = False
) -> Any:
    answer = await api.ask(
        "AlterClientQuotas", version, entries=list(entries), validate_only=only_try
    )
    return [(entry.error_code, entry.error_message) for entry in answer.entries]


def quotas_by_name(api: Api) -> dict[str | None, dict[str, float]]:
    return {entity[0][1]: dict(values) for entity, values in api.broker.image.client_quotas.items()}


@pytest.mark.parametrize("version", [0, 1])
async def test_values_are_set_and_removed(api: Api, version: int) -> None:
    assert await alter_of_alter_client_quotas(api, entry((RATE, 5.0)), version=version) == [
        (E.none, None)
    ]
    assert await alter_of_alter_client_quotas(
        api, entry((RATE, 6.0)), version=version, only_try=True
    ) == [(E.none, None)]
    assert await alter_of_alter_client_quotas(
        api, entry((RATE, 7.0), user_name=None), version=version
    ) == [(E.none, None)]
    assert quotas_by_name(api) == {"u": {RATE: 5.0}, None: {RATE: 7.0}}
    offset = api.broker.image.offset
    assert await alter_of_alter_client_quotas(api, entry((RATE, None)), version=version) == [
        (E.none, None)
    ]
    assert await alter_of_alter_client_quotas(api, entry((RATE, None)), version=version) == [
        (E.none, None)
    ]
    assert quotas_by_name(api) == {None: {RATE: 7.0}}
    assert api.broker.image.offset == offset + 1, "what changes nothing is no change"


async def test_what_can_not_be_changes_nothing(api: Api) -> None:
    (refusal,) = await alter_of_alter_client_quotas(api, entry((RATE, 1.0), ("no_such_rate", 1.0)))
    assert refusal == (E.invalid_request, "Invalid configuration key no_such_rate")
    assert quotas_by_name(api) == {}
