"""Feature levels: which one may be set, by which kind of update."""

from __future__ import annotations

import pytest

from tests.support.images import B1, broker, error_of
from txnsim.controller.controller import (
    initial_image,
)
from txnsim.controller.features import FeatureUpdate, update_features
from txnsim.errors import ErrorCode, Rejection
from txnsim.metadata.image import TRANSACTION_VERSION, ClusterImage

UPGRADE, SAFE, UNSAFE = 1, 2, 3


def at_level(level: int) -> ClusterImage:
    return initial_image(cluster_id="c", brokers=(broker(1),), transaction_version=level)


def test_a_formatted_cluster_has_every_feature_at_its_level() -> None:
    image = at_level(1)
    assert image.features[TRANSACTION_VERSION] == 1
    assert image.features["metadata.version"] == 33
    assert image.features["kraft.version"] == 0, "a fixed list of voters"
    assert image.broker_configs[""] == {"min.insync.replicas": "1"}, "pinned by KIP-966"
    assert image.is_alive(B1)
    assert image.features_epoch == image.offset


@pytest.mark.parametrize(
    ("current", "wanted", "kind", "allowed"),
    [
        (0, 1, UPGRADE, True),
        (0, 2, UPGRADE, True),
        (2, 2, UPGRADE, True),
        (2, 1, SAFE, True),
        (2, 0, UNSAFE, True),
        (1, 1, SAFE, True),
        (2, 1, UPGRADE, False),
        (1, 2, SAFE, False),
        (1, 2, UNSAFE, False),
        (2, 3, UPGRADE, False),
        (2, -1, SAFE, False),
        (2, 1, 4, False),
        (2, 1, 0, False),
    ],
)
def test_levels_go_up_by_an_upgrade_and_down_by_a_downgrade(
    current: int, wanted: int, kind: int, allowed: bool
) -> None:
    update = FeatureUpdate(name=TRANSACTION_VERSION, level=wanted, upgrade_type=kind)
    changed = update_features(at_level(current), (update,))
    if allowed:
        assert isinstance(changed, ClusterImage)
        assert changed.features[TRANSACTION_VERSION] == wanted
    else:
        assert error_of(changed) is ErrorCode.invalid_update_version


def test_an_unknown_feature_is_refused_and_stops_the_others() -> None:
    updates = (
        FeatureUpdate(name=TRANSACTION_VERSION, level=2, upgrade_type=UPGRADE),
        FeatureUpdate(name="no.such", level=1, upgrade_type=UPGRADE),
    )
    assert error_of(update_features(at_level(1), updates)) is ErrorCode.invalid_update_version


@pytest.mark.parametrize(
    ("name", "level", "kind", "why"),
    [
        ("no.such", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("no.such", 0, SAFE, "Feature no.such not found."),
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("metadata.version", 29, SAFE, "it might delete metadata information."),
        ("metadata.version", 29, UNSAFE, "Unsafe metadata downgrade is not supported"),
    ],
)
def test_a_refused_feature_says_why(name: str, level: int, kind: int, why: str) -> None:
    update = FeatureUpdate(name=name, level=level, upgrade_type=kind)
    refused = update_features(at_level(2), (update,))
    assert isinstance(refused, Rejection)
    assert why in refused.reason


def test_what_is_so_already_is_no_change() -> None:
    image = at_level(1)
    update = FeatureUpdate(name=TRANSACTION_VERSION, level=1, upgrade_type=UPGRADE)
    assert update_features(image, (update,)) is image
