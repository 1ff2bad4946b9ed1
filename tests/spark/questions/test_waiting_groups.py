"""Who waits behind an open transaction."""

from __future__ import annotations

from pathlib import Path

from tests.support.broker_dirs import BrokerDir, move
from tests.support.logs import NOW, LogDriver
from tests.support.no_spark import no_session
from tests.support.position_logs import ORDERS, commit_record, offsets_log, position_batch
from txnsim.types import TopicPartition
from txnsim_spark.forensics.find_hanging import Search
from txnsim_spark.questions.waiting_groups import WaitingGroups, find_waiting_groups

HOUR = 3_600_000


def waiting_groups_in(log_dir: Path) -> WaitingGroups:
    search = Search(paths=(log_dir,), as_of_ms=NOW + HOUR)
    return find_waiting_groups(search, new_session=no_session, progress=lambda _: None)


def broker(tmp_path: Path) -> BrokerDir:
    """A transaction that ended at offset 0, one that is open from 2 on, its last record at 3."""
    driver = LogDriver()
    driver.txn(0)
    driver.end(committed=True)
    driver.txn(1, count=2)
    broker_dir = BrokerDir(tmp_path / "broker-1")
    broker_dir.replica(driver)
    broker_dir.coordinator(move("Ongoing", ORDERS))
    return broker_dir


def test_each_group_is_told_how_far_it_comes(tmp_path: Path) -> None:
    broker_dir = broker(tmp_path)
    offsets_log(
        broker_dir.path,
        position_batch(
            commit_record(0, "far"),
            commit_record(2, "there"),
            commit_record(3, "inside"),
            commit_record(4, "through"),
        ),
    )
    groups = waiting_groups_in(broker_dir.stop())
    waiters = [
        (waiter.group, waiter.committed_offset, waiter.to_read, waiter.withheld)
        for waiter in groups.waiters
    ]
    assert waiters == [("far", 0, 2, 2), ("inside", 3, 0, 1), ("there", 2, 0, 2)]
    waiter = groups.waiters[0]
    assert (waiter.last_stable_offset, waiter.high_watermark, waiter.start_offset) == (2, 4, 2)
    assert (waiter.producer_id, waiter.transactional_id, waiter.verdict) == (7, "app", "alive")
    assert (waiter.since_ms, waiter.for_ms) == (NOW, HOUR)
    assert (groups.unread, groups.offsets_partitions, groups.problems) == ((), (0,), ())


def test_a_partition_that_no_group_reads_is_named(tmp_path: Path) -> None:
    groups = waiting_groups_in(broker(tmp_path).stop())
    assert (groups.waiters, groups.unread) == ((), (TopicPartition("orders", 0),))
    assert groups.offsets_partitions == ()
