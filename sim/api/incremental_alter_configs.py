"""IncrementalAlterConfigs (key 44): set, delete, append to, subtract from configs of topics and
brokers.

Versions: 1 is flexible. Kafka's counterparts: ConfigAdminManager, ConfigurationControlManager.
"""

from __future__ import annotations

from typing import Any, Final

from sim.api.config_resources import ResourceType, refusal, resource_type
from sim.api.request import Reply, Request
from sim.cluster import configs, controller
from sim.cluster.controller import ConfigChange, ConfigOperation
from sim.cluster.image import ClusterImage
from sim.errors import ErrorCode, Rejection

KEY: Final = 44
VERSIONS: Final = (0, 1)


async def handle(request: Request) -> Reply:
    """Alter each resource by itself; of one resource all changes or none."""
    message = request.message
    seen = [(resource.resource_type, resource.resource_name) for resource in message.resources]
    results = []
    for resource in message.resources:
        if seen.count((resource.resource_type, resource.resource_name)) > 1:
            outcome: ClusterImage | Rejection = Rejection(
                error=ErrorCode.invalid_request,
                reason="Each resource must appear at most once.",
            )
        else:
            outcome = _altered(request, resource)
        if isinstance(outcome, ClusterImage) and not message.validate_only:
            request.broker.metadata.publish(outcome)
        results.append(
            _result(request, resource, outcome if isinstance(outcome, Rejection) else None)
        )
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
    name = resource.resource_name
    rejection = refusal(request, kind, name)
    if rejection is not None:
        return rejection
    changes = []
    for config in resource.configs:
        try:
            operation = ConfigOperation(config.config_operation)
        except ValueError:
            return Rejection(
                error=ErrorCode.invalid_request,
                reason=f"Unknown operation type {config.config_operation}",
            )
        changes.append(ConfigChange(name=config.name, operation=operation, value=config.value))
    image = request.broker.metadata.image
    if kind is ResourceType.TOPIC:
        topic = image.topics[name]
        altered = controller.altered_configs(topic.configs, tuple(changes), configs.TOPIC_CONFIGS)
        if isinstance(altered, Rejection):
            return altered
        return image.with_topic_configs(name, altered)
    current = image.broker_configs.get(name, {})
    fixed = [change.name for change in changes if change.name not in configs.DYNAMIC_BROKER_CONFIGS]
    if fixed:
        return Rejection(
            error=ErrorCode.invalid_request,
            reason=f"Cannot update these configs dynamically: {{{', '.join(sorted(fixed))}}}",
        )
    altered = controller.altered_configs(current, tuple(changes), configs.BROKER_CONFIGS)
    if isinstance(altered, Rejection):
        return altered
    return image.with_broker_configs(name, altered)


def _result(request: Request, resource: Any, rejection: Rejection | None) -> Any:
    return request.schema.AlterConfigsResourceResponse(
        error_code=ErrorCode.none if rejection is None else rejection.error,
        error_message=None if rejection is None else rejection.reason,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
