"""In which versions brokers ask each other, by the MetadataVersion of Kafka 3.9.2 and 4.4.0."""

from __future__ import annotations

import pytest

from txnsim.releases import RELEASES
from txnsim.releases.exchanges import (
    EXCHANGES,
    FOLLOWER_FETCH,
    FOLLOWER_LIST_OFFSETS,
    FORWARDED,
)
from txnsim.releases.rules import documentation

KAFKA = {
    0: (12, 6),  # 2.8-IV1, whose clusters have no such level
    1: (12, 7),  # 3.0-IV1
    2: (13, 7),
    8: (13, 7),
    9: (14, 8),  # 3.5-IV0
    10: (15, 8),
    18: (15, 8),
    19: (16, 8),  # 3.7-IV4
    20: (16, 8),
    21: (17, 9),  # 3.9-IV0
    24: (17, 9),
    25: (17, 10),  # 4.0-IV3
    26: (17, 10),
    27: (18, 10),  # 4.1-IV1
    28: (18, 10),
    29: (18, 11),  # 4.2-IV1
    33: (18, 11),  # 4.4-IV2
}
"""Level of metadata.version -> fetchRequestVersion, listOffsetRequestVersion."""


@pytest.mark.parametrize("level", KAFKA)
def test_followers_go_by_the_level_of_the_cluster(level: int) -> None:
    found = FOLLOWER_FETCH.at_level(level), FOLLOWER_LIST_OFFSETS.at_level(level)
    assert found == KAFKA[level]


def test_a_follower_of_a_new_cluster_asks_in_a_version_that_its_release_has() -> None:
    for release in RELEASES.values():
        known = release.features.get("metadata.version")
        level = known.new_cluster_level if known else 0
        assert FOLLOWER_FETCH.at_level(level) == release.highest(1)
        assert FOLLOWER_LIST_OFFSETS.at_level(level) == release.highest(2)


def test_each_exchange_is_there_once_and_names_a_switch_that_there_is() -> None:
    keys = [one.api_key for one in EXCHANGES]
    assert len(keys) == len(set(keys))
    assert {one.unless for one in EXCHANGES if one.unless} <= set(documentation())
    assert not FORWARDED & set(keys)
