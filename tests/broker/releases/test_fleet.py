"""Which broker runs which release, and what all of them can do."""

from __future__ import annotations

import pytest

from txnsim.errors import ConfigError
from txnsim.releases import REFERENCE, RELEASES, Fleet
from txnsim.releases.kafka import RELEASE_2_8, RELEASE_3_6, RELEASE_3_9
from txnsim.types import BrokerId

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
ADD_PARTITIONS_TO_TXN = 24
DESCRIBE_TRANSACTIONS = 65


def test_a_broker_runs_what_it_was_assigned_last() -> None:
    fleet = Fleet(RELEASE_3_9)
    assert fleet.of(ONE) is RELEASE_3_9
    fleet.assign(ONE, REFERENCE)
    assert (fleet.of(ONE), fleet.of(TWO)) == (REFERENCE, RELEASE_3_9)


def test_the_highest_version_of_an_api_is_the_releases() -> None:
    fleet = Fleet(REFERENCE, {TWO: RELEASE_2_8})
    assert fleet.highest(ONE, ADD_PARTITIONS_TO_TXN) == 5
    assert fleet.highest(TWO, ADD_PARTITIONS_TO_TXN) == 3
    assert fleet.highest(TWO, DESCRIBE_TRANSACTIONS) == -1


def test_a_new_cluster_has_levels_that_all_brokers_know() -> None:
    fleet = Fleet(REFERENCE, {TWO: RELEASE_3_9})
    assert fleet.new_cluster_levels((ONE, THREE))["transaction.version"] == 2
    mixed = fleet.new_cluster_levels((ONE, TWO))
    assert mixed["transaction.version"] == 0
    assert mixed["metadata.version"] == 21
    assert Fleet(RELEASE_2_8).new_cluster_levels((ONE,)) == {}


def test_every_new_cluster_can_be_joined_by_its_own_brokers() -> None:
    for release in RELEASES.values():
        fleet = Fleet(release)
        assert fleet.complaint(release, fleet.new_cluster_levels((ONE,))) is None


def test_an_older_broker_can_not_join_a_cluster_whose_levels_it_does_not_know() -> None:
    fleet = Fleet()
    assert fleet.complaint(REFERENCE, {"transaction.version": 2}) is None
    assert fleet.complaint(RELEASE_3_9, {"transaction.version": 0}) is None
    assert fleet.complaint(RELEASE_3_9, {"transaction.version": 2}) == (
        "Unable to register because the broker does not support finalized version 2 of "
        "transaction.version. The broker wants a version between 0 and 0, inclusive."
    )
    refused = fleet.complaint(RELEASE_3_6, {"metadata.version": 21})
    assert refused is not None
    assert "version 21 of metadata.version. The broker wants a version between 1 and 14" in refused


def test_the_controller_asks_itself_first_and_then_every_broker() -> None:
    fleet = Fleet(REFERENCE, {TWO: RELEASE_3_9})
    asked = fleet.supporters((TWO, ONE))
    assert [who for who, _ in asked] == ["Local controller 1", "Broker 1", "Broker 2"]
    assert ["transaction.version" in features for _, features in asked] == [True, True, False]
    assert fleet.supporters(()) == ()


def test_a_rule_turned_by_hand_holds_for_every_release_a_broker_runs() -> None:
    fleet = Fleet(RELEASE_3_9, rules={"fence_bumps_once": False})
    assert not fleet.of(ONE).rules.fence_bumps_once
    assert fleet.of(ONE) is fleet.of(TWO), "made once"
    fleet.assign(ONE, REFERENCE)
    assert fleet.of(ONE) is not REFERENCE
    assert fleet.of(ONE).name == REFERENCE.name
    assert not fleet.of(ONE).rules.fence_bumps_once
    assert REFERENCE.rules.fence_bumps_once


def test_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no rule fence_thrice"):
        Fleet(rules={"fence_thrice": True})
