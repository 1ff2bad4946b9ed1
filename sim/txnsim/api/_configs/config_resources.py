"""What DescribeConfigs, AlterConfigs and IncrementalAlterConfigs share: the resources that carry
configs, which of them can be altered, and how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import Any, Final, assert_never

from txnsim.api.request import CHANGE_WEIGHT, Reply, Request, error_fields, invalid
from txnsim.controller import controller
from txnsim.controller.controller import ConfigEntryChange, name_complaint
from txnsim.controller.leadership import without_elr
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata import configs
from txnsim.metadata.client_metrics_configs import client_metrics_refusal
from txnsim.metadata.config_keys import topic_configs
from txnsim.metadata.group_configs import group_refusal
from txnsim.metadata.image import ELIGIBLE_LEADER_REPLICAS, ClusterImage

_MIN_INSYNC: Final = "min.insync.replicas"


class ConfigResourceType(IntEnum):
    """Kinds of resources, as ConfigResource.Type numbers them."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def resource_type(number: int) -> ConfigResourceType:
    """The resource type of a number."""
    try:
        return ConfigResourceType(number)
    except ValueError:
        return ConfigResourceType.UNKNOWN


def topic_refusal(request: Request, name: str) -> Rejection | None:
    """The error for a topic without configs: an invalid name or an unknown topic."""
    complaint = name_complaint(name)
    if complaint is not None:
        return Rejection(
            error=ErrorCode.invalid_topic_exception, reason=f"Topic name is invalid: {complaint}"
        )
    if name not in request.broker.image.topics:
        return Rejection(
            error=ErrorCode.unknown_topic_or_partition,
            reason=f"The topic '{name}' does not exist.",
        )
    return None


def node_of(name: str) -> int | None:
    """The broker id in a resource's name; None if the name is empty."""
    return int(name) if re.fullmatch(r"[+-]?[0-9]+", name) else None


# Altering


async def alter_each(
    request: Request, altered: Callable[[Request, Any], ClusterImage | Rejection]
) -> Reply:
    """Alter each resource by itself; of one resource all changes or none."""

    def alter(resource: Any) -> Any:
        outcome = altered(request, resource)
        if isinstance(outcome, ClusterImage) and not request.message.validate_only:
            request.broker.metadata.publish(outcome)
        return _alteration(request, outcome, resource)

    results = await request.map_each(alter, request.message.resources, weight=CHANGE_WEIGHT)
    return request.answer(responses=tuple(results))


def refuse_each(request: Request, error: ErrorCode) -> Reply:
    """The error on every resource."""
    refused = partial(_alteration, request, Rejection(error=error, reason=error.name))
    return request.answer(responses=tuple(map(refused, request.message.resources)))


def _alteration(request: Request, outcome: ClusterImage | Rejection, resource: Any) -> Any:
    return request.schema.AlterConfigsResourceResponse(
        **error_fields(outcome),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def alteration_refusal(
    request: Request, kind: ConfigResourceType, resource: Any
) -> Rejection | None:
    """Why a resource can't be altered here (ConfigAdminManager.preprocess); None where it can."""
    name = resource.resource_name
    match kind:
        case ConfigResourceType.TOPIC:
            if not name:
                return invalid("Default topic resources are not allowed.")
            return topic_refusal(request, name)
        case ConfigResourceType.BROKER:
            if not name or node_of(name) == request.broker.broker_id:
                return None
            if node_of(name) is None:
                return invalid(f"Node id must be an integer, but it is: {name}")
            return invalid(
                f"Unexpected broker id, expected {request.broker.broker_id}, but received {name}"
            )
        case ConfigResourceType.UNKNOWN:
            return invalid(f"Unknown resource type {resource.resource_type}")
        case ConfigResourceType.CLIENT_METRICS | ConfigResourceType.GROUP:
            return None  # they come into being by being configured
        case ConfigResourceType.BROKER_LOGGER:
            return invalid(f"Unexpected resource type {kind.name} for resource {name}")
        case _:
            assert_never(kind)


def altered_image(
    request: Request,
    kind: ConfigResourceType,
    name: str,
    changes: tuple[ConfigEntryChange, ...],
    *,
    is_whole: bool = False,
) -> ClusterImage | Rejection:
    """The image after one resource's configs were altered, or why they can't be.

    Args:
        request: The request; its broker knows the metadata.
        kind: Topic, broker, group or client metrics.
        name: Name of the resource.
        changes: The changes, in the order of the request.
        is_whole: True if the changes replace all configs, so that a config without a change is
            unset.
    """
    metadata = request.broker.metadata
    image = metadata.image
    if kind in (ConfigResourceType.GROUP, ConfigResourceType.CLIENT_METRICS):
        is_group = kind is ConfigResourceType.GROUP
        configured = image.group_configs if is_group else image.client_metrics
        old_configs = {} if is_whole else configured.get(name, {})
        altered = controller.changed_configs(old_configs, changes, {})
        if isinstance(altered, Rejection):
            return altered
        if is_group:
            rules = request.broker.release.rules
            refused = group_refusal(name, altered, metadata.settings, rules)
            stays = not rules.groups_without_configs_go
            return refused or image.with_group_configs(name, altered, stays=stays)
        return client_metrics_refusal(name, altered) or image.with_client_metrics(name, altered)
    if kind is ConfigResourceType.TOPIC:
        current = {} if is_whole else image.topics[name].configs
        keys = topic_configs(request.broker.release.rules)
        altered = controller.altered_configs(current, changes, keys)
        if isinstance(altered, Rejection):
            return altered
        if altered.get(_MIN_INSYNC) != image.topics[name].configs.get(_MIN_INSYNC):
            image = without_elr(image, name)
        return image.with_topic_configs(name, altered)
    fixed = [
        change.name
        for change in changes
        if change.name in configs.FIXED_BROKER_CONFIGS
        and change.operation is not controller.ConfigOperation.DELETE
    ]
    if fixed:
        return invalid(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    old_configs = image.broker_configs.get(name, {})
    altered = controller.altered_configs(
        {} if is_whole else old_configs, changes, configs.BROKER_CONFIGS
    )
    if isinstance(altered, Rejection):
        return altered
    is_about_minimum = any(change.name == _MIN_INSYNC for change in changes)
    why = _min_insync_complaint(image, name, altered, is_about_minimum=is_about_minimum)
    if why is not None:
        return Rejection(error=ErrorCode.invalid_config, reason=why)
    if is_about_minimum:
        # Also if it stays as it was: of brokers every change is written down (KAFKA-14136).
        image = without_elr(image)
    return image.with_broker_configs(name, altered)


def _min_insync_complaint(
    image: ClusterImage, name: str, altered: Mapping[str, str], *, is_about_minimum: bool
) -> str | None:
    """Why ``min.insync.replicas`` can't be altered: with eligible leader replicas all brokers need
    the same minimum (KIP-966, ConfigurationControlManager.validateAlterConfig).
    """
    if not image.features.get(ELIGIBLE_LEADER_REPLICAS):
        return None
    if not name and _MIN_INSYNC not in altered:
        return "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    if name and (is_about_minimum or _MIN_INSYNC in altered):
        return "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    return None
