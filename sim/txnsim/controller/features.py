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

Supporters = Sequence[tuple[str, Mapping[str, FeatureRange]]]
"""Name of each node that must support a feature level, and the features that it supports."""

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class FeatureUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """One feature of UpdateFeatures."""

    name: str
    level: int
    upgrade_type: int
    """``UPGRADE``, ``SAFE_DOWNGRADE``, ``UNSAFE_DOWNGRADE``, or any number that a client sent."""


def update_features(
    image: ClusterImage,
    updates: tuple[FeatureUpdate, ...],
    *,
    fleet: Fleet | None = None,
    alone: bool = False,
) -> ClusterImage | Rejection:
    """All updates or none, each to a level that every broker supports
    (FeatureControlManager.updateFeatures).

    Args:
        image: The metadata.
        updates: The requested levels.
        fleet: The brokers, which must support the levels.
        alone: Whether each feature has its own result, as before Kafka 4.0, when every feature,
            even an unknown one, could be set to level 0.
    """
    supporters = (fleet or Fleet()).supporters(image.brokers)
    for update in updates:
        why = _feature_complaint(image, update, supporters)
        if alone and why is not None and not _is_off(update, why):
            return Rejection(error=ErrorCode.invalid_update_version, reason=why)
        if why is not None and not alone:
            return Rejection(
                error=ErrorCode.invalid_update_version,
                reason="The update failed for all features since the following feature had an "
                f"error: {why}",
            )
    changed = image
    for update in updates:
        if changed.features.get(update.name) != update.level:
            changed = changed.with_feature(update.name, update.level)
    return changed


def _is_off(update: FeatureUpdate, why: str) -> bool:
    return update.level == 0 and why.endswith("not found.")


def _feature_complaint(
    image: ClusterImage, update: FeatureUpdate, supporters: Supporters
) -> str | None:
    """Why a feature can't be set to that level, in the words of
    FeatureControlManager.updateFeature.
    """
    why = _level_complaint(image, update, supporters)
    if why is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {why}"
    current = image.features.get(update.name, 0)
    if update.name == METADATA_VERSION and update.level < current:
        risk = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
            if update.upgrade_type == SAFE_DOWNGRADE
            else "Unsafe metadata downgrade is not supported in this version."
        )
        return f"Unsupported metadata.version downgrade from {current} to {update.level}. {risk}"
    return None


def _level_complaint(
    image: ClusterImage, update: FeatureUpdate, supporters: Supporters
) -> str | None:
    if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    for node, features in supporters:
        supported = features.get(update.name)
        # Level 0 of anything counts as supported: it means that the feature is off.
        if supported is None and update.level:
            return f"{node} does not support this feature."
        if supported and not supported.min_level <= update.level <= supported.max_level:
            return f"{node} only supports versions {supported.min_level}-{supported.max_level}"
    if not any(update.name in features for _, features in supporters):
        return f"Feature {update.name} not found."
    current = image.features.get(update.name, 0)
    if update.level < current and update.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to "
            "either safe or unsafe downgrade."
        )
    if update.level > current and update.upgrade_type != UPGRADE:
        return "Can't downgrade to a newer version."
    return None
