"""Which partitions a broker coordinates, and under which epoch."""

from __future__ import annotations

import pytest

from tests.support.coordinator import HOME, PARTITIONS, TID
from tests.support.txn_entries import entry
from txnsim.errors import ErrorCode, Rejection
from txnsim.releases.rules import LATEST
from txnsim.txn.ownership import OwnedPartition, Ownership
from txnsim.types import BrokerId, CoordinatorEpoch


def owner(epoch: int = 3) -> Ownership:
    ownership = Ownership(broker_id=BrokerId(1), partitions=PARTITIONS, rules=LATEST)
    ownership.begin_load(HOME, CoordinatorEpoch(epoch))
    assert ownership.finish_load(HOME, CoordinatorEpoch(epoch), {TID: entry()}) is not None
    return ownership


def error(ownership: Ownership) -> ErrorCode:
    found = ownership.find(TID)
    assert isinstance(found, Rejection)
    return found.error


def test_not_owned_then_loading_then_owned() -> None:
    ownership = Ownership(broker_id=BrokerId(1), partitions=PARTITIONS, rules=LATEST)
    assert error(ownership) is ErrorCode.not_coordinator
    ownership.begin_load(HOME, CoordinatorEpoch(3))
    assert error(ownership) is ErrorCode.coordinator_load_in_progress
    assert (ownership.is_loading, ownership.loading_count, ownership.owned_count) == (True, 1, 0)
    owned = ownership.finish_load(HOME, CoordinatorEpoch(3), {TID: entry()})
    assert ownership.find(TID) is owned
    assert (ownership.is_loading, ownership.owned_count) == (False, 1)
    assert owned is not None
    assert owned.node == f"broker/1/txn/{HOME}"
    assert list(ownership.all_entries()) == [entry()]


def test_a_newer_epoch_replaces_what_was_owned() -> None:
    ownership = owner(3)
    before = ownership.find(TID)
    assert isinstance(before, OwnedPartition)
    assert ownership.is_current(before)
    ownership.begin_load(HOME, CoordinatorEpoch(4))
    assert not ownership.is_current(before)
    assert ownership.refuse(HOME).error is ErrorCode.coordinator_load_in_progress
    ownership.finish_load(HOME, CoordinatorEpoch(4), {})
    assert not ownership.is_current(before)
    assert ownership.get(HOME, CoordinatorEpoch(3)) is None
    assert ownership.get(HOME, CoordinatorEpoch(4)) is not None
    assert ownership.get(HOME + 1, CoordinatorEpoch(4)) is None


@pytest.mark.parametrize(("epoch", "loads"), [(2, True), (3, True), (4, False), (None, False)])
def test_only_a_newer_epoch_or_deletion_calls_a_load_off(epoch: int | None, *, loads: bool) -> None:
    ownership = Ownership(broker_id=BrokerId(1), partitions=PARTITIONS, rules=LATEST)
    ownership.begin_load(HOME, CoordinatorEpoch(3))
    assert not ownership.unload(HOME, epoch)
    assert (ownership.finish_load(HOME, CoordinatorEpoch(3), {}) is not None) is loads


def test_a_load_overtaken_by_another_changes_nothing() -> None:
    ownership = Ownership(broker_id=BrokerId(1), partitions=PARTITIONS, rules=LATEST)
    ownership.begin_load(HOME, CoordinatorEpoch(3))
    ownership.begin_load(HOME, CoordinatorEpoch(4))
    assert ownership.finish_load(HOME, CoordinatorEpoch(3), {TID: entry()}) is None
    assert error(ownership) is ErrorCode.coordinator_load_in_progress


def test_unloading_lets_the_entries_go() -> None:
    ownership = owner()
    assert ownership.unload(HOME, 4)
    assert error(ownership) is ErrorCode.not_coordinator
    assert list(ownership) == []
    assert not ownership.unload(HOME, 4)


def test_partitions_may_be_let_go_while_they_are_walked() -> None:
    ownership = owner()
    for owned in ownership:
        ownership.unload(owned.partition, None)
    assert ownership.owned_count == 0
