"""Which partitions a broker coordinates, and under which epoch."""

from __future__ import annotations

import pytest

from tests.support.coordinator import HOME, PARTITIONS, TID
from tests.support.txn_entries import entry
from txnsim.coordinators._coordinator_log import append_error
from txnsim.coordinators._ownership import OwnedPartition, Ownership
from txnsim.errors import ErrorCode, Rejection
from txnsim.releases import LATEST_RULES, Rules
from txnsim.types import TRANSACTION_STATE_TOPIC, BrokerId, CoordinatorEpoch


def nobody() -> Ownership[OwnedPartition]:
    return Ownership(
        topic=TRANSACTION_STATE_TOPIC,
        kind="txn",
        broker_id=BrokerId(1),
        partition_count=PARTITIONS,
    )


def loaded_partition(epoch: int) -> OwnedPartition:
    return OwnedPartition(
        partition=HOME,
        coordinator_epoch=CoordinatorEpoch(epoch),
        node=nobody().node_of(HOME),
        entries={TID: entry()},
    )


def owner() -> Ownership[OwnedPartition]:
    ownership = nobody()
    ownership.begin_load(HOME, CoordinatorEpoch(3))
    assert ownership.finish_load(loaded_partition(3))
    return ownership


def error(ownership: Ownership[OwnedPartition]) -> ErrorCode:
    rejection = ownership.find(TID)
    assert isinstance(rejection, Rejection)
    return rejection.error


def test_not_owned_then_loading_then_owned() -> None:
    ownership = nobody()
    assert error(ownership) is ErrorCode.not_coordinator
    ownership.begin_load(HOME, CoordinatorEpoch(3))
    assert error(ownership) is ErrorCode.coordinator_load_in_progress
    assert (ownership.loading, ownership.owned) == ({HOME: 3}, {})
    owned_partition = loaded_partition(3)
    assert ownership.finish_load(owned_partition)
    assert ownership.find(TID) is owned_partition
    assert (ownership.loading, ownership.owned) == ({}, {HOME: owned_partition})
    assert owned_partition.node == f"broker/1/txn/{HOME}"


def test_a_newer_epoch_replaces_what_was_owned() -> None:
    ownership = owner()
    owned_before = ownership.find(TID)
    assert isinstance(owned_before, OwnedPartition)
    assert ownership.is_current(owned_before)
    assert ownership.begin_load(HOME, CoordinatorEpoch(4)) is owned_before
    assert not ownership.is_current(owned_before)
    assert ownership.refuse(HOME).error is ErrorCode.coordinator_load_in_progress
    ownership.finish_load(loaded_partition(4))
    assert not ownership.is_current(owned_before)
    assert ownership.get(HOME, CoordinatorEpoch(3)) is None
    assert ownership.get(HOME, CoordinatorEpoch(4)) is not None
    assert ownership.get(HOME + 1, CoordinatorEpoch(4)) is None


@pytest.mark.parametrize(
    ("epoch", "still_loads"), [(2, True), (3, True), (4, False), (None, False)]
)
def test_only_a_newer_epoch_or_deletion_calls_a_load_off(
    epoch: int | None, *, still_loads: bool
) -> None:
    ownership = nobody()
    ownership.begin_load(HOME, CoordinatorEpoch(3))
    assert ownership.unload(HOME, epoch) is None
    assert ownership.finish_load(loaded_partition(3)) is still_loads


def test_a_load_overtaken_by_another_changes_nothing() -> None:
    ownership = nobody()
    ownership.begin_load(HOME, CoordinatorEpoch(3))
    ownership.begin_load(HOME, CoordinatorEpoch(4))
    assert not ownership.finish_load(loaded_partition(3))
    assert error(ownership) is ErrorCode.coordinator_load_in_progress


def test_unloading_lets_the_entries_go() -> None:
    ownership = owner()
    assert ownership.unload(HOME, 4) is not None
    assert error(ownership) is ErrorCode.not_coordinator
    assert list(ownership) == []
    assert ownership.unload(HOME, 4) is None


def test_partitions_may_be_let_go_while_they_are_walked() -> None:
    ownership = owner()
    for owned_partition in ownership:
        ownership.unload(owned_partition.partition, None)
    assert ownership.owned == {}


# What an error of a coordinator's log is called towards clients.


MAPPED = {3: 15, 19: 15, 20: 15, 7: 15, 6: 16, 56: 16, 10: -1, 18: -1}


@pytest.mark.parametrize("error", [error for error in ErrorCode if error is not ErrorCode.none])
def test_every_error_has_its_name(error: ErrorCode) -> None:
    assert append_error(error) == MAPPED.get(error, error)


# Older releases


def loading(rules: Rules) -> Ownership[OwnedPartition]:
    ownership: Ownership[OwnedPartition] = Ownership(
        topic=TRANSACTION_STATE_TOPIC,
        kind="txn",
        broker_id=BrokerId(1),
        partition_count=50,
        calls_off_older=rules.unload_calls_off_load,
    )
    ownership.begin_load(LOADED.partition, LOADED.coordinator_epoch)
    return ownership


LOADED = OwnedPartition(
    partition=3, coordinator_epoch=CoordinatorEpoch(4), node="broker/1/txn/3", entries={}
)


def test_becoming_a_follower_while_loading() -> None:
    for rules, is_owned in ((LATEST_RULES, False), (Rules(unload_calls_off_load=False), True)):
        ownership = loading(rules)
        ownership.unload(3, 5)
        assert ownership.finish_load(LOADED) is is_owned


def test_the_old_cancel_met_a_load_of_the_very_same_epoch() -> None:
    ownership = loading(Rules(unload_calls_off_load=False))
    ownership.unload(3, 4)
    assert not ownership.finish_load(LOADED)
