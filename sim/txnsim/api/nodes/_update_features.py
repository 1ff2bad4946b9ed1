"""UpdateFeatures (key 57): raise or lower finalized features, ``transaction.version`` above all.

Versions: 0 can only upgrade, 1 has upgrade types and dry runs, 2 answers at the top level only. All
or nothing. Kafka's counterpart: FeatureControlManager.updateFeatures. Version 0 has a flag that
allows downgrades, but QuorumController reads only the upgrade type, which has its default there.
"""

from __future__ import annotations

from typing import Any, Final

from txnsim.api.request import Reply, Request
from txnsim.controller import features
from txnsim.controller.features import UPGRADE, FeatureUpdate
from txnsim.errors import ErrorCode, Rejection

API_KEY: Final = 57

UPGRADE_TYPES_FROM: Final = 1
TOP_LEVEL_ONLY_FROM: Final = 2
NO_ERROR: Final = "NONE"
"""Kafka's text for success in the field of the error message."""


async def handle(request: Request) -> Reply:
    """Update all features or none of them."""
    if request.broker.release.rules.features_change_together:
        return _update_all_or_none(request)
    return _update_each_by_itself(request)


def _update_all_or_none(request: Request) -> Reply:
    message = request.message
    metadata = request.broker.metadata
    image_or_rejection = features.update_features(
        metadata.image,
        tuple(_feature_update(request, update) for update in message.feature_updates),
        fleet=metadata.fleet,
    )
    if isinstance(image_or_rejection, Rejection):
        return _answer(request, image_or_rejection.error, image_or_rejection.reason)
    if not getattr(message, "validate_only", False):
        metadata.publish(image_or_rejection)
    return _answer(request, ErrorCode.none, None)


def _update_each_by_itself(request: Request) -> Reply:
    """Before KAFKA-16308 each feature is updated separately and has its own result."""
    metadata = request.broker.metadata
    image = metadata.image
    results_by_feature: dict[str, tuple[ErrorCode, str | None]] = {}
    for update in request.message.feature_updates:
        image_or_rejection = features.update_features(
            image,
            (_feature_update(request, update),),
            fleet=metadata.fleet,
            has_separate_results=True,
        )
        if isinstance(image_or_rejection, Rejection):
            results_by_feature[update.feature] = (
                image_or_rejection.error,
                image_or_rejection.reason,
            )
        else:
            image = image_or_rejection
            results_by_feature[update.feature] = (ErrorCode.none, None)
    if not getattr(request.message, "validate_only", False):
        metadata.publish(image)
    return request.answer(
        error_code=ErrorCode.none,
        error_message="",
        results=tuple(
            request.schema.UpdatableFeatureResult(
                feature=feature, error_code=error, error_message=reason
            )
            for feature, (error, reason) in sorted(results_by_feature.items())
        ),
    )


def refuse(request: Request, error: ErrorCode) -> Reply:
    """The answer with the error as its top-level error code."""
    return _answer(request, error, error.name)


def _feature_update(request: Request, update: Any) -> FeatureUpdate:
    upgrade_type = update.upgrade_type if request.api_version >= UPGRADE_TYPES_FROM else UPGRADE
    return FeatureUpdate(
        name=update.feature, level=update.max_version_level, upgrade_type=upgrade_type
    )


def _answer(request: Request, error: ErrorCode, message: str | None) -> Reply:
    result_fields: dict[str, object] = {}
    if request.api_version < TOP_LEVEL_ONLY_FROM:
        result_fields["results"] = (
            ()
            if error is not ErrorCode.none
            else tuple(
                request.schema.UpdatableFeatureResult(
                    feature=update.feature, error_code=ErrorCode.none, error_message=NO_ERROR
                )
                for update in request.message.feature_updates
            )
        )
    return request.answer(error_code=error, error_message=message, **result_fields)
