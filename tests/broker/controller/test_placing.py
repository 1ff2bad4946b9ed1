"""Where the replicas of new partitions go."""

from __future__ import annotations

from tests.support.images import B1, B2, B3, broker, cluster
from txnsim.controller.placing import Usable, UsableBrokers, new_partition, usable_brokers
from txnsim.errors import ErrorCode, Rejection


def test_active_brokers_come_in_a_row_and_fenced_ones_behind_them() -> None:
    usable = UsableBrokers(active=(B1, B2), fenced=(B3,))
    assert [usable.place(start, 2) for start in range(3)] == [(B1, B2), (B2, B1), (B1, B2)]
    assert usable.place(1, 3) == (B2, B1, B3)


def test_more_replicas_than_brokers_are_refused() -> None:
    refused = usable_brokers(cluster(broker(1), broker(2)), 3)
    assert isinstance(refused, Rejection)
    assert refused.error is ErrorCode.invalid_replication_factor


def test_a_new_partition_is_led_by_its_first_active_replica() -> None:
    made = new_partition((B1, B2), cluster(broker(1, alive=False), broker(2)))
    assert (made.leader, made.isr, made.replicas) == (B2, (B2,), (B1, B2))


def test_partitions_of_one_request_on_the_same_brokers_are_the_same_value() -> None:
    usable = Usable(cluster(broker(1), broker(2)))
    assert usable[2] is usable[2]
    assert usable.fresh[B1, B2] is usable.fresh[B1, B2]
    assert usable.fresh[B1, B2] is not usable.fresh[B2, B1]
