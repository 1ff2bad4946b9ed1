"""IncrementalAlterConfigs (key 44): set, delete, append to, subtract from configs of topics,
brokers, groups and subscriptions for client metrics.

Versions: 1 is flexible. Kafka's counterparts: ConfigAdminManager, ConfigurationControlManager.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from txnsim.api.configs.config_resources import (
    ResourceType,
    alteration_refusal,
    altered_image,
    invalid,
    node_of,
    resource_type,
)
from txnsim.api.request import CHANGE_WEIGHT, Reply, Request
from txnsim.controller.controller import ConfigChange, ConfigOperation
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import ClusterImage

KEY: Final = 44
VERSIONS: Final = (0, 1)

DEVIATIONS: Final = (
    "IncrementalAlterConfigs knows no loggers: there is none whose level could be altered.",
    "Broker configs of Apache Kafka that txnsim does not have are altered like those of a plugin: "
    "kept, whether Apache Kafka would refuse them or not, and described without their value.",
)


async def handle(request: Request) -> Reply:
    """Alter each resource by itself; of one resource all changes or none."""
    message = request.message
    times = Counter((each.resource_type, each.resource_name) for each in message.resources)

    def alter(resource: Any) -> Any:
        if times[resource.resource_type, resource.resource_name] > 1:
            outcome: ClusterImage | Rejection = Rejection(
                error=ErrorCode.invalid_request,
                reason="Each resource must appear at most once.",
            )
        else:
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
        return _logger_refusal(request, resource) or request.broker.metadata.image
    refused = alteration_refusal(request, kind, resource)
    if refused is not None:
        return refused
    changes = []
    for config in resource.configs:
        try:
            operation = ConfigOperation(config.config_operation)
        except ValueError:
            return Rejection(error=ErrorCode.unknown_server_error, reason="")
        changes.append(ConfigChange(name=config.name, operation=operation, value=config.value))
    return altered_image(request, kind, resource.resource_name, tuple(changes))


def _logger_refusal(request: Request, resource: Any) -> Rejection | None:
    """Why levels of a broker's loggers can't be altered (RuntimeLoggerManager)."""
    name, own = resource.resource_name, request.broker.broker_id
    if node_of(name) is None:
        return invalid(f"Node id must be an integer, but it is: {name}")
    if node_of(name) != own:
        return invalid(f"Unexpected node id. Expected {own}, but received {node_of(name)}")
    nulls = [
        config.name
        for config in resource.configs
        if config.value is None and config.config_operation != ConfigOperation.DELETE
    ]
    if nulls:
        return invalid(f"Null value not supported for : {', '.join(nulls)}")
    for config in resource.configs:
        match config.config_operation:
            case ConfigOperation.SET | ConfigOperation.DELETE:
                return Rejection(
                    error=ErrorCode.invalid_config, reason=f"Logger {config.name} does not exist!"
                )
            case ConfigOperation.APPEND | ConfigOperation.SUBTRACT as operation:
                which = ConfigOperation(operation).name
                return invalid(f"{which} operation is not allowed for the BROKER_LOGGER resource")
            case _:
                return Rejection(error=ErrorCode.unknown_server_error, reason="")
    return None


def _result(request: Request, resource: Any, rejection: Rejection | None) -> Any:
    return request.schema.AlterConfigsResourceResponse(
        error_code=ErrorCode.none if rejection is None else rejection.error,
        error_message=None if rejection is None else rejection.reason or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
