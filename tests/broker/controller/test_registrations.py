"""Brokers that come and go: epochs, fencing, controlled shutdown."""

from __future__ import annotations

import uuid

import msgspec
import pytest

from tests.support.images import B1, B2, B3, broker, cluster, partition, topic
from txnsim.controller.registrations import (
    begin_controlled_shutdown,
    fail_directory,
    fence_broker,
    is_stale,
    register_broker,
    unfence_broker,
)
from txnsim.errors import ErrorCode, Rejection
from txnsim.interbroker.lifecycle import BrokerRegistrationCommand
from txnsim.metadata.image import ELIGIBLE_LEADER_REPLICAS, ClusterImage
from txnsim.settings import DEFAULTS
from txnsim.types import BrokerId

FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)


def command(
    broker_id: BrokerId = B1,
    *,
    incarnation: uuid.UUID = FIRST,
    cluster_id: str = "cluster",
    previous: int = -1,
) -> BrokerRegistrationCommand:
    return BrokerRegistrationCommand(
        broker_id=broker_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation,
        host="h",
        port=7,
        addresses={"OTHER": ("h", 8)},
        rack="r",
        previous_broker_epoch=previous,
    )


def registered(
    image: ClusterImage, wanted: BrokerRegistrationCommand, *, has_session: bool = False
) -> ClusterImage:
    found = register_broker(image, wanted, DEFAULTS, has_session=has_session)
    assert isinstance(found, ClusterImage)
    return found


def world(*, elr: int = 1) -> ClusterImage:
    image = cluster().with_feature(ELIGIBLE_LEADER_REPLICAS, elr)
    image = image.with_broker_configs("", {"min.insync.replicas": "3"})
    return image.with_topic(topic("orders", partition(1)))


def test_a_new_broker_is_fenced_and_its_epoch_is_where_it_was_registered() -> None:
    image = registered(world(), command(BrokerId(4)))
    new = image.brokers[BrokerId(4)]
    assert new.epoch == image.offset == world().offset + 1
    assert not new.alive
    assert (new.host, new.port, new.rack) == ("h", 7, "r")
    assert new.addresses == {"OTHER": ("h", 8)}
    assert is_stale(image, BrokerId(4), new.epoch - 1)
    assert not is_stale(image, BrokerId(4), new.epoch)
    assert is_stale(image, BrokerId(5), 1)


def test_a_request_that_is_repeated_keeps_the_epoch_and_the_state() -> None:
    image = unfence_broker(registered(world(), command(BrokerId(4))), BrokerId(4), DEFAULTS)
    again = registered(image, command(BrokerId(4)), has_session=True)
    assert again.brokers[BrokerId(4)] == image.brokers[BrokerId(4)]
    leaving = begin_controlled_shutdown(image, BrokerId(4), DEFAULTS)
    assert registered(leaving, command(BrokerId(4))).brokers[BrokerId(4)].in_controlled_shutdown


@pytest.mark.parametrize(
    ("wanted", "has_session", "error"),
    [
        (command(cluster_id="other"), False, ErrorCode.inconsistent_cluster_id),
        (command(), True, ErrorCode.duplicate_broker_registration),
    ],
)
def test_who_can_not_be_registered(
    wanted: BrokerRegistrationCommand, has_session: bool, error: ErrorCode
) -> None:
    refused = register_broker(world(), wanted, DEFAULTS, has_session=has_session)
    assert isinstance(refused, Rejection)
    assert refused.error is error


@pytest.mark.parametrize(
    ("elr", "previous", "eligible"),
    [
        (1, -1, ()),  # a crash: what it had may be gone
        (1, 1, (1,)),  # it stopped in order
        (0, -1, ()),
        (0, 1, ()),
    ],
)
def test_a_restart_takes_the_broker_out_of_the_isr(
    elr: int, previous: int, eligible: tuple[int, ...]
) -> None:
    image = registered(world(elr=elr), command(previous=previous))
    found = image.topics["orders"].partitions[0]
    assert (found.leader, found.isr, found.elr) == (2, (2, 3), eligible)
    assert image.brokers[B1].epoch == image.offset
    assert not image.brokers[B1].alive


def test_a_fenced_broker_leads_nothing_and_an_unfenced_one_may_again() -> None:
    image = world().with_topic(topic("orders", partition(1, replicas=(1,))))
    fenced = fence_broker(image, B1, DEFAULTS)
    assert fenced.topics["orders"].partitions[0].leader == -1
    assert not fenced.is_alive(B1)
    assert fence_broker(fenced, B1, DEFAULTS) is fenced
    back = unfence_broker(fenced, B1, DEFAULTS)
    assert back.is_active(B1)
    assert back.topics["orders"].partitions[0].leader == 1


def test_a_broker_on_its_way_out_leads_nothing_but_lives() -> None:
    leaving = begin_controlled_shutdown(world(), B1, DEFAULTS)
    assert leaving.is_alive(B1)
    assert not leaving.is_active(B1)
    assert leaving.topics["orders"].partitions[0].leader == 2
    gone = fence_broker(leaving, B1, DEFAULTS)
    assert not gone.is_alive(B1)
    assert not gone.brokers[B1].in_controlled_shutdown


def test_others_are_left_alone() -> None:
    image = fence_broker(world(), B3, DEFAULTS)
    assert image.brokers[B2] == msgspec.structs.replace(broker(2))
    assert not image.is_active(BrokerId(9))


def test_a_failed_directory_takes_leaders_and_isrs_away_until_the_broker_registers_anew() -> None:
    failed = fail_directory(world(elr=0), B1, DEFAULTS)
    orders = failed.topics["orders"].partitions[0]
    assert (orders.leader, orders.isr) == (2, (2, 3))
    assert (failed.is_alive(B1), failed.is_active(B1), failed.is_offline(B1)) == (True, False, True)
    assert fail_directory(failed, B1, DEFAULTS) is failed, "it is told with every heartbeat"
    restarted = unfence_broker(registered(failed, command(incarnation=SECOND)), B1, DEFAULTS)
    assert (restarted.is_active(B1), restarted.is_offline(B1)) == (True, False)


def test_replicas_of_brokers_that_are_away_or_unknown_are_offline() -> None:
    image = fence_broker(world(), B3, DEFAULTS)
    assert [one for one in (B1, B2, B3, BrokerId(9)) if image.is_offline(one)] == [B3, BrokerId(9)]
