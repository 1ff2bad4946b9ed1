"""A broker's disk: what outlives the broker, and what of it is known afterwards."""

from __future__ import annotations

import uuid

import pytest

from tests.support.images import B1, cluster, partition, topic
from tests.support.logs import NOW, plain
from txnsim.log.config import LogConfig
from txnsim.log.leader_append import append_client
from txnsim.log.partition_log import PartitionLog
from txnsim.metadata.image import ClusterImage
from txnsim.releases.rules import LATEST
from txnsim.replica.broker_logs import BrokerLogs
from txnsim.settings import DEFAULTS


def image_of(name: str = "orders", topic_id: int = 1) -> ClusterImage:
    return cluster().with_topic(
        topic(name, partition(1), partition(1), topic_id=uuid.UUID(int=topic_id))
    )


def log_of(disk: BrokerLogs, image: ClusterImage) -> PartitionLog:
    orders = image.topics["orders"]
    return disk.log(orders, 0, disk.config_of(image, orders, B1))


def written(disk: BrokerLogs, count: int = 2) -> PartitionLog:
    log = log_of(disk, image_of())
    if log.leader_epoch < 0:
        log.become_leader(0)
    append_client(log, plain(count), guard=0, now_ms=NOW)
    log.advance_high_watermark(log.log_end_offset)
    return log


def test_a_log_is_made_once_and_belongs_to_its_topics_id() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    image = image_of()
    log = log_of(disk, image)
    assert log_of(disk, image) is log
    assert list(disk) == [log]
    assert list(disk.replicas()) == [(uuid.UUID(int=1), log)]
    again = image_of(topic_id=2)
    assert log_of(disk, again) is not log


def test_a_fresh_replica_knows_no_leader_epoch() -> None:
    log = log_of(BrokerLogs(DEFAULTS, LATEST), image_of())
    assert (log.epochs.latest, log.snapshot().leader_epochs) == (-1, ())


def test_a_deleted_topic_leaves_nothing() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    image = image_of()
    log = written(disk)
    disk.checkpoint()
    disk.forget(image.topics["orders"])
    assert list(disk) == []
    assert log_of(disk, image) is not log


def test_configs_reach_the_logs_that_are_there() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    log = written(disk)
    changed = image_of().with_topic_configs("orders", {"max.message.bytes": "99"})
    orders = changed.topics["orders"]
    disk.configure(orders, disk.config_of(changed, orders, B1))
    assert log.config.max_message_bytes == 99


def test_a_crash_leaves_the_records_and_the_high_watermark_that_was_noted() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    log = written(disk)
    disk.checkpoint()
    written(disk)
    disk.reopen(image_of(), B1, now_ms=NOW)
    assert (log.log_end_offset, log.high_watermark) == (4, 2)


def test_a_broken_machine_loses_what_was_not_flushed() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    log = written(disk)
    disk.close()
    written(disk)
    assert disk.lose_unflushed(now_ms=NOW) == [log]
    assert disk.lose_unflushed(now_ms=NOW) == []
    disk.reopen(image_of(), B1, now_ms=NOW)
    assert (log.log_end_offset, log.high_watermark) == (2, 2)


def test_topics_that_were_deleted_meanwhile_are_gone_after_the_start() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    written(disk)
    disk.reopen(cluster(), B1, now_ms=NOW)
    assert list(disk) == []


def test_replicas_that_were_moved_away_meanwhile_are_gone_after_the_start() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    log = written(disk)
    elsewhere = cluster().with_topic(
        topic("orders", partition(2, replicas=(2,)), partition(1), topic_id=uuid.UUID(int=1))
    )
    other = disk.log(elsewhere.topics["orders"], 1, LogConfig(rules=LATEST))
    disk.reopen(elsewhere, B1, now_ms=NOW)
    assert list(disk) == [other]
    smaller = cluster().with_topic(topic("orders", partition(1), topic_id=uuid.UUID(int=1)))
    disk.reopen(smaller, B1, now_ms=NOW)
    assert list(disk) == []
    assert log_of(disk, image_of()) is not log


def test_a_log_of_before_is_gone_on_with() -> None:
    image = image_of()
    log = written(BrokerLogs(DEFAULTS, LATEST))
    disk = BrokerLogs(DEFAULTS, LATEST)
    disk.adopt(image.topics["orders"].topic_id, log, high_watermark=1)
    disk.reopen(image, B1, now_ms=NOW)
    assert log_of(disk, image) is log
    assert (log.high_watermark, log.log_end_offset) == (1, 2)


# Where logs start


def cut(disk: BrokerLogs, before: int) -> None:
    log_of(disk, image_of()).delete_records_before(before)


def test_a_crash_brings_back_what_was_deleted_since_the_last_note() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    log = written(disk, 6)
    cut(disk, 3)
    disk.note_log_starts()
    cut(disk, 5)
    disk.reopen(image_of(), B1, now_ms=NOW)
    assert (log.log_start_offset, log.log_end_offset) == (3, 6)


def test_a_broker_that_stops_in_order_notes_it() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    log = written(disk, 6)
    cut(disk, 5)
    disk.close()
    disk.reopen(image_of(), B1, now_ms=NOW)
    assert log.log_start_offset == 5


def test_deleting_a_replica_notes_the_starts_of_the_others() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    image = image_of()
    log = written(disk, 6)
    disk.log(image.topics["orders"], 1, disk.config_of(image, image.topics["orders"], B1))
    cut(disk, 4)
    disk.forget_replicas(image.topics["orders"], (1,))
    cut(disk, 5)
    disk.forget_replicas(image.topics["orders"], (1,))  # it was not here any more
    disk.reopen(image_of(), B1, now_ms=NOW)
    assert log.log_start_offset == 4


def test_a_topic_that_is_deleted_costs_one_note(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note is about every log of the disk: ten thousand of them took minutes."""
    disk = BrokerLogs(DEFAULTS, LATEST)
    image = image_of()
    orders = image.topics["orders"]
    config = disk.config_of(image, orders, B1)
    for index in range(len(orders.partitions)):
        disk.log(orders, index, config)
    notes: list[int] = []
    monkeypatch.setattr(BrokerLogs, "note_log_starts", lambda self: notes.append(len(self._logs)))
    disk.forget(orders)
    assert len(orders.partitions) > 1
    assert notes == [0]


def test_a_directory_that_has_failed_takes_no_notes() -> None:
    disk = BrokerLogs(DEFAULTS, LATEST)
    image = image_of()
    log = written(disk, 6)
    disk.log(image.topics["orders"], 1, disk.config_of(image, image.topics["orders"], B1))
    cut(disk, 4)
    disk.has_failed = True
    disk.forget_replicas(image.topics["orders"], (1,))
    disk.close()
    disk.reopen(image_of(), B1, now_ms=NOW)
    assert log.log_start_offset == 0


def test_a_log_that_starts_with_its_first_segment_needs_no_note() -> None:
    """It may be emptied and begin anew below."""
    disk = BrokerLogs(DEFAULTS, LATEST)
    log = written(disk, 6)
    log.restart_at(9, now_ms=NOW)
    disk.note_log_starts()
    log.restart_at(7, now_ms=NOW)
    disk.reopen(image_of(), B1, now_ms=NOW)
    assert log.log_start_offset == 7


def test_a_log_of_before_starts_where_that_was_noted() -> None:
    image = image_of()
    log = written(BrokerLogs(DEFAULTS, LATEST), 6)
    log.delete_records_before(4)
    disk = BrokerLogs(DEFAULTS, LATEST)
    disk.adopt(image.topics["orders"].topic_id, log, high_watermark=6)
    disk.reopen(image, B1, now_ms=NOW)
    assert log.log_start_offset == 4
