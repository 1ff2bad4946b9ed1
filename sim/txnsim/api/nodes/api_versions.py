"""ApiVersions (key 18): what this broker speaks, and the finalized features.

Versions: 3 is flexible and carries features, 4 also those supported from level 0 (KAFKA-17011). In
5 (Kafka 4.4) a client may name the cluster and node that it expects, and gets REBOOTSTRAP_REQUIRED
from another one (KIP-1242). The answer's header is always v0, and a version above ours is answered
in v0 with UNSUPPORTED_VERSION, so that a newer client can ask again. Kafka's counterparts:
KafkaApis.handleApiVersionsRequest, ApiVersionManager.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from txnsim.api.request import Reply, Request
from txnsim.errors import ErrorCode
from txnsim.releases.interbroker_versions import FORWARDED

API_KEY: Final = 18

DEVIATIONS: Final = (
    "Where the controller is of another release, a broker lists the APIs that the controller "
    "answers only in versions that both know. It does so from its start on; Apache Kafka does so "
    "once the broker has forwarded a client's request to the controller.",
)

FEATURES_FROM: Final = 3
LEVEL_ZERO_FROM: Final = 4
TARGET_NAMED_FROM: Final = 5
NO_NODE: Final = -1

_SOFTWARE_PATTERN: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


async def handle(request: Request) -> Reply:
    """List the API versions of this broker."""
    if not is_valid(request):
        return _answer(request, ErrorCode.invalid_request, ranges={})
    if not is_addressed(request):
        return _answer(request, ErrorCode.rebootstrap_required, ranges={})
    if request.api_version >= FEATURES_FROM:
        link, message = request.link, request.message
        link.software_name = message.client_software_name
        link.software_version = message.client_software_version
    return _answer(request, ErrorCode.none, ranges=_listed_versions(request))


def _listed_versions(request: Request) -> Mapping[int, tuple[int, int]]:
    """The versions of this broker. For APIs that the controller handles, both must know the version
    (ApiVersionsResponse.intersectForwardableApis).
    """
    broker, own_versions = request.broker, request.apis.advertised
    controller_release = broker.metadata.fleet.controller
    if controller_release.name == broker.release.name or not controller_release.features:
        return own_versions  # 2.8 asks ZooKeeper
    common_range_by_api = {}
    for api_key, (lowest, highest) in own_versions.items():
        highest_common = (
            min(highest, controller_release.highest_version(api_key))
            if api_key in FORWARDED
            else highest
        )
        if lowest <= highest_common:
            common_range_by_api[api_key] = (lowest, highest_common)
    return common_range_by_api


def is_valid(request: Request) -> bool:
    """Whether the client's software name and version are printable, and cluster and node are given
    both or not at all.
    """
    if request.api_version < FEATURES_FROM:
        return True
    message = request.message
    if request.api_version >= TARGET_NAMED_FROM:
        names_cluster = message.cluster_id is not None
        if names_cluster != (message.node_id != NO_NODE):
            return False  # one says nothing without the other
    software_texts = (message.client_software_name, message.client_software_version)
    return all(
        _SOFTWARE_PATTERN.fullmatch(software_text) is not None for software_text in software_texts
    )


def is_addressed(request: Request) -> bool:
    """Whether this is the cluster and node that the client expects."""
    if request.api_version < TARGET_NAMED_FROM or request.message.cluster_id is None:
        return True
    broker, message = request.broker, request.message
    own_identity = (broker.image.cluster_id, broker.broker_id)
    return (message.cluster_id, message.node_id) == own_identity


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The error at the top; UNSUPPORTED_VERSION comes with the version range of ApiVersions
    itself.
    """
    own_ranges = (
        {API_KEY: request.apis.accepted[API_KEY]} if error is ErrorCode.unsupported_version else {}
    )
    return _answer(request, error, ranges=own_ranges)


def _answer(request: Request, error: ErrorCode, *, ranges: Mapping[int, tuple[int, int]]) -> Reply:
    schema = request.schema
    image = request.broker.image
    feature_fields: dict[str, Any] = {}
    if request.api_version >= FEATURES_FROM and error is ErrorCode.none:
        least_level = 0 if request.api_version >= LEVEL_ZERO_FROM else 1
        feature_fields = {
            "supported_features": tuple(
                schema.SupportedFeatureKey(
                    name=feature_name, min_version=feature.min_level, max_version=feature.max_level
                )
                for feature_name, feature in request.broker.release.features.items()
                if feature.min_level >= least_level
            ),
            "finalized_features_epoch": image.features_epoch,
            "finalized_features": tuple(
                schema.FinalizedFeatureKey(
                    name=feature_name, max_version_level=level, min_version_level=level
                )
                for feature_name, level in image.features.items()
                if level > 0
            ),
        }
    return request.answer(
        error_code=error,
        api_keys=tuple(
            schema.ApiVersion(api_key=api_key, min_version=lowest, max_version=highest)
            for api_key, (lowest, highest) in sorted(ranges.items())
        ),
        **feature_fields,
    )
