"""DescribeConfigs (key 32): effective configs of topics, brokers, groups and client metrics, and
where each value comes from.

Versions: 1 sources and synonyms, 3 types and documentation, 4 flexible. Kafka's counterpart:
ConfigHelper.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, assert_never

from txnsim.api._configs.config_resources import (
    ConfigResourceType,
    node_of,
    resource_type,
    topic_refusal,
)
from txnsim.api._topics import topic_lookup
from txnsim.api.request import INVALID_REQUEST_TEXT, Reply, Request, invalid
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata import configs
from txnsim.metadata.client_metrics_configs import client_metrics_values
from txnsim.metadata.config_keys import TOPIC_CONFIGS, ConfigSource
from txnsim.metadata.configs import ConfigValue
from txnsim.metadata.group_configs import group_values
from txnsim.settings import documentation
from txnsim.wire.codec import build

KEY: Final = 32

DEVIATIONS: Final = (
    "DescribeConfigs shows those broker configs that txnsim has, and no loggers; documentation is "
    "in our own words, and null where a config is no setting of txnsim.",
)

_DOCUMENTATION: Final[Mapping[str, str]] = {
    setting.kafka: setting.reason
    for setting in documentation().values()
    if setting.kafka is not None
}

Outcome = list[ConfigValue] | Rejection


async def handle(request: Request) -> Reply:
    """Describe each resource by itself."""
    resources = request.message.resources
    describe = partial(_describe, request, _Entries(request))
    return request.answer(results=tuple(await request.each_heavy(describe, resources)))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every resource."""
    rejection = Rejection(error=error, reason=error.name)
    return request.answer(
        results=tuple(
            _result(request, resource, rejection) for resource in request.message.resources
        )
    )


class _Entries(dict[ConfigValue, Any]):
    """The entries of an answer. Most resources share most default values, so each distinct entry is
    built once.
    """

    def __init__(self, request: Request) -> None:
        super().__init__()
        self._request = request

    def __missing__(self, value: ConfigValue) -> Any:
        entry = self[value] = _entry(self._request, value)
        return entry


async def _describe(request: Request, entries: _Entries, resource: Any) -> Any:
    outcome = _values(request, resource_type(resource.resource_type), resource.resource_name)
    if isinstance(outcome, Rejection):
        return _result(request, resource, outcome)
    requested_keys = resource.configuration_keys
    # No keys at all mean every key, as null does.
    chosen = [value for value in outcome if not requested_keys or value.name in requested_keys]
    with_synonyms = bool(request.message.include_synonyms)
    request.answers(len(chosen), sum([_size(value, with_synonyms) for value in chosen]))
    config_entries = [entries[value] for value in chosen]
    return _result(request, resource, None, tuple(config_entries))


def _size(value: ConfigValue, with_synonyms: bool) -> int:  # noqa: FBT001 - it is the only one
    """Size of the values in bytes beyond ``ELEMENT_BYTES``, which each element counts for
    anyway.
    """
    values = [value.value, *(text for _, text, _ in value.synonyms if with_synonyms)]
    return sum([len(text) for text in values if text is not None])


def _values(request: Request, kind: ConfigResourceType, name: str) -> Outcome:
    """Every config of a resource, or why it can't be described (ConfigHelper.describeConfigs)."""
    match kind:
        case ConfigResourceType.TOPIC:
            refused = topic_refusal(request, name)
            if refused is not None and refused.error is ErrorCode.unknown_topic_or_partition:
                refused = Rejection(error=refused.error, reason="")
            return _topic_values(request, name) if refused is None else refused
        case ConfigResourceType.BROKER:
            if not name or node_of(name) == request.broker.broker_id:
                return _broker_values(request, name)
            return _unknown_broker(request, name, " or empty string,")
        case ConfigResourceType.BROKER_LOGGER:
            if not name:
                return invalid("Broker id must not be empty")
            if node_of(name) != request.broker.broker_id:
                return _unknown_broker(request, name, "")
            return []
        case ConfigResourceType.CLIENT_METRICS:
            if not name:
                return invalid("Client metrics subscription name must not be empty")
            return client_metrics_values(request.broker.image.client_metrics.get(name, {}))
        case ConfigResourceType.GROUP:
            return _group_values(request, name) if name else invalid("Group name must not be empty")
        case ConfigResourceType.UNKNOWN:
            return invalid(INVALID_REQUEST_TEXT)
        case _:
            assert_never(kind)


def _topic_values(request: Request, name: str) -> list[ConfigValue]:
    lookup = topic_lookup(request, request.broker.image.topics[name].configs)
    return [*map(lookup.value, lookup.broker_names())]


def _group_values(request: Request, name: str) -> list[ConfigValue]:
    broker = request.broker
    return group_values(
        broker.image.group_configs.get(name, {}),
        image=broker.image,
        settings=broker.metadata.settings,
        broker_id=broker.broker_id,
        rules=broker.release.rules,
    )


def _broker_values(request: Request, name: str) -> list[ConfigValue]:
    broker = request.broker
    keys = configs.broker_configs(broker.release.rules)
    # The nameless resource stands for the dynamic defaults of all brokers: only the configs that
    # were set.
    known_keys = keys if name else ()
    names = dict.fromkeys((*known_keys, *broker.image.broker_configs.get(name, {})))
    values = [
        configs.broker_value(
            key, broker=name, image=broker.image, settings=broker.metadata.settings, keys=keys
        )
        for key in names
    ]
    return [
        value
        for value in values
        if value.name not in configs.INTERNAL_BROKER_CONFIGS
        or value.source is not ConfigSource.DEFAULT
    ]


def _unknown_broker(request: Request, name: str, besides: str) -> Rejection:
    if node_of(name) is None:
        return invalid(f"Broker id must be an integer, but it is: {name}")
    return invalid(
        f"Unexpected broker id, expected {request.broker.broker_id}{besides} but received {name}"
    )


def _result(
    request: Request, resource: Any, complaint: Rejection | None, entries: tuple[Any, ...] = ()
) -> Any:
    return request.schema.DescribeConfigsResult(
        error_code=ErrorCode.none if complaint is None else complaint.error,
        error_message="" if complaint is None else complaint.reason,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=entries,
    )


def _entry(request: Request, value: ConfigValue) -> Any:
    schema = request.schema
    synonyms: tuple[Any, ...] = ()
    if request.message.include_synonyms:
        synonyms = tuple(
            schema.DescribeConfigsSynonym(name=name, value=text, source=source)
            for name, text, source in value.synonyms
        )
    wants_words = request.api_version >= 3 and request.message.include_documentation
    return build(
        schema.DescribeConfigsResourceResult,
        name=value.name,
        value=value.value,
        read_only=value.read_only,
        config_source=value.source,
        is_sensitive=value.is_sensitive,
        synonyms=synonyms,
        config_type=value.type,
        documentation=_documentation(value.name) if wants_words else None,
    )


def _documentation(name: str) -> str | None:
    """The documentation of a broker config, looked up by its topic-level name where the two
    differ.
    """
    topic = TOPIC_CONFIGS.get(name)
    return _DOCUMENTATION.get(name if topic is None else topic.broker_name or name)
