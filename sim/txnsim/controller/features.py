"""Feature levels: the rules of UpdateFeatures. Pure.

Kafka's counterpart: FeatureControlManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import METADATA_VERSION, ClusterImage
from txnsim.releases import FeatureRange, Fleet

SupportedRangesByBroker = Sequence[tuple[str, Mapping[str, FeatureRange]]]
"""Name of each node that must support a feature level, and the features that it supports."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class FeatureUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """A feature that UpdateFeatures sets to a level, and whether it may lower it."""

    name: str
    level: int
    upgrade_type: int
    """``UPGRADE``, ``SAFE_DOWNGRADE``, ``UNSAFE_DOWNGRADE``, or any number that a client sent."""


def update_features(
    image: ClusterImage,
    updates: tuple[FeatureUpdate, ...],
    *,
    fleet: Fleet | None = None,
    has_separate_results: bool = False,
) -> ClusterImage | Rejection:
    """All updates or none, each to a level that every broker supports
    (FeatureControlManager.updateFeatures).

    Args:
        image: The metadata.
        updates: The requested levels.
        fleet: The brokers, which must support the levels.
        has_separate_results: Whether each feature has its own result, as before Kafka 4.0, when
            every feature, even an unknown one, could be set to level 0.
    """
    names_and_features = (fleet or Fleet()).supporters(image.brokers)
    for update in updates:
        complaint = _feature_complaint(image, update, names_and_features)
        if (
            has_separate_results
            and complaint is not None
            and not _is_switched_off(update, complaint)
        ):
            return Rejection(error=ErrorCode.invalid_update_version, reason=complaint)
        if complaint is not None and not has_separate_results:
            return Rejection(
                error=ErrorCode.invalid_update_version,
                reason="The update failed for all features since the following feature had an "
                f"error: {complaint}",
            )
    changed_image = image
    for update in updates:
        if changed_image.features.get(update.name) != update.level:
            changed_image = changed_image.with_feature(update.name, update.level)
    return changed_image


def _is_switched_off(update: FeatureUpdate, complaint: str) -> bool:
    return update.level == 0 and complaint.endswith("not found.")


def _feature_complaint(
    image: ClusterImage, update: FeatureUpdate, names_and_features: SupportedRangesByBroker
) -> str | None:
    """Why a feature can't be set to that level, in the words of
    FeatureControlManager.updateFeature.
    """
    level_complaint = _level_complaint(image, update, names_and_features)
    if level_complaint is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {level_complaint}"
    current_level = image.features.get(update.name, 0)
    if update.name == METADATA_VERSION and update.level < current_level:
        downgrade_risk = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
            if update.upgrade_type == SAFE_DOWNGRADE
            else "Unsafe metadata downgrade is not supported in this version."
        )
        return (
            f"Unsupported metadata.version downgrade from {current_level} to"
            f" {update.level}. {downgrade_risk}"
        )
    return None


def _level_complaint(
    image: ClusterImage, update: FeatureUpdate, names_and_features: SupportedRangesByBroker
) -> str | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    for broker_name, supported_features in names_and_features:
        supported_range = supported_features.get(update.name)
        # Level 0 of anything counts as supported: it means that the feature is off.
        if supported_range is None and update.level:
            return f"{broker_name} does not support this feature."
        if (
            supported_range
            and not supported_range.min_level <= update.level <= supported_range.max_level
        ):
            return (
                f"{broker_name} only supports versions"
                f" {supported_range.min_level}-{supported_range.max_level}"
            )
    if not any(update.name in supported_features for _, supported_features in names_and_features):
        return f"Feature {update.name} not found."
    current_level = image.features.get(update.name, 0)
    if update.level < current_level and update.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if update.level > current_level and update.upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    return None
