"""ListConfigResources (key 74): the resources that DescribeConfigs can describe.

Versions: 0 lists subscriptions for client metrics only; 1 lists the kinds asked for, or all
(KIP-1142). Kafka's counterpart: KafkaApis.handleListConfigResources.
"""

from __future__ import annotations

from typing import Final

from txnsim.api._configs.config_resources import ConfigResourceKind, resource_kind_of
from txnsim.api.request import Reply, Request, refuse_at_top_level
from txnsim.errors import ErrorCode
from txnsim.wire.codec import build

API_KEY: Final = 74

refuse = refuse_at_top_level(config_resources=())

KINDS_FROM: Final = 1
_KIND_ORDER: Final = (
    ConfigResourceKind.GROUP,
    ConfigResourceKind.CLIENT_METRICS,
    ConfigResourceKind.BROKER_LOGGER,
    ConfigResourceKind.BROKER,
    ConfigResourceKind.TOPIC,
)
"""The order of resource types in the answer."""


async def handle(request: Request) -> Reply:
    """Name the resources of each kind."""
    requested_types = (
        (ConfigResourceKind.CLIENT_METRICS,)
        if request.api_version < KINDS_FROM
        else request.message.resource_types
    )
    resource_kinds = set(map(resource_kind_of, requested_types or _KIND_ORDER))
    if ConfigResourceKind.UNKNOWN in resource_kinds:
        return refuse(request, ErrorCode.unsupported_version)
    resource_class = request.schema.ConfigResource
    types_and_names = [
        (resource_kind, resource_name)
        for resource_kind in _KIND_ORDER
        if resource_kind in resource_kinds
        for resource_name in _resource_names(request, resource_kind)
    ]
    listed_resources = await request.map_each(
        lambda type_and_name: build(
            resource_class, resource_name=type_and_name[1], resource_type=type_and_name[0]
        ),
        types_and_names,
    )
    return request.answer(error_code=ErrorCode.none, config_resources=tuple(listed_resources))


def _resource_names(request: Request, resource_kind: ConfigResourceKind) -> tuple[str, ...]:
    image = request.broker.image
    if resource_kind is ConfigResourceKind.TOPIC:
        return tuple(image.topics)
    if resource_kind in (ConfigResourceKind.BROKER, ConfigResourceKind.BROKER_LOGGER):
        # Fenced ones, too.
        return tuple(str(broker_id) for broker_id in image.brokers)
    return tuple(
        image.group_configs if resource_kind is ConfigResourceKind.GROUP else image.client_metrics
    )
