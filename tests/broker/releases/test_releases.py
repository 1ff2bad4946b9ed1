"""Releases as data: their rules, versions, and brokers of several."""

from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim.releases import REFERENCE, RELEASES, Fleet, Release
from txnsim.releases._catalog import fleet_from, release_named
from txnsim.releases._kafka import RELEASE_2_8, RELEASE_3_6, RELEASE_3_9, RELEASE_4_0
from txnsim.releases._release import FeatureRange, next_release, rules_of
from txnsim.releases.interbroker_versions import (
    EXCHANGES,
    FOLLOWER_FETCH,
    FOLLOWER_LIST_OFFSETS,
    FORWARDED,
)
from txnsim.releases.rules import LATEST_RULES, Rules, RuleSwitch, numbers
from txnsim.types import BrokerId

RELEASE = Release(
    name="0.1",
    patch_release="0.1.0",
    api_versions={0: (0, 3), 1: (2, 4)},
    refused_below={0: 2},
    controller_api_versions={},
    features={},
    rules=LATEST_RULES,
)


def test_versions_inside_the_range_are_accepted() -> None:
    assert [v for v in range(-1, 6) if RELEASE.accepts(1, v)] == [2, 3, 4]


def test_advertised_versions_may_be_refused_all_the_same() -> None:
    assert [v for v in range(-1, 6) if RELEASE.accepts(0, v)] == [2, 3]


def test_unknown_keys_are_not_accepted() -> None:
    assert not RELEASE.accepts(2, 0)


def test_a_release_says_what_it_does_otherwise_than_the_one_before() -> None:
    transaction_version_range = FeatureRange(min_level=0, max_level=1, new_cluster_level=1)
    release = next_release(
        RELEASE,
        name="0.2",
        patch_release="0.2.0",
        api_versions={7: (0, 0), 3: (1, 1), 0: None},
        features={"group.version": transaction_version_range},
    )
    assert (release.name, release.patch_release) == ("0.2", "0.2.0")
    assert list(release.api_versions.items()) == [(1, (2, 4)), (3, (1, 1)), (7, (0, 0))]
    assert release.refused_below == RELEASE.refused_below
    assert release.features == {"group.version": transaction_version_range}
    assert not release.rules.unverified_is_abortable, "which came with 3.8"
    assert release.is_released
    assert (
        next_release(
            release, name="0.3", patch_release="0.3.0", features={"group.version": None}
        ).features
        == {}
    )


def test_a_line_has_two_numbers() -> None:
    assert Release.line_of("4.3.1") == Release.line_of("4.3") == (4, 3)
    for version in ("newest", "4", ""):
        with pytest.raises(ConfigError, match="no release of Apache Kafka"):
            Release.line_of(version)


@pytest.mark.parametrize(
    ("since", "until", "off", "on"),
    [
        ("3.6", "", ["3.5.2", "2.8.0"], ["3.6.0", "3.10.0", "4.0.0"]),
        (
            "3.0.2, 3.1.2, 3.2.1, 3.3",
            "",
            ["3.0.1", "3.1.1", "3.2.0", "2.8.2"],
            ["3.0.2", "3.2.1", "3.3.0"],
        ),
        ("3.9.2, 4.1.1", "", ["3.9.1", "4.0.2", "4.1.0"], ["3.9.2", "4.1.1", "4.2.0"]),
        ("", "4.2", ["4.3.0", "5.0.0"], ["3.1.0", "4.2.9", "4.2"]),
        ("4.2.1", "4.1", ["4.2.0"], ["2.8.2", "4.1.9", "4.2.1", "4.3.0"]),
        ("", "", ["0.1", "4.3.1", "4.4.0"], []),
    ],
)
def test_a_switch_is_on_until_a_line_and_since_some_releases(
    since: str, until: str, off: list[str], on: list[str]
) -> None:
    switch = RuleSwitch(
        ticket="KAFKA-1",
        since=tuple(numbers(release_text) for release_text in since.split(", ") if release_text),
        until=numbers(until) if until else (),
        behaviour_before="",
        behaviour_after="",
    )
    assert [release_name for release_name in off if switch.is_on(release_name)] == []
    assert [release_name for release_name in on if not switch.is_on(release_name)] == []


def test_what_came_later_than_a_release_is_off_in_it() -> None:
    later_rules = Release.newer_than("4.2.0")
    assert {"markers_follow_peer_version", "fence_rotates_exhausted_id"} <= set(later_rules)
    assert not any(getattr(rules_of("4.2.0"), field_name) for field_name in later_rules)
    assert "leaderless_partitions_keep_markers" not in Release.newer_than("4.3.1"), "it was lost"


def test_text_that_is_no_release_is_refused() -> None:
    with pytest.raises(ConfigError, match="x: no release of Apache Kafka"):
        numbers("x")


# ``fleet``: Which broker runs which release, and what all of them can do.


B1, B2, B3 = BrokerId(1), BrokerId(2), BrokerId(3)
ADD_PARTITIONS_TO_TXN = 24
DESCRIBE_TRANSACTIONS = 65


def test_a_broker_runs_what_it_was_assigned_last() -> None:
    fleet = Fleet(RELEASE_3_9)
    assert fleet.release_of(B1) is RELEASE_3_9
    fleet.assign(B1, REFERENCE)
    assert (fleet.release_of(B1), fleet.release_of(B2)) == (REFERENCE, RELEASE_3_9)


def test_the_highest_version_of_an_api_is_the_releases() -> None:
    fleet = Fleet(REFERENCE, {B2: RELEASE_2_8})
    assert fleet.highest_version(B1, ADD_PARTITIONS_TO_TXN) == 5
    assert fleet.highest_version(B2, ADD_PARTITIONS_TO_TXN) == 3
    assert fleet.highest_version(B2, DESCRIBE_TRANSACTIONS) == -1


def test_a_new_cluster_has_levels_that_all_brokers_know() -> None:
    fleet = Fleet(REFERENCE, {B2: RELEASE_3_9})
    assert fleet.new_cluster_levels((B1, B3))["transaction.version"] == 2
    mixed = fleet.new_cluster_levels((B1, B2))
    assert mixed["transaction.version"] == 0
    assert mixed["metadata.version"] == 21
    assert Fleet(RELEASE_2_8).new_cluster_levels((B1,)) == {}


def test_every_new_cluster_can_be_joined_by_its_own_brokers() -> None:
    for release in RELEASES.values():
        fleet = Fleet(release)
        assert fleet.complaint(release, fleet.new_cluster_levels((B1,))) is None


def test_an_older_broker_can_not_join_a_cluster_whose_levels_it_does_not_know() -> None:
    fleet = Fleet()
    assert fleet.complaint(REFERENCE, {"transaction.version": 2}) is None
    assert fleet.complaint(RELEASE_3_9, {"transaction.version": 0}) is None
    assert fleet.complaint(RELEASE_3_9, {"transaction.version": 2}) == (
        "Unable to register because the broker does not support finalized version 2 of "
        "transaction.version. The broker wants a version between 0 and 0, inclusive."
    )
    complaint = fleet.complaint(RELEASE_3_6, {"metadata.version": 21})
    assert complaint is not None
    assert (
        "version 21 of metadata.version. The broker wants a version between 1 and 14" in complaint
    )


def test_the_controller_asks_itself_first_and_then_every_broker() -> None:
    fleet = Fleet(REFERENCE, {B2: RELEASE_3_9})
    answers = fleet.supporters((B2, B1))
    assert [asked_node for asked_node, _ in answers] == [
        "Local controller 1",
        "Broker 1",
        "Broker 2",
    ]
    assert ["transaction.version" in features for _, features in answers] == [True, True, False]
    assert fleet.supporters(()) == ()


def test_a_rule_turned_by_hand_holds_for_every_release_a_broker_runs() -> None:
    fleet = Fleet(RELEASE_3_9, switched_rules={"fence_bumps_once": False})
    assert not fleet.release_of(B1).rules.fence_bumps_once
    assert fleet.release_of(B1) is fleet.release_of(B2), "made once"
    fleet.assign(B1, REFERENCE)
    assert fleet.release_of(B1) is not REFERENCE
    assert fleet.release_of(B1).name == REFERENCE.name
    assert not fleet.release_of(B1).rules.fence_bumps_once
    assert REFERENCE.rules.fence_bumps_once


def test_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no rule fence_thrice"):
        Fleet(switched_rules={"fence_thrice": True})


# What ``--as-version`` may say.


def test_releases_are_found_by_their_names_oldest_first() -> None:
    assert list(RELEASES) == sorted(RELEASES, key=Release.line_of)
    assert all(release_named(release_name) is release for release_name, release in RELEASES.items())


def test_a_broker_that_is_not_named_is_of_the_reference() -> None:
    fleet = fleet_from((), broker_count=3)
    assert all(fleet.release_of(broker) is REFERENCE for broker in (B1, B2, B3))


@pytest.mark.parametrize(
    "wishes", [("4.0,1=3.9",), ("4.0", "1=3.9"), ("1=3.9", "4.0"), (" 1 = 3.9 , 4.0 ",)]
)
def test_one_release_for_all_and_others_for_single_brokers(wishes: tuple[str, ...]) -> None:
    fleet = fleet_from(wishes, broker_count=3)
    assert [fleet.release_of(broker) for broker in (B1, B2, B3)] == [
        RELEASE_3_9,
        RELEASE_4_0,
        RELEASE_4_0,
    ]


def test_the_last_wish_for_a_broker_wins() -> None:
    fleet = fleet_from(("3.9", "4.0", "2=4.3,2=3.9"), broker_count=3)
    assert [fleet.release_of(broker) for broker in (B1, B2)] == [RELEASE_4_0, RELEASE_3_9]


@pytest.mark.parametrize("wish", ["5.0", "3.9.2", "", "1=", "1=5.0"])
def test_a_release_that_does_not_exist_is_refused(wish: str) -> None:
    with pytest.raises(ConfigError, match=r"there is no release .* only 2\.8, 3\.5, 3\.6"):
        fleet_from((wish,), broker_count=3)


@pytest.mark.parametrize("wish", ["0=3.9", "4=3.9", "x=3.9", "=3.9", "-1=3.9"])
def test_a_broker_that_does_not_exist_is_refused(wish: str) -> None:
    with pytest.raises(ConfigError, match="there is no broker"):
        fleet_from((wish,), broker_count=3)


def test_brokers_may_have_other_ids() -> None:
    ids = (BrokerId(0), BrokerId(7))
    fleet = fleet_from(("7=3.9",), broker_count=2, broker_ids=ids)
    assert [fleet.release_of(broker_id).name for broker_id in ids] == [REFERENCE.name, "3.9"]
    with pytest.raises(ConfigError, match="there is no broker '1'"):
        fleet_from(("1=3.9",), broker_count=2, broker_ids=ids)


# In which versions brokers ask each other, by the MetadataVersion of Kafka 3.9.2 and 4.4.0.


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


@pytest.mark.parametrize("transaction_version", KAFKA)
def test_followers_go_by_the_level_of_the_cluster(transaction_version: int) -> None:
    versions = (
        FOLLOWER_FETCH.at_level(transaction_version),
        FOLLOWER_LIST_OFFSETS.at_level(transaction_version),
    )
    assert versions == KAFKA[transaction_version]


def test_a_follower_of_a_new_cluster_asks_in_a_version_that_its_release_has() -> None:
    for release in RELEASES.values():
        metadata_version_range = release.features.get("metadata.version")
        level = metadata_version_range.new_cluster_level if metadata_version_range else 0
        assert FOLLOWER_FETCH.at_level(level) == release.highest_version(1)
        assert FOLLOWER_LIST_OFFSETS.at_level(level) == release.highest_version(2)


def test_each_exchange_is_there_once_and_names_a_switch_that_there_is() -> None:
    keys = [exchange.api_key for exchange in EXCHANGES]
    assert len(EXCHANGES) == len({exchange.what for exchange in EXCHANGES})
    assert {exchange.unless for exchange in EXCHANGES if exchange.unless} <= set(
        Rules.documentation()
    )
    assert not FORWARDED & set(keys)
