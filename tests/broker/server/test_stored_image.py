"""What a cluster is and who leads, as its disks say."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.support.log_dirs import write_disk
from tests.support.logs import LogDriver, plain
from tests.support.metadata_logs import (
    config,
    feature,
    partition,
    registered,
    topic,
    write_metadata_log,
)
from txnsim.errors import ConfigError
from txnsim.metadata.image import ClusterImage, PartitionImage
from txnsim.releases import Fleet
from txnsim.server.loading import LoadedLog, described, restarted
from txnsim.settings import DEFAULTS, Settings
from txnsim.storage.disks import Disks, find_disks
from txnsim.types import BrokerId, TopicPartition

ORDERS: Final = TopicPartition("orders", 0)
TOPIC_ID: Final = uuid.UUID(int=11)
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def disks_of(
    tmp_path: Path,
    owned: Mapping[int, tuple[tuple[str, int], ...]],
    *records: bytes,
    ids: Mapping[str, uuid.UUID] | None = None,
) -> Disks:
    """Directories of these brokers; with a metadata log where there are records."""
    paths = []
    for node_id, partitions in owned.items():
        path = tmp_path / f"broker-{node_id}"
        write_disk(
            path,
            {one: LogDriver().log for one in partitions},
            node_id=node_id,
            topic_ids=ids or {"orders": TOPIC_ID},
        )
        if records:
            write_metadata_log(path / "__cluster_metadata-0", records)
        paths.append(path)
    return find_disks(paths)


def image_of(disks: Disks, settings: Settings = DEFAULTS) -> ClusterImage:
    return described(disks, settings=settings, fleet=Fleet())


def orders_in(image: ClusterImage) -> PartitionImage:
    found = image.partition(ORDERS)
    assert found is not None
    return found


OF_ORDERS = (("orders", 0),)


# With the metadata log


def test_the_metadata_log_is_believed_as_far_as_brokers_are_here(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS, 2: OF_ORDERS},
        *(registered(node_id) for node_id in (1, 2, 3)),
        feature("transaction.version", 1),
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(3, 2, 1), isr=(3, 2), leader=3, epoch=6),
        config("min.insync.replicas", "2", of="orders"),
        topic("elsewhere", uuid.UUID(int=12)),
        partition(uuid.UUID(int=12), replicas=(3,)),
    )
    image = image_of(disks)
    assert list(image.topics) == ["orders"]
    assert image.topic_names == {TOPIC_ID: "orders"}
    assert image.topics["orders"].configs == {"min.insync.replicas": "2"}
    assert image.features["transaction.version"] == 1
    assert image.features["group.version"] == 0
    assert (orders_in(image).replicas, orders_in(image).isr) == ((2, 1), (2,))


def test_a_partition_whose_in_sync_replicas_are_all_missing_is_refused(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS},
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(3, 2, 1), isr=(3, 2)),
    )
    with pytest.raises(ConfigError, match=r"^orders-0: .* in sync \(3, 2\) is among"):
        image_of(disks)


def test_an_eligible_leader_is_enough(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS},
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(1, 2), isr=(2,), elr=(1,)),
    )
    image = image_of(disks)
    log = LoadedLog(topic_id=TOPIC_ID, log=LogDriver().log, high_watermark=0)
    after = orders_in(restarted(image, {ONE: {ORDERS: log}}, knows_isr=True))
    assert (after.leader, after.isr, after.elr) == (1, (1,), ())


def test_levels_that_the_release_does_not_know_are_refused(tmp_path: Path) -> None:
    disks = disks_of(tmp_path, {1: OF_ORDERS}, feature("transaction.version", 9))
    with pytest.raises(ConfigError, match=r"broker 1: .*finalized version 9 of trans"):
        image_of(disks)


# Without it


def test_folders_have_to_say_what_there_is(tmp_path: Path) -> None:
    internal = ("__transaction_state", 0)
    disks = disks_of(tmp_path, {1: (*OF_ORDERS, ("orders", 1)), 2: (*OF_ORDERS, internal)})
    image = image_of(disks, Settings(transaction_version=1))
    assert image.cluster_id == "abc"
    assert image.features["transaction.version"] == 1
    assert image.topics["orders"].topic_id == TOPIC_ID
    assert [one.replicas for one in image.topics["orders"].partitions] == [(1, 2), (1,)]
    assert image.topics["__transaction_state"].configs["cleanup.policy"] == "compact"
    assert image.topics["__transaction_state"].is_internal


def test_a_topic_without_an_id_gets_the_same_one_each_time(tmp_path: Path) -> None:
    disks = disks_of(tmp_path, {1: OF_ORDERS})
    (tmp_path / "broker-1" / "orders-0" / "partition.metadata").unlink()
    disks = find_disks([tmp_path / "broker-1"])
    assert image_of(disks).topics["orders"].topic_id == image_of(disks).topics["orders"].topic_id


def test_two_ids_of_one_topic_are_refused(tmp_path: Path) -> None:
    disks_of(tmp_path, {1: OF_ORDERS})
    disks_of(tmp_path, {2: OF_ORDERS}, ids={"orders": uuid.UUID(int=12)})
    disks = find_disks([tmp_path / "broker-1", tmp_path / "broker-2"])
    with pytest.raises(ConfigError, match="broker-2/orders-0: topic orders has the id"):
        image_of(disks)


def test_a_partition_that_nobody_has_is_refused(tmp_path: Path) -> None:
    disks = disks_of(tmp_path, {1: (("orders", 0), ("orders", 2))})
    with pytest.raises(ConfigError, match=r"^orders-1: no directory to load holds a"):
        image_of(disks)


# Who leads


def stored(count: int, *, epoch: int = 0, high_watermark: int = 0) -> LoadedLog:
    driver = LogDriver(leader_epoch=epoch)
    for _ in range(count):
        driver.append(plain())
    return LoadedLog(topic_id=TOPIC_ID, log=driver.log, high_watermark=high_watermark)


def test_the_leader_stays_under_the_next_epoch(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS, 2: OF_ORDERS},
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(1, 2), leader=2, epoch=6),
    )
    logs = {ONE: {ORDERS: stored(9)}, TWO: {ORDERS: stored(2)}}
    after = orders_in(restarted(image_of(disks), logs, knows_isr=True))
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (2, 7, 7)
    assert after.isr == (1, 2)


def test_the_first_in_sync_replica_leads_where_the_leader_is_missing(tmp_path: Path) -> None:
    disks = disks_of(
        tmp_path,
        {1: OF_ORDERS, 2: OF_ORDERS},
        topic("orders", TOPIC_ID),
        partition(TOPIC_ID, replicas=(1, 3, 2), isr=(3, 2), leader=3, epoch=6),
    )
    # A copy of the metadata log that is older than the logs.
    logs = {ONE: {}, TWO: {ORDERS: stored(1, epoch=9)}}
    after = orders_in(restarted(image_of(disks), logs, knows_isr=True))
    assert (after.leader, after.leader_epoch) == (2, 10)


def test_without_metadata_the_longest_log_of_the_newest_epoch_leads(tmp_path: Path) -> None:
    disks = disks_of(tmp_path, {1: OF_ORDERS, 2: OF_ORDERS, 3: OF_ORDERS})
    logs = {
        ONE: {ORDERS: stored(9, epoch=3)},
        TWO: {ORDERS: stored(5, epoch=4, high_watermark=4)},
        THREE: {ORDERS: stored(4, epoch=4)},
    }
    after = orders_in(restarted(image_of(disks), logs, knows_isr=False))
    assert (after.leader, after.leader_epoch, after.isr) == (2, 5, (2, 3))
    logs[THREE] = {ORDERS: stored(3, epoch=4)}
    assert orders_in(restarted(image_of(disks), logs, knows_isr=False)).isr == (2,)
    logs[THREE] = {ORDERS: stored(5, epoch=4)}
    assert orders_in(restarted(image_of(disks), logs, knows_isr=False)).leader == 2
