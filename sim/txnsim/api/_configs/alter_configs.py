"""AlterConfigs (key 33): replace all configs of topics, brokers, groups and subscriptions for
client metrics that were set before.

Versions: 1 throttling, 2 is flexible. A config that the request does not name goes back to its
default, which is why IncrementalAlterConfigs exists (KIP-339). A request that names a resource
twice gets no answer, as measured on a real broker. Kafka's counterparts: ConfigAdminManager,
ConfigurationControlManager.legacyAlterConfigs.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api._configs.config_resources import (
    ConfigResourceKind,
    alter_each,
    alteration_refusal,
    altered_image,
    refuse_each,
    resource_kind_of,
)
from txnsim.api.request import NoResponse, Reply, Request, invalid
from txnsim.controller.controller import ConfigEntryChange, ConfigOperation
from txnsim.errors import Rejection
from txnsim.metadata.image import ClusterImage

API_KEY: Final = 33

refuse = refuse_each


async def handle(request: Request) -> Reply:
    """Alter each resource by itself; of one resource all changes or none."""
    resources = request.message.resources
    named_resources = {(resource.resource_type, resource.resource_name) for resource in resources}
    if len(named_resources) < len(resources):
        return NoResponse.NEVER
    return await alter_each(request, _alter)


def _alter(request: Request, resource: Any) -> ClusterImage | Rejection:
    resource_kind = resource_kind_of(resource.resource_type)
    if resource_kind is ConfigResourceKind.BROKER_LOGGER:
        return invalid(f"Unknown resource type {resource.resource_type}")
    refusal = alteration_refusal(request, resource_kind, resource)
    if refusal is not None:
        return refusal
    config_changes = tuple(
        ConfigEntryChange(name=config.name, operation=ConfigOperation.SET, value=config.value)
        for config in resource.configs
    )
    return altered_image(
        request, resource_kind, resource.resource_name, config_changes, replaces_all=True
    )
