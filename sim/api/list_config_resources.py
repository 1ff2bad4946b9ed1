"""ListConfigResources (key 74): what DescribeConfigs can be asked about.

Versions: 0 lists client metrics only, of which there are none; 1 lists the kinds asked for, or all
(KIP-1142). Kafka's counterpart: KafkaApis.handleListConfigResources.
"""

from __future__ import annotations

from typing import Any, Final

from sim.api.config_resources import ResourceType, resource_type
from sim.api.request import Reply, Request
from sim.errors import ErrorCode

KEY: Final = 74
VERSIONS: Final = (0, 1)

KINDS_FROM: Final = 1
_KINDS: Final = tuple(kind for kind in ResourceType if kind is not ResourceType.UNKNOWN)


async def handle(request: Request) -> Reply:
    """Name the resources of each kind."""
    if request.api_version < KINDS_FROM:
        return _answer(request, ErrorCode.none, ())
    kinds = dict.fromkeys(map(resource_type, request.message.resource_types or _KINDS))
    if ResourceType.UNKNOWN in kinds:
        return refuse(request, ErrorCode.unsupported_version)
    make = request.schema.ConfigResource
    found = [
        make(resource_name=name, resource_type=kind)
        for kind in kinds
        for name in _names(request, kind)
    ]
    return _answer(request, ErrorCode.none, tuple(found))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top."""
    return _answer(request, error, ())


def _names(request: Request, kind: ResourceType) -> tuple[str, ...]:
    image = request.broker.image
    if kind is ResourceType.TOPIC:
        return tuple(image.topics)
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return tuple(str(broker.broker_id) for broker in image.alive_brokers())
    return ()


def _answer(request: Request, error: ErrorCode, resources: tuple[Any, ...]) -> Reply:
    return request.answer(error_code=error, config_resources=resources)
