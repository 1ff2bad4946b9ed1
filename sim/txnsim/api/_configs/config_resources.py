"""What DescribeConfigs, AlterConfigs and IncrementalAlterConfigs share: the resources that carry
configs, which of them can be altered, and how.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import partial
from typing import Any, Final, assert_never

from txnsim.api.request import ELEMENTS_PER_CHANGE, Reply, Request, error_fields, invalid
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


class ConfigResourceKind(IntEnum):
    """Kinds of resources, as ConfigResource.Type numbers them."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


def resource_kind_of(number: int) -> ConfigResourceKind:
    """The resource type that ``number`` stands for; UNKNOWN for any other number."""
    try:
        return ConfigResourceKind(number)
    except ValueError:
        return ConfigResourceKind.UNKNOWN


def topic_refusal(request: Request, topic_name: str) -> Rejection | None:
    """The error for a topic without configs: an invalid name or an unknown topic."""
    complaint = name_complaint(topic_name)
    if complaint is not None:
        return Rejection(
            error=ErrorCode.invalid_topic_exception, reason=f"Topic name is invalid: {complaint}"
        )
    if topic_name not in request.broker.image.topics:
        return Rejection(
            error=ErrorCode.unknown_topic_or_partition,
            reason=f"The topic '{topic_name}' does not exist.",
        )
    return None


def broker_id_of(resource_name: str) -> int | None:
    """The broker id that a resource's name spells; None if the name is not an integer."""
    return int(resource_name) if re.fullmatch(r"[+-]?[0-9]+", resource_name) else None


# Altering


async def alter_each(
    request: Request, image_or_rejection: Callable[[Request, Any], ClusterImage | Rejection]
) -> Reply:
    """Alter each resource by itself; of one resource all changes or none."""

    def alter(resource: Any) -> Any:
        outcome = image_or_rejection(request, resource)
        if isinstance(outcome, ClusterImage) and not request.message.validate_only:
            request.broker.metadata.publish(outcome)
        return _alteration_row(request, outcome, resource)

    result_rows = await request.map_each(
        alter, request.message.resources, weight=ELEMENTS_PER_CHANGE
    )
    return request.answer(responses=tuple(result_rows))


def refuse_each(request: Request, error: ErrorCode) -> Reply:
    """The error on every resource."""
    build_refusal = partial(_alteration_row, request, Rejection(error=error, reason=error.name))
    return request.answer(responses=tuple(map(build_refusal, request.message.resources)))


def _alteration_row(
    request: Request, image_or_rejection: ClusterImage | Rejection, resource: Any
) -> Any:
    return request.schema.AlterConfigsResourceResponse(
        **error_fields(image_or_rejection),
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def alteration_refusal(
    request: Request, resource_kind: ConfigResourceKind, resource: Any
) -> Rejection | None:
    """Why a resource can't be altered here (ConfigAdminManager.preprocess); None where it can."""
    resource_name = resource.resource_name
    match resource_kind:
        case ConfigResourceKind.TOPIC:
            if not resource_name:
                return invalid("Default topic resources are not allowed.")
            return topic_refusal(request, resource_name)
        case ConfigResourceKind.BROKER:
            if not resource_name or broker_id_of(resource_name) == request.broker.broker_id:
                return None
            if broker_id_of(resource_name) is None:
                return invalid(f"Node id must be an integer, but it is: {resource_name}")
            return invalid(
                f"Unexpected broker id, expected {request.broker.broker_id}, "
                f"but received {resource_name}"
            )
        case ConfigResourceKind.UNKNOWN:
            return invalid(f"Unknown resource type {resource.resource_type}")
        case ConfigResourceKind.CLIENT_METRICS | ConfigResourceKind.GROUP:
            return None  # they come into being by being configured
        case ConfigResourceKind.BROKER_LOGGER:
            return invalid(
                f"Unexpected resource type {resource_kind.name} for resource {resource_name}"
            )
        case _:
            assert_never(resource_kind)


def altered_image(
    request: Request,
    resource_kind: ConfigResourceKind,
    resource_name: str,
    config_changes: tuple[ConfigEntryChange, ...],
    *,
    replaces_all: bool = False,
) -> ClusterImage | Rejection:
    """The image after one resource's configs were altered, or why they can't be.

    Args:
        request: The request; its broker knows the metadata.
        resource_kind: Topic, broker, group or client metrics.
        resource_name: Name of the resource.
        config_changes: The changes, in the order of the request.
        replaces_all: True if the changes replace all configs, so that a config without a change is
            unset.
    """
    metadata = request.broker.metadata
    image = metadata.image
    if resource_kind in (ConfigResourceKind.GROUP, ConfigResourceKind.CLIENT_METRICS):
        is_group = resource_kind is ConfigResourceKind.GROUP
        configs_by_name = image.group_configs if is_group else image.client_metrics
        old_configs = {} if replaces_all else configs_by_name.get(resource_name, {})
        new_configs = controller.changed_configs(old_configs, config_changes, {})
        if isinstance(new_configs, Rejection):
            return new_configs
        if is_group:
            release_rules = request.broker.release.rules
            refusal = group_refusal(resource_name, new_configs, metadata.settings, release_rules)
            keeps_empty = not release_rules.groups_without_configs_go
            return refusal or image.with_group_configs(
                resource_name, new_configs, keeps_empty=keeps_empty
            )
        return client_metrics_refusal(resource_name, new_configs) or image.with_client_metrics(
            resource_name, new_configs
        )
    if resource_kind is ConfigResourceKind.TOPIC:
        old_topic_configs = {} if replaces_all else image.topics[resource_name].configs
        known_configs = topic_configs(request.broker.release.rules)
        new_configs = controller.altered_topic_configs(
            old_topic_configs, config_changes, known_configs
        )
        if isinstance(new_configs, Rejection):
            return new_configs
        if new_configs.get(_MIN_INSYNC) != image.topics[resource_name].configs.get(_MIN_INSYNC):
            image = without_elr(image, resource_name)
        return image.with_topic_configs(resource_name, new_configs)
    broker_keys = configs.broker_configs(request.broker.release.rules)
    old_configs = image.broker_configs.get(resource_name, {})
    new_configs = controller.altered_broker_configs(
        {} if replaces_all else old_configs,
        config_changes,
        broker_keys,
        is_for_all=not resource_name,
    )
    if isinstance(new_configs, Rejection):
        return new_configs
    changes_minimum = any(change.name == _MIN_INSYNC for change in config_changes)
    complaint = _min_insync_complaint(
        image, resource_name, new_configs, changes_minimum=changes_minimum
    )
    if complaint is not None:
        return Rejection(error=ErrorCode.invalid_config, reason=complaint)
    if changes_minimum:
        # Also if it stays as it was: of brokers every change is written down (KAFKA-14136).
        image = without_elr(image)
    return image.with_broker_configs(resource_name, new_configs)


def _min_insync_complaint(
    image: ClusterImage, broker_name: str, new_configs: Mapping[str, str], *, changes_minimum: bool
) -> str | None:
    """Why ``min.insync.replicas`` can't be altered: with eligible leader replicas all brokers need
    the same minimum (KIP-966, ConfigurationControlManager.validateAlterConfig).
    """
    if not image.features.get(ELIGIBLE_LEADER_REPLICAS):
        return None
    if not broker_name and _MIN_INSYNC not in new_configs:
        return "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    if broker_name and (changes_minimum or _MIN_INSYNC in new_configs):
        return "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
    return None
