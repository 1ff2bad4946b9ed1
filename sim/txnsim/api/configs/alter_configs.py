"""AlterConfigs (key 33): replace all configs of topics, brokers, groups and subscriptions for
client metrics that were set before.

Versions: 1 throttling, 2 is flexible. A config that the request does not name goes back to its
default, which is why IncrementalAlterConfigs exists (KIP-339). A request that names a resource
twice gets no answer, as measured on a real broker. Kafka's counterparts: ConfigAdminManager,
ConfigurationControlManager.legacyAlterConfigs.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.configs.config_resources import (
    ResourceType,
    alteration_refusal,
    altered_image,
    invalid,
    resource_type,
)
from txnsim.api.request import CHANGE_WEIGHT, NoResponse, Reply, Request
from txnsim.controller.controller import ConfigChange, ConfigOperation
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage

KEY: Final = 33
VERSIONS: Final = (0, 2)


async def handle(request: Request) -> Reply:
    """Alter each resource by itself; of one resource all changes or none."""
    message = request.message
    seen = {(resource.resource_type, resource.resource_name) for resource in message.resources}
    if len(seen) < len(message.resources):
        return NoResponse.NEVER

    def alter(resource: Any) -> Any:
        outcome = _altered(request, resource)
        if isinstance(outcome, ClusterImage) and not message.validate_only:
            request.broker.metadata.publish(outcome)
        return _result(request, resource, outcome if isinstance(outcome, Rejection) else None)

    results = await request.each(alter, message.resources, weight=CHANGE_WEIGHT)
    return request.answer(responses=tuple(results))


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error on every resource."""
    rejection = Rejection(error=error, reason=error.name)
    return request.answer(
        responses=tuple(
            _result(request, resource, rejection) for resource in request.message.resources
        )
    )


def _altered(request: Request, resource: Any) -> ClusterImage | Rejection:
    kind = resource_type(resource.resource_type)
    if kind is ResourceType.BROKER_LOGGER:
        return invalid(f"Unknown resource type {resource.resource_type}")
    refused = alteration_refusal(request, kind, resource)
    if refused is not None:
        return refused
    changes = tuple(
        ConfigChange(name=config.name, operation=ConfigOperation.SET, value=config.value)
        for config in resource.configs
    )
    return altered_image(request, kind, resource.resource_name, changes, is_whole=True)


def _result(request: Request, resource: Any, rejection: Rejection | None) -> Any:
    return request.schema.AlterConfigsResourceResponse(
        error_code=ErrorCode.none if rejection is None else rejection.error,
        error_message=None if rejection is None else rejection.reason or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
