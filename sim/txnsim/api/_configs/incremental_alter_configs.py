"""IncrementalAlterConfigs (key 44): set, delete, append to, subtract from configs of topics,
brokers, groups and subscriptions for client metrics.

Versions: 1 is flexible. Kafka's counterparts: ConfigAdminManager, ConfigurationControlManager.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from txnsim.api._configs.config_resources import (
    ConfigResourceKind,
    alter_each,
    alteration_refusal,
    altered_image,
    broker_id_of,
    refuse_each,
    resource_kind_of,
)
from txnsim.api.request import Reply, Request, invalid
from txnsim.controller.controller import ConfigEntryChange, ConfigOperation
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage

API_KEY: Final = 44

refuse = refuse_each

DEVIATIONS: Final = (
    "IncrementalAlterConfigs knows no loggers: there is none whose level could be altered.",
    "Dynamic broker configs without effect (docs/settings.md), and those of listeners and of their "
    "certificates, are checked, kept and described, and change nothing. Apache Kafka would open "
    "listeners, and look whether their names and protocols fit.",
    "A Java class in a broker config is always refused as one that could not be found.",
)


async def handle(request: Request) -> Reply:
    """Alter each resource by itself; of one resource all changes or none."""
    resources = request.message.resources
    resource_counts = Counter(
        (resource.resource_type, resource.resource_name) for resource in resources
    )

    def alter_resource(request: Request, resource: Any) -> ClusterImage | Rejection:
        if resource_counts[resource.resource_type, resource.resource_name] > 1:
            return invalid("Each resource must appear at most once.")
        return _alter(request, resource)

    return await alter_each(request, alter_resource)


def _alter(request: Request, resource: Any) -> ClusterImage | Rejection:
    resource_kind = resource_kind_of(resource.resource_type)
    if resource_kind is ConfigResourceKind.BROKER_LOGGER:
        return _logger_refusal(request, resource) or request.broker.metadata.image
    refusal = alteration_refusal(request, resource_kind, resource)
    if refusal is not None:
        return refusal
    config_changes = []
    for config in resource.configs:
        try:
            operation = ConfigOperation(config.config_operation)
        except ValueError:
            return Rejection(error=ErrorCode.unknown_server_error, reason="")
        config_changes.append(
            ConfigEntryChange(name=config.name, operation=operation, value=config.value)
        )
    return altered_image(request, resource_kind, resource.resource_name, tuple(config_changes))


def _logger_refusal(request: Request, resource: Any) -> Rejection | None:
    """Why the levels of a broker's loggers can't be altered (RuntimeLoggerManager)."""
    resource_name, own_broker_id = resource.resource_name, request.broker.broker_id
    if broker_id_of(resource_name) is None:
        return invalid(f"Node id must be an integer, but it is: {resource_name}")
    if broker_id_of(resource_name) != own_broker_id:
        return invalid(
            f"Unexpected node id. Expected {own_broker_id}, but received"
            f" {broker_id_of(resource_name)}"
        )
    names_without_value = [
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != ConfigOperation.DELETE
    ]
    if names_without_value:
        return invalid(f"Null value not supported for : {', '.join(names_without_value)}")
    for config in resource.configs:
        match config.config_operation:
            case ConfigOperation.SET | ConfigOperation.DELETE:
                return Rejection(
                    error=ErrorCode.invalid_config, reason=f"Logger {config.name} does not exist!"
                )
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT as operation:
                operation_name = ConfigOperation(operation).name
                return invalid(
                    f"{operation_name} operation is not allowed for the BROKER_LOGGER resource"
                )
            case unknown_operation if request.broker.release.rules.logger_operations_are_checked:
                return invalid(
                    f"Unknown operation type {unknown_operation} is not allowed for the"
                    " BROKER_LOGGER resource"
                )
            case _:
                return Rejection(error=ErrorCode.unknown_server_error, reason="")
    return None
