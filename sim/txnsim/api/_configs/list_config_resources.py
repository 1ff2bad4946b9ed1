"""ListConfigResources (key 74): the resources that DescribeConfigs can describe.

Versions: 0 lists subscriptions for client metrics only; 1 lists the kinds asked for, or all
(KIP-1142). Kafka's counterpart: KafkaApis.handleListConfigResources.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._configs.config_resources import ConfigResourceType, resource_type
from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode
from txnsim.wire.codec import build

KEY: Final = 74

refuse = refuse_at_top_level(config_resources=())

KINDS_FROM: Final = 1
_ORDER: Final = (
    ConfigResourceType.GROUP,
    ConfigResourceType.CLIENT_METRICS,
    ConfigResourceType.BROKER_LOGGER,
    ConfigResourceType.BROKER,
    ConfigResourceType.TOPIC,
)
"""The order of resource types in the answer."""


async def handle(request: Request) -> Reply:
    """Name the resources of each kind."""
    requested_types = (
        (ConfigResourceType.CLIENT_METRICS,)
        if request.api_version < KINDS_FROM
        else request.message.resource_types
    )
    kinds = set(map(resource_type, requested_types or _ORDER))
    if ConfigResourceType.UNKNOWN in kinds:
        return refuse(request, ErrorCode.unsupported_version)
    make = request.schema.ConfigResource
    listed = [(kind, name) for kind in _ORDER if kind in kinds for name in _names(request, kind)]
    listed_resources = await request.map_each(
        lambda type_and_name: build(
            make, resource_name=type_and_name[1], resource_type=type_and_name[0]
        ),
        listed,
    )
    return request.answer(error_code=ErrorCode.none, config_resources=tuple(listed_resources))


def _names(request: Request, kind: ConfigResourceType) -> tuple[str, ...]:
    image = request.broker.image
    if kind is ConfigResourceType.TOPIC:
        return tuple(image.topics)
    if kind in (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER):
        # Fenced ones, too.
        return tuple(str(broker_id) for broker_id in image.brokers)
    return tuple(image.group_configs if kind is ConfigResourceType.GROUP else image.client_metrics)
