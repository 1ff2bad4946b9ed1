"""IncrementalAlterConfigs (key 44): set, delete, append to, subtract from configs of topics,
brokers, groups and subscriptions for client metrics.

Versions: 1 is flexible. Kafka's counterparts: ConfigAdminManager, ConfigurationControlManager.
"""

from __future__ import annotations

from typing import Any, Final

from sim.api.config_resources import alteration_refusal, altered_image, resource_type
from sim.api.request import Reply, Request
from sim.cluster.controller import ConfigChange, ConfigOperation
from sim.cluster.image import ClusterImage
from sim.errors import ErrorCode, Rejection

KEY: Final = 44
VERSIONS: Final = (0, 1)

DEVIATIONS: Final = ("IncrementalAlterConfigs knows no loggers.",)


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


def _result(request: Request, resource: Any, rejection: Rejection | None) -> Any:
    return request.schema.AlterConfigsResourceResponse(
        error_code=ErrorCode.none if rejection is None else rejection.error,
        error_message=None if rejection is None else rejection.reason or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
