"""DescribeConfigs (key 32): effective configs of topics, brokers, groups and client metrics, and
where each value comes from.

Versions: 1 sources and synonyms, 3 types and documentation, 4 flexible. Kafka's counterpart:
ConfigHelper.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final, assert_never

from txnsim.api._configs.config_resources import (
    ConfigResourceKind,
    broker_id_of,
    resource_kind_of,
    topic_refusal,
)
from txnsim.api._topics import topic_lookup
from txnsim.api.request import INVALID_REQUEST_TEXT, Reply, Request, invalid
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata import configs
from txnsim.metadata.client_metrics_configs import client_metrics_values
from txnsim.metadata.config_keys import ConfigSource
from txnsim.metadata.configs import ConfigValue, documentation_of
from txnsim.metadata.group_configs import group_values
from txnsim.wire.codec import build

API_KEY: Final = 32

DEVIATIONS: Final = ("DescribeConfigs shows no loggers. Documentation is in our own words.",)

Outcome = list[ConfigValue] | Rejection


async def handle(request: Request) -> Reply:
    """Describe each resource by itself."""
    resources = request.message.resources
    describe_resource = partial(_describe, request, _EntryCache(request))
    return request.answer(results=tuple(await request.each_heavy(describe_resource, resources)))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every resource."""
    rejection = Rejection(error=error, reason=error.name)
    return request.answer(
        results=tuple(
            _resource_result(request, resource, rejection) for resource in request.message.resources
        )
    )


class _EntryCache(dict[ConfigValue, Any]):
    """The entries of an answer. Most resources share most default values, so each distinct entry is
    built once.
    """

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    def __missing__(self, config_value: ConfigValue) -> Any:
        config_entry = self[config_value] = _config_entry(self._request, config_value)
        return config_entry


async def _describe(request: Request, entry_cache: _EntryCache, resource: Any) -> Any:
    configs = _resource_configs(
        request, resource_kind_of(resource.resource_type), resource.resource_name
    )
    if isinstance(configs, Rejection):
        return _resource_result(request, resource, configs)
    requested_keys = resource.configuration_keys
    # No keys at all mean every key, as null does.
    requested_configs = [
        config_value
        for config_value in configs
        if not requested_keys or config_value.name in requested_keys
    ]
    with_synonyms = bool(request.message.include_synonyms)
    request.announce_answer(
        len(requested_configs),
        sum([_text_bytes(config_value, with_synonyms) for config_value in requested_configs]),
    )
    config_entries = [entry_cache[config_value] for config_value in requested_configs]
    return _resource_result(request, resource, None, tuple(config_entries))


def _text_bytes(config_value: ConfigValue, with_synonyms: bool) -> int:  # noqa: FBT001 - it is the only one
    """Size of the values in bytes beyond ``ELEMENT_BYTES``, which each element counts for
    anyway.
    """
    texts = [config_value.value, *(text for _, text, _ in config_value.synonyms if with_synonyms)]
    return sum([len(text) for text in texts if text is not None])


def _resource_configs(
    request: Request, resource_kind: ConfigResourceKind, resource_name: str
) -> Outcome:
    """Every config of a resource, or why it can't be described (ConfigHelper.describeConfigs)."""
    match resource_kind:
        case ConfigResourceKind.TOPIC:
            refusal = topic_refusal(request, resource_name)
            if refusal is not None and refusal.error is ErrorCode.unknown_topic_or_partition:
                refusal = Rejection(error=refusal.error, reason="")
            return _topic_configs(request, resource_name) if refusal is None else refusal
        case ConfigResourceKind.BROKER:
            if not resource_name or broker_id_of(resource_name) == request.broker.broker_id:
                return _broker_configs(request, resource_name)
            return _unknown_broker(request, resource_name, " or empty string,")
        case ConfigResourceKind.BROKER_LOGGER:
            if not resource_name:
                return invalid("Broker id must not be empty")
            if broker_id_of(resource_name) != request.broker.broker_id:
                return _unknown_broker(request, resource_name, "")
            return []
        case ConfigResourceKind.CLIENT_METRICS:
            if not resource_name:
                return invalid("Client metrics subscription name must not be empty")
            return client_metrics_values(request.broker.image.client_metrics.get(resource_name, {}))
        case ConfigResourceKind.GROUP:
            return (
                _group_configs(request, resource_name)
                if resource_name
                else invalid("Group name must not be empty")
            )
        case ConfigResourceKind.UNKNOWN:
            return invalid(INVALID_REQUEST_TEXT)
        case _:
            assert_never(resource_kind)


def _topic_configs(request: Request, topic_name: str) -> list[ConfigValue]:
    lookup = topic_lookup(request, request.broker.image.topics[topic_name].configs)
    return [*map(lookup.value, lookup.broker_names())]


def _group_configs(request: Request, group_id: str) -> list[ConfigValue]:
    broker = request.broker
    return group_values(
        broker.image.group_configs.get(group_id, {}),
        image=broker.image,
        settings=broker.metadata.settings,
        broker_id=broker.broker_id,
        release_rules=broker.release.rules,
    )


def _broker_configs(request: Request, broker_name: str) -> list[ConfigValue]:
    broker = request.broker
    image, settings = broker.image, broker.metadata.settings
    key_by_name = configs.broker_configs(broker.release.rules)
    own_values = configs.own_values(image, broker.broker_id, is_kraft=bool(broker.release.features))
    config_values = [
        configs.broker_value(
            config_name,
            scope=broker_name,
            image=image,
            settings=settings,
            key_by_name=key_by_name,
            own_values=own_values,
        )
        for config_name in configs.described_names(
            broker_name, key_by_name=key_by_name, image=image, settings=settings
        )
    ]
    return [
        config_value
        for config_value in config_values
        if config_value.source is not ConfigSource.DEFAULT
        or not key_by_name[config_value.name].is_internal
    ]


def _unknown_broker(request: Request, resource_name: str, alternative_words: str) -> Rejection:
    if broker_id_of(resource_name) is None:
        return invalid(f"Broker id must be an integer, but it is: {resource_name}")
    return invalid(
        f"Unexpected broker id, expected {request.broker.broker_id}{alternative_words} "
        f"but received {resource_name}"
    )


def _resource_result(
    request: Request,
    resource: Any,
    rejection: Rejection | None,
    config_entries: tuple[Any, ...] = (),
) -> Any:
    return request.schema.DescribeConfigsResult(
        error_code=ErrorCode.none if rejection is None else rejection.error,
        error_message="" if rejection is None else rejection.reason,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=config_entries,
    )


def _config_entry(request: Request, config_value: ConfigValue) -> Any:
    schema = request.schema
    synonyms: tuple[Any, ...] = ()
    if request.message.include_synonyms:
        synonyms = tuple(
            schema.DescribeConfigsSynonym(name=synonym_name, value=synonym_value, source=source)
            for synonym_name, synonym_value, source in config_value.synonyms
        )
    wants_documentation = request.api_version >= 3 and request.message.include_documentation
    return build(
        schema.DescribeConfigsResourceResult,
        name=config_value.name,
        value=config_value.value,
        read_only=config_value.read_only,
        config_source=config_value.source,
        is_sensitive=config_value.is_sensitive,
        synonyms=synonyms,
        config_type=config_value.type,
        documentation=documentation_of(config_value.name) if wants_documentation else None,
    )
