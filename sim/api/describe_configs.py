"""DescribeConfigs (key 32): effective configs of topics and brokers, with where each value comes
from.

Versions: 1 sources and synonyms, 3 types and documentation, 4 flexible. Kafka's counterpart:
ConfigHelper.
"""

from __future__ import annotations

from typing import Any, Final

from sim.api.config_resources import ResourceType, refusal, resource_type
from sim.api.request import Reply, Request
from sim.cluster import configs
from sim.cluster.configs import ConfigValue
from sim.errors import ErrorCode, Rejection
from sim.wire.codec import build

KEY: Final = 32
VERSIONS: Final = (1, 4)


async def handle(request: Request) -> Reply:
    """Describe each resource by itself."""
    return request.answer(
        results=tuple(_describe(request, resource) for resource in request.message.resources)
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every resource."""
    rejection = Rejection(error=error, reason=error.name)
    return request.answer(
        results=tuple(
            _result(request, resource, rejection) for resource in request.message.resources
        )
    )


def _describe(request: Request, resource: Any) -> Any:
    kind = resource_type(resource.resource_type)
    name = resource.resource_name
    rejection = refusal(request, kind, name)
    if rejection is not None:
        return _result(request, resource, rejection)
    broker = request.broker
    wanted = resource.configuration_keys
    if kind is ResourceType.TOPIC:
        own = broker.image.topics[name].configs
        values = [
            configs.topic_value(
                key, topic=own, image=broker.image, settings=broker.metadata.settings
            )
            for key in configs.TOPIC_CONFIGS
            if wanted is None or key in wanted
        ]
    else:
        # The nameless resource stands for the dynamic defaults of all brokers: only what was set.
        names = configs.BROKER_CONFIGS if name else broker.image.broker_configs.get("", {})
        values = [
            configs.broker_value(
                key, broker=name, image=broker.image, settings=broker.metadata.settings
            )
            for key in names
            if wanted is None or key in wanted
        ]
    return _result(request, resource, values)


def _result(request: Request, resource: Any, outcome: list[ConfigValue] | Rejection) -> Any:
    error, reason, values = ErrorCode.none, None, []
    if isinstance(outcome, Rejection):
        error, reason = outcome.error, outcome.reason
    else:
        values = outcome
    return request.schema.DescribeConfigsResult(
        error_code=error,
        error_message=reason,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_entry(request, value) for value in values),
    )


def _entry(request: Request, value: ConfigValue) -> Any:
    schema = request.schema
    synonyms: tuple[Any, ...] = ()
    if request.message.include_synonyms:
        synonyms = tuple(
            schema.DescribeConfigsSynonym(name=name, value=text, source=source)
            for name, text, source in value.synonyms
        )
    return build(
        schema.DescribeConfigsResourceResult,
        name=value.name,
        value=value.value,
        read_only=value.read_only,
        config_source=value.source,
        is_sensitive=False,
        synonyms=synonyms,
        config_type=value.type,
        documentation=None,
    )
